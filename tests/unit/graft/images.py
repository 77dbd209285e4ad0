"""Images in memory: a tree whose files' contents are kept, as a layer reader would keep them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from builder.digest import Digest, digest_bytes
from builder.oci.tree import Entry, ImageTree, Kind

if TYPE_CHECKING:
    from collections.abc import Mapping

LAYER = digest_bytes(b"layer")
SITE = "usr/local/lib/python3.12/dist-packages"


class MemoryImage:
    """An image made file by file; every parent directory is there too."""

    def __init__(self, files: Mapping[str, str | bytes] | None = None) -> None:
        self.entries: dict[str, Entry] = {}
        self.blobs: dict[Digest, bytes] = {}
        for path, data in (files or {}).items():
            self.file(path, data)

    @property
    def tree(self) -> ImageTree:
        return ImageTree(self.entries)

    def file(self, path: str, data: str | bytes = b"", mode: int = 0o644) -> MemoryImage:
        raw = data.encode() if isinstance(data, str) else data
        digest = digest_bytes(raw)
        self.blobs[digest] = raw
        head = raw[:256] if mode & 0o111 else b""
        self._add(path, Kind.FILE, mode, size_bytes=len(raw), content=digest, head=head)
        return self

    def link(self, path: str, target: str) -> MemoryImage:
        self._add(path, Kind.SYMLINK, 0o777, link=target)
        return self

    def directory(self, path: str) -> MemoryImage:
        self._add(path, Kind.DIRECTORY, 0o755)
        return self

    def device(self, path: str) -> MemoryImage:
        self._add(path, Kind.OTHER, 0o644)
        return self

    def read(self, digest: Digest) -> bytes:
        return self.blobs[digest]

    def _add(  # noqa: PLR0913 - the parts of an entry
        self,
        path: str,
        kind: Kind,
        mode: int,
        *,
        size_bytes: int = 0,
        link: str = "",
        content: Digest | None = None,
        head: bytes = b"",
    ) -> None:
        parent = path.rpartition("/")[0]
        if parent and parent not in self.entries:
            self._add(parent, Kind.DIRECTORY, 0o755)
        self.entries[path] = Entry(
            path, kind, mode, 0, 0, 0, size_bytes, LAYER, link, content, head
        )


def python_image(
    files: Mapping[str, str], *, site: str = SITE, version: str = "0.17.1"
) -> MemoryImage:
    """An image with the package vllm; `files` are relative to the package's folder.

    Folders of modules become packages, as setuptools makes them.
    """
    image = MemoryImage({f"{site}/vllm/__init__.py": ""})
    for name, text in files.items():
        image.file(f"{site}/vllm/{name}", text)
        folder = name.rpartition("/")[0]
        while folder:
            if f"{folder}/__init__.py" not in files:
                image.file(f"{site}/vllm/{folder}/__init__.py")
            folder = folder.rpartition("/")[0]
    metadata = f"Metadata-Version: 2.4\nName: vllm\nVersion: {version}\n\nVersion: of the text\n"
    return image.file(f"{site}/vllm-{version}.dist-info/METADATA", metadata)
