"""Logins that are begun before the rest of a task is imported: the two take about as long.

What they go by is the manifest as it is written, unchecked. So none is begun for a manifest that
looks wrong in what ssh is given, and none is used unless the checked manifest asks for the same.
"""

from __future__ import annotations

import atexit
import re
import tomllib
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

from deploy.edges.master import Destination, Master

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

PLAIN: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@:%-]*")
"""A destination that ssh takes for nothing else; the manifest allows no other."""

TIMEOUT_S: Final = 10
"""The manifest's own default."""

MAX_BYTES: Final = 2**20


_BEGUN: Final[dict[Path, Logins]] = {}
"""By manifest, what was begun before it was known whether a task wants it."""


def begin(file: Path) -> None:
    """Begin the logins to a manifest's nodes, for a task that may want them; it waits for none."""
    logins = _BEGUN[file] = Logins()
    atexit.register(logins.end)
    logins.begin(_destinations(file))


@contextmanager
def begun(file: Path) -> Iterator[Logins]:
    """Logins to the nodes of a manifest are on their way; those that nobody took end with this."""
    if file not in _BEGUN:
        begin(file)
    logins = _BEGUN.pop(file)
    try:
        yield logins
    finally:
        logins.end()


class Logins:
    """Logins on their way, by destination; each is taken once, or ended.

    They are for a look: what is brought to a node goes faster by a connection that is made for it.
    """

    def __init__(self) -> None:
        self._masters: dict[Destination, Master] = {}

    def begin(self, destinations: Sequence[Destination]) -> None:
        """Begin them all, waiting for none."""
        with suppress(OSError):  # who needs the connection tries again, and tells why it fails
            for destination in destinations:
                self._masters[destination] = Master(destination, bulk=False)

    def take(self, destination: Destination) -> Master | None:
        """The login to exactly this destination, which is the caller's to end from now on."""
        return self._masters.pop(destination, None)

    def end(self) -> None:
        """End those that nobody took."""
        while self._masters:
            _, master = self._masters.popitem()
            master.abandon()


def _destinations(file: Path) -> list[Destination]:
    """Where a manifest says that its nodes are; nothing unless all of that looks right."""
    try:
        if not file.is_file() or file.stat().st_size > MAX_BYTES:
            return []
        document = tomllib.loads(file.read_text(encoding="utf-8"))
        found = [_destination(file, document.get("ssh", {}), node) for node in document["nodes"]]
        return found if len({place.node for place in found}) == len(found) else []
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return []  # reading it in earnest says what is wrong


def _destination(file: Path, section: dict[str, Any], node: dict[str, Any]) -> Destination:
    """One node's; ValueError, TypeError or LookupError unless it looks right."""
    config, timeout_s = section.get("config"), section.get("connect_timeout_s", TIMEOUT_S)
    path = None if config is None else file.parent / config
    if path is not None and not path.is_file():
        raise ValueError(config)
    if not PLAIN.fullmatch(node["ssh"]) or type(timeout_s) is not int or timeout_s < 1:
        raise ValueError(node["ssh"], timeout_s)
    return Destination(str(node["name"]), node["ssh"], path, timeout_s)
