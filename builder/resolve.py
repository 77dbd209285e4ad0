"""From what is wanted and where images come from to the lock: what runs, named by digest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from builder.asked import locked_model, locked_nodes
from builder.assembly import assemble_locked, inputs_digest
from builder.editing import patched_paths, read_diffs
from builder.errors import BuildError
from builder.graft.acceptance import ClosureError
from builder.hybrid import Hybrid, ReadImage
from builder.kept_files import kept_files
from builder.lock import FORMATS, Lock
from builder.oci.model import Platform
from builder.oci.select import select_manifest
from builder.oci.whiteout import read_tree
from builder.read.errors import UnpinnedSourceError
from builder.remade import outputs_of
from builder.reuse import NotKeptError, is_same_graft, reusable
from builder.sources import EngineImage

if TYPE_CHECKING:
    from collections.abc import Callable

    from builder.asked import Wanted
    from builder.image_section import Source
    from builder.lock import LockedImage
    from builder.oci.model import Image, Layer
    from builder.oci.select import Selected
    from builder.progress import Progress
    from builder.sources import Blobs, ImageSource


_RESOLVE: Final = "resolve files and tables, check that the image closes"


class Sources(Protocol):
    """Where images come from, by the text of a manifest's `source`."""

    def open(self, source: Source, *, place: str) -> ImageSource:
        """The source; `place` is where the manifest names it, for errors."""


def resolve(
    wanted: Wanted, sources: Sources, blobs: Blobs, progress: Progress, before: Lock | None = None
) -> Lock:
    """The lock of a manifest: every input by digest, and the image that they make.

    Reads base and donors whole, once. Keeps in the store what building needs later: the base's
    manifest and config, picked files, and modules before their edit. The donors are not even asked
    when `before`, the lock there was, has the same base, donors and edits, and `blobs` their files.

    Raises BuildError of many kinds: a source that lacks or breaks what was pinned, a graft or
    table that does not fit, and ClosureError with everything that would fail in a container.
    """
    manifest = wanted.manifest
    image = _image(wanted, sources, blobs, progress, before)
    inputs = inputs_digest(image, FORMATS)
    assembled = assemble_locked(image, inputs, blobs)
    for note in assembled.notes:
        progress.note(note)
    return Lock(
        formats=FORMATS,
        name=manifest.name,
        cluster_digest=wanted.cluster_digest,
        image=image,
        model=locked_model(wanted),
        nodes=locked_nodes(manifest),
        inputs_digest=inputs,
        outputs=outputs_of(assembled),
    )


def _image(
    wanted: Wanted, sources: Sources, blobs: Blobs, progress: Progress, before: Lock | None
) -> LockedImage:
    """The image part of the lock, with or without its donors."""
    manifest = wanted.manifest
    kept = reusable(manifest.image, before, blobs)
    keep = kept_files(manifest, patched_paths(read_diffs(wanted, blobs)))
    first, *others = _choose(wanted, sources, donors=kept is None)
    base = _read(first, keep, blobs, progress)
    _keep_documents(base.selected.image, blobs)
    image, told = (None, None) if kept is None else _as_kept(wanted, base, blobs, progress, kept)
    if image is not None:
        progress.note(f"not read again, since nothing of them moved: {', '.join(_donors(wanted))}")
        return image
    try:
        others = others or _choose(wanted, sources)[1:]
        read = [_read(item, keep, blobs, progress) for item in others]
    except BuildError as error:
        raise told or error from error  # without the donors, no remedy names a file of theirs
    progress.stage(_RESOLVE)
    donors = dict(zip(sorted(manifest.image.donors), read, strict=True))
    return Hybrid(wanted, base, donors, blobs).locked()


def _as_kept(
    wanted: Wanted, base: ReadImage, blobs: Blobs, progress: Progress, kept: LockedImage
) -> tuple[LockedImage | None, ClosureError | None]:
    """The image without its donors, if all that they count for is as before; or why it is open."""
    progress.stage(_RESOLVE)
    try:
        image = Hybrid(wanted, base, {}, blobs, kept).locked()
    except NotKeptError:
        return None, None
    except ClosureError as error:
        return None, error
    return (image if is_same_graft(image, kept) else None), None


@dataclass(frozen=True, slots=True)
class _Chosen:
    """An image of the manifest, found in its source; `name` is `base` or `donors.NAME`."""

    name: str
    source: ImageSource
    selected: Selected


def _donors(wanted: Wanted) -> dict[str, Source]:
    donors = wanted.manifest.image.donors
    return {f"donors.{name}": source for name, source in sorted(donors.items())}


def _choose(wanted: Wanted, sources: Sources, *, donors: bool = True) -> list[_Chosen]:
    """The base, then the donors by name; all pins are looked at before any layer is read."""
    section = wanted.manifest.image
    wanted_ones = {"base": section.base, **(_donors(wanted) if donors else {})}
    found, unpinned = [], []
    for name, source in wanted_ones.items():
        opened = sources.open(source, place=wanted.place(f"image.{name}.source"))
        pin = source.digest
        if isinstance(opened, EngineImage):
            if pin is None:
                unpinned.append((wanted.place(f"image.{name}"), opened.image_id()))
                continue
            pin = None  # it can be a config's: the source itself sees to it, and offers one image
        selected = select_manifest(opened, pin, Platform.parse(section.platform))
        found.append(_Chosen(name, opened, selected))
        if source.digest is None:
            offered = selected.index_digest or selected.image.manifest.descriptor.digest
            unpinned.append((wanted.place(f"image.{name}"), offered))
    if unpinned:
        raise UnpinnedSourceError(tuple(unpinned))
    return found


def _read(
    chosen: _Chosen, keep: Callable[[str], bool], blobs: Blobs, progress: Progress
) -> ReadImage:
    """The whole image; the files that grafting and editing can need are in `blobs` then."""
    layers = chosen.selected.image.layers
    total_bytes = sum(layer.descriptor.size_bytes for layer in layers)
    done_bytes = 0

    def seen(layer: Layer) -> None:
        nonlocal done_bytes
        progress.advance(chosen.name, done_bytes, total_bytes)
        done_bytes += layer.descriptor.size_bytes

    progress.stage(f"read {chosen.name} from {chosen.source.place}")
    tree = read_tree(chosen.source, layers, keep=keep, blobs=blobs, seen=seen)
    progress.advance(chosen.name, total_bytes, total_bytes)
    return ReadImage(chosen.selected, tree)


def _keep_documents(base: Image, blobs: Blobs) -> None:
    blobs.put([base.manifest.raw], expected=base.manifest.descriptor.digest)
    blobs.put([base.config.raw], expected=base.config.digest)
