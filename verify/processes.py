"""What runs inside a container, out of the text that inside.py prints."""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from typing import TYPE_CHECKING, Any, Final, Literal

from builder.privileges import KERNEL_CAPABILITIES
from verify.errors import UnreadableFactError
from verify.parse import load_json

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Kind = Literal["absent", "file", "directory", "other"]

_ESTABLISHED: Final = "01"
_V4_HEX_DIGITS: Final = 8
_FURTHER_RANKS: Final = re.compile(r"_(?:PCP|DCP|EP)\d+")
_LIMIT_LINE: Final = re.compile(r"Max (?P<name>.+?) {2,}(?P<soft>\S+) +(?P<hard>\S+)")


@dataclass(frozen=True, slots=True)
class PathFacts:
    """A path inside a container, links followed; `sha256` is hex, for regular files."""

    kind: Kind
    resolved: str = ""
    executable: bool = False
    sha256: str = ""
    interpreter: str = ""
    interpreter_executable: bool = True


@dataclass(frozen=True, slots=True)
class Process:
    """A process inside a container.

    `limits` holds the soft limit by the kernel's name, such as `locked memory` -> `unlimited`.
    `capabilities` are those that it, or what it starts, can ever have; None if that was unreadable.
    """

    pid: int
    args: tuple[str, ...]
    limits: Mapping[str, str]
    sockets: frozenset[int]
    capabilities: frozenset[str] | None = None
    no_new_privileges: bool = False


@dataclass(frozen=True, slots=True)
class Connection:
    """An established TCP connection over IPv4, and the inode of its socket."""

    local: IPv4Address
    remote: IPv4Address
    inode: int


@dataclass(frozen=True, slots=True)
class Inside:
    """The inside of a running container."""

    paths: Mapping[str, PathFacts]
    processes: tuple[Process, ...]
    connections: tuple[Connection, ...]
    """The established connections whose socket belongs to one of `processes`."""


@dataclass(frozen=True, slots=True)
class ServeCommand:
    """A `vllm serve` command line: the model, and each flag without its dashes.

    A flag without a value has the value True.
    """

    model: str
    flags: Mapping[str, str | Literal[True]]


