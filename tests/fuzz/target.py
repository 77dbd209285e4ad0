"""What a fuzzer needs of one reader: something to start from, and what is right."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from builder.errors import SparklockError


@dataclass(frozen=True)
class Target:
    """A reader under test.

    `one` reads one input; a SparklockError is its own answer to what is wrong, and any exception
    that comes out of `one` is a fault. `repair` makes a changed input pass the reader's first
    gates, such as checksums, so that the fuzzer gets behind them. `words` are its vocabulary.
    """

    one: Callable[[bytes], object]
    seeds: Callable[[], Sequence[bytes]]
    repair: Callable[[bytes], bytes] = bytes
    words: tuple[bytes, ...] = ()
    max_bytes: int = 8192


def told(error: SparklockError, *, exit_code: int) -> None:
    """Fails unless the error is of its kind and says all that an error has to say, as text."""
    assert error.exit_code == exit_code, error
    for message in error.messages:
        assert message.place, message
        assert message.what, message
        assert message.remedy, message
        message.text().encode()
