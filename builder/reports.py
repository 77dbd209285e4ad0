"""What the verbs of builder/ give back, readable by people and scripts."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from builder.differences import told
from builder.lockfile import lock_digest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from builder.differences import Difference
    from builder.digest import Digest, JsonValue
    from builder.edges.output import Output
    from builder.edges.registry.push import Pushed
    from builder.edges.store import BlobStore
    from builder.edges.vendor import Vendored
    from builder.lock import Lock
    from builder.oci.model import Descriptor, Image
    from builder.read.loaded import LoadedManifest
    from builder.sources import ImageSource


@dataclass(frozen=True, slots=True)
class LockReport:
    """What `inv lock` did: every difference to the lock that was there.

    `new` means that there was none that could be read. `lacking` is for a check alone: how many
    inputs of the image the store lacks, and of how many; then the image itself was not compared.
    `vendored` is what became of the files that the repository keeps, if it does.
    """

    loaded: LoadedManifest
    lock: Lock
    new: bool
    changes: tuple[Difference, ...]
    lacking: tuple[int, int] | None = None
    vendored: Vendored | None = None

    @property
    def path(self) -> Path:
        """The lock's file."""
        return self.loaded.lock_path

    @property
    def digest(self) -> Digest:
        """The digest of the lock's bytes."""
        return lock_digest(self.lock)

    @property
    def written(self) -> bool:
        """Whether lockfile.json has other bytes than before."""
        return self.new or bool(self.changes)

    def text(self) -> str:
        """The outcome as lines of plain text."""
        if not self.written:
            head = f"{self.path} is current: image {self.lock.outputs.manifest_digest}"
            return "\n".join([head, *self._unchecked(), *self._accepted(), *self._vendored()])
        head = f"{self.path} written: image {self.lock.outputs.manifest_digest}"
        lines = [f"  {line}" for line in told(self.changes)]
        return "\n".join([head, *lines, *self._accepted(), *self._vendored()])

    def _accepted(self) -> list[str]:
        accepted = self.lock.image.accepted
        return [f"  note: accepted: {item.finding}; reason: {item.reason}" for item in accepted]

    def _vendored(self) -> list[str]:
        return self.vendored.lines() if self.vendored else []

    def _unchecked(self) -> list[str]:
        if self.lacking is None:
            return []
        count, total = self.lacking
        what = f"not compared: the image, since the store lacks {count} of its {total} inputs"
        return [f"  {what}; inv build --locked reads them from the sources and compares"]

    def as_json(self) -> JsonValue:
        """The outcome as a JSON object; `image_compared` is false after a check without inputs."""
        return {
            "image_compared": self.lacking is None,
            "written": self.written,
            "lock_digest": self.digest,
            "manifest_digest": self.lock.outputs.manifest_digest,
            "config_digest": self.lock.outputs.config_digest,
            "changes": [change.as_json() for change in self.changes],
            "accepted": [item.model_dump(mode="json") for item in self.lock.image.accepted],
            "vendored": self.vendored.as_json() if self.vendored else None,
        }


@dataclass(frozen=True, slots=True)
class Built:
    """An image that is in the store, proven to be what the lock says.

    `lock_written` means that the lock was missing or old, and was written first.
    """

    loaded: LoadedManifest
    lock: Lock
    lock_digest: Digest
    image: Image
    store: BlobStore
    base: ImageSource
    notes: tuple[str, ...]
    output: Output | None = None
    pushed: Pushed | None = None
    checked: bool = False
    lock_written: bool = False

    @contextmanager
    def open_blob(self, descriptor: Descriptor) -> Iterator[Iterator[bytes]]:
        """The stored bytes of any blob of the image: ours from the store, else the base's."""
        source = self.store if self.store.has(descriptor.digest) else self.base
        with source.open_blob(descriptor) as chunks:
            yield chunks

    def text(self) -> str:
        """The image's digests and layers as lines of plain text."""
        outputs = self.lock.outputs
        lines = [
            f"built {self.lock.name} for {self.lock.image.platform}, as locked",
            f"  manifest  {outputs.manifest_digest}  (image ID in the containerd store)",
            f"  config    {outputs.config_digest}  (image ID with a graph driver)",
            (
                f"  layers    {outputs.layers_total}, of them ours {len(outputs.layers)} "
                f"with {outputs.new_bytes} bytes"
            ),
            *(f"  note      {note}" for note in self.notes),
        ]
        if self.checked:
            lines.append("  checked   another process in other surroundings made the same bytes")
        if self.lock_written:
            lines.append(f"  lock      {self.loaded.lock_path} was written: review its difference")
        if self.output:
            lines.append(f"  written   {self.output.path} ({self.output.kind.value})")
        if self.pushed:
            lines.extend(f"  {line}" for line in self.pushed.lines())
        return "\n".join(lines)

    def as_json(self) -> JsonValue:
        """The image's digests and sizes as a JSON object."""
        return {
            "lock_digest": self.lock_digest,
            "lock_written": self.lock_written,
            "outputs": self.lock.outputs.model_dump(mode="json"),
            "output": str(self.output.path) if self.output else None,
            "checked": self.checked,
            "pushed": self.pushed.as_json() if self.pushed else None,
        }
