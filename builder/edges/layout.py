"""OCI image layouts on disk: read as a source of images, and written."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING

from builder.digest import digest_bytes, hex_of
from builder.edges.disk import UNFINISHED, abandoned, chunks_of, publish, storage_errors, temporary
from builder.oci.documents import IndexDocument, json_object, read_document
from builder.oci.errors import (
    DigestMismatchError,
    MissingBlobError,
    MissingLayoutError,
    NotALayoutError,
    TruncatedBlobError,
)
from builder.oci.image_errors import MalformedDocumentError
from builder.oci.layout import INDEX, MARKER, REF_NAME, VERSION, index_text, marker_text
from builder.oci.select import MAX_DOCUMENT_BYTES
from builder.oci.stream import checked

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from builder.digest import Digest
    from builder.oci.model import Descriptor, Image
    from builder.sources import OpenBlob


class LayoutSource:
    """A folder in the OCI image layout; a builder.sources.ImageSource."""

    def __init__(self, root: Path) -> None:
        self._root = root

    @property
    def place(self) -> str:
        """The source as an error names it: `oci:DIR`."""
        return f"oci:{self._root}"

    def path(self, digest: Digest) -> Path:
        """Where a blob stands, or would stand."""
        return self._root / "blobs" / "sha256" / hex_of(digest)

    def roots(self) -> tuple[Descriptor, ...]:
        """The descriptors in index.json, sorted by digest; MissingLayoutError if it is none."""
        self._require_layout()
        return roots_in(self._small_file(INDEX), place=f"{self.place}/{INDEX}")

    def document(self, digest: Digest, *, media_type: str) -> bytes:
        """The raw bytes of a manifest, index or config, checked against the digest."""
        path = self._blob_path(digest)
        place = f"{self.place}: {digest}"
        raw = _document_bytes(path, place=place, wanted=media_type)
        if digest_bytes(raw) != digest:
            raise DigestMismatchError(place, expected=digest, found=digest_bytes(raw))
        return raw

    @contextmanager
    def open_blob(self, descriptor: Descriptor) -> Iterator[Iterator[bytes]]:
        """The stored bytes of a blob in chunks of at most 1 MiB.

        Raises MissingBlobError, or TruncatedBlobError at once when the file is too short.
        """
        path = self._blob_path(descriptor.digest)
        with storage_errors(str(path), "read a blob"):
            file = path.open("rb")
        with file:
            size_bytes = os.fstat(file.fileno()).st_size
            if size_bytes < descriptor.size_bytes:
                raise TruncatedBlobError(
                    self.place,
                    descriptor.digest,
                    expected_bytes=descriptor.size_bytes,
                    found_bytes=size_bytes,
                )
            yield _chunks(path, file)

    def _require_layout(self) -> None:
        for name in (MARKER, INDEX):
            if not self._has(self._root / name):
                raise MissingLayoutError(self.place, missing=name)
        require_marker(self._small_file(MARKER), place=f"{self.place}/{MARKER}")

    def _small_file(self, name: str) -> bytes:
        return _document_bytes(
            self._root / name, place=f"{self.place}/{name}", wanted="a file of an OCI layout"
        )

    def _blob_path(self, digest: Digest) -> Path:
        self._require_layout()
        path = self.path(digest)
        if not self._has(path):
            raise MissingBlobError(self.place, digest)
        return path

    def _has(self, path: Path) -> bool:
        with storage_errors(self.place, "look into an OCI layout"):  # it may be another user's
            return path.is_file()


def _document_bytes(path: Path, *, place: str, wanted: str) -> bytes:
    """The bytes of a document; MalformedDocumentError if they are too many."""
    with storage_errors(str(path), "read a file of an OCI layout"), path.open("rb") as file:
        raw = file.read(MAX_DOCUMENT_BYTES + 1)
        size_bytes = os.fstat(file.fileno()).st_size
    if len(raw) > MAX_DOCUMENT_BYTES:
        problem = f"{size_bytes} bytes, and {MAX_DOCUMENT_BYTES} are the most"
        raise MalformedDocumentError(place, wanted=wanted, problems=(problem,))
    return raw


def roots_in(raw: bytes, *, place: str) -> tuple[Descriptor, ...]:
    """The descriptors in a layout's index.json, sorted by digest; MalformedDocumentError."""
    index = read_document(IndexDocument, raw, place=place, wanted="the index of an OCI layout")
    found = {item.descriptor for item in index.manifests}
    return tuple(sorted(found, key=lambda item: item.digest))


