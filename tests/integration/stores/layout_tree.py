"""What an image should hold, read by the standard library alone: none of our own readers is asked.

Also the program that lists the same inside a container. Both give for every path a list of
type, mode, owner, group, modification time, and the SHA-256 of a file or the target of a link.
"""

from __future__ import annotations

import hashlib
import json
import tarfile
from pathlib import Path, PurePosixPath
from typing import Any, Final

Listing = dict[str, list[Any]]

KINDS: Final = {tarfile.DIRTYPE: "dir", tarfile.REGTYPE: "file", tarfile.SYMTYPE: "link"}
WHITEOUT: Final = ".wh."

LIST_PROGRAM: Final = """\
import hashlib, json, os, stat, sys
kinds = {stat.S_IFDIR: "dir", stat.S_IFREG: "file", stat.S_IFLNK: "link"}
left_out, found = sys.argv[1:], {}
def look(folder):
    for name in os.listdir(folder):
        path = os.path.join(folder, name)
        if path in left_out:
            continue
        info = os.lstat(path)
        kind = kinds.get(stat.S_IFMT(info.st_mode), "other")
        content = os.readlink(path) if kind == "link" else ""
        if kind == "file":
            with open(path, "rb") as file:
                content = hashlib.sha256(file.read()).hexdigest()
        mode, times = stat.S_IMODE(info.st_mode), int(info.st_mtime)
        found[path] = [kind, mode, info.st_uid, info.st_gid, times, content]
        if kind == "dir":
            look(path)
look("/")
print(json.dumps(found))
"""


def listing_of_layout(folder: Path) -> Listing:
    """Every path of the one image in an OCI layout whose layers are plain tar files."""
    found: Listing = {}
    (entry,) = json.loads((folder / "index.json").read_bytes())["manifests"]
    manifest = json.loads(_blob(folder, entry["digest"]).read_bytes())
    for layer in manifest["layers"]:
        with tarfile.open(_blob(folder, layer["digest"]), "r:") as archive:
            for member in archive:
                _apply(found, archive, member)
    return found


def _blob(folder: Path, digest: str) -> Path:
    return folder / "blobs" / digest.replace(":", "/")


def _apply(found: Listing, archive: tarfile.TarFile, member: tarfile.TarInfo) -> None:
    path = PurePosixPath("/", member.name)
    if path.name.startswith(WHITEOUT):
        assert not path.name.startswith(WHITEOUT * 2), "opaque folders are not expected here"
        _remove(found, path.with_name(path.name.removeprefix(WHITEOUT)))
        return
    kind = KINDS[member.type]
    if kind != "dir":
        _remove(found, path)
    content = member.linkname
    if kind == "file":
        file = archive.extractfile(member)
        assert file is not None
        content = hashlib.sha256(file.read()).hexdigest()
    found[str(path)] = [
        kind, member.mode, member.uid, member.gid, int(member.mtime), content,
    ]  # fmt: skip


def _remove(found: Listing, path: PurePosixPath) -> None:
    for other in [name for name in found if PurePosixPath(name).is_relative_to(path)]:
        del found[other]
