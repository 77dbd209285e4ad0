"""Keys of the labels that deployed containers carry; shared by deploy/ and verify/."""

from __future__ import annotations

from typing import Final

CLUSTER: Final = "io.sparklock.cluster"
"""The manifest's name: which cluster the container belongs to."""

LOCK_DIGEST: Final = "io.sparklock.lock"
"""Digest of lockfile.json's bytes."""

SPEC_DIGEST: Final = "io.sparklock.spec"
"""Digest of the canonical container spec, labels excepted: what decides how it runs."""

GENERATION: Final = "io.sparklock.generation"
"""Decimal number; all ranks of one deployment have the same."""

RANK: Final = "io.sparklock.rank"
"""Node rank in decimal; 0 is the head."""

INPUTS: Final = "io.sparklock.inputs"
"""Image label: digest of everything that determined the image."""
