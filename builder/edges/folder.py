"""Where the images of a manifest come from: one edge for each kind of source."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from builder.edges.kept import KeptSource
from builder.edges.layout import LayoutSource
from builder.kept_files import kept_files
from builder.oci.model import Platform
from builder.oci.reference import ImageReference
from builder.progress import Silent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from builder.edges.daemon_api import EngineApi, EngineSocket
    from builder.edges.store import BlobStore
    from builder.image_section import Source
    from builder.progress import Progress
    from builder.read.loaded import LoadedManifest
    from builder.sources import ImageSource

    Reach: TypeAlias = Callable[[LoadedManifest, str], AbstractContextManager[EngineSocket]]
    """The way to the engine of a node, by the node's name; whoever reaches nodes brings it."""


@dataclass(frozen=True, slots=True)
class FolderSources:
    """Sources as a manifest names them, relative to its folder; a builder.resolve.Sources.

    `reach` may be None only where the manifest can name no engine of a node, as in tests.
    What is far away is `kept` in the store once it was fetched. With `whole` all layers of a source
    are about to be sent or written, so what comes in one pass or not at all is kept in any case.
    """

    loaded: LoadedManifest
    store: BlobStore
    reach: Reach | None
    progress: Progress = Silent()  # noqa: RUF009 - it has no state
    kept: bool = True
    whole: bool = False

    def open(self, source: Source, *, place: str) -> ImageSource:
        """The source, not yet looked at; `place` is where the manifest names it."""
        kind, _, name = source.source.partition(":")
        # HTTP, TLS and their packages take longer to import than a layout takes to build.
        if kind == "oci":
            return LayoutSource(self._path(name))
        if kind == "archive":
            from builder.edges.archive import ArchiveSource  # noqa: PLC0415

            return ArchiveSource(self._path(name), spool=self.store.root / "tmp")
        if kind == "docker":
            return self._in_engine(source, name, place)
        from builder.edges.registry.source import RegistrySource  # noqa: PLC0415

        remote = RegistrySource(ImageReference.parse(source.source), source.source)
        return KeptSource(remote, self.store) if self.kept else remote

    def _path(self, name: str) -> Path:
        return self.loaded.folder / name

    def _in_engine(self, source: Source, name: str, place: str) -> ImageSource:
        from builder.edges.daemon import DaemonSource  # noqa: PLC0415
        from builder.edges.daemon_api import local_engine  # noqa: PLC0415

        manifest = self.loaded.manifest
        return DaemonSource(
            name,
            source.digest,
            partial(self._engine_of, source.node) if source.node else local_engine,
            self.store,
            self.progress,
            asked=place,
            node=source.node,
            platform=Platform.parse(manifest.image.platform),
            keep=kept_files(manifest),
            whole=self.whole,
        )

    @contextmanager
    def _engine_of(self, node: str, place: str) -> Iterator[EngineApi]:
        from builder.edges.daemon_api import engine_behind  # noqa: PLC0415

        assert self.reach is not None, "who reads a node's engine brings the way to it"
        with self.reach(self.loaded, node) as socket, engine_behind(socket, place) as engine:
            yield engine
