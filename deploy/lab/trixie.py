"""A Debian 13 tree: the root of lab nodes whose Docker 26 keeps images in containerd's store.

Docker's two image stores give one image two different IDs. To show that sparklock recognises it
in both, a lab may have nodes of either kind. The tree is 400 MB and takes a minute to make, so it
is kept; nodes use it read-only.
"""

from __future__ import annotations

import shutil
import subprocess
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

from builder.digest import digest_bytes, hex_of
from deploy.lab.errors import InstallError, RequirementsMissingError

if TYPE_CHECKING:
    from pathlib import Path

    from builder.progress import Progress

SUITE: Final = "trixie"
PACKAGES: Final = ("docker-cli", "docker.io", "iproute2", "openssh-server", "procps", "python3")
_LEFT_OUT: Final = ("/usr/share/doc/*", "/usr/share/man/*", "/usr/share/locale/*")


def debian13_tree(cache: Path, progress: Progress) -> Path:
    """The tree's folder below the cache, made if it is not there; needs root and Debian's servers.

    RequirementsMissingError without mmdebstrap, InstallError when it fails.
    """
    content = hex_of(digest_bytes(",".join(PACKAGES).encode()))[:8]
    tree = cache / f"debian-{SUITE}-{content}"  # with other packages it is another tree
    if tree.is_dir():
        return tree
    if shutil.which("mmdebstrap") is None:
        raise RequirementsMissingError(["mmdebstrap"], ("apt-get", "install", "-y", "mmdebstrap"))
    progress.stage("Debian 13 tree with Docker 26, once; about a minute")
    cache.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=cache, prefix=f"{tree.name}.") as temporary:
        unfinished = f"{temporary}/tree"
        argv = ("mmdebstrap", *_options(), SUITE, unfinished)
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise InstallError(argv, done.returncode, done.stderr)
        # Whole or not at all; who made one meanwhile made the same.
        if not tree.is_dir():
            shutil.move(unfinished, tree)
    return tree


def _options() -> tuple[str, ...]:
    excluded = (f"--dpkgopt=path-exclude={pattern}" for pattern in _LEFT_OUT)
    recommends = '--aptopt=APT::Install-Recommends "false"'
    return ("--variant=minbase", f"--include={','.join(PACKAGES)}", recommends, *excluded)