def require_marker(raw: bytes, *, place: str) -> None:
    """Nothing, if the bytes mark a layout that we read; MalformedDocumentError otherwise."""
    wanted = "the marker of an OCI layout"
    marker = json_object(raw, place=place, wanted=wanted)
    if marker.get("imageLayoutVersion") != VERSION:
        problem = f"imageLayoutVersion: expected {VERSION!r}, found {marker!r}"
        raise MalformedDocumentError(place, wanted=wanted, problems=(problem,))


def write_layout(
    directory: Path, image: Image, open_blob: OpenBlob, *, name: str | None = None
) -> None:
    """Write an OCI layout that holds one image and nothing else.

    Layer bytes come from `open_blob` and are checked. index.json is replaced last, in one step;
    what the layout held before is removed after that. `name` becomes the image's ref.name.
    Raises NotALayoutError when the folder holds something else.
    """
    refuse_other_folder(directory)
    blobs = directory / "blobs" / "sha256"
    with storage_errors(str(directory), "write an OCI layout"):
        directory.mkdir(parents=True, exist_ok=True)
        _write(directory / MARKER, [marker_text()])
        blobs.mkdir(parents=True, exist_ok=True)  # after the marker, by which the folder is ours
        kept = {
            _write_blob(blobs, image.manifest.descriptor.digest, [image.manifest.raw]),
            _write_blob(blobs, image.config.digest, [image.config.raw]),
        }
        for layer in image.layers:
            descriptor = layer.descriptor
            with open_blob(descriptor) as chunks:
                place = f"{directory}: {descriptor.digest}"
                whole = checked(chunks, descriptor, place=place)
                kept.add(_write_blob(blobs, descriptor.digest, whole))
        _write(directory / INDEX, [index_text(image, {REF_NAME: name} if name else {})])
        old = (path for path in blobs.iterdir() if not path.name.startswith(UNFINISHED))
        left = (*abandoned(blobs, prefix=UNFINISHED), *abandoned(directory, prefix=UNFINISHED))
        for path in {*old, *left} - kept:
            path.unlink(missing_ok=True)


def refuse_other_folder(directory: Path) -> None:
    """Nothing, if a layout may be written to a folder; NotALayoutError otherwise."""
    if not directory.exists():
        return
    if not directory.is_dir():
        raise NotALayoutError(str(directory), found="a file")
    names = [path.name for path in sorted(directory.iterdir())]
    names = [name for name in names if not name.startswith(UNFINISHED)]
    if names and MARKER not in names:
        raise NotALayoutError(str(directory), found=f"a folder with {names[0]} and so on")


def _write_blob(blobs: Path, digest: Digest, chunks: Iterable[bytes]) -> Path:
    path = blobs / hex_of(digest)
    _write(path, chunks)
    return path


def _write(path: Path, chunks: Iterable[bytes]) -> None:
    """Write a file that appears under its name with all its bytes or not at all."""
    with temporary(path.parent, prefix=UNFINISHED) as file:
        for chunk in chunks:
            file.write(chunk)
        publish(file, path, mode=0o644)


def _chunks(path: Path, file: IO[bytes]) -> Iterator[bytes]:
    with storage_errors(str(path), "read a blob"):
        yield from chunks_of(file)
