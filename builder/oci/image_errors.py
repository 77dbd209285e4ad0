"""What can be wrong with an image as a whole: its documents, and what we would make of it."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, ClassVar

from builder.errors import BuildError, Message
from builder.oci.errors import PIN_ANOTHER

if TYPE_CHECKING:
    from builder.digest import Digest


@dataclass(eq=False)
class MalformedDocumentError(BuildError):
    """A manifest, index, config or layout file is not what it should be."""

    place: str
    _: KW_ONLY
    wanted: str
    problems: tuple[str, ...]

    @property
    def messages(self) -> tuple[Message, ...]:
        """All problems of the document."""
        return (
            Message(
                place=self.place,
                what=f"not {self.wanted}",
                detail="\n".join(self.problems),
                remedy="check source and digest: do they name a container image? inv pin writes "
                "the digest that the source has; an image ID is for docker:NAME alone",
            ),
        )


@dataclass(eq=False)
class UnusableTimeError(BuildError):
    """The base's own time cannot be the time of what we add; `found` is its `created`."""

    place: str
    _: KW_ONLY
    found: str

    template = Message(
        place="{place}",
        what="the image has no time of its own for the files we add",
        expected="`created` in its config: RFC 3339, from 1970 on",
        found="{found}",
        remedy="add `epoch = SECONDS` under [image], such as that of `git log -1 --format=%ct`",
    )


@dataclass(eq=False)
class PinNotFoundError(BuildError):
    """The source has nothing of the pinned digest."""

    place: str
    _: KW_ONLY
    pin: Digest
    offered: tuple[str, ...]

    @property
    def messages(self) -> tuple[Message, ...]:
        """The pin and what there is."""
        return (
            Message(
                place=self.place,
                what="the pinned image is not here",
                expected=self.pin,
                found=", ".join(self.offered) or "nothing",
                remedy="restore the image, or pin the one that is found if you want that",
            ),
        )


@dataclass(eq=False)
class AmbiguousRootError(BuildError):
    """A source without a pin offers not exactly one image."""

    place: str
    _: KW_ONLY
    offered: tuple[str, ...]

    @property
    def messages(self) -> tuple[Message, ...]:
        """What there is."""
        return (
            Message(
                place=self.place,
                what="the source does not offer exactly one image",
                expected="one, or a digest that says which",
                found=", ".join(self.offered) or "none",
                remedy="add `digest = ...` beside `source`",
            ),
        )


@dataclass(eq=False)
class PlatformNotFoundError(BuildError):
    """An index has not exactly one image of the platform."""

    place: str
    _: KW_ONLY
    wanted: str
    found: tuple[str, ...]
    matches: int

    @property
    def messages(self) -> tuple[Message, ...]:
        """The platform and those the index has."""
        return (
            Message(
                place=self.place,
                what="no image of the platform"
                if not self.matches
                else f"{self.matches} images of the platform",
                expected=f"exactly one of {self.wanted}",
                found=", ".join(self.found) or "no platform at all",
                remedy="pin another index, or one platform's manifest; "
                "or correct `platform` in cluster.toml",
            ),
        )


@dataclass(eq=False)
class ConfigPlatformError(BuildError):
    """An image's config is of another platform than wanted."""

    place: str
    _: KW_ONLY
    wanted: str
    found: str

    @property
    def messages(self) -> tuple[Message, ...]:
        """Both platforms."""
        return (
            Message(
                place=self.place,
                what="the image's own config is of another platform",
                expected=self.wanted,
                found=self.found or "none stated",
                remedy="pin an image of the platform, or correct `platform` in cluster.toml",
            ),
        )


@dataclass(eq=False)
class LayerCountError(BuildError):
    """Manifest and config list different numbers of layers."""

    place: str
    _: KW_ONLY
    layers: int
    diff_ids: int

    template = Message(
        place="{place}",
        what="manifest and config do not belong together",
        expected="{layers} diff_ids in the config, one per layer of the manifest",
        found="{diff_ids} diff_ids",
        remedy=PIN_ANOTHER,
    )


