"""Other builders of the same hybrid, each on storage of its own: Docker, buildah, umoci."""

from __future__ import annotations

import os
import shutil
import subprocess
import tarfile
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from builder.digest import digest_bytes
from builder.edges.layout import LayoutSource, write_layout
from builder.oci.dual import DualArchive
from builder.oci.model import Platform
from builder.oci.select import select_manifest
from tests.bench.errors import MeasuredCommandError
from tests.bench.machine import DOCKERD_PATH
from tests.bench.measure import await_success, output_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from builder.oci.model import Image
    from builder.reports import Built
    from tests.bench.workplace import LabImage

PACKAGES: Final = {
    "dockerd": "docker.io",
    "docker": "docker.io",
    "buildah": "buildah",
    "umoci": "umoci",
}
"""What this calls, and the Debian package that has it."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """The hybrid as other builders take it: images by role, and what to copy where.

    `folder` is a build context that holds the bytes of `own`, each under its name there.
    """

    folder: Path
    images: Mapping[str, Path]
    grafted: Sequence[tuple[str, str, str]]
    """Donor, path there, path in the image."""
    own: Sequence[tuple[str, str]]
    """Name in the folder, path in the image."""

    def dockerfile(self, reference: Mapping[str, str]) -> str:
        """The text of a Dockerfile, each role's image named as the builder knows it."""
        copies = (f"COPY --from={reference[d]} {there} {here}" for d, there, here in self.grafted)
        own = (f"COPY {name} {here}" for name, here in self.own)
        return "\n".join([f"FROM {reference['base']}", *copies, *own, "ENTRYPOINT []", ""])


def recipe(folder: Path, built: Built, images: Mapping[str, LabImage], beside: Path) -> Recipe:
    """The recipe of a built image; its images lie as layouts in folders `beside`."""
    folder.mkdir()
    picks = {pick.target.lstrip("/"): pick for pick in built.lock.image.picks}
    grafted: list[tuple[str, str, str]] = []
    own: list[tuple[str, str]] = []
    with tarfile.open(built.store.path(built.lock.outputs.layers[-1].digest)) as layer:
        for member in filter(tarfile.TarInfo.isfile, layer):
            content = layer.extractfile(member)
            data = content.read() if content else b""
            pick = picks.get(member.name)
            if pick is not None and digest_bytes(data) == pick.digest:
                grafted.append((pick.donor, pick.source, f"/{member.name}"))
            elif not Path(member.name).name.startswith(".wh."):
                own.append((f"own-{len(own)}", f"/{member.name}"))
                (folder / own[-1][0]).write_bytes(data)
    return Recipe(
        folder=folder,
        images={role: beside / name for role, (name, _) in images.items()},
        grafted=grafted,
        own=own,
    )


@dataclass(frozen=True, slots=True)
class Command:
    """One way to build: its name with the version, and what each build runs."""

    name: str
    argv: Sequence[str]
    environment: Mapping[str, str]

    def seconds(self, _round: int) -> float:
        """What one build takes, from the start of its command to the end."""
        environment = {**os.environ, **self.environment}
        started = time.perf_counter()
        done = subprocess.run(
            self.argv, env=environment, capture_output=True, text=True, check=False
        )
        elapsed_s = time.perf_counter() - started
        if done.returncode:
            raise MeasuredCommandError(self.argv, done.returncode, done.stdout + done.stderr)
        return elapsed_s

    @property
    def works(self) -> bool:
        """Whether it can build here at all."""
        try:
            self.seconds(0)
        except MeasuredCommandError:
            return False
        return True


@contextmanager
def docker(folder: Path, made: Recipe) -> Iterator[list[Command]]:
    """`docker build` by both of its builders, of a dockerd of its own that has the images.

    BuildKit is left out where Docker's client cannot use it.
    """
    folder.mkdir()
    with tempfile.TemporaryDirectory() as short, _dockerd(folder, Path(short)) as host:
        client = _client()
        reference = {role: f"{role}:bench" for role in made.images}
        for role, layout in made.images.items():
            _load([client, "-H", host, "load", "--quiet"], layout, reference[role])
        file = folder / "Dockerfile"
        file.write_text(made.dockerfile(reference))
        build = [client, "-H", host, "build", "--quiet", "--no-cache", "--file", str(file)]
        version = output_of([client, "-H", host, "version", "--format", "{{.Server.Version}}"])
        ways = [
            Command(
                f"docker build ({name}, {version.strip()})",
                [*build, str(made.folder)],
                {"DOCKER_BUILDKIT": flag},
            )
            for name, flag in (("classic builder", "0"), ("BuildKit", "1"))
        ]
        yield [way for way in ways if way.works]


@contextmanager
def buildah(folder: Path, made: Recipe) -> Iterator[Command]:
    """`buildah build`, with the overlay driver where that works, else with vfs."""
    folder.mkdir()
    last: MeasuredCommandError | None = None
    for driver in ("overlay", "vfs"):
        own = folder / driver
        storage = ["--root", str(own / "root"), "--runroot", str(own / "run")]
        program = ["buildah", *storage, "--storage-driver", driver]
        try:
            command = _buildah(program, own, made, driver)
            command.seconds(0)
        except MeasuredCommandError as error:
            last = error
            continue
        try:
            yield command
        finally:
            output_of([*program, "rm", "--all"])
            output_of([*program, "rmi", "--all", "--force"])
        return
    assert last is not None
    raise last


