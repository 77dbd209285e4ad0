"""How an engine tells which store it keeps images in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

SNAPSHOTTER: Final = ["driver-type", "io.containerd.snapshotter.v1"]
"""What an engine's DriverStatus holds when it keeps images in containerd (Docker 24 and later)."""


def in_containerd(info: Mapping[str, Any]) -> bool:
    """Whether that is containerd's, by what the engine answers to /info."""
    return SNAPSHOTTER in (info.get("DriverStatus") or [])
