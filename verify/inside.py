"""Facts of a running container as one JSON object; this text is run inside the container.

`docker exec ID python3 -I -S -c TEXT PATH...`: the one program that a vLLM container surely has
is Python, while coreutils and ps need not be there and the node's user need not be root. Standard
library only, ASCII only, Python 3.8 or later. It reads, and leaves every judgement to verify/.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat
import sys
from pathlib import Path


def text_of(path: Path) -> str:
    """The text of a file of /proc, each byte as itself; empty if it is gone or forbidden."""
    try:
        return path.read_bytes().decode("latin-1")
    except OSError:
        return ""


def path_facts(name: str) -> dict[str, object]:
    """What a path is, links followed; a name without `/` is looked up as the shell would."""
    path = Path(name if "/" in name else shutil.which(name) or "/absent")
    try:
        mode = path.stat().st_mode
    except OSError:
        return {"kind": "absent"}
    if not stat.S_ISREG(mode):
        return {"kind": "directory" if stat.S_ISDIR(mode) else "other", "resolved": str(path)}
    digest, head = hash_and_head(path)
    facts: dict[str, object] = {
        "kind": "file",
        "resolved": str(path.resolve()),
        "executable": os.access(str(path), os.X_OK),
        "sha256": digest,
    }
    if head.startswith(b"#!"):
        words = head.splitlines()[0][2:].split()
        interpreter = words[0].decode("latin-1") if words else ""
        facts["interpreter"] = interpreter
        facts["interpreter_executable"] = os.access(interpreter, os.X_OK)
    return facts


def hash_and_head(path: Path) -> tuple[str, bytes]:
    """SHA-256 of a file in hex, and its first 256 bytes; both empty if it cannot be read."""
    digest = hashlib.sha256()
    head = b""
    try:
        with path.open("rb") as file:
            for chunk in iter(lambda: file.read(1 << 20), b""):
                head = head or chunk[:256]
                digest.update(chunk)
    except OSError:
        return "", b""
    return digest.hexdigest(), head


def process_facts(directory: Path) -> dict[str, object]:
    """Arguments, limits, rights and socket inodes of one process."""
    sockets = []
    try:
        for link in (directory / "fd").iterdir():
            try:
                target = os.readlink(str(link))  # noqa: PTH115 - Path.readlink came with Python 3.9
            except OSError:  # closed since it was listed
                continue
            if target.startswith("socket:["):
                sockets.append(int(target[len("socket:[") : -1]))
    except OSError:  # ended since it was listed, or another user's
        pass
    return {
        "pid": int(directory.name),
        "cmdline": text_of(directory / "cmdline"),
        "limits": text_of(directory / "limits"),
        "status": text_of(directory / "status"),
        "sockets": sorted(sockets),
    }


def main(paths: list[str]) -> None:
    """Print the facts."""
    own = str(os.getpid())
    directories = [d for d in Path("/proc").iterdir() if d.name.isdigit() and d.name != own]
    facts = {
        "paths": {name: path_facts(name) for name in paths},
        "processes": [process_facts(d) for d in sorted(directories, key=lambda d: int(d.name))],
        "tcp": text_of(Path("/proc/net/tcp")),
        "tcp6": text_of(Path("/proc/net/tcp6")),
    }
    json.dump(facts, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1:])
