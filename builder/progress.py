"""How long work tells of itself; the renderers stand in builder/edges/console.py."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Where stages and bytes are told; safe to call from several threads."""

    def stage(self, text: str) -> None:
        """A new stage of the work begins."""

    def note(self, text: str) -> None:
        """A fact of the current stage that deserves a line of its own."""

    def advance(self, what: str, done_bytes: int, total_bytes: int) -> None:
        """So many bytes of one transfer are done; `what` names the transfer."""


class Silent:
    """A Progress that tells nothing."""

    def stage(self, text: str) -> None:
        """Nothing."""

    def note(self, text: str) -> None:
        """Nothing."""

    def advance(self, what: str, done_bytes: int, total_bytes: int) -> None:
        """Nothing."""