def parse_inside(text: str) -> Inside:
    """The facts that inside.py printed."""
    source = "facts from inside the container"
    value = load_json(source, text)
    try:
        processes = tuple(_process(item) for item in value["processes"])
        owned = frozenset[int]().union(*(process.sockets for process in processes))
        connections = parse_tcp(value["tcp"]) + parse_tcp(value["tcp6"])
        return Inside(
            paths={str(path): PathFacts(**facts) for path, facts in value["paths"].items()},
            processes=processes,
            connections=tuple(item for item in connections if item.inode in owned),
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise UnreadableFactError(
            source=source, expected=f"an object with {error}", text=text
        ) from error


def _process(item: Mapping[str, Any]) -> Process:
    return Process(
        pid=int(item["pid"]),
        args=parse_cmdline(item["cmdline"]),
        limits=parse_limits(item["limits"]),
        sockets=frozenset(int(inode) for inode in item["sockets"]),
        capabilities=parse_capabilities(item["status"]),
        no_new_privileges=_status(item["status"]).get("NoNewPrivs") == "1",
    )


def parse_capabilities(text: str) -> frozenset[str] | None:
    """The bounding set of /proc/PID/status; a number without a name we know is `CAP_NUMBER`."""
    mask = _status(text).get("CapBnd", "")
    if not re.fullmatch(r"[0-9a-f]{16}", mask):
        return None
    bits, names = int(mask, 16), dict(enumerate(KERNEL_CAPABILITIES))
    return frozenset(names.get(n, f"CAP_{n}") for n in range(64) if bits >> n & 1)


def _status(text: str) -> dict[str, str]:
    pairs = (line.partition(":") for line in text.splitlines())
    return {name: value.strip() for name, _, value in pairs}


def parse_cmdline(text: str) -> tuple[str, ...]:
    """The arguments of /proc/PID/cmdline; a process title counts as one argument.

    A title set over the arguments is padded with NULs or spaces up to their old length.
    """
    args = text.rstrip("\0 ").split("\0")
    return tuple(args) if args != [""] else ()


def parse_limits(text: str) -> dict[str, str]:
    """Lower-case name to soft limit, of /proc/PID/limits."""
    found = (_LIMIT_LINE.match(line) for line in text.splitlines())
    return {match["name"].lower(): match["soft"] for match in found if match}


def parse_tcp(text: str) -> tuple[Connection, ...]:
    """The established IPv4 connections of /proc/net/tcp or tcp6, IPv4-mapped ones included.

    Addresses are words of 32 bits in the byte order of the machine, which is little-endian on
    every machine that vLLM runs on.
    """
    found = []
    for line in text.splitlines()[1:]:
        fields = line.split()
        try:
            local, remote = _address(fields[1]), _address(fields[2])
            state, inode = fields[3], int(fields[9])
        except (IndexError, ValueError) as error:
            raise UnreadableFactError(
                source="/proc/net/tcp", expected="the kernel's columns", text=line
            ) from error
        if state == _ESTABLISHED and local is not None and remote is not None:
            found.append(Connection(local, remote, inode))
    return tuple(found)


def _address(endpoint: str) -> IPv4Address | None:
    """The IPv4 address of `0100007F:1F90`; None for one that is IPv6 alone."""
    address, _, _ = endpoint.partition(":")
    raw = bytes.fromhex(address)
    network_order = b"".join(raw[at : at + 4][::-1] for at in range(0, len(raw), 4))
    if len(address) == _V4_HEX_DIGITS:
        return IPv4Address(network_order)
    return IPv6Address(network_order).ipv4_mapped


def serve_arguments(args: Sequence[str]) -> tuple[str, ...] | None:
    """What follows `vllm serve` in a process's arguments; None if it runs something else.

    Only the program itself counts: an init or a script that was given the words as arguments is
    not the server.
    """
    words = list(args)
    if words and re.fullmatch(r"python[\d.]*", words[0].rpartition("/")[2]):
        del words[0]
        while words and words[0].startswith("-"):
            del words[0]
    if len(words) > 1 and words[0].rpartition("/")[2] == "vllm" and words[1] == "serve":
        return tuple(words[2:])
    return None


def parse_serve(arguments: Sequence[str]) -> ServeCommand:
    """The command out of what follows `vllm serve`: `--key value`, `--key=value` or `--key`."""
    flags: dict[str, str | Literal[True]] = {}
    positional = []
    words = list(arguments)
    while words:
        word = words.pop(0)
        if not word.startswith("--"):
            positional.append(word)
            continue
        key, equals, value = word[2:].partition("=")
        key = key.replace("_", "-")
        if equals:
            flags[key] = value
        elif words and not words[0].startswith("--"):
            flags[key] = words.pop(0)
        else:
            flags[key] = True
    return ServeCommand(model=" ".join(positional), flags=flags)


def served_commands(processes: Sequence[Process]) -> tuple[tuple[Process, ServeCommand], ...]:
    """Every process that is a `vllm serve`, with its command, by process id."""
    found = []
    for process in processes:
        arguments = serve_arguments(process.args)
        if arguments is not None:
            found.append((process, parse_serve(arguments)))
    return tuple(sorted(found, key=lambda item: item[0].pid))


def titles(processes: Sequence[Process], prefix: str) -> tuple[str, ...]:
    """The titles that vLLM gave its processes, sorted, without `PREFIX::`.

    The kernel's short name is cut at 15 characters, so titles are read from the arguments. What a
    title says beyond stage and tensor rank (experts, contexts) decides no place, and is left out.
    """
    return tuple(sorted(title for title, _ in _titled(processes, prefix)))


def titled_sockets(processes: Sequence[Process], prefix: str) -> dict[str, frozenset[int]]:
    """The inodes of the sockets that vLLM's processes hold, by title as `titles` has it."""
    found: dict[str, frozenset[int]] = {}
    for title, process in _titled(processes, prefix):
        found[title] = found.get(title, frozenset()) | process.sockets
    return found


def _titled(processes: Sequence[Process], prefix: str) -> list[tuple[str, Process]]:
    start = f"{prefix}::"
    return [
        (_FURTHER_RANKS.sub("", process.args[0].removeprefix(start).strip()), process)
        for process in processes
        if process.args and process.args[0].startswith(start)
    ]