def _buildah(program: Sequence[str], own: Path, made: Recipe, driver: str) -> Command:
    reference = {}
    with tempfile.TemporaryDirectory(suffix="x") as short:
        for role, layout in made.images.items():
            # buildah makes a name of the path, and refuses one with a hidden folder
            named = Path(short, role)
            named.symlink_to(layout)
            pull = [*program, "pull", "--quiet", f"oci:{named}"]
            reference[role] = output_of(pull).strip()
    file = own / "Dockerfile"
    file.write_text(made.dockerfile(reference))
    version = output_of(["buildah", "--version"]).split()[2]
    options = ["--isolation", "chroot", "--no-cache", "--format", "oci", "--quiet", "--pull-never"]
    argv = [*program, "build-using-dockerfile", *options, "--file", str(file), str(made.folder)]
    return Command(f"buildah build ({driver}, {version})", argv, {})


class Umoci:
    """umoci, which knows layouts alone: a Dockerfile's COPY is a copy between unpacked images."""

    def __init__(self, folder: Path, made: Recipe) -> None:
        folder.mkdir()
        self._folder = folder
        self._made = made
        self._rounds = 0
        self.version = output_of(["umoci", "--version"]).split()[2]
        for role, layout in made.images.items():
            image = _image(layout)
            write_layout(folder / role, image, LayoutSource(layout).open_blob, name="bench")

    def unpack_and_repack(self, _round: int) -> float:
        """Seconds to unpack base and donor, copy the files, and repack what changed."""
        bundles = self._bundles()
        started = time.perf_counter()
        for role in self._made.images:
            self._run("unpack", role, str(bundles / role))
        root = bundles / "base" / "rootfs"
        for donor, there, here in self._made.grafted:
            shutil.copyfile(self._below(bundles / donor / "rootfs", there), self._below(root, here))
        for name, here in self._made.own:
            shutil.copyfile(self._made.folder / name, self._below(root, here))
        self._repack(bundles)
        elapsed_s = time.perf_counter() - started
        shutil.rmtree(bundles)
        return elapsed_s

    def insert(self, _round: int) -> float:
        """Seconds to unpack the donor alone and add each file as a layer of its own."""
        bundles = self._bundles()
        started = time.perf_counter()
        files = [(str(self._made.folder / name), here) for name, here in self._made.own]
        for donor in {donor for donor, _, _ in self._made.grafted}:
            self._run("unpack", donor, str(bundles / donor))
        for donor, there, here in self._made.grafted:
            files.append((str(self._below(bundles / donor / "rootfs", there)), here))
        tag = "bench"
        for number, (source, here) in enumerate(files):
            new = f"inserted-{self._rounds}-{number}"
            image = str(self._folder / "base")
            output_of(["umoci", "insert", "--image", f"{image}:{tag}", "--tag", new, source, here])
            tag = new
        elapsed_s = time.perf_counter() - started
        shutil.rmtree(bundles)
        return elapsed_s

    def _bundles(self) -> Path:
        self._rounds += 1
        bundles = self._folder / f"bundles-{self._rounds}"
        bundles.mkdir()
        return bundles

    def _repack(self, bundles: Path) -> None:
        image = f"{self._folder / 'base'}:repacked-{self._rounds}"
        output_of(["umoci", "repack", "--image", image, str(bundles / "base")])

    def _run(self, verb: str, role: str, target: str) -> None:
        output_of(["umoci", verb, "--image", f"{self._folder / role}:bench", target])

    def _below(self, root: Path, path: str) -> Path:
        return root / path.lstrip("/")


def _image(layout: Path) -> Image:
    return select_manifest(LayoutSource(layout), None, Platform("linux", "amd64")).image


def _load(argv: Sequence[str], layout: Path, reference: str) -> None:
    archive = DualArchive(_image(layout), LayoutSource(layout).open_blob, name=reference)
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as loading:
        assert loading.stdin is not None
        for chunk in archive.chunks():
            loading.stdin.write(chunk)
        loading.stdin.close()
        status = loading.wait()
    if status:
        raise MeasuredCommandError(argv, status, f"loading {layout}")


def _client() -> str:
    """Docker's client that came with the daemon, where several are installed."""
    daemon = shutil.which("dockerd", path=DOCKERD_PATH)
    beside = shutil.which("docker", path=str(Path(daemon or "/").parent.parent / "bin"))
    found = beside or shutil.which("docker")
    assert found is not None, "provide() has seen one"
    return found


@contextmanager
def _dockerd(folder: Path, short: Path) -> Iterator[str]:
    """The address of an engine that is the bench's own, without a network; ended afterwards."""
    program = shutil.which("dockerd", path=DOCKERD_PATH)
    assert program is not None, "provide() has seen one"
    host = f"unix://{short}/docker.sock"
    argv = [
        *(program, "--host", host, "--data-root", str(folder / "root")),
        *("--exec-root", str(short / "exec"), "--pidfile", str(short / "pid")),
        *("--bridge", "none", "--iptables=false", "--ip6tables=false", "--ip-forward=false"),
        *("--containerd-namespace", "bench", "--containerd-plugins-namespace", "bench-plugins"),
    ]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(argv, stdout=log, stderr=log, start_new_session=True)
    try:
        await_success(process, [_client(), "-H", host, "version"], argv, log=folder / "log")
        yield host
    finally:
        process.terminate()
        process.wait()
