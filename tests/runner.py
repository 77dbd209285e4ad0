"""What `inv check` and `inv test` run, step by step; they run it all and name what failed."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from deploy.lab.requirements import PACKAGE_OF

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

PACKAGE_OF_TESTS: Mapping[str, str] = {
    **PACKAGE_OF,
    "buildah": "buildah",
    "docker-registry": "docker-registry",
    "git": "git",
    "htpasswd": "apache2-utils",
    "iptables": "iptables",
    "mmdebstrap": "mmdebstrap",
    "/usr/share/keyrings/debian-archive-keyring.gpg": "debian-archive-keyring",
    "openssl": "openssl",
    "ping": "iputils-ping",
    "skopeo": "skopeo",
    "systemd-analyze": "systemd",
    "umoci": "umoci",
}
"""What tests call beyond a lab's needs: makers of the Debian 13 tree, registries, other readers."""


def provide_dev_tools(root: Path) -> None:
    """Install the locked development dependencies into .venv, unless they are there already."""
    wanted, made = root / "requirements-dev.txt", root / ".venv" / ".made-from-dev"
    if made.exists() and made.read_bytes() == wanted.read_bytes():
        return
    print("installing development dependencies into .venv", file=sys.stderr)
    args = ["--quiet", "--no-deps", "--require-hashes", "-r", str(wanted)]
    uv = shutil.which("uv")
    if uv:
        installer = [uv, "pip", "install", "--python", sys.executable]
    else:
        # uv may have made this .venv, without pip, and not be on the PATH of root
        if importlib.util.find_spec("pip") is None:
            subprocess.run([sys.executable, "-m", "ensurepip"], check=True, stdout=sys.stderr)
        installer = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check"]
    subprocess.run([*installer, *args], check=True)
    made.write_bytes(wanted.read_bytes())


def run_static_checks(root: Path) -> int:
    """0 if ruff, mypy and the import rules are content, else 1."""
    provide_dev_tools(root)
    python = sys.executable
    return _run_all(
        root,
        ("ruff check", [python, "-m", "ruff", "check", "."]),
        ("ruff format", [python, "-m", "ruff", "format", "--check", "."]),
        ("mypy", [python, "-m", "mypy"]),
        ("mypy tasks.py tests", [python, "-m", "mypy", "tasks.py", "tests"]),
        ("import rules", [str(Path(python).with_name("lint-imports"))]),
    )


def run_tests(root: Path, *, fast: bool, slow: bool, long: bool) -> int:
    """0 if the static checks and the tests pass, else 1.

    Without `fast` a missing prerequisite is a failure, never a silent skip. `long` is `slow` too.
    """
    static = run_static_checks(root)
    marks = (("lab", fast), ("slow", not (slow or long)), ("long", not long))
    deselected = [mark for mark, off in marks if off]
    argv = [sys.executable, "-m", "pytest", "--durations=10"]
    if deselected:
        argv += ["-m", " and ".join(f"not {mark}" for mark in deselected)]
    if not fast:
        argv.append("--require")
    tests = _run_all(root, ("pytest", argv))
    return 1 if static or tests else 0


def run_faults(root: Path, *, long: bool) -> int:
    """0 if every reported fault is caught by its stage; `long` adds 50 runs of a healthy pair."""
    argv = [sys.executable, "-m", "pytest", "tests/reports", "--require"]
    if not long:
        argv += ["-m", "not long"]
    return _run_all(root, ("reported faults", argv))


def _run_all(root: Path, *steps: tuple[str, Sequence[str]]) -> int:
    failed = []
    for name, argv in steps:
        print(f"== {name}", flush=True)
        if subprocess.run(argv, cwd=root, check=False).returncode != 0:
            failed.append(name)
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0
