"""From a lock to the image it describes: reads the lock and the blob store, nothing else."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, TypeVar

from builder.digest import canonical_json, digest_bytes
from builder.graft.tables import edit_table
from builder.lock import LockedEntry, LockedFile, LockedLayer, LockedPick, LockedTable
from builder.oci.assemble import AssembledImage, Assembly, assemble
from builder.oci.select import image_of, parse_config, parse_manifest
from builder.oci.tar import LazyContent, TarEntry, TarKind, file_entry

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Iterator

    from builder.digest import Digest
    from builder.graft.tables import Entries
    from builder.lock import Formats, LockedImage
    from builder.manifest import ConfigChanges
    from builder.oci.model import Image
    from builder.sources import Blobs

F = TypeVar("F", LockedPick, LockedFile)


class LostInputError(AssertionError):
    """The store and the lock disagree although they were compared (as_stored): a bug of ours."""


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


def as_stored(image: LockedImage, blobs: Blobs) -> LockedImage:
    """The record with all values that the blobs it names decide; for those, blobs are believed.

    It is the record itself, unless somebody changed such a value in it by hand. Where a donor's
    file came from, no blob of the store can tell.
    """
    base = base_image(image, blobs)
    return image.model_copy(
        update={
            "base": image.base.model_copy(update={"layers": locked_layers(base)}),
            "picks": tuple(_as_measured(pick, blobs) for pick in image.picks),
            "tables": tuple(
                step
                for _, steps in steps_by_target(image.tables)
                for step, _ in _edits(steps, blobs)
            ),
            "files": tuple(_as_measured(file, blobs) for file in image.files),
            "entrypoint": entrypoint_of(base, image.changes),
            "workdir": workdir_of(base, image.changes),
        }
    )


def _as_measured(item: F, blobs: Blobs) -> F:
    return item.model_copy(update={"size_bytes": len(blobs.read(item.digest))})


def locked_layers(base: Image) -> tuple[LockedLayer, ...]:
    """What a lock says of the base's layers."""
    return tuple(
        LockedLayer(
            digest=layer.descriptor.digest,
            size_bytes=layer.descriptor.size_bytes,
            media_type=layer.descriptor.media_type,
            diff_id=layer.diff_id,
        )
        for layer in base.layers
    )


def entrypoint_of(base: Image, changes: ConfigChanges) -> tuple[str, ...]:
    """The program of every container: the base's own unless it is changed."""
    own = base.config.container.get("Entrypoint")
    return tuple(own or ()) if changes.entrypoint is None else changes.entrypoint


def workdir_of(base: Image, changes: ConfigChanges) -> str:
    """Where every container starts: the base's own folder unless it is changed."""
    return changes.workdir or base.config.container.get("WorkingDir") or "/"


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
    made = list(_edits(steps, blobs))
    if [step for step, _ in made] != steps:
        raise LostInputError(steps[0].target)
    return made[-1][1]


def _edits(steps: list[LockedTable], blobs: Blobs) -> Iterator[tuple[LockedTable, bytes]]:
    """Every edit of one module made again: its record, and the module's bytes after it."""
    data = blobs.read(steps[0].before)
    for step in steps:
        made, data = edit(data, _asked(step), target=step.target, table=step.table, mode=step.mode)
        yield made, data


def _asked(step: LockedTable) -> Entries:
    """The entries of an edit as they were asked for."""
    keyed = {entry.key: entry.value for entry in step.entries if entry.key is not None}
    return keyed or tuple(entry.value for entry in step.entries)


def edit(
    before: bytes, entries: Entries, *, target: str, table: str, mode: str
) -> tuple[LockedTable, bytes]:
    """What a lock says of one edit of a module, and the module's bytes after it.

    `target` is the module's absolute path. Raises what edit_table raises.
    """
    found = edit_table(before, entries, table=table, place=f"image: {target}")
    record = LockedTable(
        target=target,
        table=table,
        mode=mode,
        before=digest_bytes(before),
        after=digest_bytes(found.after),
        entries=tuple(
            LockedEntry(key=entry.key, value=entry.value, state=entry.state)
            for entry in found.entries
        ),
    )
    return record, found.after
