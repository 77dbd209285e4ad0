"""Where a built image is written to: an OCI layout in a folder, or one archive in a file."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final

from builder.edges.disk import storage_errors, write_whole
from builder.edges.layout import refuse_other_folder, write_layout
from builder.oci.dual import DualArchive
from builder.options import OptionError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from builder.oci.model import Descriptor, Image
    from builder.progress import Progress
    from builder.sources import OpenBlob

ARCHIVE_SUFFIX: Final = ".tar"
_OTHER_SUFFIXES: Final = frozenset({".gz", ".tgz", ".zst", ".bz2", ".xz", ".zip", ".oci"})
_EXPECTED: Final = f"FILE{ARCHIVE_SUFFIX} for an archive, or a folder for an OCI layout"


class OutputKind(Enum):
    """What is written; the value is how a report names it."""

    LAYOUT = "OCI layout"
    ARCHIVE = "archive of an OCI layout, which docker load takes too"


@dataclass(frozen=True, slots=True)
class Output:
    """A place on disk, and what it gets."""

    path: Path
    kind: OutputKind


def output_at(path: Path) -> Output:
    """What a path is to get: a folder a layout, a name that ends in `.tar` an archive.

    A name that is not there yet and has no ending of an archive becomes a folder. Raises
    OptionError where name and what is there disagree, so that nothing is overwritten by mistake,
    NotALayoutError for a folder with something else in it, and StorageError.
    """
    named_archive = path.suffix.lower() == ARCHIVE_SUFFIX
    with storage_errors(str(path), "see what is there"):
        if path.is_dir():
            if named_archive:
                raise _unclear(path, f"a folder whose name ends in {path.suffix}")
            refuse_other_folder(path)
            return Output(path, OutputKind.LAYOUT)
        if path.exists() and not (named_archive and path.is_file()):
            raise _unclear(path, "a file, and none of ours by its name")
    if path.suffix.lower() in _OTHER_SUFFIXES:
        raise _unclear(path, f"the ending {path.suffix}, and only plain archives are written")
    return Output(path, OutputKind.ARCHIVE if named_archive else OutputKind.LAYOUT)


def _unclear(path: Path, found: str) -> OptionError:
    return OptionError(f"--output {path}", _EXPECTED, found)


def write_output(
    output: Output, image: Image, open_blob: OpenBlob, *, name: str, progress: Progress
) -> None:
    """Write the image, whole or not at all; `name` is the tag that an engine gives an archive.

    Raises what opening and checking layers raises, and StorageError.
    """
    progress.stage(f"write {output.path}")
    told = _told(image, open_blob, progress)
    if output.kind is OutputKind.LAYOUT:
        write_layout(output.path, image, told)
        return
    archive = DualArchive(image, told, name)
    with storage_errors(str(output.path), "write an archive"):
        output.path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(output.path, archive.chunks())


def _told(image: Image, open_blob: OpenBlob, progress: Progress) -> OpenBlob:
    """The same blobs, their bytes told as they pass."""
    layers = {layer.descriptor for layer in image.layers}
    total_bytes = sum(descriptor.size_bytes for descriptor in layers)
    done_bytes = 0

    @contextmanager
    def opened(descriptor: Descriptor) -> Iterator[Iterator[bytes]]:
        with open_blob(descriptor) as chunks:
            yield counted(chunks)

    def counted(chunks: Iterator[bytes]) -> Iterator[bytes]:
        nonlocal done_bytes
        for chunk in chunks:
            done_bytes += len(chunk)
            progress.advance("layers", min(done_bytes, total_bytes), total_bytes)
            yield chunk

    return opened
