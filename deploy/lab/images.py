"""The lab's base and donor images: from sources in examples/lab/src to OCI layouts, always alike.

`python -m deploy.lab.images` writes examples/lab/images, pins the digests in every manifest that
names the images, and renews the locks. An image.toml beside the sources says what each layer holds;
modes come from there and times from its epoch, so the checkout, the clock and the umask have no
say.
"""

from __future__ import annotations

import json
import tomllib
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import tomlkit
from pydantic import Field, StringConstraints, ValidationError

from builder import pipeline
from builder.digest import canonical_json, digest_bytes
from builder.edges.layout import write_layout
from builder.errors import BuildError, Message
from builder.oci.assemble import manifest_of
from builder.oci.model import (
    OCI_LAYER_TAR,
    Descriptor,
    Image,
    ImageConfig,
    Layer,
    Platform,
)
from builder.oci.tar import TarEntry, TarKind, file_entry, ordered, whiteout_entry, write_tar
from builder.oci.tree import parents
from builder.progress import Silent
from builder.section import Section
from builder.values import DirMode, Mode, PlatformText, RelativePath

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from builder.digest import Digest

REPOSITORY: Final = Path(__file__).resolve().parents[2]
LAB: Final = REPOSITORY / "examples" / "lab"
RECIPE: Final = "image.toml"
COMMAND: Final = "python -m deploy.lab.images"
_DIRECTORY_MODE: Final = 0o755


class Copy(Section):
    """A file, or a folder with all below it. `source` is relative to the recipe and may go up."""

    source: Annotated[str, StringConstraints(pattern=r"^[^/]")]
    target: RelativePath
    mode: Mode = Field(default="0644", description="of the files; folders are 0755")


class LayerRecipe(Section):
    """What one layer holds; folders above its paths come by themselves."""

    comment: str
    directories: dict[RelativePath, DirMode] = Field(default_factory=dict)
    symlinks: dict[RelativePath, str] = Field(default_factory=dict)
    copies: tuple[Copy, ...] = ()
    texts: dict[RelativePath, str] = Field(default_factory=dict)
    whiteouts: tuple[RelativePath, ...] = ()


class ImageRecipe(Section):
    """An image.toml: `epoch` is Unix time in seconds, `config` the image's `config` object."""

    platform: PlatformText
    epoch: Annotated[int, Field(ge=0)]
    config: dict[str, str | tuple[str, ...]]
    layers: Annotated[tuple[LayerRecipe, ...], Field(min_length=1)]


class ImageRecipeError(BuildError):
    """An image.toml, or a file it names, cannot be used."""

    def __init__(self, recipe: Path, problem: str) -> None:
        super().__init__(recipe, problem)
        self.recipe, self.problem = recipe, problem

    @property
    def messages(self) -> tuple[Message, ...]:
        """One message."""
        return (
            Message(
                place=str(self.recipe),
                what="the lab image cannot be made",
                found=self.problem,
                remedy=f"correct it, then run {COMMAND}",
            ),
        )


@dataclass(frozen=True, slots=True)
class LabImage:
    """An image and the bytes of its layers."""

    image: Image
    blobs: Mapping[Digest, bytes]

    @contextmanager
    def open_blob(self, descriptor: Descriptor) -> Iterator[Iterator[bytes]]:
        """The bytes of a layer, for write_layout."""
        yield iter((self.blobs[descriptor.digest],))


def make_image(folder: Path) -> LabImage:
    """The image whose image.toml stands in a folder; ImageRecipeError if it cannot be made."""
    recipe = _read(folder / RECIPE)
    modes: dict[str, int] = {}
    tars = [
        b"".join(write_tar(ordered(_entries(folder, layer, recipe.epoch, modes))))
        for layer in recipe.layers
    ]
    layers = tuple(
        Layer(Descriptor(OCI_LAYER_TAR, digest_bytes(tar), len(tar)), digest_bytes(tar))
        for tar in tars
    )
    config = _config(recipe, layers)
    manifest = manifest_of(config, layers)
    blobs = {layer.diff_id: tar for layer, tar in zip(layers, tars, strict=True)}
    return LabImage(Image(manifest, config, layers), blobs)


