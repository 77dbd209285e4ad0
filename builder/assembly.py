"""From a lock to the image it describes: reads the lock and the blob store, nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from builder.digest import canonical_json, digest_bytes
from builder.edits import changed_files, edited, remade
from builder.lock import LockedFile, LockedLayer, LockedPick, LockedPlugin
from builder.oci.assemble import AssembledImage, Assembly, assemble
from builder.oci.select import image_of, parse_config, parse_manifest
from builder.oci.tar import LazyContent, TarEntry, TarKind, file_entry
from builder.plugins import MADE_MODE, plugin_remade

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from builder.digest import Digest
    from builder.image_section import ConfigChanges
    from builder.lock import Formats, LockedImage
    from builder.oci.model import Image
    from builder.sources import Blobs

F = TypeVar("F", LockedPick, LockedFile)


def inputs_digest(image: LockedImage, formats: Formats) -> Digest:
    """The digest of all that the image's bytes depend on, and of nothing else.

    Where a file came from is left out, and so is an edit that changes nothing or is followed by
    another: equal content keeps one image, whoever gave it.
    """
    edits = changed_files(image)
    files = [
        *(
            [pick.target, pick.mode, pick.digest]
            for pick in image.picks
            if pick.target not in edits
        ),
        *(
            [target, steps[-1].mode, steps[-1].after]
            for target, steps in edits.items()
            if steps[-1].after is not None
        ),
        *([file.target, file.mode, file.digest] for file in image.files),
        *(
            [file.target, file.mode, file.digest]
            for plugin in image.plugins
            for file in plugin.written
        ),
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
    patches, tables = remade(image.edits, blobs)
    return image.model_copy(
        update={
            "base": image.base.model_copy(update={"layers": locked_layers(base)}),
            "picks": tuple(_as_measured(pick, blobs) for pick in image.picks),
            "patches": patches,
            "tables": tables,
            "plugins": tuple(_plugin_as_measured(plugin, blobs) for plugin in image.plugins),
            "files": tuple(_as_measured(file, blobs) for file in image.files),
            "entrypoint": entrypoint_of(base, image.changes),
            "workdir": workdir_of(base, image.changes),
        }
    )


def _as_measured(item: F, blobs: Blobs) -> F:
    return item.model_copy(update={"size_bytes": sum(map(len, blobs.chunks(item.digest)))})


def _plugin_as_measured(plugin: LockedPlugin, blobs: Blobs) -> LockedPlugin:
    files = tuple(_as_measured(file, blobs) for file in plugin.files)
    return plugin_remade(plugin.model_copy(update={"files": files}))[0]


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
    edits = changed_files(image)
    picks = (pick for pick in image.picks if pick.target not in edits)
    own = (file for plugin in image.plugins for file in plugin.files)
    written: list[LockedPick | LockedFile] = [*picks, *image.files, *own]
    for item in written:
        content = LazyContent(item.size_bytes, _opener(blobs, item.digest))
        yield _file(image, item.target, item.mode, content)
    for target, steps in edits.items():
        data = edited(steps, blobs)
        if data is not None:
            yield _file(image, target, steps[-1].mode, data)
    for plugin in image.plugins:
        made = plugin_remade(plugin)[1]
        for target, data in made.items():
            yield _file(image, target, MADE_MODE, data)


def _opener(blobs: Blobs, digest: Digest) -> Callable[[], Iterator[bytes]]:
    return lambda: blobs.chunks(digest)


def _file(image: LockedImage, target: str, mode: str, content: bytes | LazyContent) -> TarEntry:
    return file_entry(target.lstrip("/"), content, mode=int(mode, 8), mtime=image.epoch)
