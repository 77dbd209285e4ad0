"""What can be wrong with blobs, layers, documents and images; see builder/errors.py."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from builder.errors import BuildError, Message

if TYPE_CHECKING:
    from builder.digest import Digest

_FETCH_AGAIN = "get the image again: these bytes are damaged or incomplete"
_PIN_ANOTHER = "choose another image, or rebuild this one with a current tool"


class BlobError(BuildError):
    """The bytes of one blob are missing or not what their name says."""

    def __init__(self, place: str, digest: Digest) -> None:
        super().__init__(place, digest)
        self.place = place
        self.digest = digest


class MissingBlobError(BlobError):
    """The place has no blob of this digest."""

    @property
    def messages(self) -> tuple[Message, ...]:
        """Which blob, where."""
        return (
            Message(
                place=self.place,
                what="a blob is missing",
                expected=self.digest,
                found="no such blob",
                remedy="complete the source, or run `inv lock` where it can be reached",
            ),
        )


class _SizeError(BlobError):
    what: str

    def __init__(
        self, place: str, digest: Digest, *, expected_bytes: int, found_bytes: int
    ) -> None:
        super().__init__(place, digest)
        self.expected_bytes = expected_bytes
        self.found_bytes = found_bytes

    @property
    def messages(self) -> tuple[Message, ...]:
        """Both sizes."""
        return (
            Message(
                place=f"{self.place}: {self.digest}",
                what=self.what,
                expected=f"{self.expected_bytes} bytes",
                found=f"{self.found_bytes} bytes",
                remedy=_FETCH_AGAIN,
            ),
        )


class TruncatedBlobError(_SizeError):
    """A blob ends before its size."""

    what = "a blob is cut short"


class SizeMismatchError(_SizeError):
    """A blob has more bytes than its descriptor says; `found_bytes` may be a lower bound."""

    what = "a blob is longer than its descriptor says"


class DigestMismatchError(BuildError):
    """Bytes do not have the digest they are named by."""

    def __init__(self, place: str, *, expected: Digest, found: Digest) -> None:
        super().__init__(place, expected, found)
        self.place = place
        self.expected = expected
        self.found = found

    @property
    def messages(self) -> tuple[Message, ...]:
        """Both digests."""
        return (
            Message(
                place=self.place,
                what="the bytes do not have the digest they are named by",
                expected=self.expected,
                found=self.found,
                remedy=_FETCH_AGAIN,
            ),
        )


class DamagedBlobError(DigestMismatchError):
    """A blob of our own store was changed; `place` is its file."""

    @property
    def messages(self) -> tuple[Message, ...]:
        """As of any mismatch, with the way to be rid of the file."""
        return tuple(
            replace(message, remedy=f"rm -f {self.place}, then run `inv lock`")
            for message in super().messages
        )


class LayerError(BuildError):
    """A layer cannot be used; `digest` names its stored blob."""

    def __init__(self, digest: Digest) -> None:
        super().__init__(digest)
        self.digest = digest

    @property
    def place(self) -> str:
        """The layer as a message names it."""
        return f"layer {self.digest}"


class DiffIdMismatchError(LayerError):
    """A layer, uncompressed, is not the one that the config lists."""

    def __init__(self, digest: Digest, *, expected: Digest, found: Digest) -> None:
        super().__init__(digest)
        self.expected = expected
        self.found = found

    @property
    def messages(self) -> tuple[Message, ...]:
        """Both diff_ids."""
        return (
            Message(
                place=self.place,
                what="the uncompressed layer is not the one its image config lists",
                expected=f"diff_id {self.expected}",
                found=f"diff_id {self.found}",
                remedy=_PIN_ANOTHER,
            ),
        )


class MalformedLayerError(LayerError):
    """A layer is no archive that can be read; `entry` is the path it happened at or after."""

    def __init__(self, digest: Digest, *, entry: str, reason: str) -> None:
        super().__init__(digest)
        self.entry = entry
        self.reason = reason

    @property
    def messages(self) -> tuple[Message, ...]:
        """Where in the layer, and why."""
        return (
            Message(
                place=f"{self.place}, at {self.entry!r}" if self.entry else self.place,
                what=f"the layer cannot be read: {self.reason}",
                expected="a tar archive, plain or gzip",
                remedy=_PIN_ANOTHER,
            ),
        )


class UnsafePathError(LayerError):
    """An entry's path would leave the image's root."""

    def __init__(self, digest: Digest, *, path: str) -> None:
        super().__init__(digest)
        self.path = path

    @property
    def messages(self) -> tuple[Message, ...]:
        """The path."""
        return (
            Message(
                place=self.place,
                what="an entry's path is unsafe",
                expected="a path inside the root, without '..' and NUL",
                found=repr(self.path),
                remedy="do not use this image",
            ),
        )


class UnsupportedCompressionError(LayerError):
    """A layer is compressed in a way that is not read."""

    def __init__(self, digest: Digest, *, found: str) -> None:
        super().__init__(digest)
        self.found = found

    @property
    def messages(self) -> tuple[Message, ...]:
        """The compression."""
        return (
            Message(
                place=self.place,
                what="the layer's compression is not supported",
                expected="plain tar or gzip",
                found=self.found,
                remedy="copy the image with gzip layers: "
                "skopeo copy --dest-compress-format gzip SOURCE oci:DIR",
            ),
        )


class DanglingHardLinkError(LayerError):
    """A hard link names a file that neither its layer nor one below has."""

    def __init__(self, digest: Digest, *, path: str, target: str) -> None:
        super().__init__(digest)
        self.path = path
        self.target = target

    @property
    def messages(self) -> tuple[Message, ...]:
        """Link and target."""
        return (
            Message(
                place=f"{self.place}, at {self.path!r}",
                what="a hard link names a file that is not there",
                expected=f"{self.target!r} earlier in this layer, or in one below",
                remedy=_PIN_ANOTHER,
            ),
        )


class MalformedDocumentError(BuildError):
    """A manifest, index, config or layout file is not what it should be."""

    def __init__(self, place: str, *, wanted: str, problems: tuple[str, ...]) -> None:
        super().__init__(place, wanted, problems)
        self.place = place
        self.wanted = wanted
        self.problems = problems

    @property
    def messages(self) -> tuple[Message, ...]:
        """All problems of the document."""
        return (
            Message(
                place=self.place,
                what=f"not {self.wanted}",
                detail="\n".join(self.problems),
                remedy="check source and digest: do they name a container image?",
            ),
        )


class MissingLayoutError(BuildError):
    """There is no OCI layout in the folder; `missing` is the file that should be there."""

    def __init__(self, place: str, *, missing: str) -> None:
        super().__init__(place, missing)
        self.place = place
        self.missing = missing

    @property
    def messages(self) -> tuple[Message, ...]:
        """The folder and the file."""
        return (
            Message(
                place=self.place,
                what="no OCI image layout here",
                expected=f"the file {self.missing}",
                found="no such file",
                remedy="make one with: skopeo copy docker://IMAGE oci:DIR",
            ),
        )


class NotALayoutError(BuildError):
    """A folder to write a layout to holds something else."""

    def __init__(self, place: str, *, found: str) -> None:
        super().__init__(place, found)
        self.place = place
        self.found = found

    @property
    def messages(self) -> tuple[Message, ...]:
        """The folder and what it holds."""
        return (
            Message(
                place=self.place,
                what="will not write an OCI layout over something else",
                expected="no folder, an empty one, or an OCI layout",
                found=self.found,
                remedy="name another folder",
            ),
        )


class StorageError(BuildError):
    """Disk or file system refuse: no space, no right, no such device."""

    def __init__(self, place: str, *, action: str, reason: str) -> None:
        super().__init__(place, action, reason)
        self.place = place
        self.action = action
        self.reason = reason

    @property
    def messages(self) -> tuple[Message, ...]:
        """What was tried and what the system answered."""
        return (
            Message(
                place=self.place,
                what=f"cannot {self.action}",
                found=self.reason,
                remedy="make room or give access there, then run it again",
            ),
        )


class PinNotFoundError(BuildError):
    """The source has nothing of the pinned digest."""

    def __init__(self, place: str, *, pin: Digest, offered: tuple[str, ...]) -> None:
        super().__init__(place, pin, offered)
        self.place = place
        self.pin = pin
        self.offered = offered

    @property
    def messages(self) -> tuple[Message, ...]:
        """The pin and what there is."""
        return (
            Message(
                place=self.place,
                what="the pinned image is not here",
                expected=self.pin,
                found=", ".join(self.offered) or "nothing",
                remedy="restore the image, or accept what the source has: `inv pin`",
            ),
        )


class AmbiguousRootError(BuildError):
    """A source without a pin offers not exactly one image."""

    def __init__(self, place: str, *, offered: tuple[str, ...]) -> None:
        super().__init__(place, offered)
        self.place = place
        self.offered = offered

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


class PlatformNotFoundError(BuildError):
    """An index has not exactly one image of the platform."""

    def __init__(self, place: str, *, wanted: str, found: tuple[str, ...], matches: int) -> None:
        super().__init__(place, wanted, found, matches)
        self.place = place
        self.wanted = wanted
        self.found = found
        self.matches = matches

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


class ConfigPlatformError(BuildError):
    """An image's config is of another platform than wanted."""

    def __init__(self, place: str, *, wanted: str, found: str) -> None:
        super().__init__(place, wanted, found)
        self.place = place
        self.wanted = wanted
        self.found = found

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


