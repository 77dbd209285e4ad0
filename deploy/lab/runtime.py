#!/usr/bin/python3
"""runc, for machines that may not raise resource limits: asks for no more than they allow.

Containers are given an unlimited memlock and many open files, as RDMA needs. A machine without
CAP_SYS_RESOURCE, such as a sandbox, would refuse to start them. There, and only there, each node
has a copy of this file before runc on the engine's PATH; runc itself does the rest. Nothing but
the standard library can be imported here.
"""

from __future__ import annotations

import json
import os
import resource
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

PROGRAM: Final = "runc"
CAP_SYS_RESOURCE: Final = 24
"""capabilities(7): needed to raise a hard limit."""


def may_raise_limits() -> bool:
    """Whether this process, and what it starts, may set limits above its own."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("CapEff:"):
            return bool(int(line.split()[1], 16) >> CAP_SYS_RESOURCE & 1)
    return False


def within(limits: list[dict[str, Any]], allowed: dict[str, int]) -> list[dict[str, Any]]:
    """The limits of an OCI process, each at most what is allowed for its type."""
    return [
        limit | {key: min(limit[key], allowed[limit["type"]]) for key in ("hard", "soft")}
        for limit in limits
    ]


def own_hard_limits() -> dict[str, int]:
    """By OCI name, such as RLIMIT_NOFILE; unlimited is what the kernel has for it, 2**64 - 1."""
    names = [name for name in dir(resource) if name.startswith("RLIMIT_")]
    hard = {name: resource.getrlimit(getattr(resource, name))[1] for name in names}
    return {name: 2**64 - 1 if value < 0 else value for name, value in hard.items()}


def process_file(argv: list[str]) -> tuple[Path | None, bool]:
    """The file that describes the process runc is to start, and whether it is a bundle's."""
    for option, value in pairwise(argv):
        if option == "--bundle":
            return Path(value, "config.json"), True
        if option == "--process":
            return Path(value), False
    return None, False


def main(argv: list[str]) -> None:
    """Never; runc goes on in this process."""
    file, is_bundle = process_file(argv)
    if file is not None:
        document = json.loads(file.read_text())
        process = document["process"] if is_bundle else document
        process["rlimits"] = within(process.get("rlimits") or [], own_hard_limits())
        file.write_text(json.dumps(document))
    own_folder = str(Path(__file__).resolve().parent)
    folders = [folder for folder in os.environ["PATH"].split(":") if folder != own_folder]
    os.environ["PATH"] = ":".join(folders)
    os.execvp(PROGRAM, [PROGRAM, *argv])  # noqa: S606 - no shell wanted


if __name__ == "__main__":
    main(sys.argv[1:])
