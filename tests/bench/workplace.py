"""Where a run works: a folder, a lab and clusters of its own, made when first asked for."""

from __future__ import annotations

import shutil
import socket
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import tomlkit

from builder import pipeline as builder
from builder.progress import Silent
from deploy import pipeline as deployer
from deploy.lab.lifecycle import lab_down, lab_up
from deploy.lab.manifest import lab_manifest
from deploy.lab.requirements import provide
from deploy.lab.spec import LabSpec
from tests.bench.base_image import write_base, write_image
from tests.bench.errors import BenchBusyError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path
    from types import TracebackType
    from typing import Self

    from builder.digest import Digest
    from builder.oci.tar import TarEntry
    from builder.progress import Progress
    from builder.reports import Built

    LabImage: TypeAlias = tuple[str, Digest]
    """A layout's folder, beside the clusters' own, and the digest of its manifest."""

BUSY: Final = "\0sparklock-bench"
"""An abstract socket: the kernel gives it back when a run dies."""

LARGE_MB: Final = 300
TEMPLATE: Final = "examples/lab/chat_template.jinja"
"""The file of ours that goes into the image."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """A folder with a manifest, its lock and its sources."""

    folder: Path

    @property
    def file(self) -> Path:
        """The manifest."""
        return self.folder / "cluster.toml"

    @property
    def store(self) -> Path:
        """The blob store."""
        return self.folder / builder.STORE

    def with_template(self, text: str) -> Built:
        """The image with another text in the file of ours, locked and built."""
        (self.folder / TEMPLATE).write_text(text)
        builder.lock(self.file, Silent())
        return builder.build(self.file, Silent(), locked=True)


class Workplace:
    """A context manager; whatever it made is gone afterwards. BenchBusyError if one is in use."""

    def __init__(self, root: Path, progress: Progress, *, long: bool = False) -> None:
        self.root = root
        self.progress = progress
        self.long = long
        self.lab = LabSpec(root, "bench", ".sparklock/bench-lab", subnets=(70, 71))
        self.other_lab = LabSpec(root, "bench2", ".sparklock/bench-lab-2", subnets=(72, 73))
        self.four_lab = LabSpec(root, "bench4", ".sparklock/bench-lab-4", 4, subnets=(74, 75))
        self.folder = root / ".sparklock" / "bench"
        self._stack = ExitStack()
        self._bases: dict[int, LabImage] = {}
        self._pair: Cluster | None = None

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            lock = stack.enter_context(socket.socket(socket.AF_UNIX))
            try:
                lock.bind(BUSY)
            except OSError as error:
                raise BenchBusyError from error
            self._clear()
            self.folder.mkdir(parents=True)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with self._stack:
            self._clear()

    def _clear(self) -> None:
        """Remove what this run made, or one that was killed left."""
        for spec in (self.lab, self.other_lab, self.four_lab):
            if spec.path.exists():
                lab_down(spec)
        if self.folder.exists():
            shutil.rmtree(self.folder)

    def cluster(
        self,
        name: str,
        *,
        base_mb: int = 0,
        images: Mapping[str, LabImage] | None = None,
        lab: LabSpec | None = None,
    ) -> Cluster:
        """A new cluster like the embedded default, over a base that is `base_mb` MB larger; locked.

        `images` are other ones to use, as `image` gives them: for `base` or a donor's name. Its
        nodes are those of `lab`, or of the pair's, which need not be up.
        """
        nodes = lab or self.lab
        cluster = Cluster(self.folder / name)
        shutil.copytree(self.root / "examples" / "lab", cluster.folder / "examples" / "lab")
        text = (self.root / "cluster.toml").read_text()
        ssh_config = f"../../{nodes.ssh_config.relative_to(self.folder.parent)}"
        document: Any = tomlkit.parse(lab_manifest(text, nodes, ssh_config))
        document["name"] = name
        document["model"]["path"] = f"/srv/models/{name}"
        used = dict(images or {})
        if base_mb:
            used["base"] = self._base(base_mb)
        for role, (folder, digest) in used.items():
            section = document["image"]
            section = section["base"] if role == "base" else section["donors"][role]
            section |= {"source": f"oci:../{folder}", "digest": digest}
        cluster.file.write_text(tomlkit.dumps(document))
        builder.lock(cluster.file, Silent())
        return cluster

    def image(self, kind: str, name: str, entries: Iterable[TarEntry]) -> LabImage:
        """The lab's `base` or `donor` with one more layer of gzip, in a folder of this name."""
        lab_image = self.root / "examples" / "lab" / "images" / kind
        return name, write_image(self.folder / name, lab_image, entries, gzip=True)

    def require_lab_machine(self) -> None:
        """Nothing; RequirementsMissingError, with the remedy, if this machine carries no lab."""
        provide(install=False, announce=self.progress.note)

    def pair(self) -> Cluster:
        """A cluster over a large base that serves in the lab."""
        if self._pair is None:
            self.progress.note("lab, and a pair that serves in it over a large base")
            self.require_lab_machine()
            lab_up(self.lab, Silent())
            self._pair = self.cluster("pair", base_mb=LARGE_MB)
            deployer.deploy(self._pair.file, Silent())
        return self._pair

    @contextmanager
    def four(self) -> Iterator[Cluster]:
        """A cluster of four ranks that serves, in a lab of its own."""
        self.progress.note("a lab of four nodes, and a server of four ranks in it")
        self.require_lab_machine()
        try:
            lab_up(self.four_lab, Silent())
            cluster = self.cluster("four", lab=self.four_lab)
            deployer.deploy(cluster.file, Silent())
            yield cluster
        finally:
            lab_down(self.four_lab)

    def _base(self, size_mb: int) -> LabImage:
        """The lab's base with a large layer over it, of bytes that nothing compresses."""
        if size_mb not in self._bases:
            name = f"base-{size_mb}"
            lab_base = self.root / "examples" / "lab" / "images" / "base"
            digest = write_base(self.folder / name, lab_base, size_mb=size_mb)
            self._bases[size_mb] = (name, digest)
        return self._bases[size_mb]
