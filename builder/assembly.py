"""From a lock to the image it describes: reads the lock and the blob store, nothing else."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from builder.digest import canonical_json, digest_bytes
from builder.graft.tables import edit_table
from builder.oci.assemble import AssembledImage, Assembly, assemble
from builder.oci.select import image_of, parse_config, parse_manifest
from builder.oci.tar import LazyContent, TarEntry, TarKind, file_entry

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Iterator

    from builder.digest import Digest
    from builder.lock import Formats, LockedFile, LockedImage, LockedPick, LockedTable
    from builder.oci.model import Image
    from builder.sources import Blobs


class LostInputError(AssertionError):
    """The store and the lock disagree although every blob's digest was checked: a bug of ours."""


def inputs_digest(image: LockedImage, formats: Formats) -> Digest:
    """The digest of all that the image's bytes depend on, and of nothing else.

    Where a file came from is left out, and so is an edit that changes nothing or is followed by
    another: equal content keeps one image, whoever gave it.
    """
    edits = dict(edited_modules(image.tables, {pick.target for pick in image.picks}))
    files = [
        *(
            [pick.target, pick.mode, pick.digest]
            for pick in image.picks
            if pick.target not in edits
        ),
        *([target, steps[0].mode, steps[-1].after] for target, steps in edits.items()),
        *([file.target, file.mode, file.digest] for file in image.files),
    ]
    return digest_bytes(
        canonical_json(
            {
                "formats": formats.model_dump(mode="json"),
                "platform": image.platform,
                "epoch": image.epoch,
                "base": [image.base.manifest_digest, image.base.config_digest],
                "dirs": [item.model_dump(mode="json") for item in image.base.dirs],
                "files": sorted(files),
                "whiteouts": list(image.whiteouts),
                "changes": image.changes.model_dump(mode="json"),
            }
        )
    )


def base_image(image: LockedImage, blobs: Blobs) -> Image:
    """The base as locked, from its raw manifest and config in the store."""
    place = f"base {image.base.manifest_digest}"
    return image_of(
        parse_manifest(blobs.read(image.base.manifest_digest), place=place),
        parse_config(blobs.read(image.base.config_digest), place=place),
        place=place,
    )


def assemble_locked(image: LockedImage, inputs: Digest, blobs: Blobs) -> AssembledImage:
    """The image that the lock describes; `inputs` becomes its label.

    Raises MissingBlobError when the store lacks an input, and what assembling raises.
    """
    entries = (*_directories(image), *_files(image, blobs))
    return assemble(
        Assembly(
            base=base_image(image, blobs),
            epoch=image.epoch,
            entries=entries,
            whiteouts=tuple(path.lstrip("/") for path in image.whiteouts),
            changes=image.changes,
            inputs=inputs,
        )
    )


def _directories(image: LockedImage) -> Iterator[TarEntry]:
    for item in image.base.dirs:
        yield TarEntry(
            path=item.path.lstrip("/"),
            kind=TarKind.DIRECTORY,
            mode=int(item.mode, 8),
            mtime=item.mtime,
            uid=item.uid,
            gid=item.gid,
        )


def _files(image: LockedImage, blobs: Blobs) -> Iterator[TarEntry]:
    edits = dict(edited_modules(image.tables, {pick.target for pick in image.picks}))
    picks = (pick for pick in image.picks if pick.target not in edits)
    written: list[LockedPick | LockedFile] = [*picks, *image.files]
    for item in written:
        content = LazyContent(item.size_bytes, _opener(blobs, item.digest))
        yield _file(image, item.target, item.mode, content)
    for target, steps in edits.items():
        yield _file(image, target, steps[0].mode, edited(steps, blobs))


def edited_modules(
    tables: Iterable[LockedTable], grafted: Container[str]
) -> Iterator[tuple[str, list[LockedTable]]]:
    """The modules that are written with their edits: those that change, and `grafted` ones.

    A grafted module is written in any case, and once.
    """
    for target, steps in steps_by_target(tables):
        if target in grafted or steps[0].before != steps[-1].after:
            yield target, steps


def steps_by_target(tables: Iterable[LockedTable]) -> Iterator[tuple[str, list[LockedTable]]]:
    """Each module's absolute path with its edits in order; the tables are sorted by it."""
    for target, steps in groupby(tables, key=lambda table: table.target):
        yield target, list(steps)


def _opener(blobs: Blobs, digest: Digest) -> Callable[[], Iterator[bytes]]:
    return lambda: blobs.chunks(digest)


def _file(image: LockedImage, target: str, mode: str, content: bytes | LazyContent) -> TarEntry:
    return file_entry(target.lstrip("/"), content, mode=int(mode, 8), mtime=image.epoch)


def edited(steps: list[LockedTable], blobs: Blobs) -> bytes:
    """The bytes of a module after all its table edits, each step checked against the lock."""
    data = blobs.read(steps[0].before)
    for step in steps:
        entries = {entry.key: entry.value for entry in step.entries}
        data = edit_table(data, entries, table=step.table, place=f"image: {step.target}").after
        if digest_bytes(data) != step.after:
            raise LostInputError(step.target)
    return data
