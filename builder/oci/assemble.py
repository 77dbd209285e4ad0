"""The hybrid image: the base's layers as they are, one layer of ours, config and manifest.

Pure: the same Assembly gives the same bytes everywhere. CONFIG_FORMAT changes with any byte that
this module would write differently for the same input.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from builder.digest import FloatInCanonicalJsonError, Hasher, canonical_json, digest_bytes
from builder.labels import INPUTS
from builder.oci.formats import LAYER_FORMAT
from builder.oci.image_errors import (
    DiffIdClashError,
    TooManyLayersError,
    UncanonicalConfigError,
    UnusableTimeError,
)
from builder.oci.model import (
    OCI_CONFIG,
    OCI_LAYER_TAR,
    OCI_LAYER_TYPE_OF,
    OCI_MANIFEST,
    Descriptor,
    Image,
    ImageConfig,
    ImageManifest,
    Layer,
)
from builder.oci.tar import ordered, whiteout_entry, write_tar

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from builder.digest import Digest
    from builder.image_section import ConfigChanges
    from builder.oci.tar import TarEntry

MAX_LAYERS: Final = 120
"""Moby's layer store stops at 125; a few are left for who builds on our image."""

_DROPPED_KEYS = ("container", "container_config", "docker_version")
"""Of Docker's own build; they say nothing of our image."""

_RFC3339 = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.\d+)?(Z|[+-]\d\d:\d\d)\Z", re.ASCII)


@dataclass(frozen=True, slots=True)
class Assembly:
    """Everything the image is made of.

    `entries` are what we add, in any order, every parent directory included (placement.py);
    `whiteouts` are paths of the base to hide. `epoch` is Unix time in seconds. `inputs` is the
    digest of everything that determines the image; it becomes a label.
    """

    base: Image
    epoch: int
    entries: tuple[TarEntry, ...]
    whiteouts: tuple[str, ...]
    changes: ConfigChanges
    inputs: Digest


@dataclass(frozen=True, slots=True)
class OwnLayer:
    """A layer of ours: its entries in order, and what write_tar makes of them."""

    layer: Layer
    entries: tuple[TarEntry, ...]


@dataclass(frozen=True, slots=True)
class AssembledImage:
    """The image, the layer of ours (none if nothing is added), and what a person should be told.

    The raw bytes are `image.manifest.raw` and `image.config.raw`; the layer's are
    `write_tar(own[0].entries)`.
    """

    image: Image
    own: tuple[OwnLayer, ...]
    notes: tuple[str, ...] = ()


def assemble(assembly: Assembly) -> AssembledImage:
    """The image that the assembly makes, always of OCI media types.

    Raises TooManyLayersError, DiffIdClashError, UncanonicalConfigError, and what write_tar raises.
    """
    base = assembly.base
    own = tuple(_own_layers(assembly))
    layers = (*map(_as_oci, base.layers), *(item.layer for item in own))
    _refuse_layers(base, own)
    history, notes = _history(assembly, own)
    document = {
        key: value for key, value in base.config.document.items() if key not in _DROPPED_KEYS
    }
    document |= {
        "created": _timestamp(assembly.epoch),
        "config": _container(base.config.container, assembly.changes, assembly.inputs),
        "rootfs": {"type": "layers", "diff_ids": [layer.diff_id for layer in layers]},
        "history": history,
    }
    if not history:
        del document["history"]
    config = _config(document, place=f"base {base.config.digest}")
    return AssembledImage(Image(manifest_of(config, layers), config, layers), own, notes)


def epoch_of(config: ImageConfig, *, place: str) -> int:
    """The config's `created` as Unix time in whole seconds; UnusableTimeError if it is none."""
    created = config.document.get("created")
    match = _RFC3339.match(created) if isinstance(created, str) else None
    try:
        epoch = int(datetime.fromisoformat(match[1] + match[2]).timestamp()) if match else -1
    except ValueError:
        epoch = -1
    if epoch < 0:
        raise UnusableTimeError(place, found="none" if created is None else repr(created))
    return epoch


