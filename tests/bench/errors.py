"""What keeps a benchmark from being measured; a claim that is not met is no error."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from builder.errors import Message, SparklockError

if TYPE_CHECKING:
    from collections.abc import Sequence


class BenchError(SparklockError):
    """Nothing can be said of a claim."""

    exit_code = 1


class UnknownBenchmarkError(BenchError):
    """No benchmark's name contains what was asked for."""

    def __init__(self, only: str, names: Sequence[str]) -> None:
        super().__init__(only, names)
        self.only, self.names = only, tuple(names)

    @property
    def messages(self) -> tuple[Message, ...]:
        """One message that lists the names."""
        return (
            Message(
                place="--only",
                what="no benchmark has such a name",
                expected=f"a part of one of: {', '.join(self.names)}",
                found=self.only,
                remedy="correct it, or leave it out to run all",
            ),
        )


class PartialRecordError(BenchError):
    """A part of a run would stand beside rows of another one."""

    @property
    def messages(self) -> tuple[Message, ...]:
        """One message."""
        return (
            Message(
                place="--record",
                what="rows of two runs must not stand in one table",
                remedy="leave out --only",
            ),
        )


class NoPlaceForRunError(BenchError):
    """The page has not the lines between which a run stands."""

    def __init__(self, page: str, lines: tuple[str, str]) -> None:
        super().__init__(page, lines)
        self.page, self.lines = page, lines

    @property
    def messages(self) -> tuple[Message, ...]:
        """One message with the lines."""
        return (
            Message(
                place=self.page,
                what="the page has no place for a run",
                expected=" and ".join(self.lines),
                remedy="put these two lines back",
            ),
        )


class BenchBusyError(BenchError):
    """Another run is at work; two at a time would measure each other."""

    @property
    def messages(self) -> tuple[Message, ...]:
        """One message."""
        return (
            Message(
                place="inv bench",
                what="another bench is at work on this machine",
                remedy="run it again when the other has ended",
            ),
        )


class MeasuredCommandError(BenchError):
    """A command that was to be measured did not do its work."""

    def __init__(self, argv: Sequence[str], status: int, said: str) -> None:
        super().__init__(argv, status, said)
        self.argv, self.status, self.said = tuple(argv), status, said

    @property
    def messages(self) -> tuple[Message, ...]:
        """One message with the end of what the command said."""
        return (
            Message(
                place=shlex.join(self.argv),
                what=f"it ended with status {self.status}",
                detail=self.said[-2000:],
                remedy="run the command by itself and mend what it says",
            ),
        )


class NoCompletionError(BenchError):
    """A server that was to be measured answers no completion."""

    def __init__(self, address: str, waited_s: float) -> None:
        super().__init__(address, waited_s)
        self.address, self.waited_s = address, waited_s

    @property
    def messages(self) -> tuple[Message, ...]:
        """One message."""
        return (
            Message(
                place=self.address,
                what=f"no completion within {self.waited_s:g} s",
                remedy="run the bench again; inv logs shows why if it stays so",
            ),
        )
