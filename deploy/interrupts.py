"""Ctrl-C and its kin during a deploy: once to stop and roll back, and never to stop that."""

from __future__ import annotations

import signal
import threading
from typing import TYPE_CHECKING, Final

from deploy.errors import DeployInterruptedError

if TYPE_CHECKING:
    from types import FrameType, TracebackType
    from typing import Self

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupts:
    """A context manager that turns the first signal into DeployInterruptedError, in this thread.

    `stopped` is set by then, so that threads which transfer come to an end. After `shield`, which
    rolling back and cleaning up begin with, signals only set it.
    """

    def __init__(self) -> None:
        self.stopped = threading.Event()
        self._shielded = False
        self._before: dict[int, object] = {}

    def shield(self) -> None:
        """Let no signal interrupt what follows."""
        self._shielded = True

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in SIGNALS:
                self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type] # what signal() itself returned

    def _handle(self, _number: int, _frame: FrameType | None) -> None:
        self.stopped.set()
        if not self._shielded:
            self._shielded = True
            raise DeployInterruptedError
