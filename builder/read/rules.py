"""Rules between fields of cluster.toml: what each field allows by itself but not together.

Every rule is a function of the valid parts and yields the problems it finds; RULES is all of them.
Those about nodes and their fabric stand in builder/read/fabric_rules.py, those about what is
accepted in builder/read/accept_rules.py, those about the model in builder/read/model_rules.py.
"""

from __future__ import annotations

import difflib
import json
from typing import TYPE_CHECKING, Final

from builder.read.accept_rules import ACCEPT_RULES
from builder.read.fabric_rules import FABRIC_RULES
from builder.read.folder_rules import plugins_are_no_cache, vendored_files_lie_apart
from builder.read.model_rules import MODEL_RULES
from builder.read.problems import Problem, repeated, value_text
from builder.read.secret_rules import SECRET_RULES
from builder.topology import CACHE_ROOT, OF_ONE_NODE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from builder.image_section import Register
    from builder.read.fabric_rules import Rule
    from builder.read.lines import Loc
    from builder.read.parts import Parts

RENDERED: Final = {
    "tensor-parallel-size": "serve.tensor_parallel",
    "tp": "serve.tensor_parallel",
    "pipeline-parallel-size": "serve.pipeline_parallel",
    "pp": "serve.pipeline_parallel",
    "nnodes": "the number of [[nodes]]",
    "n": "the number of [[nodes]]",
    "node-rank": "the order of [[nodes]]",
    "r": "the order of [[nodes]]",
    "headless": "the order of [[nodes]]",
    "master-addr": "nodes[0].fabric.address",
    "master-port": "serve.master_port",
    "host": "serve.host",
    "port": "serve.port",
    "model": "model.path",
    "distributed-executor-backend": "serve.launcher",
}
"""Options of vLLM that every rank gets from other fields, and the field that decides each."""


def broken_rules(parts: Parts) -> tuple[Problem, ...]:
    """The problems that all rules find."""
    return tuple(problem for rule in RULES for problem in rule(parts))


def one_digest_pins_a_source(parts: Parts) -> Iterator[Problem]:
    """A digest inside of `source` is the one of `digest`."""
    for loc, source in parts.sources.items():
        inside = source.digest_in_source
        if inside is not None and source.digest not in (None, inside):
            yield Problem(
                (*loc, "digest"),
                "source and digest name two images",
                expected=f"{inside}, as in source",
                found=value_text(source.digest),
                remedy="keep the right one as digest, and take it out of source",
            )


def an_engine_of_a_node_is_listed(parts: Parts) -> Iterator[Problem]:
    """`node` belongs to an image of an engine, and names a node."""
    for loc, source in parts.sources.items():
        if source.node is None:
            continue
        names = sorted(set(parts.node_names.values()))
        if not source.of_engine:
            yield Problem(
                (*loc, "node"),
                "only an image of an engine is on a node",
                expected="docker:NAME as source, or no node",
                found=source.source,
                remedy="remove node, or name the image as its engine does: docker:NAME",
            )
        elif source.node not in names:
            near = _nearest(source.node, frozenset(names))
            yield Problem(
                (*loc, "node"),
                "no such node",
                expected=f"one of {', '.join(names)}" if names else "a node of [[nodes]]",
                found=value_text(source.node),
                remedy=f"did you mean {near}?" if near else "name a node of [[nodes]]",
            )


def every_donor_is_declared(parts: Parts) -> Iterator[Problem]:
    """A graft names a donor of [image.donors]."""
    for number, donor in parts.graft_donors.items():
        if donor in parts.donors:
            continue
        near = _nearest(donor, parts.donors)
        yield Problem(
            ("image", "graft", number, "donor"),
            "no such donor",
            expected=f"one of {', '.join(sorted(parts.donors))}" if parts.donors else "",
            found=value_text(donor),
            remedy=f"did you mean {near}?" if near else f"declare it: [image.donors.{donor}]",
        )


