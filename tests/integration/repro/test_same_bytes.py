"""The committed locks and their images come out byte for byte, wherever and by whatever made.

Compared with what is committed, and not merely one run with another: two can be wrong alike.
"""

from __future__ import annotations

import os
import platform
import random
import shutil
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from builder import pipeline
from builder.digest import digest_bytes, hex_of
from builder.progress import Silent
from tests.repository import ROOT, copy_repository, files, inv

if TYPE_CHECKING:
    from collections.abc import Mapping

SHUFFLED_LISTINGS: Final = """\
import os, random

def shuffled(items):
    open(os.environ["SHUFFLED_MARK"], "a").close()
    items = list(items)
    random.Random(int(os.environ["SHUFFLED_SEED"])).shuffle(items)
    return items

class Scan:
    def __init__(self, *path):
        with scandir(*path) as found:
            self.items = shuffled(found)
    def __iter__(self):
        return iter(self.items)
    def __enter__(self):
        return self
    def __exit__(self, *error):
        pass
    close = __exit__

scandir, listdir = os.scandir, os.listdir
os.scandir, os.listdir = Scan, lambda *path: shuffled(listdir(*path))
"""
"""As sitecustomize: every listing of a folder comes in another order, on any file system."""


@dataclass(frozen=True)
class Made:
    """What locking and building gave: a lock's bytes, and the image as a layout's files."""

    lock: bytes
    image: Mapping[str, bytes]


def locked_folders(copy: Path) -> list[Path]:
    """Every folder of a copy that has a lock, by name."""
    return sorted(path.parent for path in copy.rglob("lockfile.json"))


@pytest.fixture(scope="module")
def committed(tmp_path_factory: pytest.TempPathFactory) -> list[Made]:
    """The committed locks, and the images that this process makes of them."""
    copy = copy_repository(tmp_path_factory.mktemp("committed") / "copy")
    found = []
    for folder in locked_folders(copy):
        lock = (folder / "lockfile.json").read_bytes()
        pipeline.build(folder / "cluster.toml", Silent(), locked=True, output=folder / "image")
        found.append(Made(lock, files(folder / "image")))
    assert found[0].lock == (ROOT / "lockfile.json").read_bytes()
    return found


def made(
    copy: Path,
    *,
    python: str = sys.executable,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    umask: int = -1,
) -> list[Made]:
    """New locks and their images, made in a copy by one process of its own."""
    args: list[str] = []
    folders = locked_folders(copy)
    for folder in folders:
        (folder / "lockfile.json").unlink()
        manifest = ("--file", str(folder / "cluster.toml"))
        image = ("--output", str(folder / "image"))
        args += ["lock", *manifest, "build", "--locked", *manifest, *image]
    result = inv(copy, *args, python=python, cwd=cwd, env=env, umask=umask)
    assert result.returncode == 0, result.stderr
    return [
        Made((folder / "lockfile.json").read_bytes(), files(folder / "image")) for folder in folders
    ]


@pytest.mark.parametrize(
    ("seed", "umask", "environment"),
    [
        (1, 0o077, {"TZ": "Pacific/Kiritimati", "LC_ALL": "C", "PYTHONHASHSEED": "1"}),
        (
            2,
            0o000,
            {
                "TZ": "America/Adak",
                "LANG": "tr_TR.UTF-8",
                "PYTHONHASHSEED": "4294967295",
                "PYTHONUTF8": "1",  # without it file names would not be UTF-8, which is refused
                "PYTHONCOERCECLOCALE": "0",
                "PYTHONOPTIMIZE": "2",
            },
        ),
    ],
    ids=["umask-077", "umask-000"],
)
def test_no_surroundings_change_a_byte(
    committed: list[Made], tmp_path: Path, seed: int, umask: int, environment: dict[str, str]
) -> None:
    home, site, mark = tmp_path / "home", tmp_path / "site", tmp_path / "mark"
    for folder in (home, site):
        folder.mkdir()
    (site / "sitecustomize.py").write_text(SHUFFLED_LISTINGS)
    copy = copy_repository(tmp_path / "ÄÖ ü" / "copy", shuffled=random.Random(seed))  # noqa: S311 - a test's order
    env = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "PYTHONPATH": str(site),
        "SHUFFLED_MARK": str(mark),
        "SHUFFLED_SEED": str(seed),
        **environment,
    }

    found = made(copy, cwd=home, env=env, umask=umask)

    assert mark.exists(), "no listing was shuffled"
    assert found == committed


MINORS: Final = range(11, 16)


def interpreters() -> dict[str, str]:
    """A CPython for each minor version from 3.11 on that this machine has; ours is one of them."""
    found = {platform.python_version(): sys.executable}
    minors = {sys.version_info.minor}
    pyenv = Path("~/.pyenv/versions").expanduser()
    for minor in MINORS:
        name = f"python3.{minor}"
        paths = [*map(str, sorted(pyenv.glob(f"*/bin/{name}"))), shutil.which(name)]
        for path in filter(None, paths):
            version = version_of(path)
            if version and minor not in minors:
                minors.add(minor)
                found[version] = path
    return found


def version_of(python: str) -> str | None:
    """The version of a CPython that can make environments; None for anything else."""
    code = (
        "import platform, venv; print(platform.python_implementation(), platform.python_version())"
    )
    result = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
    implementation, _, version = result.stdout.strip().partition(" ")
    return version if implementation == "CPython" else None


def environment_of(version: str, python: str) -> str:
    """A Python with the locked requirements, made once; subprocess.CalledProcessError if not."""
    wanted = ROOT / "requirements.txt"
    name = f"cpython-{version}-{hex_of(digest_bytes(wanted.read_bytes()))[:12]}"
    folder = ROOT / ".sparklock" / "cache" / "repro" / name
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        making = folder.with_name(f"{name}.{os.getpid()}")
        try:
            for command in commands_for(making, python, wanted):
                subprocess.run(command, check=True, capture_output=True, text=True)
            with suppress(OSError):  # another run was quicker
                making.rename(folder)
        finally:
            shutil.rmtree(making, ignore_errors=True)
    return str(folder / "bin" / "python")


def commands_for(folder: Path, python: str, wanted: Path) -> list[list[str]]:
    """Making an environment, with uv if there is one, else with venv and pip; both check hashes."""
    inside, args = str(folder / "bin" / "python"), ["--require-hashes", "-r", str(wanted)]
    uv = shutil.which("uv", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    if uv:
        return [
            [uv, "venv", "--quiet", "--python", python, str(folder)],
            [uv, "pip", "install", "--quiet", "--python", inside, *args],
        ]
    return [
        [python, "-m", "venv", str(folder)],
        [inside, "-m", "pip", "install", "--quiet", "--no-deps", *args],
    ]


def test_every_python_of_this_machine_gives_the_same_bytes(
    committed: list[Made], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ran, unready = [], []
    for version, python in interpreters().items():
        try:
            ready = python if python == sys.executable else environment_of(version, python)
        except subprocess.CalledProcessError as error:
            unready.append(f"{version}: {error.stderr.strip()}")
            continue
        copy = copy_repository(tmp_path / version)
        assert made(copy, python=ready) == committed, f"CPython {version}"
        ran.append(version)

    minors = {int(version.split(".")[1]) for version in ran}
    absent = [f"3.{minor}" for minor in MINORS if minor not in minors]
    with capsys.disabled():
        print(f"\nsame bytes by CPython {', '.join(ran)}; not here: {', '.join(absent)}")  # noqa: T201
    assert platform.python_version() in ran
    if unready:
        pytest.skip(f"no environment for {'; '.join(unready)}")
