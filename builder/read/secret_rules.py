"""Rules that keep secrets out of cluster.toml: what stands there is in Git and in plans."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from builder.read.problems import Problem
from builder.secret import API_KEY

if TYPE_CHECKING:
    from collections.abc import Iterator

    from builder.read.fabric_rules import Rule
    from builder.read.lines import Loc
    from builder.read.parts import Parts

HUB_TOKENS: Final = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HUGGINGFACE_HUB_TOKEN")


def no_key_in_the_arguments(parts: Parts) -> Iterator[Problem]:
    """[serve].args has no API key: it would stand in the lock, and in `ps` on every node."""
    for key in parts.serve.args if parts.serve else ():
        if key.replace("_", "-") == "api-key":
            yield Problem(
                ("serve", "args", key),
                "an API key in the arguments is no secret: it is in Git, in the lock and in ps",
                expected="api_key_env in [serve]: a variable of where inv deploy is called",
                found=key,
                remedy='remove it, set api_key_env = "MY_API_KEY", and export MY_API_KEY there',
            )


def no_secret_in_an_environment(parts: Parts) -> Iterator[Problem]:
    """No variable that holds a secret is set for containers in the manifest."""
    places: list[tuple[Loc, frozenset[str]]] = [(("container", "env"), parts.shared_env)]
    places += [
        (("nodes", number, "env"), frozenset(env)) for number, env in parts.node_envs.items()
    ]
    for place, names in places:
        if API_KEY in names:
            yield Problem(
                (*place, API_KEY),
                "an API key in the manifest is no secret",
                expected="api_key_env in [serve]: a variable of where inv deploy is called",
                found=API_KEY,
                remedy='remove it, set api_key_env = "MY_API_KEY", and export MY_API_KEY there',
            )
        for name in sorted(names.intersection(HUB_TOKENS)):
            yield Problem(
                (*place, name),
                "a token in the manifest is no secret, and a container asks the Hub for nothing",
                expected="the token in the environment of inv, or the Hub's own login",
                found=name,
                remedy="remove it; and as it was written down, revoke it",
            )


SECRET_RULES: Final[tuple[Rule, ...]] = (no_key_in_the_arguments, no_secret_in_an_environment)
