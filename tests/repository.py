"""Copies of this repository, and its tasks called in them as a person calls them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import random
    from collections.abc import Mapping

ROOT: Final = Path(__file__).parents[1]
MODES: Final = (0o600, 0o644, 0o664, 0o755, 0o777)
"""What checkouts make of git's two modes, under one umask or another or on a share."""


def copy_repository(target: Path, *, shuffled: random.Random | None = None) -> Path:
    """The repository as it is now, without tests and without what git ignores.

    `shuffled` decides the order in which files are made, their modes and their times.
    """
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    ).stdout
    names = sorted(os.fsdecode(name) for name in listed.split(b"\0") if name)
    kept = [name for name in names if not name.startswith("tests/") and (ROOT / name).is_file()]
    if shuffled:
        shuffled.shuffle(kept)
    for name in kept:
        path = target / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes((ROOT / name).read_bytes())
        if shuffled:
            path.chmod(shuffled.choice(MODES))
            os.utime(path, (0, shuffled.randrange(2**31)))
    return target


def inv(
    copy: Path,
    *args: str,
    python: str = sys.executable,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    umask: int = -1,
) -> subprocess.CompletedProcess[str]:
    """What `inv ARGS` gives in a copy; without `env` in this process's own environment."""
    return subprocess.run(
        [python, "-m", "invoke", "--search-root", str(copy), *args],
        cwd=copy if cwd is None else cwd,
        env=env,
        umask=umask,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def files(folder: Path) -> dict[str, bytes]:
    """All files below a folder by their path from there."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }
