"""Versions of the byte formats that digests depend on, apart from what writes them."""

from __future__ import annotations

from typing import Final

LAYER_FORMAT: Final = 1
"""Changes with any byte that builder/oci/tar.py would write differently for the same entries."""

CONFIG_FORMAT: Final = 1
"""Changes with any byte that builder/oci/assemble.py would write differently for the same input."""
