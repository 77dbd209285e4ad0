"""What can go wrong when a generation is asked for by number, or is deployed over a newer one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from builder.errors import LockError, Message, NodeError
from deploy.generations import short

if TYPE_CHECKING:
    from collections.abc import Sequence

    from deploy.generations import Generation


class NoGenerationError(NodeError):
    """There is no such generation to go back to; `existing` are those that were confirmed once."""

    def __init__(self, number: int | None, existing: Sequence[int], current: int) -> None:
        super().__init__(str(number))
        self.number = number
        self.existing = tuple(existing)
        self.current = current

    @property
    def messages(self) -> tuple[Message, ...]:
        """The one message, which names what exists."""
        what = "there is no other generation to go back to"
        if self.number is not None:
            what = f"there is no generation {self.number} that was ever confirmed"
        found = ", ".join(self._told(number) for number in self.existing) or "none"
        remedy = "inv generations shows what is there"
        if not self.existing:
            remedy = "nothing has been deployed yet: inv deploy"
        return (Message(place="rollback", what=what, found=found, remedy=remedy),)

    def _told(self, number: int) -> str:
        return f"{number} (current)" if number == self.current else str(number)


class CannotReturnError(NodeError):
    """A generation is not complete on the nodes any more."""

    def __init__(self, number: int, why: str) -> None:
        super().__init__(why)
        self.number = number
        self.why = why

    @property
    def messages(self) -> tuple[Message, ...]:
        """The one message."""
        return (
            Message(
                place="rollback",
                what=f"{self.why}; nothing was changed",
                remedy="take another one (inv generations), or deploy its lock again: "
                "git checkout REVISION -- cluster.toml lockfile.json, then inv deploy --older",
            ),
        )


class OtherModelError(NodeError):
    """The model's files on the nodes may be those of another generation."""

    def __init__(self, number: int, other: int, lock_digest: str) -> None:
        super().__init__(f"{number}, {other}")
        self.number = number
        self.other = other
        self.lock_digest = lock_digest

    @property
    def messages(self) -> tuple[Message, ...]:
        """The one message."""
        return (
            Message(
                place="rollback",
                what=f"generation {self.number} was made for other model files than generation "
                f"{self.other}, which has put its own in their place; nothing was changed",
                remedy=f"deploy its lock (sha256:{short(self.lock_digest)}...), which brings the "
                "files: git checkout REVISION -- cluster.toml lockfile.json, then "
                "inv deploy --older",
            ),
        )


class OlderLockError(LockError):
    """The lock to deploy is one that a newer generation on the nodes has replaced."""

    def __init__(self, older: Generation, current: Generation) -> None:
        super().__init__(f"{older.number}, {current.number}")
        self.older = older.number
        self.current = current.number
        self.lock_digest = current.lock_digest

    @property
    def messages(self) -> tuple[Message, ...]:
        """The one message: what runs, and the three ways on."""
        return (
            Message(
                place="lockfile.json",
                what=f"this lock is older than what is deployed: it is generation {self.older}'s, "
                f"which generation {self.current} has replaced; nothing was changed",
                expected=f"the lock of generation {self.current}, "
                f"sha256:{short(self.lock_digest)}..., or a newer one",
                remedy="git pull, if somebody else deployed it; inv rollback "
                f"{self.older}, to start that generation again; inv deploy --older, to deploy "
                "this lock anew",
            ),
        )
