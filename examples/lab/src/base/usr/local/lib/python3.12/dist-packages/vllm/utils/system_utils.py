"""Child processes, and the titles under which `ps` shows them."""

from __future__ import annotations

import ctypes
import os
import select
import signal
import socket
import sys
import time
import traceback
from typing import Callable, Iterable, Optional, Protocol

from vllm import envs
from vllm.distributed.channel import Channel
from vllm.logger import set_process_name

_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_PR_SET_NAME = 15


def set_process_title(name: str) -> None:
    """Show this process as `VLLM::NAME`, in /proc/PID/cmdline and, cut to 15 bytes, in comm.

    The kernel reads cmdline out of the process's own memory, so the title is written there:
    over the whole area of the arguments, and never beyond it. Linux only; elsewhere nothing.
    """
    title = f"{envs.process_name_prefix()}::{name}".encode()
    try:
        with open("/proc/self/stat", "rb") as stat:
            fields = stat.read().rpartition(b")")[2].split()
    except OSError:
        return
    start, end = int(fields[45]), int(fields[46])  # arg_start and arg_end, see proc(5)
    if start and end > start:
        ctypes.memset(start, 0, end - start)
        ctypes.memmove(start, title, min(len(title), end - start - 1))
    ctypes.CDLL(None).prctl(_PR_SET_NAME, title[:15] + b"\0", 0, 0, 0)


class Child:
    """A forked process, and the channel between it and us. The channel ends when it does."""

    def __init__(self, name: str, pid: int, channel: Channel) -> None:
        self.name = name
        self.pid = pid
        self.channel = channel
        self._code: Optional[int] = None

    def wait(self, timeout_s: float) -> Optional[int]:
        """The exit code of the process, negative for a signal; None if it is still running."""
        deadline = time.monotonic() + timeout_s
        while self._code is None:
            left = max(deadline - time.monotonic(), 0)
            if not select.select([self.channel], [], [], left)[0]:
                return None
            if self.channel.ended():
                self._code = _exit_code(os.waitpid(self.pid, 0)[1])
        return self._code

    def stop(self, timeout_s: float) -> int:
        """The exit code, after SIGTERM and, once the time is over, SIGKILL."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            if self._code is None:
                os.kill(self.pid, number)
                self.wait(timeout_s)
        if self._code is None:
            self._code = _exit_code(os.waitpid(self.pid, 0)[1])
        return self._code


def _exit_code(status: int) -> int:
    return -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


class Closable(Protocol):
    """A socket, a channel: what a child must let go of."""

    def close(self) -> None:
        """Close our copy."""


def start_process(
    name: str, log_name: str, target: Callable[[Channel], int], close: Iterable[Closable] = ()
) -> Child:
    """Fork a child that runs `target` and ends with the exit code that it returns.

    The child dies with its parent, whatever happens to that. It inherits open files, as every fork
    does; `close` lists those it must not keep, since a socket only ends once its last copy is
    closed. Call this before any thread is started.
    """
    ours, theirs = socket.socketpair()
    sys.stdout.flush()
    sys.stderr.flush()
    parent = os.getpid()
    pid = os.fork()
    if pid:
        theirs.close()
        return Child(name, pid, Channel(ours))
    code = 1
    try:
        for inherited in (ours, *close):
            inherited.close()
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # sent to all by a terminal; the parent acts
        set_process_title(name)
        set_process_name(log_name)
        if os.getppid() == parent:  # else it died before we asked to be told
            code = target(Channel(theirs))
    except SystemExit as leave:
        code = leave.code if isinstance(leave.code, int) else 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)  # never into the parent's `finally` and `atexit`


def leave_on_sigterm() -> None:
    """Turn SIGTERM and SIGINT into SystemExit, wherever the main thread is."""

    def leave(number: int, frame: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        raise SystemExit(0)

    signal.signal(signal.SIGTERM, leave)
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, leave)