def _read(path: Path) -> ImageRecipe:
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
        return ImageRecipe.model_validate_json(json.dumps(document))
    except (OSError, tomllib.TOMLDecodeError, ValidationError) as error:
        raise ImageRecipeError(path, str(error)) from error


def _entries(
    folder: Path, layer: LayerRecipe, epoch: int, modes: dict[str, int]
) -> Iterator[TarEntry]:
    """The entries of a layer; `modes` are those of all folders so far, and grow."""
    files = list(_files(folder, layer))
    modes |= {path: int(mode, 8) for path, mode in layer.directories.items()}
    paths = [path for path, _, _ in files] + [*layer.symlinks, *layer.whiteouts]
    folders = {above for path in (*paths, *layer.directories) for above in parents(path)}
    for path in folders | set(layer.directories):
        mode = modes.setdefault(path, _DIRECTORY_MODE)
        yield TarEntry(path, TarKind.DIRECTORY, mode, epoch)
    for path, content, mode in files:
        yield file_entry(path, content, mode=mode, mtime=epoch)
    for path, link in layer.symlinks.items():
        yield TarEntry(path, TarKind.SYMLINK, 0o777, epoch, link=link)
    for path in layer.whiteouts:
        yield whiteout_entry(path, mtime=epoch)


def _files(folder: Path, layer: LayerRecipe) -> Iterator[tuple[str, bytes, int]]:
    """Path, bytes and mode of every regular file of a layer."""
    for copy in layer.copies:
        source = folder / copy.source
        if not source.exists():
            raise ImageRecipeError(folder / RECIPE, f"there is no {copy.source}")
        for path in [source] if source.is_file() else sorted(source.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                relative = path.relative_to(source).as_posix()
                target = copy.target if path == source else f"{copy.target}/{relative}"
                yield target, path.read_bytes(), int(copy.mode, 8)
    for target, text in layer.texts.items():
        yield target, text.encode(), 0o644


def _config(recipe: ImageRecipe, layers: tuple[Layer, ...]) -> ImageConfig:
    platform = Platform.parse(recipe.platform)
    created = datetime.fromtimestamp(recipe.epoch, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    document: dict[str, Any] = {
        "os": platform.os,
        "architecture": platform.architecture,
        "created": created,
        "config": {
            key: list(value) if isinstance(value, tuple) else value
            for key, value in recipe.config.items()
        },
        "rootfs": {"type": "layers", "diff_ids": [layer.diff_id for layer in layers]},
        "history": [{"created": created, "created_by": layer.comment} for layer in recipe.layers],
    }
    raw = canonical_json(document)
    return ImageConfig(raw, digest_bytes(raw), document)


def manifests() -> list[Path]:
    """The repository's own manifests: the embedded default, and the examples."""
    return [REPOSITORY / "cluster.toml", *sorted(REPOSITORY.glob("examples/**/cluster.toml"))]


def pin(text: str, digests: Mapping[str, Digest]) -> str:
    """The text of a manifest with the digests of the lab's images in it; all else as it was.

    `digests` are by the name of the image's folder in examples/lab/images.
    """
    document = tomlkit.parse(text)
    image: Any = document["image"]
    for source in (image["base"], *image.get("donors", {}).values()):
        folder, _, name = str(source["source"]).rpartition("/")
        if folder.endswith("lab/images"):
            source["digest"] = digests[name]
    return tomlkit.dumps(document)


def main() -> None:
    """Write both layouts, pin them, and renew the locks of manifests that have one."""
    made = {name: make_image(LAB / "src" / name) for name in ("base", "donor")}
    for name, lab_image in made.items():
        write_layout(LAB / "images" / name, lab_image.image, lab_image.open_blob)
    digests = {name: item.image.manifest.descriptor.digest for name, item in made.items()}
    for path in manifests():
        text = path.read_text(encoding="utf-8")
        path.write_text(pin(text, digests), encoding="utf-8")
        if path.with_name("lockfile.json").exists():
            pipeline.lock(path, Silent())
    for name, digest in digests.items():
        print(f"{name}: {digest}")  # noqa: T201 - this is a command


if __name__ == "__main__":
    main()
