"""Where two assemblies of one image differ first: in a layer's entry, the config, the manifest."""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING, Protocol

from builder.differences import differences
from builder.errors import BuildError
from builder.oci.compare import first_difference
from builder.oci.tar import write_tar

if TYPE_CHECKING:
    from collections.abc import Iterator

    from builder.digest import Digest
    from builder.lock import Outputs
    from builder.oci.assemble import AssembledImage


class Parts(Protocol):
    """The parts of an image that are ours, as a store of blobs or an assembled image gives them."""

    def has(self, digest: Digest) -> bool:
        """Whether the part is here."""

    def read(self, digest: Digest) -> bytes:
        """A document."""

    def chunks(self, digest: Digest) -> Iterator[bytes]:
        """A layer's bytes."""


@dataclass(frozen=True, slots=True)
class Spot:
    """One place in an image, with what stands there in both; `part` is a layer or a document."""

    part: str
    field: str
    before: str
    after: str

    def text(self) -> str:
        """The place in a line."""
        return f"{self.part}: {self.field}"

    def as_json(self) -> dict[str, str]:
        """Place and values as a JSON object."""
        return {
            "part": self.part,
            "field": self.field,
            "before": self.before,
            "after": self.after,
        }


def pinpoint(wanted: Outputs, wanted_parts: Parts, made: Outputs, made_parts: Parts) -> Spot | None:
    """The first place in which an image of the one store differs from that of the other.

    Layers come first, since config and manifest follow from them. None if everything is equal, or
    if a store lacks what would have to be read.
    """
    for number, (old, new) in enumerate(zip_longest(wanted.layers, made.layers), start=1):
        part = f"layer {number} of ours"
        if old is None or new is None:
            return Spot(part, "number of layers", str(len(wanted.layers)), str(len(made.layers)))
        if old.digest != new.digest:
            return _in_layer(part, old.digest, wanted_parts, new.digest, made_parts)
    for part, before, after in (
        ("config", wanted.config_digest, made.config_digest),
        ("manifest", wanted.manifest_digest, made.manifest_digest),
    ):
        if before != after:
            return _in_document(part, before, wanted_parts, after, made_parts)
    return None


def _in_layer(
    part: str, before: Digest, wanted_parts: Parts, after: Digest, made_parts: Parts
) -> Spot | None:
    if not (wanted_parts.has(before) and made_parts.has(after)):
        return None
    try:
        found = first_difference(wanted_parts.chunks(before), made_parts.chunks(after))
    except BuildError:
        return None  # a blob that is damaged says nothing of what it was
    if found is None:
        return Spot(part, "bytes outside of entries", before, after)
    return Spot(part, f"/{found.path}: {found.field}", found.before, found.after)


def _in_document(
    part: str, before: Digest, wanted_parts: Parts, after: Digest, made_parts: Parts
) -> Spot | None:
    if not (wanted_parts.has(before) and made_parts.has(after)):
        return None
    try:
        old, new = (
            json.loads(parts.read(digest))
            for parts, digest in ((wanted_parts, before), (made_parts, after))
        )
    except BuildError:
        return None
    changes = differences(old, new)
    if not changes:
        return Spot(part, "spelling", before, after)
    first = changes[0]
    return Spot(part, first.path, str(first.before), str(first.after))


class AssembledBlobs:
    """What an assembled image has that its base has not, by digest."""

    def __init__(self, assembled: AssembledImage) -> None:
        image = assembled.image
        self._documents = {
            image.config.digest: image.config.raw,
            image.manifest.descriptor.digest: image.manifest.raw,
        }
        self._layers = {own.layer.descriptor.digest: own.entries for own in assembled.own}

    def has(self, digest: Digest) -> bool:
        """Whether it is one of ours."""
        return digest in self._documents or digest in self._layers

    def read(self, digest: Digest) -> bytes:
        """A document."""
        return self._documents[digest]

    def chunks(self, digest: Digest) -> Iterator[bytes]:
        """A layer, written anew."""
        return write_tar(self._layers[digest])
