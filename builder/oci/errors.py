"""What can be wrong with the bytes of an image: blobs, layers, and the disk they lie on."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from builder.errors import BuildError, Message

if TYPE_CHECKING:
    from builder.digest import Digest

_FETCH_AGAIN = "get the image again: these bytes are damaged or incomplete"
PIN_ANOTHER = "choose another image, or rebuild this one with a current tool"


@dataclass(eq=False)
class BlobError(BuildError):
    """The bytes of one blob are missing or not what their name says."""

    place: str
    digest: Digest


@dataclass(eq=False)
class MissingBlobError(BlobError):
    """The place has no blob of this digest."""

    template = Message(
        place="{place}",
        what="a blob is missing",
        expected="{digest}",
        found="no such blob",
        remedy="complete the source, or run `inv lock` where it can be reached",
    )


@dataclass(eq=False)
class _SizeError(BlobError):
    what: ClassVar[str]
    _: KW_ONLY
    expected_bytes: int
    found_bytes: int

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


@dataclass(eq=False)
class TruncatedBlobError(_SizeError):
    """A blob ends before its size."""

    what = "a blob is cut short"


@dataclass(eq=False)
class SizeMismatchError(_SizeError):
    """A blob has more bytes than its descriptor says; `found_bytes` may be a lower bound."""

    what = "a blob is longer than its descriptor says"


@dataclass(eq=False)
class DigestMismatchError(BuildError):
    """Bytes do not have the digest they are named by."""

    place: str
    _: KW_ONLY
    expected: Digest
    found: Digest

    template = Message(
        place="{place}",
        what="the bytes do not have the digest they are named by",
        expected="{expected}",
        found="{found}",
        remedy=_FETCH_AGAIN,
    )


@dataclass(eq=False)
class DamagedBlobError(DigestMismatchError):
    """A blob of our own store was changed; `place` is its file."""

    template = replace(DigestMismatchError.template, remedy="rm -f {place}, then run `inv lock`")


@dataclass(eq=False)
class LayerError(BuildError):
    """A layer cannot be used; `digest` names its stored blob."""

    digest: Digest

    @property
    def place(self) -> str:
        """The layer as a message names it."""
        return f"layer {self.digest}"


@dataclass(eq=False)
class DiffIdMismatchError(LayerError):
    """A layer, uncompressed, is not the one that the config lists."""

    _: KW_ONLY
    expected: Digest
    found: Digest

    template = Message(
        place="{place}",
        what="the uncompressed layer is not the one its image config lists",
        expected="diff_id {expected}",
        found="diff_id {found}",
        remedy=PIN_ANOTHER,
    )


@dataclass(eq=False)
class MalformedLayerError(LayerError):
    """A layer is no archive that can be read; `entry` is the path it happened at or after."""

    _: KW_ONLY
    entry: str
    reason: str

    @property
    def messages(self) -> tuple[Message, ...]:
        """Where in the layer, and why."""
        return (
            Message(
                place=f"{self.place}, at {self.entry!r}" if self.entry else self.place,
                what=f"the layer cannot be read: {self.reason}",
                expected="a tar archive, plain or compressed with gzip or zstd",
                remedy=PIN_ANOTHER,
            ),
        )


@dataclass(eq=False)
class UnsafePathError(LayerError):
    """An entry's path would leave the image's root."""

    _: KW_ONLY
    path: str

    template = Message(
        place="{place}",
        what="an entry's path is unsafe",
        expected="a path inside the root, without '..' and NUL",
        found="{path!r}",
        remedy="do not use this image",
    )


@dataclass(eq=False)
class UnsupportedCompressionError(LayerError):
    """A layer is compressed in a way that is not read."""

    _: KW_ONLY
    found: str

    template = Message(
        place="{place}",
        what="the layer's compression is not supported",
        expected="plain tar, gzip or zstd",
        found="{found}",
        remedy="copy the image with gzip layers: skopeo copy --dest-compress-format gzip SOURCE "
        "oci:DIR",
    )


@dataclass(eq=False)
class DanglingHardLinkError(LayerError):
    """A hard link names a file that neither its layer nor one below has."""

    _: KW_ONLY
    path: str
    target: str

    template = Message(
        place="{place}, at {path!r}",
        what="a hard link names a file that is not there",
        expected="{target!r} earlier in this layer, or in one below",
        remedy=PIN_ANOTHER,
    )


@dataclass(eq=False)
class MissingLayoutError(BuildError):
    """There is no OCI layout in the folder; `missing` is the file that should be there."""

    place: str
    _: KW_ONLY
    missing: str

    template = Message(
        place="{place}",
        what="no OCI image layout here",
        expected="the file {missing}",
        found="no such file",
        remedy="make one with: skopeo copy docker://IMAGE oci:DIR",
    )


@dataclass(eq=False)
class NotALayoutError(BuildError):
    """A folder to write a layout to holds something else."""

    place: str
    _: KW_ONLY
    found: str

    template = Message(
        place="{place}",
        what="will not write an OCI layout over something else",
        expected="no folder, an empty one, or an OCI layout",
        found="{found}",
        remedy="name another folder",
    )


@dataclass(eq=False)
class StorageError(BuildError):
    """Disk or file system refuse: no space, no right, no such device."""

    place: str
    _: KW_ONLY
    action: str
    reason: str

    template = Message(
        place="{place}",
        what="cannot {action}",
        found="{reason}",
        remedy="make room or give access there, then run it again",
    )


@dataclass(eq=False)
class StoreBusyError(BuildError):
    """Another process uses the store, so nothing may be removed from it."""

    place: str

    template = Message(
        place="{place}",
        what="nothing is removed from the store while it is used",
        expected="no other sparklock at work in this folder",
        found="one that reads or writes blobs",
        remedy="run it again when that has ended",
    )