def every_donor_is_used(parts: Parts) -> Iterator[Problem]:
    """Something is grafted from each donor: an unused one would still be fetched and locked."""
    if len(parts.graft_donors) < parts.graft_count:
        return  # a graft that cannot be read might use it
    used = set(parts.graft_donors.values())
    meant = {_nearest(donor, parts.donors) for donor in used}
    for donor in sorted(parts.donors - used - meant):
        yield Problem(
            ("image", "donors", donor),
            "nothing is grafted from this donor",
            expected=f'an [[image.graft]] with donor = "{donor}"',
            found="none",
            remedy=f"add one, or remove [image.donors.{donor}]",
        )


def _nearest(name: str, names: frozenset[str]) -> str | None:
    near = difflib.get_close_matches(name, sorted(names), n=1)
    return near[0] if near else None


def grafts_are_sources(parts: Parts) -> Iterator[Problem]:
    """No compiled file is grafted: it belongs to the donor's Python and hides the source."""
    for number, graft in parts.grafts.items():
        for index, file in enumerate(graft.files):
            if file.endswith((".pyc", ".pyo")):
                yield Problem(
                    ("image", "graft", number, "files", index),
                    "a compiled Python file cannot be grafted",
                    expected="the .py file; stale compiled ones of the base are removed with it",
                    found=file,
                    remedy="name the .py file instead",
                )


def grafted_targets_differ(parts: Parts) -> Iterator[Problem]:
    """No file of a package is grafted twice."""
    yield from repeated(
        (
            (("image", "graft", number, "files", index), f"{graft.package}/{file}")
            for number, graft in parts.grafts.items()
            for index, file in enumerate(graft.files)
        ),
        "a file is grafted twice",
        remedy="remove one of the two: only one donor can give the file",
    )


def registers_edit_modules(parts: Parts) -> Iterator[Problem]:
    """A table is edited in Python source."""
    for number, register in parts.registers.items():
        if not register.file.endswith(".py"):
            yield Problem(
                ("image", "register", number, "file"),
                "a table can be edited only in Python source",
                expected="a .py file of the package",
                found=register.file,
                remedy="name the module that assigns the table",
            )


def registered_names_differ(parts: Parts) -> Iterator[Problem]:
    """No table gets one key twice."""
    yield from repeated(
        (
            (
                ("image", "register", number, "entries", place),
                f"{name} in {register.package}/{register.file}: {register.table}",
            )
            for number, register in parts.registers.items()
            for place, name in _registered(register)
        ),
        "a name is registered twice",
        remedy="remove one of the two",
    )


def _registered(register: Register) -> Iterator[tuple[str | int, str]]:
    """The place of each entry among the others, and what no table may get twice: key or value."""
    if isinstance(register.entries, dict):
        yield from ((key, key) for key in register.entries)
    else:
        values = register.model_dump(mode="json")["entries"]
        yield from ((number, json.dumps(value)) for number, value in enumerate(values))


def a_diff_has_one_start(parts: Parts) -> Iterator[Problem]:
    """The paths of a diff start at a package's site folder or at a folder of the image."""
    for number, patch in parts.patches.items():
        if (patch.package is None) == (patch.root is None):
            both = patch.package is not None
            yield Problem(
                ("image", "patch", number, "root") if both else ("image", "patch", number),
                "the paths of the diff need exactly one start",
                expected="package (paths such as vllm/config.py), or root (a folder of the image)",
                found="both" if both else "neither",
                remedy="remove one of them" if both else 'add package = "vllm", or a root',
            )


def diffs_differ(parts: Parts) -> Iterator[Problem]:
    """No diff is applied twice: the second time it would not fit."""
    yield from repeated(
        (
            (("image", "patch", number, "diff"), f"{patch.diff} in {patch.package or patch.root}")
            for number, patch in parts.patches.items()
        ),
        "a diff is applied twice",
        remedy="remove one of the two",
    )


def plugin_names_differ(parts: Parts) -> Iterator[Problem]:
    """Each plugin is a distribution of its own."""
    yield from repeated(
        (
            (("image", "plugin", number, "name"), plugin.name)
            for number, plugin in parts.plugins.items()
        ),
        "two plugins have one name",
        remedy="give one of them another name, or register all models with one plugin",
    )


