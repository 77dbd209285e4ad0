"""The process that holds the hub: a network namespace with one bridge per subnet.

The bridges have a namespace of their own, because a machine with br_netfilter sends bridged frames
of its own namespace through its own packet filter. Started by nodes.py as
`python -m deploy.lab.hub RECORD_FILE`.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path

from deploy.lab import kernel
from deploy.lab.processes import own_record


def main(record_file: Path) -> None:
    """Never; a sleeping process keeps the namespace."""
    kernel.become_daemon(kernel.NEW_NET)
    own_record().write(record_file)
    while True:
        signal.pause()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
