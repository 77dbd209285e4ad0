"""The released vLLM package, as an image that has nothing else: from wheels, never installed."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from builder.digest import digest_bytes
from builder.oci.tree import Entry, ImageTree, Kind

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from builder.digest import Digest

WHEELS: Final = {
    "0.14.0": "sha256:9362cadde2cd1329a0c4a0ea9eace233d79576b3d6f5648b854922b2a2554a01",
    "0.17.0": "sha256:0296670a09d392ee43455d9bebf590d05a9bc2ebce5e25e2919222fc815158da",
}
"""The wheels for x86_64; the Python sources in those for aarch64 are the same."""

CACHE: Final = ".sparklock/cache/vllm-wheels"
"""Where what was unpacked stays, relative to the repository."""

SITE: Final = "usr/local/lib/python3.12/dist-packages"
_LAYER: Final = digest_bytes(b"a wheel")


@dataclass(frozen=True, slots=True)
class Unpacked:
    """The sources of one version in a folder."""

    folder: Path

    def image(self, keep: Callable[[bytes], Digest]) -> ImageTree:
        """An image with the package and its metadata; `keep` stores a file's bytes."""
        entries: dict[str, Entry] = {}
        for path in sorted(self.folder.rglob("*")):
            place = f"{SITE}/{path.relative_to(self.folder)}"
            if path.is_dir():
                entries[place] = Entry(place, Kind.DIRECTORY, 0o755, 0, 0, 0, 0, _LAYER)
            else:
                data = path.read_bytes()
                entries[place] = Entry(
                    place, Kind.FILE, 0o644, 0, 0, 0, len(data), _LAYER, content=keep(data)
                )
        parts = SITE.split("/")
        for depth in range(1, len(parts) + 1):
            place = "/".join(parts[:depth])
            entries[place] = Entry(place, Kind.DIRECTORY, 0o755, 0, 0, 0, 0, _LAYER)
        return ImageTree(entries)


def unpacked(root: Path, version: str) -> Unpacked | None:
    """The sources of a version, if they were unpacked on this machine before."""
    folder = root / CACHE / version
    return Unpacked(folder) if folder.is_dir() else None


def unpack(root: Path, version: str, announce: Callable[[str], None]) -> Unpacked:
    """The sources of a version; the first time its wheel is downloaded, about 450 MB.

    The wheel is known by its hash, and is removed again.
    """
    found = unpacked(root, version)
    if found is not None:
        return found
    cache = root / CACHE
    folder = cache / f"{version}.wheel"
    folder.mkdir(parents=True, exist_ok=True)
    announce(f"downloading the wheel of vllm {version}, about 450 MB, into {cache}")
    asked = folder / "requirements.txt"
    asked.write_text(f"vllm=={version} --hash={WHEELS[version]}\n")
    platform = ("--platform", "manylinux_2_31_x86_64", "--python-version", "3.12")
    pip = (sys.executable, "-m", "pip", "download", "--quiet")
    only = ("--no-deps", "--only-binary", ":all:", "--require-hashes", "--no-cache-dir")
    subprocess.run(
        (*pip, *only, *platform, "--dest", str(folder), "--requirement", str(asked)),
        check=True,
    )
    (wheel,) = folder.glob("*.whl")
    made = folder / "unpacked"
    with zipfile.ZipFile(wheel) as archive:
        wanted = [
            name
            for name in archive.namelist()
            if name.endswith(".py") or (".dist-info/" in name and not name.endswith("/"))
        ]
        archive.extractall(made, wanted)
    made.rename(cache / version)
    wheel.unlink()
    asked.unlink()
    folder.rmdir()
    return Unpacked(cache / version)
