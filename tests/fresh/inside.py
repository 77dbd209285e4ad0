"""The first process of a fresh machine: makes the tree its root, then runs the commands in turn.

Everything is imported before the root changes: afterwards there is no Python.
"""

from __future__ import annotations

import os
import socket
import sys
import time
from typing import TYPE_CHECKING, Final

from deploy.lab import kernel

if TYPE_CHECKING:
    from collections.abc import Sequence

ENVIRONMENT: Final = {
    "HOME": "/root",
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "TERM": "dumb",
}
OF_THE_NETWORK: Final = (
    *("http_proxy", "https_proxy", "no_proxy", "SSL_CERT_FILE"),
    *("PIP_CERT", "PIP_DEFAULT_TIMEOUT", "PIP_INDEX_URL", "PIP_TRUSTED_HOST"),
)
"""Variables that say how to get at this network's package servers; no others are handed on."""


def enter(tree: str) -> None:
    """Nothing; the tree is this process's root, with devices, processes and sysfs in it."""
    kernel.make_private("/")
    folders = ("/dev", "/sys")
    descriptors = [os.open(folder, os.O_PATH | os.O_DIRECTORY) for folder in folders]
    old_root = kernel.pivot_to(tree)
    kernel.mount("proc", "/proc", "proc")
    kernel.mount("tmpfs", "/run", "tmpfs", "mode=755", kernel.NOSUID | kernel.NODEV)
    for folder, descriptor in zip(folders, descriptors, strict=True):
        kernel.bind(descriptor, folder, recursive=True)
        os.close(descriptor)
    kernel.leave(old_root)
    socket.sethostname("fresh")


def run(command: str, environment: dict[str, str]) -> int:
    """The command's exit status; whatever it leaves behind is reaped meanwhile, as init does."""
    argv = ("/bin/sh", "-c", f"cd /root/sparklock && exec {command}")
    own = os.posix_spawn(argv[0], argv, environment)
    while True:
        pid, status = os.wait()
        if pid == own:
            return os.waitstatus_to_exitcode(status)


def main(tree: str, commands: Sequence[str]) -> int:
    """0 if every command ended with status 0; a table of times is printed."""
    environment = ENVIRONMENT | {
        key: os.environ[key] for key in OF_THE_NETWORK if key in os.environ
    }
    enter(tree)
    lines = []
    for command in commands:
        print(f"fresh$ {command}", flush=True)
        start = time.monotonic()
        status = run(command, environment)
        lines.append(f"{time.monotonic() - start:7.0f} s  status {status}  {command}")
    print("\n".join(lines), flush=True)
    return int(any("status 0 " not in line for line in lines))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
