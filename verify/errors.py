"""What can stop a verification, or be its result."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from builder.errors import ChecksFailedError, Message, NodeError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from builder.digest import Digest

_QUOTED_LINES = 8


class UnprovenError(ChecksFailedError):
    """At least one check failed or could not be judged."""

    def __init__(self, lock_digest: Digest, failures: tuple[Message, ...]) -> None:
        super().__init__(lock_digest, failures)
        self.lock_digest = lock_digest
        self.failures = failures

    @property
    def messages(self) -> tuple[Message, ...]:
        """One message per false or unjudged claim, in the order of the checks."""
        return self.failures


class NothingSelectedError(ChecksFailedError):
    """The selection leaves no check to run."""

    def __init__(self, only: str | None) -> None:
        super().__init__(only)
        self.only = only

    @property
    def messages(self) -> tuple[Message, ...]:
        """One message: what was asked for."""
        return (
            Message(
                place="verify" if self.only is None else f"verify --only {shlex.quote(self.only)}",
                what="no check was selected, so nothing is proved",
                expected="at least one check",
                remedy="name a group (image, container, model, fabric, collective, serving), a "
                "node, or part of a check's id as --json shows it; with and, or, not between them",
            ),
        )


class BrokenRunError(ChecksFailedError):
    """pytest ended in another way than by running the checks."""

    def __init__(self, what: str, exit_status: int, output: str) -> None:
        super().__init__(what, exit_status, output)
        self.what = what
        self.exit_status = exit_status
        self.output = output

    @property
    def messages(self) -> tuple[Message, ...]:
        """One message with the end of pytest's output."""
        return (
            Message(
                place="verify",
                what=self.what,
                expected="exit status 0 or 1 of pytest, and a result of every check",
                found=f"exit status {self.exit_status}",
                detail=_end_of(self.output),
                remedy="this is a fault of sparklock or its installation, not of the nodes: "
                "make .venv anew with ./inv, and report it if it stays",
            ),
        )


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
                what="cannot be reached by ssh, so nothing is known of it",
                expected=f"exit status 0 of {shlex.join(self.argv)}",
                found=f"exit status {self.exit_status}",
                detail=_end_of(self.stderr),
                remedy="run that command yourself; then correct nodes[].ssh or [ssh] config",
            ),
        )


class EngineError(NodeError):
    """A node's container engine does not answer."""

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
                what="its container engine does not answer",
                expected=f"exit status 0 of {shlex.join(self.argv)}",
                found=f"exit status {self.exit_status}",
                detail=_end_of(self.stderr),
                remedy="start Docker on the node, put the ssh user into its docker group, "
                "or correct nodes[].docker_socket",
            ),
        )


class NodesNotReadyError(NodeError):
    """Some nodes cannot be checked; the failure of each."""

    def __init__(self, failures: tuple[Message, ...]) -> None:
        super().__init__(failures)
        self.failures = failures

    @property
    def messages(self) -> tuple[Message, ...]:
        """One message per node."""
        return self.failures


class FactCommandError(ChecksFailedError):
    """A command that a fact is read with failed on a node."""

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
                what="a fact could not be read",
                expected=f"exit status 0 of {shlex.join(self.argv)[:200]}",
                found=f"exit status {self.exit_status}",
                detail=_end_of(self.stderr),
                remedy="run that command on the node; a check that cannot read does not pass",
            ),
        )


class UnreadableFactError(ChecksFailedError):
    """Text of a node is not of the form that a check knows."""

    def __init__(self, *, source: str, expected: str, text: str) -> None:
        super().__init__(source, expected, text)
        self.source = source
        self.expected = expected
        self.text = text

    @property
    def messages(self) -> tuple[Message, ...]:
        """One message with the beginning of the text."""
        return (
            Message(
                place=self.source,
                what="text of an unknown form, so the claim cannot be judged",
                expected=self.expected,
                found=repr(self.text[:200]),
                remedy="report it with the versions of the node's kernel and Docker",
            ),
        )


class NoContainerError(ChecksFailedError):
    """A node does not run exactly one container of the cluster."""

    def __init__(self, node: str, cluster: str, running: tuple[str, ...]) -> None:
        super().__init__(node, cluster, running)
        self.node = node
        self.cluster = cluster
        self.running = running

    @property
    def messages(self) -> tuple[Message, ...]:
        """One message: the containers that run there."""
        return (
            Message(
                place=f"node {self.node}",
                what=f"does not run exactly one container of cluster {self.cluster}",
                expected="one running container",
                found=", ".join(self.running) or "none",
                remedy="inv deploy" if not self.running else "inv stop, then inv deploy",
            ),
        )


class ApiError(ChecksFailedError):
    """The server did not give a usable answer."""

    def __init__(self, request: str, problem: str, deadline_s: float) -> None:
        super().__init__(request, problem, deadline_s)
        self.request = request
        self.problem = problem
        self.deadline_s = deadline_s

    @property
    def messages(self) -> tuple[Message, ...]:
        """One message: the request and what came of it."""
        return (
            Message(
                place=f"the API at the head, {self.request}",
                what="no usable answer",
                expected=f"HTTP 200 with a JSON object within {self.deadline_s:g} s",
                found=self.problem,
                remedy="inv logs, on every node: a rank that fails or hangs says so in its own log",
            ),
        )


def _end_of(text: str) -> str:
    return "\n".join(text.strip().splitlines()[-_QUOTED_LINES:])
