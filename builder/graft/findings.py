"""What the closure check can find, one class each; every finding can say itself as a Message."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from builder.errors import Message


class Finding(Protocol):
    """One thing that would fail in a container."""

    @property
    def message(self) -> Message:
        """The finding as a person reads it."""


@dataclass(frozen=True, slots=True)
class BadCommand:
    """A file that a container executes is missing, or cannot be executed."""

    name: str

    @property
    def message(self) -> Message:
        """What would fail, and the way out."""
        raise NotImplementedError
