"""Ctrl-C and its kin during a deploy: once to stop and roll back, and never to stop that."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from deploy.errors import DeployInterruptedError
from deploy.signals import SIGNALS

if TYPE_CHECKING:
    from types import FrameType, TracebackType
    from typing import Self

STDERR: Final = 2
STOPPING: Final = b"\ninterrupted: what was begun is undone first, or ended if it was confirmed\n"
UNDER_WAY: Final = b"\nalready interrupted: undoing is under way, and is not broken off\n"
ENDING: Final = b"\nalready interrupted: nothing was changed, and it ends\n"


class Interrupts:
    """A context manager that turns signals into DeployInterruptedError, or into a wish to stop.

    While nothing has been changed the first signal raises in the main thread. After `defer` it sets
    `stopped` and no more, and the work looks at that where it can end in order: an exception that
    arrives anywhere could leave a thread at work on a node that is being rolled back. Every
    signal after the first one only says so. One that is ignored, as by nohup, stays ignored.

    A signal that comes when `stopped` is set sets `hurried`: what is being undone is undone, and
    not waited for. `signalled` says that a signal came at all; `stopped` may have other causes.
    """

    def __init__(self) -> None:
        self.stopped = threading.Event()
        self.hurried = threading.Event()
        self.signalled = False
        self._deferred = False
        self._before: dict[int, object] = {}

    def defer(self) -> None:
        """From now on, only set `stopped`."""
        self._deferred = True

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in SIGNALS:
                if signal.getsignal(number) is not signal.SIG_IGN:
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
        first = not self.stopped.is_set()
        self.signalled = True
        self.stopped.set()
        if not first:
            self.hurried.set()
        if first and not self._deferred:
            raise DeployInterruptedError
        # Not by sys.stderr: the frame that this interrupts may be within it.
        again = UNDER_WAY if self._deferred else ENDING
        with suppress(OSError):
            os.write(STDERR, STOPPING if first else again)
