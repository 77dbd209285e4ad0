"""A container's real settings against the request that would create it, field by field.

The engine gives back what it was asked with its own defaults around it, and lists in another form
(nulls, capabilities with or without `CAP_`). Both sides are brought to one form first.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from builder.digest import canonical_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from builder.digest import JsonValue
    from deploy.drift_facts import Inspected

UPDATABLE: Final = frozenset(
    {
        *("BlkioWeight", "CpuPeriod", "CpuQuota", "CpuRealtimePeriod", "CpuRealtimeRuntime"),
        *("CpuShares", "CpusetCpus", "CpusetMems", "KernelMemory", "Memory", "MemoryReservation"),
        *("MemorySwap", "NanoCpus", "PidsLimit", "RestartPolicy"),
    }
)
"""What `docker update` changes; all else stays as a container was created."""

ENGINES_OWN: Final = frozenset(
    {
        *("CgroupParent", "CgroupnsMode", "ConsoleSize", "ContainerIDFile", "Isolation"),
        *("MaskedPaths", "MemorySwappiness", "ReadonlyPaths", "Runtime"),
    }
)
"""What engines fill in by their own configuration, and differently by version."""

SECRET: Final = re.compile(r"KEY|TOKEN|SECRET|PASSW|CREDENTIAL", re.IGNORECASE)
"""Names of variables whose values are never shown."""

NOTHING: Final = "nothing"


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting that is not as asked for: its name in the engine's words, and both values."""

    name: str
    expected: str
    found: str

    @property
    def updatable(self) -> bool:
        """Whether `docker update` can have changed it."""
        return self.name in UPDATABLE


def settings(request: Mapping[str, JsonValue], container: Inspected) -> Iterator[Setting]:
    """Every setting of a container that a request would have made otherwise."""
    host = request.get("HostConfig")
    assert isinstance(host, dict)
    for name, value in request.items():
        if name not in {"HostConfig", "Env"}:
            yield from _compare(name, value, container.config.get(name))
    yield from _environment(request.get("Env"), container)
    for name in sorted({*host, *container.host} - ENGINES_OWN):
        yield from _compare(name, host.get(name), container.host.get(name))


def count(request: Mapping[str, JsonValue]) -> int:
    """How many settings a request names, each variable of its environment counted."""
    host, env = request.get("HostConfig"), request.get("Env")
    assert isinstance(host, dict)
    assert isinstance(env, list)
    return len(request) - 2 + len(host) + len(env)


def _compare(name: str, wanted: JsonValue, found: JsonValue) -> Iterator[Setting]:
    ordered = name in {"Cmd", "Entrypoint"}
    one, other = _tidy(wanted, ordered=ordered), _tidy(found, ordered=ordered)
    if name == "CapAdd" or name == "CapDrop":  # noqa: PLR1714 - a set would hide the two names
        one, other = _capabilities(one), _capabilities(other)
    if one != other:
        yield Setting(name, _text(one), _text(other))


def _environment(wanted: JsonValue, container: Inspected) -> Iterator[Setting]:
    """Variables that differ; those of the image are no part of the container's request."""
    asked, there = _variables(wanted), _variables(container.config.get("Env"))
    of_image = _variables(sorted(container.image_env))
    expected = of_image | asked
    for name in sorted({*expected, *there}):
        if expected.get(name) != there.get(name):
            yield Setting(f"Env {name}", _value(name, expected), _value(name, there))


def _variables(entries: JsonValue) -> dict[str, str]:
    texts = map(str, entries) if isinstance(entries, list | tuple) else ()
    return {name: value for name, _, value in (text.partition("=") for text in texts)}


def _value(name: str, variables: Mapping[str, str]) -> str:
    if name not in variables:
        return NOTHING
    return "a value that is not shown" if SECRET.search(name) else repr(variables[name])


def _tidy(value: JsonValue, *, ordered: bool = False) -> JsonValue:
    """A value without what stands for nothing; lists sorted, since only commands have an order."""
    match value:
        case dict():
            parts = {key: _tidy(part) for key, part in value.items()}
            return {key: part for key, part in parts.items() if part} or None
        case list() | tuple():
            items = [item if isinstance(item, str) else _tidy(item) for item in value]
            return (items if ordered else sorted(items, key=canonical_json)) or None
        case _:
            # RestartPolicy's `no` is what an empty name means too.
            return None if value in ("", "no", 0) else value


def _capabilities(value: JsonValue) -> JsonValue:
    """Capabilities without the prefix that some engines add."""
    names = value if isinstance(value, list) else []
    return sorted(str(name).removeprefix("CAP_") for name in names)


def _text(value: JsonValue) -> str:
    if not value:
        return NOTHING
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return " ".join(map(str, value))
    return value if isinstance(value, str) else canonical_json(value).decode()
