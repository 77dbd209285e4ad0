"""What need not be read again, since a lock has it: donors, and the list of a model's files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from builder.assembly import inputs_digest
from builder.errors import BuildError
from builder.graft.pick import Pick
from builder.lock import FORMATS
from builder.oci.tree import HEAD_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable

    from builder.digest import Digest
    from builder.image_section import Graft, ImageSection, Source
    from builder.lock import (
        Lock,
        LockedBase,
        LockedDonor,
        LockedImage,
        LockedModel,
        LockedPick,
    )
    from builder.manifest import ModelSection
    from builder.sources import Blobs


class NotKeptError(Exception):
    """A file is asked for that the lock does not have: the donors have to be read."""


def reusable(section: ImageSection, before: Lock | None, blobs: Blobs) -> LockedImage | None:
    """The image of a lock of the same base and donors, whose picks are in the store; else None.

    A lock that does not fit its own digest of the inputs was changed by hand: it tells nothing.
    Without the donors nobody could tell whether there is a finding that is newly accepted, or newly
    not: those are the same, too.
    """
    if before is None or before.formats != FORMATS or not section.donors:
        return None
    image = before.image
    if inputs_digest(image, before.formats) != before.inputs_digest:
        return None
    names = {donor.name for donor in image.donors}
    if image.platform != section.platform or names != section.donors.keys():
        return None
    if {item.finding for item in image.accepted} != {item.finding for item in section.accepts}:
        return None
    same = _is_pinned(image.base, section.base) and all(
        _is_pinned(donor, section.donors[donor.name]) for donor in image.donors
    )
    return image if same and all(_is_at_hand(pick.digest, blobs) for pick in image.picks) else None


def _is_pinned(found: LockedBase | LockedDonor, source: Source) -> bool:
    """Whether reading a source again would say the same of it: its pin is where reading began."""
    pins = [found.index_digest or found.manifest_digest]
    if source.of_engine:  # a graph driver's ID is the config's; reading begins at the top by it
        pins.append(found.config_digest)
    return found.asked == source.source and source.digest in pins


def kept_picks(
    grafts: tuple[Graft, ...],
    image: LockedImage,
    blobs: Blobs,
    target_of: Callable[[Graft, str], str],
) -> tuple[Pick, ...]:
    """The picks of grafts as a lock has them; NotKeptError if it lacks one, or has one more.

    `blobs` has their files; `target_of` gives the tree path where a graft's file goes.
    """
    known = {(pick.donor, pick.target): pick for pick in image.picks}
    found = []
    for graft in grafts:
        for file in graft.files:
            target = target_of(graft, file)
            record = known.pop((graft.donor, f"/{target}"), None)
            if record is None or not record.source.endswith(f"/{file}"):
                raise NotKeptError
            found.append(_pick(record, graft, target, blobs))
    if known:
        raise NotKeptError
    return tuple(sorted(found, key=lambda item: item.target))


def is_same_graft(image: LockedImage, before: LockedImage) -> bool:
    """Whether two images differ at most in what has nothing to do with donors.

    What the donors have counts for the verdict on everything that is grafted, edited or added; it
    stands as long as all of that is the same.
    """
    free = ("epoch", "changes", "entrypoint", "workdir", "vllm_version", "accepted")
    update: dict[str, object] = {name: getattr(before, name) for name in free}
    update["base"] = image.base.model_copy(update={"dirs": before.base.dirs})
    return image.model_copy(update=update) == before


def is_same_model(section: ModelSection, before: LockedModel) -> bool:
    """Whether a lock has the files of just this model of the Hub: a commit never changes."""
    asked = (section.repo, section.revision, section.include, section.exclude)
    found = (before.repo, before.revision, before.include, before.exclude)
    return asked == found and bool(before.files)


def _is_at_hand(digest: Digest, blobs: Blobs) -> bool:
    try:
        blobs.read(digest)
    except BuildError:
        return False
    return True


def _pick(record: LockedPick, graft: Graft, target: str, blobs: Blobs) -> Pick:
    mode = int(record.mode, 8)
    return Pick(
        donor=record.donor,
        package=graft.package,
        source=record.source.lstrip("/"),
        target=target,
        layer=record.layer,
        size_bytes=record.size_bytes,
        mode=mode,
        content=record.digest,
        head=blobs.read(record.digest)[:HEAD_BYTES] if mode & 0o111 else b"",
    )
