"""What a node shows of the ranks that do not come up: one program, given over stdin, that reads.

It needs a POSIX shell and coreutils, and no rights beyond those of the ssh user.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Final

from deploy.scene import SAMPLE_S, SECTION, NodeScene, Socket, node_scene, sockets

if TYPE_CHECKING:
    from collections.abc import Sequence

    from deploy.edges.ssh import NodeConnection

TABLES: Final = ("/proc/net/tcp", "/proc/net/tcp6")

PROGRAM: Final = r"""
LC_ALL=C; export LC_ALL
part() { printf '\036%s\n' "$1"; }
stats() { for pid in $pids; do cat "/proc/$pid/stat" 2>/dev/null; done; }
pids=
for file in $(grep -l -s -F -e "$container" /proc/[0-9]*/cgroup); do
  pid=${file#/proc/}
  pids="$pids ${pid%/cgroup}"
done
part stat; stats
part titles
for pid in $pids; do
  printf '%s\t' "$pid"
  tr '\000\n' '  ' <"/proc/$pid/cmdline" 2>/dev/null
  printf '\n'
done
part sockets; cat /proc/net/tcp /proc/net/tcp6 2>/dev/null
part memory; cat /proc/meminfo
part disks
for path in $paths; do
  printf '%s\t' "$path"
  df -P -k -- "$path" 2>/dev/null | tail -n 1
  printf '\n'
done
part gpu
if command -v nvidia-smi >/dev/null 2>&1; then
  timeout 10 nvidia-smi --query-compute-apps=pid,process_name --format=csv,noheader 2>&1
fi
sleep "$sample_s"
part 'stat again'; stats
part end
"""
"""A container's processes are those of its control group, which has its id in its name."""

assert SECTION == "\036"


def look(connection: NodeConnection, container_id: str, paths: Sequence[str]) -> NodeScene:
    """What a node's kernel tells of itself and of a container's processes; takes SAMPLE_S.

    `paths` are those whose file system may be full; one with a space in it is left out. Raises
    NodeError.
    """
    kept = " ".join(path for path in paths if path.split() == [path])
    settings = {"container": container_id or "-", "paths": kept, "sample_s": str(SAMPLE_S)}
    lines = [f"{name}={shlex.quote(value)}" for name, value in settings.items()]
    program = "\n".join((*lines, PROGRAM)).encode()
    return node_scene(connection.run(("sh", "-s"), stdin=program).stdout.decode(errors="replace"))


def sockets_of(connection: NodeConnection) -> tuple[Socket, ...]:
    """The TCP sockets of a node; raises NodeError."""
    # Status 1 says that there is no IPv6.
    shown = connection.run(("cat", *TABLES), ok=(0, 1)).stdout.decode(errors="replace")
    return sockets(shown.splitlines())
