"""unshare(2), mount(2) and their relatives, which Python 3.11 has not.

They act on the calling process's namespaces: only the processes inside a lab call them.
"""

from __future__ import annotations

import ctypes
import os
from typing import Final

NOSUID: Final = 0x2
NODEV: Final = 0x4
READ_ONLY: Final = 0x1
_REMOUNT: Final = 0x20
_BIND: Final = 0x1000
_RECURSIVE: Final = 0x4000
_PRIVATE: Final = 0x40000
_DETACH: Final = 0x2

NEW_MOUNT: Final = 0x0002_0000
NEW_UTS: Final = 0x0400_0000
NEW_IPC: Final = 0x0800_0000
NEW_PID: Final = 0x2000_0000
NEW_NET: Final = 0x4000_0000

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mount.argtypes = (
    ctypes.c_char_p,
    ctypes.c_char_p,
    ctypes.c_char_p,
    ctypes.c_ulong,
    ctypes.c_char_p,
)


def become_daemon(namespaces: int) -> None:
    """Nothing; returns in a new process, first in its session and in the namespaces asked for.

    The caller's own process ends with status 0, so that whoever started it can wait for that.
    OSError if the kernel refuses a namespace.
    """
    os.setsid()
    _check(_libc.unshare(namespaces), "unshare", hex(namespaces))
    if os.fork() != 0:  # a new PID namespace begins with the child
        os._exit(0)


def mount(source: str, target: str, kind: str, options: str = "", flags: int = 0) -> None:
    """Nothing; a new file system is mounted. OSError names source and target."""
    _mount(source, target, kind, flags, options)


def bind(source: str | int, target: str, *, recursive: bool = False) -> None:
    """Nothing; a folder, by path or descriptor, is also at target.

    A descriptor reaches a folder whose path has been hidden by another mount since it was opened.
    """
    path = f"/proc/self/fd/{source}" if isinstance(source, int) else source
    _mount(path, target, None, _BIND | (_RECURSIVE if recursive else 0), None)


def make_read_only(target: str) -> None:
    """Nothing; this one mount refuses writes, the file system elsewhere does not."""
    _mount(None, target, None, _BIND | _REMOUNT | READ_ONLY, None)


def unmount(target: str) -> None:
    """Nothing; the mount is gone."""
    _check(_libc.umount2(os.fsencode(target), 0), "umount", target)


def make_private(target: str) -> None:
    """Nothing; no mount below target is told to other namespaces, nor comes from them."""
    _mount(None, target, None, _PRIVATE | _RECURSIVE, None)


def pivot_to(tree: str) -> int:
    """A descriptor of the old root, for `leave`; the tree is the root now."""
    bind(tree, tree)
    old_root = os.open("/", os.O_PATH | os.O_DIRECTORY)
    os.chdir(tree)
    # Same folder twice: the old root lies over the new one until it is left, pivot_root(2).
    _check(_libc.pivot_root(b".", b"."), "pivot_root", tree)
    return old_root


def leave(old_root: int) -> None:
    """Nothing; the old root is out of reach."""
    os.fchdir(old_root)
    _check(_libc.umount2(b".", _DETACH), "umount", "old root")
    os.close(old_root)
    os.chdir("/")


def _mount(
    source: str | None, target: str, kind: str | None, flags: int, options: str | None
) -> None:
    texts = [None if text is None else os.fsencode(text) for text in (source, kind, options)]
    result = _libc.mount(texts[0], os.fsencode(target), texts[1], flags, texts[2])
    _check(result, f"mount {kind or ''} {source or ''}", target)


def _check(result: int, what: str, target: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}", target)