class LayerCountError(BuildError):
    """Manifest and config list different numbers of layers."""

    def __init__(self, place: str, *, layers: int, diff_ids: int) -> None:
        super().__init__(place, layers, diff_ids)
        self.place = place
        self.layers = layers
        self.diff_ids = diff_ids

    @property
    def messages(self) -> tuple[Message, ...]:
        """Both numbers."""
        return (
            Message(
                place=self.place,
                what="manifest and config do not belong together",
                expected=f"{self.layers} diff_ids in the config, one per layer of the manifest",
                found=f"{self.diff_ids} diff_ids",
                remedy=_PIN_ANOTHER,
            ),
        )


class ForeignLayerError(BuildError):
    """A layer may not be distributed, so the image cannot be rebuilt from what we hold."""

    def __init__(self, place: str, *, media_type: str) -> None:
        super().__init__(place, media_type)
        self.place = place
        self.media_type = media_type

    @property
    def messages(self) -> tuple[Message, ...]:
        """The layer and its type."""
        return (
            Message(
                place=self.place,
                what="a foreign layer, which lies outside the image",
                found=self.media_type,
                remedy="choose an image without foreign layers",
            ),
        )


class UnsupportedMediaTypeError(BuildError):
    """A document or layer is of a type that is no container image's."""

    def __init__(self, place: str, *, media_type: str, expected: str) -> None:
        super().__init__(place, media_type)
        self.place = place
        self.media_type = media_type
        self.expected = expected

    @property
    def messages(self) -> tuple[Message, ...]:
        """Both types."""
        return (
            Message(
                place=self.place,
                what="unsupported media type",
                expected=self.expected,
                found=repr(self.media_type),
                remedy="check that source and digest name a container image",
            ),
        )


