"""A lock's image assembled again, by another process in surroundings that should not matter.

Run as a module this is that process: it reads the lock and the inputs, writes what it makes into an
empty store, and prints the lock as it comes out.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from builder.differences import lock_differences
from builder.edges.disk import storage_errors
from builder.edges.store import BlobStore
from builder.errors import SparklockError
from builder.lockfile import lock_text, parse_lock
from builder.pinpoint import pinpoint
from builder.pipeline_errors import NotReproducibleError, SecondAssemblyError
from builder.remade import keep, remade

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Self

    from builder.lock import Lock, Outputs

ROOT: Final = Path(__file__).parents[2]
TIME_ZONES: Final = ("Pacific/Kiritimati", "America/Adak")
SEEDS: Final = ("4242", "1")
UMASKS: Final = (0o077, 0o000)
LIMIT_S: Final = 3600
_END_LINES: Final = 20


def require_reproducible(lock: Lock, inputs: BlobStore, kept: Path) -> None:
    """Nothing, if another process makes of the lock's inputs just what the lock says.

    `inputs` also has the image as it was assembled here, equal to the lock. Raises
    NotReproducibleError, and both assemblies stand in `kept` then; or SecondAssemblyError.
    """
    with storage_errors(str(kept), "make a folder for the second assembly"):
        shutil.rmtree(kept, ignore_errors=True)  # of an earlier check
        folder = tempfile.TemporaryDirectory(prefix="sparklock again \u00e9 ")  # no plain name
    with folder as name:
        path = Path(name)
        made = _assembled_again(lock, inputs, path)
        changes = lock_differences(lock, made)
        if not changes:
            return
        store = BlobStore(path / "store")
        spot = pinpoint(lock.outputs, inputs, made.outputs, store)
        with storage_errors(str(kept), "keep both assemblies"):
            _export(lock.outputs, inputs, kept / "locked")
            _export(made.outputs, store, kept / "again")
    raise NotReproducibleError(str(kept), changes, spot)


def _assembled_again(lock: Lock, inputs: BlobStore, folder: Path) -> Lock:
    with storage_errors(str(folder), "make room for the second assembly"):
        (folder / "cwd").mkdir()
        (folder / "lockfile.json").write_bytes(lock_text(lock))
    try:
        done = subprocess.run(
            [sys.executable, "-m", __name__, str(inputs.root.resolve()), str(folder)],
            cwd=folder / "cwd",
            env=_surroundings(folder),
            umask=_other(UMASKS, _umask()),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise SecondAssemblyError(str(folder), found=f"no end in {LIMIT_S} s", said="") from error
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").splitlines()[-_END_LINES:]
        raise SecondAssemblyError(
            str(folder), found=f"exit status {done.returncode}", said="\n".join(said)
        )
    return parse_lock(done.stdout, place="the second assembly")


def _surroundings(folder: Path) -> dict[str, str]:
    """An environment in which everything differs that a build must not depend on."""
    mine = os.environ
    paths = [str(ROOT), *filter(None, [mine.get("PYTHONPATH")])]
    return {
        **mine,
        "PYTHONPATH": os.pathsep.join(paths),
        "PYTHONHASHSEED": _other(SEEDS, mine.get("PYTHONHASHSEED", "")),
        "PYTHONDONTWRITEBYTECODE": "1",
        "TZ": _other(TIME_ZONES, mine.get("TZ", "")),
        "LANG": "tr_TR.UTF-8",  # where i and I are not one letter
        "LC_ALL": "tr_TR.UTF-8",
        "HOME": str(folder / "cwd"),
        "USER": "somebody",
        "SOURCE_DATE_EPOCH": "1",
    }


def _other(values: Sequence[Any], mine: object) -> Any:  # noqa: ANN401 - one of the values
    """The first value that is not the one here."""
    return next(value for value in values if value != mine)


def _umask() -> int:
    """This process's umask, which can only be read by setting it."""
    mine = os.umask(0o022)
    os.umask(mine)
    return mine


def _export(outputs: Outputs, store: BlobStore, folder: Path) -> None:
    """What is ours of an image, under names for people and diffoscope."""
    folder.mkdir(parents=True)
    names = {
        "config.json": outputs.config_digest,
        "manifest.json": outputs.manifest_digest,
        **{f"layer-{n}.tar": layer.digest for n, layer in enumerate(outputs.layers, start=1)},
    }
    for name, digest in names.items():
        shutil.copyfile(store.path(digest), folder / name)


# --- the other process -------------------------------------------------------------------------


def _shuffle_listings() -> None:
    """Every listing of a folder comes in another order from now on, on any file system."""
    listdir, scandir = os.listdir, os.scandir

    def shuffled(items: Iterable[Any]) -> list[Any]:
        mixed = list(items)
        random.shuffle(mixed)
        return mixed

    class Scan:
        def __init__(self, *path: str) -> None:
            with scandir(*path) as found:
                self.items = iter(shuffled(found))

        def __iter__(self) -> Iterator[os.DirEntry[str]]:
            return self.items

        def __enter__(self) -> Self:
            return self

        def __exit__(self, *_: object) -> None:
            self.close()

        def close(self) -> None:
            """Nothing is open."""

    os.listdir = lambda *path: shuffled(listdir(*path))
    os.scandir = Scan  # type: ignore[assignment]


def main(argv: Sequence[str]) -> int:
    """The other process: `INPUTS FOLDER`; 0 and the lock on standard output, or 1 and why not."""
    inputs, folder = BlobStore(Path(argv[0])), Path(argv[1])
    _shuffle_listings()
    try:
        lock = parse_lock((folder / "lockfile.json").read_bytes(), place="lockfile.json")
        made, assembled = remade(lock, inputs)
        keep(assembled, BlobStore(folder / "store"))
    except SparklockError as error:
        print(error, file=sys.stderr)  # noqa: T201 - what a process says
        return 1
    sys.stdout.buffer.write(lock_text(made))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
