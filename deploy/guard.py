"""Who holds a node's guard, and the programs that hold it, find it and break it there.

The guard is the lock of a folder that every node has, held by one process that the ssh connection
carries. Its title, the first word of its command line, tells who holds it. The process ends with
the connection, and when nothing was heard of us for `LEASE_S`; so there is no file to clean up.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

Verb: TypeAlias = Literal["deploy", "rollback", "stop", "gc", "weights", "boot"]

FOLDER: Final = "/run"
"""What is locked: every node has it, anybody may open it, and a restart leaves nothing of it."""

READY: Final = b"sparklock-ready\n"
MARK: Final = "sparklock-guard"
LEASE_S: Final = 20
"""After this silence the process on the node gives the guard up, in seconds."""

TRUSTED_S: Final = 16
"""For so long an answered heartbeat proves that we hold the guard: less than the lease, always."""

BEAT_S: Final = 2.5
BREAKING_S: Final = 5
"""What a broken guard may take to be free, in seconds."""

BUSY_STATUS: Final = 75
EXPIRED_STATUS: Final = 76
CHANGED_STATUS: Final = 3
"""What breaking ends with when the process is another one by now."""

_ANSWER: Final = (
    f"echo {READY.decode().strip()}; "
    f'while :; do read -r -t {LEASE_S} _; s=$?; [ "$s" = 0 ] || '
    f'{{ [ "$s" -gt 128 ] && exit {EXPIRED_STATUS}; exit 0; }}; echo; done'
)
_HOLD: Final = f"exec -a \"$0\" bash -c '{_ANSWER}'"
_FIND: Final = f"grep -aHs '^{MARK} ' /proc/[0-9]*/cmdline"
_BREAK: Final = (
    'title=; read -r -d "" title < "/proc/$1/cmdline"; '
    f'[ "$title" = "$2" ] || exit {CHANGED_STATUS}; '
    'kill -KILL "$1" 2>/dev/null || sudo -n kill -KILL "$1"'
)
_FOUND: Final = re.compile(rb"/proc/(\d+)/cmdline:([^\0]*)\0")
_TITLE: Final = re.compile(rf"{MARK} (\S+) (\S+) (\d+) (\S+) (\S+) (.+)", re.DOTALL)
_UNSAFE: Final = re.compile(r"[^\w.@:+-]", re.ASCII)


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds a guard: `who` is user@host where `pid` runs, `since` UTC by that host's clock."""

    cluster: str
    who: str
    pid: int
    since: str
    verb: str
    folder: str = FOLDER

    @property
    def title(self) -> str:
        """The holder in one line: what `ps` shows on the node."""
        words = (self.cluster, self.who, str(self.pid), self.since, self.verb)
        safe = (_UNSAFE.sub("_", word) or "_" for word in words)
        return " ".join((MARK, *safe, self.folder))

    @classmethod
    def parse(cls, title: str) -> Holder | None:
        """The holder of a title; None if it is no such title."""
        found = _TITLE.fullmatch(title)
        if found is None:
            return None
        cluster, who, pid, since, verb, folder = found.groups()
        return cls(cluster, who, int(pid), since, verb, folder)

    def text(self) -> str:
        """The holder for people."""
        who = f"{self.who}, pid {self.pid}"
        return f"{self.verb} of cluster {self.cluster} by {who}, since {self.since}"


@dataclass(frozen=True, slots=True)
class Found:
    """A holder, and the number of its process on the node."""

    holder: Holder
    node_pid: int
    title: str


def hold_argv(holder: Holder, *, wait: bool = False) -> tuple[str, ...]:
    """The command that holds the guard; it ends with BUSY_STATUS when somebody else does.

    It says READY when it has the guard, and an empty line for every line it gets. `wait` lets a
    guard that was broken a moment ago be free.
    """
    patience = ("--timeout", str(BREAKING_S)) if wait else ("--nonblock",)
    return (
        *("flock", "--no-fork", *patience, "--conflict-exit-code", str(BUSY_STATUS)),
        *(holder.folder, "bash", "-c", _HOLD, holder.title),
    )


def find_argv() -> tuple[str, ...]:
    """The command that lists holders; its status says nothing, since processes come and go."""
    return ("sh", "-c", _FIND)


def holders_in(listed: bytes, folder: str = FOLDER) -> tuple[Found, ...]:
    """The holders of a folder's guard that `find_argv` listed."""
    found = []
    for pid, text in _FOUND.findall(listed):
        title = text.decode(errors="replace")
        holder = Holder.parse(title)
        if holder is not None and holder.folder == folder:
            found.append(Found(holder, int(pid), title))
    return tuple(found)


def break_argv(found: Found) -> tuple[str, ...]:
    """The command that ends a holder, if its process is still the same one."""
    return ("bash", "-c", _BREAK, "sparklock-break", str(found.node_pid), found.title)
