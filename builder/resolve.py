"""From what is wanted and where images come from to the lock: what runs, named by digest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from builder.assembly import assemble_locked, inputs_digest
from builder.errors import ManifestError, Message
from builder.graft.packages import keep_for
from builder.hybrid import Hybrid, ReadImage, Wanted
from builder.lock import Formats, Lock, LockedModel, LockedNode, OutputLayer, Outputs
from builder.oci.assemble import CONFIG_FORMAT
from builder.oci.model import Platform
from builder.oci.select import select_manifest
from builder.oci.tar import LAYER_FORMAT
from builder.oci.whiteout import read_tree

if TYPE_CHECKING:
    from collections.abc import Iterable

    from builder.digest import Digest
    from builder.manifest import ClusterManifest, Source
    from builder.oci.assemble import AssembledImage
    from builder.progress import Progress
    from builder.sources import Blobs, ImageSource


VLLM: Final = "vllm"
"""The package whose version the lock states; read from every image, grafted or not."""


class UnpinnedSourceError(ManifestError):
    """An image has no digest in the manifest, so a lock of it would be a lock of a moving name."""

    def __init__(self, place: str, offered: Digest) -> None:
        super().__init__()
        self.place = place
        self.offered = offered

    @property
    def messages(self) -> tuple[Message, ...]:
        """One message with the digest that the source has now."""
        return (
            Message(
                place=self.place,
                what="the image is not pinned",
                expected="digest = the digest of an index or of one platform's manifest",
                found="no digest",
                remedy=f'if this is the image you want, add: digest = "{self.offered}"',
            ),
        )


class Sources(Protocol):
    """Where images come from, by the text of a manifest's `source`."""

    def open(self, source: Source, *, place: str) -> ImageSource:
        """The source; `place` is where the manifest names it, for errors."""


def resolve(wanted: Wanted, sources: Sources, blobs: Blobs, progress: Progress) -> Lock:
    """The lock of a manifest: every input by digest, and the image that they make.

    Reads base and donors whole, once. Keeps in the store what building needs later: the base's
    manifest and config, picked files, and modules before their edit.

    Raises BuildError of many kinds: a source that lacks or breaks what was pinned, a graft or
    table that does not fit, and ClosureError with everything that would fail in a container.
    """
    manifest = wanted.manifest
    reader = _Reader(wanted, sources, blobs, progress)
    base = reader.base()
    donors = {name: reader.donor(name) for name in sorted(manifest.image.donors)}
    progress.stage("resolve files and tables, check that the image closes")
    image = Hybrid(wanted, base, donors, blobs).locked()
    formats = Formats(layer=LAYER_FORMAT, config=CONFIG_FORMAT)
    inputs = inputs_digest(image, formats)
    assembled = assemble_locked(image, inputs, blobs)
    for note in assembled.notes:
        progress.note(note)
    return Lock(
        formats=formats,
        name=manifest.name,
        cluster_digest=wanted.cluster_digest,
        image=image,
        model=_locked_model(wanted),
        nodes=_locked_nodes(manifest),
        inputs_digest=inputs,
        outputs=outputs_of(assembled),
    )


def outputs_of(assembled: AssembledImage) -> Outputs:
    """What a lock says of an assembled image."""
    image = assembled.image
    layers = tuple(
        OutputLayer(
            digest=own.layer.descriptor.digest,
            size_bytes=own.layer.descriptor.size_bytes,
            entries=len(own.entries),
        )
        for own in assembled.own
    )
    return Outputs(
        layers=layers,
        config_digest=image.config.digest,
        manifest_digest=image.manifest.descriptor.digest,
        manifest_size_bytes=image.manifest.descriptor.size_bytes,
        layers_total=len(image.layers),
        new_bytes=sum(layer.size_bytes for layer in layers),
    )


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads base and donors, keeping in the store what locking and building need of them."""

    wanted: Wanted
    sources: Sources
    blobs: Blobs
    progress: Progress

    def base(self) -> ReadImage:
        """The base; its raw manifest and config are stored too."""
        section = self.wanted.manifest.image
        read = self._read("image.base", section.base, [item.file for item in section.registers])
        image = read.selected.image
        self.blobs.put([image.manifest.raw], expected=image.manifest.descriptor.digest)
        self.blobs.put([image.config.raw], expected=image.config.digest)
        return read

    def donor(self, name: str) -> ReadImage:
        """A donor, with the files that are grafted from it."""
        section = self.wanted.manifest.image
        files = [file for graft in section.grafts if graft.donor == name for file in graft.files]
        return self._read(f"image.donors.{name}", section.donors[name], files)

    def _read(self, location: str, source: Source, files: Iterable[str]) -> ReadImage:
        section = self.wanted.manifest.image
        packages = {VLLM}.union(
            (graft.package for graft in section.grafts),
            (register.package for register in section.registers),
        )
        opened = self.sources.open(source, place=self.wanted.place(f"{location}.source"))
        self.progress.stage(f"read {location.removeprefix('image.')} from {opened.place}")
        selected = select_manifest(opened, source.digest, Platform.parse(section.platform))
        if source.digest is None:
            place = self.wanted.place(location)
            raise UnpinnedSourceError(place, selected.image.manifest.descriptor.digest)
        tree = read_tree(
            opened, selected.image.layers, keep=keep_for(packages, files), blobs=self.blobs
        )
        return ReadImage(selected, tree)


def _locked_model(wanted: Wanted) -> LockedModel:
    model = wanted.manifest.model
    return LockedModel(
        repo=model.repo,
        revision=model.revision,
        architectures=wanted.architectures,
        files=wanted.model_files,
    )


def _locked_nodes(manifest: ClusterManifest) -> tuple[LockedNode, ...]:
    return tuple(
        LockedNode(
            rank=rank,
            name=node.name,
            fabric=str(node.fabric.address) if node.fabric else None,
            hcas=node.fabric.hcas if node.fabric else (),
        )
        for rank, node in enumerate(manifest.nodes)
    )
