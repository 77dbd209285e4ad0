"""Where a pair serves and where its ranks meet, read from a rank's own command line.

An older generation answers where its own command says, whatever today's manifest asks for.
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import ip_address
from itertools import pairwise
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from deploy.state import ContainerFacts

DEFAULT_PORT: Final = 8000
"""vLLM's own."""

DEFAULT_MASTER_PORT: Final = 29501
"""vLLM's own, with --nnodes."""

LOOPBACK: Final = {4: "127.0.0.1", 6: "::1"}


@dataclass(frozen=True, slots=True)
class ServingAddress:
    """Where a head's API is reached from its own node, and the name of its model.

    `host` is an address that can be connected to: loopback for a server that listens on all.
    `model` is the first served name, else the model's path; empty when the command tells neither.
    """

    host: str
    port: int
    model: str


@dataclass(frozen=True, slots=True)
class MeetingPoint:
    """Where the ranks of several nodes meet: the head's address and the master port."""

    address: str
    port: int


def serving_at(command: Sequence[str]) -> ServingAddress:
    """The address of the server that a head's command starts, and the model it serves.

    `command` may begin with a launcher script and its own options: what counts stands after
    `vllm serve`. What it does not tell is vLLM's own default.
    """
    words = _vllm_words(command)
    model = _value(words, "served-model-name") or _value(words, "model") or _positional(words)
    host = _value(words, "host")
    port = _value(words, "port")
    return ServingAddress(_reachable(host), _number(port, DEFAULT_PORT), model)


def meeting_point(command: Sequence[str]) -> MeetingPoint | None:
    """Where a rank's command has it meet the others; None if it runs on one node alone."""
    words = _vllm_words(command)
    address = _value(words, "master-addr")
    if not address:
        return None
    return MeetingPoint(address, _number(_value(words, "master-port"), DEFAULT_MASTER_PORT))


def claimed_ports(command: Sequence[str]) -> Iterator[int]:
    """The ports that a rank's command says it listens on, API and meeting point."""
    for option, value in pairwise(command):
        if option in {"--port", "--master-port"} and value.isdecimal():
            yield int(value)


def held_ports(containers: Iterable[ContainerFacts]) -> frozenset[int]:
    """The ports that our own running containers listen on, as their commands say."""
    running = (item.command for item in containers if item.running)
    return frozenset(port for command in running for port in claimed_ports(command))


def _vllm_words(command: Sequence[str]) -> list[str]:
    """What stands after `vllm serve`; all of it in an image whose entrypoint has these words."""
    for place in range(len(command) - 1):
        if command[place].rpartition("/")[2] == "vllm" and command[place + 1] == "serve":
            return list(command[place + 2 :])
    return list(command)


def _value(words: Sequence[str], option: str) -> str:
    """The first value of an option's last use, which is the one that argparse takes; or nothing."""
    found = ""
    for place, word in enumerate(words):
        name, has_value, value = word.partition("=")
        if not name.startswith("--") or name[2:].replace("_", "-") != option:
            continue
        if has_value:
            found = value
        elif place + 1 < len(words):
            found = words[place + 1]
    return found


def _positional(words: Sequence[str]) -> str:
    """The model as `vllm serve` takes it: its first word."""
    return words[0] if words and not words[0].startswith("-") else ""


def _reachable(host: str) -> str:
    if not host:
        return LOOPBACK[4]
    try:
        address = ip_address(host)
    except ValueError:
        return host
    return LOOPBACK[address.version] if address.is_unspecified else host


def _number(text: str, default: int) -> int:
    return int(text) if text.isdecimal() else default