def plugins_register_differently(parts: Parts) -> Iterator[Problem]:
    """No architecture is registered by two plugins: which one comes last is not settled."""
    yield from repeated(
        (
            (("image", "plugin", number, "register", key), key)
            for number, plugin in parts.plugins.items()
            for key in plugin.register_
        ),
        "an architecture is registered by two plugins",
        remedy="remove one of the two",
    )


def own_targets_differ(parts: Parts) -> Iterator[Problem]:
    """No two of our files have one target."""
    yield from repeated(
        (
            (("image", "file", number, "target"), file.target)
            for number, file in parts.files.items()
        ),
        "two files have one target",
        remedy="give one of them another target, or remove it",
    )


def mount_targets_differ(parts: Parts) -> Iterator[Problem]:
    """Every path in the container is mounted once; the model's folder is mounted unasked."""
    targets: list[tuple[Loc, str]] = [
        (("container", "mounts", number, "target"), mount.target)
        for number, mount in parts.mounts.items()
    ]
    if parts.model is not None:
        targets.insert(0, (("model", "path"), parts.model.path))
    targets.insert(0, (("container", "caches"), CACHE_ROOT))
    yield from repeated(
        targets,
        "two mounts have one target",
        remedy="remove one of them; the model's folder is mounted at [model].path by itself",
    )


def rendered_options_are_not_repeated(parts: Parts) -> Iterator[Problem]:
    """[serve].args leaves alone what is rendered for every rank: the ranks must not differ."""
    for key in parts.serve.args if parts.serve else ():
        field = RENDERED.get(_option(key))
        if field is not None:
            yield Problem(
                ("serve", "args", key),
                f"sparklock itself gives --{_option(key)} to every rank",
                expected=f"{field}, which decides it",
                found=key,
                remedy=f"remove it from [serve].args; {field} is the place to change it",
            )


def options_differ(parts: Parts) -> Iterator[Problem]:
    """No option is given in two spellings: vLLM takes `-` and `_` alike, and the last one wins."""
    yield from repeated(
        (
            (("serve", "args", key), f"--{_option(key)}")
            for key in (parts.serve.args if parts.serve else ())
        ),
        "one option in two spellings",
        remedy="remove one of them",
    )


def ports_differ(parts: Parts) -> Iterator[Problem]:
    """The API and the meeting point of the ranks are two ports of the head."""
    serve = parts.serve
    if serve is not None and serve.port == serve.master_port:
        yield Problem(
            ("serve", "master_port"),
            "the API and the ranks' meeting point have one port",
            expected=f"any port but {serve.port}, which is serve.port",
            found=str(serve.master_port),
            remedy="change serve.master_port or serve.port",
        )


def shared_variables_are_no_nodes_own(parts: Parts) -> Iterator[Problem]:
    """[container].env sets no variable whose right value differs per node."""
    if parts.node_count == 1:
        return
    for name in sorted(parts.shared_env & OF_ONE_NODE):
        yield Problem(
            ("container", "env", name),
            "this variable's value is a node's own, and here it is set for all nodes",
            expected="[nodes.fabric], from which it is set, or the env of one node",
            found=name,
            remedy="remove it, or move it to the env of the nodes that need it",
        )


def _option(key: str) -> str:
    """The option as vLLM knows it."""
    return key.replace("_", "-")


RULES: Final[tuple[Rule, ...]] = (
    one_digest_pins_a_source,
    an_engine_of_a_node_is_listed,
    every_donor_is_declared,
    every_donor_is_used,
    grafts_are_sources,
    grafted_targets_differ,
    registers_edit_modules,
    registered_names_differ,
    a_diff_has_one_start,
    diffs_differ,
    plugin_names_differ,
    plugins_register_differently,
    plugins_are_no_cache,
    own_targets_differ,
    mount_targets_differ,
    *MODEL_RULES,
    vendored_files_lie_apart,
    rendered_options_are_not_repeated,
    options_differ,
    ports_differ,
    shared_variables_are_no_nodes_own,
    *ACCEPT_RULES,
    *FABRIC_RULES,
    *SECRET_RULES,
)
