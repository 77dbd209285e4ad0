"""Making room on a node before a rank starts: its page cache is dropped, when that pays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from deploy.node_errors import RemoteCommandError
from deploy.page_cache import DROP, MEMINFO, PROGRAM, room_of, share_to_free
from deploy.preflight.memory import utilization

if TYPE_CHECKING:
    from builder.manifest import ClusterManifest
    from deploy.edges.ssh import NodeConnection

LIMIT_S: Final = 120
"""What is dirty is written first, for 60 s at most."""


def make_room(connection: NodeConnection, manifest: ClusterManifest) -> str:
    """What is to be told of making room for a start, or empty text; never a reason not to start.

    NodeLostError if the connection is gone.
    """
    share = share_to_free(manifest, utilization(manifest))
    if share is None:
        return ""
    argv = ("sh", "-c", PROGRAM, "sh", str(share), MEMINFO, DROP)
    try:
        told = connection.run(argv, timeout_s=LIMIT_S).stdout.decode(errors="replace")
    except RemoteCommandError as error:
        return f"the page cache was not dropped: {error.what}"
    room = room_of(told)
    return "the page cache was not dropped: its size is not told" if room is None else room.text
