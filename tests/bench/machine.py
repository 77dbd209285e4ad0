"""The facts of a machine that a measurement depends on."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from builder.digest import JsonValue

DOCKERD_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True, slots=True)
class Machine:
    """Where a run took place; `load` is the 1-minute load average before and after it."""

    cores: int
    processor: str
    memory_gib: int
    system: str
    python: str
    docker: str
    load: tuple[str, str]

    def text(self) -> str:
        """The facts as lines of plain text."""
        before, after = self.load
        return "\n".join(
            [
                f"machine: {self.cores} cores, {self.processor}, {self.memory_gib} GiB",
                f"  {self.system}; Python {self.python}; Docker {self.docker}",
                f"  load average {before} before, {after} after",
            ]
        )

    def as_json(self) -> JsonValue:
        """The facts as a JSON object."""
        return {**asdict(self), "load": list(self.load)}


def load_average() -> str:
    """Processes that ran or wanted to, averaged over the last minute."""
    return f"{os.getloadavg()[0]:.2f}"


def this_machine(load_before: str) -> Machine:
    """The facts of this machine; what it does not tell is `unknown`, no Docker is `none`."""
    return Machine(
        cores=len(os.sched_getaffinity(0)),
        processor=f"{platform.machine()} {_after('model name', Path('/proc/cpuinfo'))}",
        memory_gib=round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        system=f"{_system()}, Linux {platform.release()}",
        python=platform.python_version(),
        docker=_docker(),
        load=(load_before, load_average()),
    )


def _after(key: str, file: Path) -> str:
    """The value of the first `key : value` line."""
    for line in file.read_text().splitlines():
        name, _, value = line.partition(":")
        if name.strip() == key:
            return value.strip()
    return "unknown"


def _system() -> str:
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except OSError:
        return "unknown"


def _docker() -> str:
    """The version of the dockerd that the lab's nodes run."""
    program = shutil.which("dockerd", path=DOCKERD_PATH)
    if program is None:
        return "none"
    done = subprocess.run([program, "--version"], capture_output=True, text=True, check=True)
    return done.stdout.split()[2].rstrip(",")