class EntryError(BuildError):
    """An entry of a layer of ours cannot be written; `path` is relative to the image's root."""

    what: str
    remedy: str

    def __init__(self, path: str, reason: str = "") -> None:
        super().__init__(path, reason)
        self.path = path
        self.reason = reason

    @property
    def messages(self) -> tuple[Message, ...]:
        """The path and the reason."""
        return (
            Message(
                place=f"image path /{self.path}",
                what=self.what,
                found=self.reason,
                remedy=self.remedy,
            ),
        )


class DuplicateEntryError(EntryError):
    """Two entries of the layer have the same path."""

    what = "the image would get this path twice"
    remedy = "remove one of the grafts, tables or files that write it"


class EntryOrderError(EntryError):
    """An entry stands before one that must come first."""

    what = "the layer's entries are out of order"
    remedy = "this is a bug: entries go through `ordered` first"


class MissingParentError(EntryError):
    """An entry's directory is not an entry of the layer."""

    what = "the directory above this path is not in the layer"
    remedy = "this is a bug: parents come from `parent_dirs`"


class UnwritableEntryError(EntryError):
    """An attribute of the entry does not fit the layer format."""

    what = "the layer format cannot hold this entry"
    remedy = "choose another path or another base image"


class ContentSizeError(EntryError):
    """A file's bytes are not as many as its entry says."""

    what = "the file changed while it was read"
    remedy = "run it again"


class TargetIsDirectoryError(EntryError):
    """A file would replace a directory of the base."""

    what = "a file would replace a directory of the base image"
    remedy = "choose another target"


class ParentIsFileError(EntryError):
    """A file would be put below something of the base that is no directory."""

    what = "a file would be put below something that is no directory in the base image"
    remedy = "choose another target"


class TargetLoopError(EntryError):
    """The symlinks of the base on the way to a path lead nowhere."""

    what = "the base image's symlinks on the way to this path form a loop"
    remedy = "choose another target"


class TooManyLayersError(BuildError):
    """The image would have more layers than engines can run."""

    def __init__(self, place: str, *, layers: int, limit: int) -> None:
        super().__init__(place, layers, limit)
        self.place = place
        self.layers = layers
        self.limit = limit

    @property
    def messages(self) -> tuple[Message, ...]:
        """The number and the limit."""
        return (
            Message(
                place=self.place,
                what="the image would have too many layers",
                expected=f"at most {self.limit}; engines stop at 125",
                found=f"{self.layers}",
                remedy="choose a base with fewer layers, or squash it",
            ),
        )


class DiffIdClashError(BuildError):
    """Our layer equals one of the base under another digest, which confuses engines."""

    def __init__(self, place: str, *, diff_id: Digest, base_digest: Digest) -> None:
        super().__init__(place, diff_id, base_digest)
        self.place = place
        self.diff_id = diff_id
        self.base_digest = base_digest

    @property
    def messages(self) -> tuple[Message, ...]:
        """Both digests."""
        return (
            Message(
                place=self.place,
                what="our layer is already one of the base's, there under another digest",
                expected=f"a layer that the base has not; ours is {self.diff_id}",
                found=f"the base's layer {self.base_digest}",
                remedy="the base already has these changes: pin its own base instead",
            ),
        )


class UncanonicalConfigError(BuildError):
    """The base's config holds a value that has no one spelling."""

    def __init__(self, place: str, *, reason: str) -> None:
        super().__init__(place, reason)
        self.place = place
        self.reason = reason

    @property
    def messages(self) -> tuple[Message, ...]:
        """The value."""
        return (
            Message(
                place=self.place,
                what="the base image's config cannot be carried over",
                found=self.reason,
                remedy=_PIN_ANOTHER,
            ),
        )


class InvalidImageError(BuildError):
    """An image recomputed from its bytes is not what its documents say."""

    def __init__(self, place: str, problems: tuple[BuildError, ...]) -> None:
        super().__init__(place, problems)
        self.place = place
        self.problems = problems

    @property
    def messages(self) -> tuple[Message, ...]:
        """Every problem's messages."""
        return tuple(message for problem in self.problems for message in problem.messages)
