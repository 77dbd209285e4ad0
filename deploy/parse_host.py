"""What deploy/edges/host.sh prints -> the facts of a machine; what is missing stays unknown."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from deploy.host import Gpu, Holder, HostFacts, Memory, Process
from deploy.parse import hca_facts, lines_by_file, listeners, netdev_facts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from deploy.state import HcaFacts, Listener, NetdevFacts

SECTION: Final = "\x1e"
TABLES: Final = ("/proc/net/tcp", "/proc/net/tcp6")
MAY_RAISE_LIMITS: Final = 1 << 24
"""CAP_SYS_RESOURCE in the effective set of /proc/PID/status."""

_DRIVER: Final = re.compile(r"\s(\d{3}\.\d+(?:\.\d+)*)\s")
_CONTAINER: Final = re.compile(r"[0-9a-f]{64}")
_SOCKET: Final = re.compile(r':(?P<port>\d+)\s.*\(\("(?P<name>[^"]*)",pid=(?P<pid>\d+)')


@dataclass(frozen=True, slots=True)
class MachineFacts:
    """All that the one script tells of a node."""

    host: HostFacts
    hcas: tuple[HcaFacts, ...]
    netdevs: tuple[NetdevFacts, ...]
    listeners: tuple[Listener, ...]


def machine_facts(output: str, *, asked_s: float = 0.0, told_s: float = 0.0) -> MachineFacts:
    """The facts in the script's output.

    `asked_s` and `told_s` are the controller's clock before and after, in seconds since 1970.
    """
    parts = _sections(output)
    files = lines_by_file(parts.get("files", ""))
    readable = frozenset(parts.get("readable", "").splitlines())
    sockets = [line for table in TABLES for line in files.get(table, [])]
    ahead_s = _clock_ahead_s(parts.get("clock", ""), asked_s, told_s)

    def line_of(path: str) -> str:
        return "".join(files.get(path, [])[:1]).strip(" \0\n")

    return MachineFacts(
        host=HostFacts(
            product=line_of("/sys/class/dmi/id/product_name"),
            kernel=line_of("/proc/sys/kernel/osrelease"),
            boot_line=line_of("/proc/cmdline"),
            memory=_memory(files.get("/proc/meminfo", [])),
            clock_ahead_s=ahead_s,
            clock_within_s=(told_s - asked_s) / 2,
            gpu=Gpu(
                driver=_driver(files.get("/proc/driver/nvidia/version", [])),
                count=len(parts.get("gpus", "").split()),
                hook=bool(parts.get("hook", "").strip()),
            ),
            memlock=_memlock(parts.get("limits", "")),
            missing=tuple(parts.get("missing", "").splitlines()),
            model_free_bytes=_free_bytes(parts.get("disk", "")),
            shm=tuple(_shm(parts.get("shm", ""))),
            strays=tuple(_strays(parts.get("strays", ""))),
            sockets_known=TABLES[0] in readable,
            holders=tuple(_holders(parts.get("holders", ""))),
        ),
        hcas=hca_facts(parts.get("devices", "").splitlines(), files, readable),
        netdevs=netdev_facts(parts.get("netdevs", "").encode()),
        listeners=listeners(sockets),
    )


def _sections(output: str) -> dict[str, str]:
    found = {}
    for part in output.split(SECTION)[1:]:
        name, _, text = part.partition("\n")
        found[name] = text
    return found


def _clock_ahead_s(text: str, asked_s: float, told_s: float) -> float | None:
    try:
        return float(text) - (asked_s + told_s) / 2
    except ValueError:
        return None


def _memory(lines: Iterable[str]) -> Memory | None:
    """/proc/meminfo, whose unit is KiB; None without the three lines that everything needs."""
    found = {}
    for line in lines:
        name, _, rest = line.partition(":")
        words = rest.split()
        if words and words[0].isdecimal():
            found[name] = int(words[0]) * 1024
    if not {"MemTotal", "MemFree", "MemAvailable"} <= found.keys():
        return None
    return Memory(
        total=found["MemTotal"],
        free=found["MemFree"],
        available=found["MemAvailable"],
        cached=found.get("Cached", 0) + found.get("Buffers", 0),
        swap_total=found.get("SwapTotal", 0),
        swap_free=found.get("SwapFree", 0),
        cma_total=found.get("CmaTotal"),
        cma_free=found.get("CmaFree"),
    )


def _driver(lines: Iterable[str]) -> str:
    """The version in `NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  580.95.05 …`."""
    found = _DRIVER.search(" ".join(list(lines)[:1]) + " ")
    return found.group(1) if found else ""


def _memlock(text: str) -> bool | None:
    """Whether an engine's process has no limit of locked memory, or may lift a container's."""
    found: list[bool] = []
    for line in text.splitlines():
        words = line.split()
        if line.startswith("CapEff:") and len(words) > 1:
            found.append(bool(int(words[1], 16) & MAY_RAISE_LIMITS))
        elif line.startswith("Max locked memory"):
            found.append(words[4:5] == ["unlimited"])
    return any(found) if found else None


def _free_bytes(text: str) -> int | None:
    """What `stat -f -c '%a %S'` printed: blocks and their size."""
    words = text.split()
    if len(words) != 2 or not all(word.isdecimal() for word in words):  # noqa: PLR2004
        return None
    return int(words[0]) * int(words[1])


def _shm(text: str) -> Iterator[tuple[str, int]]:
    for line in text.splitlines():
        size, _, name = line.partition(" ")
        if size.isdecimal():
            yield name, int(size)


def _strays(text: str) -> Iterator[Process]:
    files = lines_by_file(text)
    for path, lines in files.items():
        folder, _, file = path.rpartition("/")
        if file == "comm" and lines:
            within = _CONTAINER.search("\n".join(files.get(f"{folder}/cgroup", [])))
            pid = folder.removeprefix("/proc/")
            yield Process(int(pid), lines[0], within.group() if within else "")


def _holders(text: str) -> Iterator[Holder]:
    """Lines of `ss -H -l -t -n -p` that tell the process, which only root is told of all."""
    for line in text.splitlines():
        found = _SOCKET.search(line)
        if found:
            yield Holder(int(found["port"]), found["name"], int(found["pid"]))
