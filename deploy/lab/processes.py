"""Processes that outlive their parent: recorded, recognised later, ended for certain.

A record holds what makes a process unique: its number, its start time, and the boot. A number that
was reused since, also after a reboot, is never taken for the recorded process.
"""

from __future__ import annotations

import json
import os
import select
import signal
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_ENDED_STATES = "ZX"


@dataclass(frozen=True, slots=True)
class ProcessRecord:
    """A process: its number, its start in clock ticks since boot, and which boot that was."""

    pid: int
    start_ticks: int
    boot_id: str

    @classmethod
    def of(cls, pid: int) -> ProcessRecord:
        """The record of a running process; FileNotFoundError if there is none."""
        return cls(pid, _stat(pid)[1], _boot_id())

    @classmethod
    def read(cls, path: Path) -> ProcessRecord | None:
        """The record in a file; None if there is no file, or it is not one of ours."""
        try:
            return cls(**json.loads(path.read_text()))
        except (FileNotFoundError, ValueError, TypeError):
            return None

    def write(self, path: Path) -> None:
        """Nothing; the file appears complete or not at all."""
        temporary = path.with_name(path.name + ".new")
        temporary.write_text(json.dumps(asdict(self)))
        temporary.replace(path)

    @property
    def alive(self) -> bool:
        """Whether this very process still runs; a zombie does not."""
        try:
            state, start_ticks = _stat(self.pid)
        except FileNotFoundError:
            return False
        same = start_ticks == self.start_ticks and _boot_id() == self.boot_id
        return same and state not in _ENDED_STATES

    def send(self, number: signal.Signals) -> None:
        """Nothing; the process has the signal, if it still runs."""
        with _pidfd(self.pid) as fd:
            if fd is not None and self.alive:
                signal.pidfd_send_signal(fd, number)

    def kill(self, timeout_s: float) -> bool:
        """Whether it has ended, by SIGKILL, within the time; True at once if it had before."""
        with _pidfd(self.pid) as fd:
            # The descriptor keeps the number from being reused between this check and the signal.
            if fd is None or not self.alive:
                return True
            signal.pidfd_send_signal(fd, signal.SIGKILL)
            return wait_for_end(fd, timeout_s)


def running_module(module: str, below: Path) -> dict[ProcessRecord, Path]:
    """Every process that runs `python -m module PATH`, PATH being `below` or in it, with its PATH.

    Found by their command lines, so also when whoever started them left no record, or somebody
    has deleted it.
    """
    found = {}
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            arguments = file.read_bytes().rstrip(b"\0").split(b"\0")
            record = ProcessRecord.of(int(file.parent.name))
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has ended meanwhile
        path = Path(os.fsdecode(arguments[-1]))
        if arguments[-3:-1] == [b"-m", module.encode()] and path.is_relative_to(below):
            found[record] = path
    return dict(sorted(found.items(), key=lambda item: item[0].pid))


def programs_inside(first: ProcessRecord, program: str) -> tuple[ProcessRecord, ...]:
    """The processes whose program has this name, in the PID namespace of a node's first process."""
    namespace = Path(f"/proc/{first.pid}/ns/pid").readlink()
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            named = (folder / "comm").read_text().strip().startswith(program)
            if named and (folder / "ns/pid").readlink() == namespace:
                found.append(ProcessRecord.of(int(folder.name)))
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has ended meanwhile
    return tuple(sorted(found, key=lambda record: record.pid))


def own_record() -> ProcessRecord:
    """The record of the calling process, as seen by whoever mounted /proc.

    A new PID namespace numbers from 1; as long as the outer /proc is mounted, its `self` is the
    number outside.
    """
    return ProcessRecord.of(int(Path("/proc/self").readlink().name))


def wait_for_end(pidfd: int, timeout_s: float) -> bool:
    """Whether the process of a descriptor has ended within the time."""
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return bool(poll.poll(timeout_s * 1000))


@contextmanager
def _pidfd(pid: int) -> Iterator[int | None]:
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        yield None
        return
    try:
        yield fd
    finally:
        os.close(fd)


def _stat(pid: int) -> tuple[str, int]:
    """State letter and start time; the name before them is in brackets and may hold anything."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except ProcessLookupError as gone:  # it ended between open and read
        raise FileNotFoundError(pid) from gone
    return fields[0], int(fields[19])


def _boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
