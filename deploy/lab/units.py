"""A lab node's stand-in for systemd: it starts the units that are enabled, from their own files."""

from __future__ import annotations

import shlex
from configparser import ConfigParser
from pathlib import Path
from typing import Final

from deploy.lab.systemctl import UNITS, WANTS

FOLDER: Final = Path("/run/stand-ins")
"""Inside a node: programs that come before the machine's own on the PATH of ssh sessions."""

SUFFIX: Final = ".service"


def provide_systemctl(source: str) -> None:
    """Nothing; the node has a systemctl, whose source was read before the node had its root."""
    FOLDER.mkdir()
    program = FOLDER / "systemctl"
    program.write_text(source)
    program.chmod(0o755)


def command_of(unit: str) -> tuple[str, ...]:
    """What a unit starts; OSError if it is not there, KeyError if it starts nothing."""
    parser = ConfigParser(interpolation=None, strict=False)
    parser.read_string((UNITS / unit).read_text())
    return tuple(shlex.split(parser["Service"]["ExecStart"]))


def enabled() -> tuple[str, ...]:
    """The units that start with the node, by name."""
    return tuple(sorted(path.name for path in WANTS.glob(f"*{SUFFIX}")))
