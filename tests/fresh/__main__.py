"""README's commands on a machine that has never seen the project.

As root, from the repository:

    .venv/bin/python -m tests.fresh                     # all that README says, with times
    .venv/bin/python -m tests.fresh --suite trixie './inv demo' './inv lab.down'

The machine is a minimal Debian tree (no Python) with a clone of HEAD in /root/sparklock. It has
process, mount, host name and IPC namespaces of its own; network and control groups are this
machine's, so the default lab must be down here. Needs mmdebstrap. Not part of `inv test`.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from deploy.lab import cgroups, network
from deploy.lab.spec import LabSpec

ROOT: Final = Path(__file__).resolve().parents[2]
COMMANDS: Final = (
    "./inv demo",
    "./inv lab.down",
    "./inv demo",  # now without downloads
    "./inv test",
    "./inv lab.down",
)
OF_THE_NETWORK: Final = ("/etc/resolv.conf", "/etc/ssl/certs/ca-certificates.crt")
"""What the machine needs to get at this network's package servers."""


def main() -> int:
    """0 if every command ended with status 0."""
    parser = argparse.ArgumentParser(prog="python -m tests.fresh", description=__doc__)
    parser.add_argument("--suite", default="bookworm", help="Debian's release (bookworm)")
    parser.add_argument("commands", nargs="*", default=COMMANDS, help="shell command lines")
    options = parser.parse_args()
    lab = LabSpec(root=ROOT)
    if os.geteuid() != 0:
        sys.exit("run it as root")
    if not network.link_names().isdisjoint(lab.uplinks):
        sys.exit(
            "a lab is up on this machine, and the fresh one would take its addresses: lab.down"
        )
    work = ROOT / ".sparklock" / "fresh"
    work.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=work) as folder:
        machine = Path(folder, "machine")
        _run("cp", "-a", "--reflink=auto", str(_tree(options.suite)), str(machine))
        _run("git", "clone", "--quiet", str(ROOT), str(machine / "root" / "sparklock"))
        for path in OF_THE_NETWORK:
            shutil.copy(path, machine / path[1:])
        for settings in Path("/etc/apt/apt.conf.d").glob("*proxy*"):
            shutil.copy(settings, machine / "etc/apt/apt.conf.d")
        # When its first process ends, the kernel ends all others and unmounts everything.
        namespaces = ("--mount", "--pid", "--fork", "--kill-child", "--uts", "--ipc")
        inside = (sys.executable, "-m", "tests.fresh.inside", str(machine), *options.commands)
        status = subprocess.run(["unshare", *namespaces, "--", *inside], cwd=ROOT, check=False)
        cgroups.remove(lab.cgroup)
    return status.returncode


def _tree(suite: str) -> Path:
    """A minimal Debian tree, kept for the next time; git and certificates are for the clone."""
    tree = ROOT / ".sparklock" / "cache" / f"fresh-{suite}"
    if not tree.is_dir():
        tree.parent.mkdir(parents=True, exist_ok=True)
        unfinished = tree.with_name(f"{tree.name}.unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        packages = "--include=ca-certificates,git"
        _run("mmdebstrap", "--variant=minbase", packages, suite, str(unfinished))
        unfinished.rename(tree)
    return tree


def _run(*argv: str) -> None:
    subprocess.run(argv, check=True)


if __name__ == "__main__":
    sys.exit(main())
