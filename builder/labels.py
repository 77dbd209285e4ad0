"""Keys of the labels that deployed containers carry, and the image's name; shared by all verbs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from builder.digest import hex_of

if TYPE_CHECKING:
    from builder.digest import Digest

CLUSTER: Final = "io.sparklock.cluster"
"""The manifest's name: which cluster the container belongs to."""

LOCK_DIGEST: Final = "io.sparklock.lock"
"""Digest of lockfile.json's bytes."""

SPEC_DIGEST: Final = "io.sparklock.spec"
"""Digest of the canonical container spec, labels excepted: what decides how it runs."""

MODEL_DIGEST: Final = "io.sparklock.model"
"""Digest of the model's list of files, paths and digests: which weights it was made for."""

GENERATION: Final = "io.sparklock.generation"
"""Decimal number; all ranks of one deployment have the same."""

RANK: Final = "io.sparklock.rank"
"""Node rank in decimal; 0 is the head."""

CACHE: Final = "io.sparklock.cache"
"""Volume label: that it holds compile caches, with its own name as value."""

INPUTS: Final = "io.sparklock.inputs"
"""Image label: digest of everything that determined the image."""


def image_repository(cluster: str) -> str:
    """The repository of a cluster's images in an engine, such as `sparklock/lab`."""
    return f"sparklock/{cluster}"


def image_reference(cluster: str, manifest_digest: Digest) -> str:
    """The tag a cluster's image has in an engine, such as `sparklock/lab:0123456789ab`."""
    return f"{image_repository(cluster)}:{hex_of(manifest_digest)[:12]}"