@dataclass(eq=False)
class ForeignLayerError(BuildError):
    """A layer may not be distributed, so the image cannot be rebuilt from what we hold."""

    place: str
    _: KW_ONLY
    media_type: str

    template = Message(
        place="{place}",
        what="a foreign layer, which lies outside the image",
        found="{media_type}",
        remedy="choose an image without foreign layers",
    )


@dataclass(eq=False)
class UnsupportedMediaTypeError(BuildError):
    """A document or layer is of a type that is no container image's."""

    place: str
    _: KW_ONLY
    media_type: str
    expected: str

    template = Message(
        place="{place}",
        what="unsupported media type",
        expected="{expected}",
        found="{media_type!r}",
        remedy="check that source and digest name a container image",
    )


@dataclass(eq=False)
class EntryError(BuildError):
    """An entry of a layer of ours cannot be written; `path` is relative to the image's root."""

    what: ClassVar[str]
    remedy: ClassVar[str]

    path: str
    reason: str = ""

    template = Message(
        place="image path /{path}", what="{what}", found="{reason}", remedy="{remedy}"
    )


@dataclass(eq=False)
class DuplicateEntryError(EntryError):
    """Two entries of the layer have the same path."""

    what = "the image would get this path twice"
    remedy = "remove one of the grafts, patches, tables, plugins or files that write it"


@dataclass(eq=False)
class MissingParentError(EntryError):
    """An entry's directory is not an entry of the layer."""

    what = "the directory above this path is not in the layer"
    remedy = "if the lock was edited, write it again: inv lock"


@dataclass(eq=False)
class UnwritableEntryError(EntryError):
    """An attribute of the entry does not fit the layer format."""

    what = "the layer format cannot hold this entry"
    remedy = "choose another path or another base image"


@dataclass(eq=False)
class ContentSizeError(EntryError):
    """A file's bytes are not as many as its entry says."""

    what = "the file changed while it was read"
    remedy = "run it again"


@dataclass(eq=False)
class TargetIsDirectoryError(EntryError):
    """A file would replace a directory of the base."""

    what = "a file would replace a directory of the base image"
    remedy = "choose another target"


@dataclass(eq=False)
class ParentIsFileError(EntryError):
    """A file would be put below something of the base that is no directory."""

    what = "a file would be put below something that is no directory in the base image"
    remedy = "choose another target"


@dataclass(eq=False)
class TargetLoopError(EntryError):
    """The symlinks of the base on the way to a path lead nowhere."""

    what = "the base image's symlinks on the way to this path form a loop"
    remedy = "choose another target"


@dataclass(eq=False)
class TooManyLayersError(BuildError):
    """The image has, or would have, more layers than engines can run."""

    place: str
    _: KW_ONLY
    layers: int
    limit: int

    template = Message(
        place="{place}",
        what="too many layers",
        expected="at most {limit}; engines stop at 125",
        found="{layers}",
        remedy="choose a base with fewer layers, or squash it",
    )


@dataclass(eq=False)
class DiffIdClashError(BuildError):
    """Our layer equals one of the base under another digest, which confuses engines."""

    place: str
    _: KW_ONLY
    diff_id: Digest
    base_digest: Digest

    template = Message(
        place="{place}",
        what="our layer is already one of the base's, there under another digest",
        expected="a layer that the base has not; ours is {diff_id}",
        found="the base's layer {base_digest}",
        remedy="the base already has these changes: pin its own base instead",
    )


@dataclass(eq=False)
class UncanonicalConfigError(BuildError):
    """The base's config holds a value that has no one spelling."""

    place: str
    _: KW_ONLY
    reason: str

    template = Message(
        place="{place}",
        what="the base image's config cannot be carried over",
        found="{reason}",
        remedy=PIN_ANOTHER,
    )
