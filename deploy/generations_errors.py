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


class UnknownGenerationError(NodeError):
    """The nodes have no container of the generation whose logs are asked for."""

    def __init__(self, number: int, existing: Sequence[int]) -> None:
        super().__init__(str(number))
        self.number = number
        self.existing = tuple(existing)

    @property
    def messages(self) -> tuple[Message, ...]:
        """The one message, which names what exists."""
        return (
            Message(
                place="logs",
                what=f"the nodes have no generation {self.number}",
                found=", ".join(map(str, self.existing)) or "none",
                remedy="take one of these, or leave out --generation"
                if self.existing
                else "nothing has been deployed yet: inv deploy",
            ),
        )


class CannotReturnError(NodeError):
    """A generation is not complete on the nodes any more; `others` are those that still are."""

    def __init__(self, number: int, why: str, others: Sequence[int] = ()) -> None:
        super().__init__(why)
        self.number = number
        self.why = why
        self.others = tuple(others)

    @property
    def messages(self) -> tuple[Message, ...]:
        """The one message, with a way to the newest generation that is complete."""
        anew = (
            "deploy its lock again: git checkout REVISION -- cluster.toml lockfile.json, then "
            "inv deploy --older"
        )
        another = f"inv rollback {self.others[0]}, or " if self.others else ""
        return (
            Message(
                place="rollback",
                what=f"{self.why}; nothing was changed",
                expected="all of its containers",
                found=f"complete: {', '.join(map(str, self.others)) or 'no other generation'}",
                remedy=f"{another}{anew}",
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
        self.returns = older.whole
        self.current = current.number
        self.lock_digest = current.lock_digest

    @property
    def messages(self) -> tuple[Message, ...]:
        """The one message: what runs, and the ways on."""
        back = f"inv rollback {self.older}, to start that generation again; "
        if not self.returns:
            back = ""
        return (
            Message(
                place="lockfile.json",
                what=f"this lock is older than what is deployed: it is generation {self.older}'s, "
                f"which generation {self.current} has replaced; nothing was changed",
                expected=f"the lock of generation {self.current}, "
                f"sha256:{short(self.lock_digest)}..., or a newer one",
                remedy=f"git pull, if somebody else deployed it; {back}inv deploy --older, to "
                "deploy this lock anew",
            ),
        )
