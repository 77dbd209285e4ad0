"""What can stop a verification, or be its result."""

from __future__ import annotations

from typing import TYPE_CHECKING

from builder.errors import ChecksFailedError, Message, NodeError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from builder.digest import Digest


class UnprovenError(ChecksFailedError):
    """At least one check failed or could not be judged."""

    def __init__(self, lock_digest: Digest, failures: tuple[Message, ...]) -> None:
        super().__init__(lock_digest, failures)
        self.lock_digest = lock_digest
        self.failures = failures

    @property
    def messages(self) -> tuple[Message, ...]:
        """One message per false claim, in the order of the checks."""
        return self.failures


class UnreachableNodeError(NodeError):
    """No ssh connection to a node, or it was lost."""

    def __init__(self, node: str, argv: Sequence[str], exit_status: int, stderr: str) -> None:
        super().__init__(node, argv, exit_status, stderr)
        self.node = node
        self.argv = tuple(argv)
        self.exit_status = exit_status
        self.stderr = stderr

    @property
    def messages(self) -> tuple[Message, ...]:
        """One message: the node, the command and the end of what it said."""
        return (
            Message(
                place=f"node {self.node}",
                what="cannot be reached by ssh, so nothing was checked on it",
                expected="exit status 0 of " + " ".join(self.argv),
                found=f"exit status {self.exit_status}",
                detail="\n".join(self.stderr.strip().splitlines()[-5:]),
                remedy="run that command yourself; then check nodes[].ssh and [ssh] config",
            ),
        )
