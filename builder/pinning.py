"""What a source has now becomes the pin of an input, in cluster.toml."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from builder.edges.files import read_manifest
from builder.edges.folder import FolderSources
from builder.edges.manifest_edits import Edit, edited_manifest, write_manifest
from builder.inputs import MODEL, input_named, loc_of_input, sources_of
from builder.oci.model import Platform
from builder.oci.select import select_manifest
from builder.pipeline import store_of
from builder.read.problems import loc_text
from builder.sources import EngineImage

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from builder.digest import JsonValue
    from builder.edges.folder import Reach
    from builder.progress import Progress
    from builder.read.loaded import LoadedManifest

ALL: Final = "all"
"""Every input that has no digest yet."""


@dataclass(frozen=True, slots=True)
class Pin:
    """What an input's source has now, beside the digest in the manifest, if there is one.

    `kind` is what `found` is of. `names` are all digests that pin the same image, such as that of
    the manifest that an index leads to for our platform: a pin of another kind is left alone.
    """

    name: str
    source: str
    before: str | None
    found: str
    names: frozenset[str]
    kind: str

    @property
    def moves(self) -> bool:
        """Whether the source has another image than the manifest pins."""
        return self.before not in self.names

    def edit(self) -> Edit:
        """The new digest in its place."""
        if self.name == MODEL:
            return Edit((*loc_of_input(self.name), "revision"), self.found, after="repo")
        return Edit((*loc_of_input(self.name), "digest"), self.found, after="source")

    def text(self) -> str:
        """The pin on one line."""
        if not self.moves:
            return f"{self.name}: {self.source} is current: {self.before}"
        old = self.before or "not pinned"
        return f"{self.name}: {self.source}: {old} -> {self.found} ({self.kind})"

    def as_json(self) -> JsonValue:
        """The pin as a JSON object."""
        return {
            "input": self.name,
            "source": self.source,
            "before": self.before,
            "after": self.found if self.moves else self.before,
            "kind": self.kind,
            "changed": self.moves,
        }


@dataclass(frozen=True, slots=True)
class PinReport:
    """What `inv pin` did."""

    path: Path
    pins: tuple[Pin, ...]

    @property
    def written(self) -> bool:
        """Whether the manifest has other bytes than before."""
        return any(pin.moves for pin in self.pins)

    def text(self) -> str:
        """The outcome as lines of plain text."""
        if not self.pins:
            return f"{self.path}: every input has a digest; inv pin NAME moves one"
        after = ["next: inv lock"] if self.written else []
        return "\n".join([*(pin.text() for pin in self.pins), *after])

    def as_json(self) -> JsonValue:
        """The outcome as a JSON object."""
        return {"written": self.written, "pins": [pin.as_json() for pin in self.pins]}


def pin(file: Path, name: str, progress: Progress, *, reach: Reach | None = None) -> PinReport:
    """Write into the manifest what the source of an input has now, and nothing else.

    `name` is `base`, `donors.NAME`, `model`, or `all`: every input without a digest; `reach` is
    the way to the engines of nodes. Raises ManifestError, UnknownInputError, and BuildError or
    NodeError when a source cannot be asked; the file is then as it was.
    """
    loaded = read_manifest(file)
    pins = tuple(pin_now(loaded, item, progress, reach) for item in _named(loaded, name))
    moved = [item.edit() for item in pins if item.moves]
    if moved:
        write_manifest(loaded, edited_manifest(loaded, moved))
    return PinReport(loaded.path, pins)


def pin_now(loaded: LoadedManifest, name: str, progress: Progress, reach: Reach | None) -> Pin:
    """What the source of an input has now; asks it for documents, and for no layer."""
    if name == MODEL:
        return _model_now(loaded, progress)
    section = loaded.manifest.image
    source = sources_of(loaded.manifest)[name]
    place = loaded.place(loc_text((*loc_of_input(name), "source")))
    progress.stage(f"ask what {name} is now: {source.source}")
    opened = FolderSources(loaded, store_of(loaded), reach, progress).open(source, place=place)
    if isinstance(opened, EngineImage):  # which tells it without reading the image
        now = opened.image_id()
        return Pin(name, source.source, source.digest, now, frozenset({now}), "image ID")
    selected = select_manifest(opened, None, Platform.parse(section.platform))
    names = {selected.image.manifest.descriptor.digest}
    if selected.index_digest is not None:
        kind, found = "index", selected.index_digest
    else:
        kind, found = "manifest", selected.image.manifest.descriptor.digest
    return Pin(name, source.source, source.digest, found, frozenset({found, *names}), kind)


def _model_now(loaded: LoadedManifest, progress: Progress) -> Pin:
    from builder.edges.hub import latest_commit  # noqa: PLC0415 - HTTP and TLS take long to import

    model = loaded.manifest.model
    assert model.repo is not None
    progress.stage(f"ask what the model is now: {model.repo}")
    commit = latest_commit(model.repo, place=loaded.place("model.repo"))
    names = frozenset({commit})
    return Pin(MODEL, model.repo, model.revision, commit, names, "commit of main")


def _named(loaded: LoadedManifest, name: str) -> Iterable[str]:
    if name != ALL:
        return [input_named(name, loaded.manifest, place=loaded.name)]
    return [name for name, source in sources_of(loaded.manifest).items() if source.digest is None]
