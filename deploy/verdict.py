"""What a diagnosis comes to: the probable cause of a start that failed, with its evidence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from builder.errors import Message

PLACE: Final = "the pair"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The probable cause, what it was told from, and what to do.

    `rank` is the one that it names, None for all of them or none. `known` is false when no rule
    fits the facts: then it says so, and guesses nothing.
    """

    what: str
    remedy: str
    evidence: tuple[str, ...] = ()
    rank: int | None = None
    known: bool = True

    def message(self, failure: str) -> Message:
        """The failure and this cause of it, as one message."""
        return Message(
            place=PLACE,
            what=failure,
            found=f"most probably {self.what}" if self.known else self.what,
            detail="\n".join(self.evidence),
            remedy=self.remedy,
        )