def manifest_of(config: ImageConfig, layers: tuple[Layer, ...]) -> ImageManifest:
    """The manifest of a config and its layers, bottom first."""
    described = Descriptor(OCI_CONFIG, config.digest, len(config.raw))
    stored = tuple(layer.descriptor for layer in layers)
    raw = canonical_json(
        {
            "schemaVersion": 2,
            "mediaType": OCI_MANIFEST,
            "config": described.as_json(),
            "layers": [item.as_json() for item in stored],
        }
    )
    descriptor = Descriptor(OCI_MANIFEST, digest_bytes(raw), len(raw))
    return ImageManifest(raw, descriptor, described, stored)


def _own_layers(assembly: Assembly) -> Iterator[OwnLayer]:
    hidden = (whiteout_entry(path, mtime=assembly.epoch) for path in assembly.whiteouts)
    entries = ordered((*assembly.entries, *hidden))
    if not entries:
        return
    hasher = Hasher()
    for chunk in write_tar(entries):
        hasher.update(chunk)
    descriptor = Descriptor(OCI_LAYER_TAR, hasher.digest(), hasher.size_bytes)
    yield OwnLayer(Layer(descriptor, diff_id=hasher.digest()), entries)


def _refuse_layers(base: Image, own: tuple[OwnLayer, ...]) -> None:
    place = f"base {base.manifest.descriptor.digest}"
    count = len(base.layers) + len(own)
    if count > MAX_LAYERS:
        raise TooManyLayersError(place, layers=count, limit=MAX_LAYERS)
    ours = {item.layer.diff_id for item in own}
    for layer in base.layers:
        if layer.diff_id in ours and layer.descriptor.digest != layer.diff_id:
            raise DiffIdClashError(
                place, diff_id=layer.diff_id, base_digest=layer.descriptor.digest
            )


def _history(
    assembly: Assembly, own: tuple[OwnLayer, ...]
) -> tuple[list[Mapping[str, Any]], tuple[str, ...]]:
    """The base's history with ours after it; none, and a note, when the base's does not add up."""
    base = assembly.base
    history: list[Mapping[str, Any]] = list(base.config.document.get("history") or ())
    filled = sum(not item.get("empty_layer", False) for item in history)
    if filled != len(base.layers):
        note = f"history dropped: the base states {filled} layers and has {len(base.layers)}"
        return [], (note,)
    ours = {
        "created": _timestamp(assembly.epoch),
        "created_by": f"sparklock, layer format {LAYER_FORMAT}",
    }
    return [*history, *(ours for _ in own)], ()


def _container(base: Mapping[str, Any], changes: ConfigChanges, inputs: Digest) -> dict[str, Any]:
    """The config's `config` object: the base's with the changes; what is unset stays."""
    changed = {
        "Entrypoint": None if changes.entrypoint is None else list(changes.entrypoint),
        "Cmd": None if changes.cmd is None else list(changes.cmd),
        "WorkingDir": changes.workdir,
        "User": changes.user,
        "Env": _environment(base.get("Env") or (), changes.env) or None,
        "Labels": {**(base.get("Labels") or {}), INPUTS: inputs},
    }
    return {**base, **{key: value for key, value in changed.items() if value is not None}}


def _environment(base: Iterable[str], changes: Mapping[str, str]) -> list[str]:
    """The base's variables in their order, changed ones in place, new ones after them by name."""
    left = dict(changes)
    found = []
    for item in base:
        name = item.partition("=")[0]
        if name not in changes:
            found.append(item)
        elif name in left:
            found.append(f"{name}={left.pop(name)}")
    return found + [f"{name}={left[name]}" for name in sorted(left)]


def _config(document: dict[str, Any], *, place: str) -> ImageConfig:
    try:
        raw = canonical_json(document)
    except (FloatInCanonicalJsonError, UnicodeEncodeError) as error:
        raise UncanonicalConfigError(place, reason=str(error)) from error
    return ImageConfig(raw=raw, digest=digest_bytes(raw), document=document)


def _as_oci(layer: Layer) -> Layer:
    """The same blob under the OCI name of its type."""
    stored = layer.descriptor
    media_type = OCI_LAYER_TYPE_OF[stored.media_type]
    return Layer(Descriptor(media_type, stored.digest, stored.size_bytes), layer.diff_id)


def _timestamp(epoch: int) -> str:
    return datetime.fromtimestamp(epoch, tz=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
