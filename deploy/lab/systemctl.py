#!/usr/bin/python3
"""systemctl, as far as a lab node needs one: no systemd runs there, its first process does this.

It takes the real commands and the real unit files, of units in /etc/systemd/system that are wanted
by multi-user.target. Restart= and dependencies mean nothing here. Nothing but the standard library
can be imported.
"""

from __future__ import annotations

import json
import socket
import sys
from pathlib import Path
from typing import Final

UNITS: Final = Path("/etc/systemd/system")
WANTS: Final = UNITS / "multi-user.target.wants"
CONTROL_SOCKET: Final = "/run/node.sock"
INACTIVE: Final = 3

SERVICES: Final = {"docker": "engine", "ssh": "sshd", "sshd": "sshd"}
"""What a node has without a unit file: the names people give it, and the first process's own."""


def asked(verb: str, unit: str) -> bool:
    """Whether the unit runs after the node's first process did what was asked."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(CONTROL_SOCKET)
        connection.sendall(json.dumps({"do": verb, "service": unit}).encode() + b"\n")
        line = connection.makefile().readline()
    if not line:
        sys.exit(f"the lab could not {verb} {unit}: see its log")
    return unit in json.loads(line)["running"]


def main(verb: str, unit: str, *, now: bool) -> int:
    """The exit status of `systemctl VERB [--now] UNIT`."""
    link = WANTS / unit
    unit = SERVICES.get(unit.removesuffix(".service"), unit)
    if verb in {"is-enabled", "is-active", "status"}:
        holds = link.is_symlink() if verb == "is-enabled" else asked("status", unit)
        words = ("enabled", "disabled") if verb == "is-enabled" else ("active", "inactive")
        print(words[not holds])  # noqa: T201 - what systemctl does
        return 0 if holds else INACTIVE
    if verb == "enable":
        WANTS.mkdir(exist_ok=True)
        link.unlink(missing_ok=True)
        link.symlink_to(UNITS / unit)
    elif verb == "disable":
        link.unlink(missing_ok=True)
    if verb in {"stop", "restart"} or (verb == "disable" and now):
        asked("stop", unit)
    if verb in {"start", "restart"} or (verb == "enable" and now):
        asked("start", unit)
    return 0


if __name__ == "__main__":
    words = [word for word in sys.argv[1:] if word != "--now"]
    if words == ["daemon-reload"]:
        sys.exit(0)
    sys.exit(main(*words, now="--now" in sys.argv))
