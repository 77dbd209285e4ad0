"""What can stop a verification, or be its result."""

from __future__ import annotations

import shlex
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, ClassVar

from builder.errors import ChecksFailedError, Message, NodeError, SparklockError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from builder.digest import Digest

_QUOTED_LINES = 8
_QUOTED_CHARACTERS = 500
"""A command can hold a whole program."""


@dataclass(eq=False)
class UnprovenError(ChecksFailedError):
    """At least one check failed or could not be judged."""

    lock_digest: Digest
    failures: tuple[Message, ...]

    @property
    def messages(self) -> tuple[Message, ...]:
        """One message per false or unjudged claim, in the order of the checks."""
        return self.failures


@dataclass(eq=False)
class NothingSelectedError(ChecksFailedError):
    """The selection leaves no check to run."""

    only: str | None

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


@dataclass(eq=False)
class BrokenRunError(ChecksFailedError):
    """pytest ended in another way than by running the checks."""

    what: str
    exit_status: int
    output: str

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


@dataclass(eq=False)
class _CommandError(SparklockError):
    """A command about a node ended otherwise than it should."""

    what: ClassVar[str]
    remedy: ClassVar[str]

    node: str
    argv: Sequence[str]
    exit_status: int
    stderr: str

    @property
    def messages(self) -> tuple[Message, ...]:
        """One message: the node, the command and the end of what it said."""
        return (
            Message(
                place=f"node {self.node}",
                what=self.what,
                expected=f"exit status 0 of {shlex.join(self.argv)[:_QUOTED_CHARACTERS]}",
                found=f"exit status {self.exit_status}",
                detail=_end_of(self.stderr),
                remedy=self.remedy,
            ),
        )


class UnreachableNodeError(_CommandError, NodeError):
    """No ssh connection to a node, or it was lost."""

    what = "cannot be reached by ssh, so nothing is known of it"
    remedy = "run that command yourself; then correct nodes[].ssh or [ssh] config"


class EngineError(_CommandError, NodeError):
    """A node's container engine does not answer."""

    what = "its container engine does not answer"
    remedy = (
        "start Docker on the node, put the ssh user into its docker group, "
        "or correct nodes[].docker_socket"
    )


class FactCommandError(_CommandError, ChecksFailedError):
    """A command that a fact is read with failed on a node."""

    what = "a fact could not be read"
    remedy = "run that command on the node; a check that cannot read does not pass"


@dataclass(eq=False)
class NodesNotReadyError(NodeError):
    """Some nodes cannot be checked; the failure of each."""

    failures: tuple[Message, ...]

    @property
    def messages(self) -> tuple[Message, ...]:
        """One message per node."""
        return self.failures


@dataclass(eq=False)
class UnreadableFactError(ChecksFailedError):
    """Text of a node is not of the form that a check knows."""

    _: KW_ONLY
    source: str
    expected: str
    text: str

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


@dataclass(eq=False)
class NoContainerError(ChecksFailedError):
    """A node does not run exactly one container of the cluster."""

    node: str
    cluster: str
    running: tuple[str, ...]

    @property
    def messages(self) -> tuple[Message, ...]:
        """One message: the containers that run there."""
        return (
            Message(
                place=f"node {self.node}",
                what=f"does not run exactly one container of cluster {self.cluster}",
                expected="one running container",
                found=", ".join(self.running) or "none",
                remedy="inv deploy",
            ),
        )


@dataclass(eq=False)
class ApiError(ChecksFailedError):
    """The server did not give a usable answer."""

    request: str
    problem: str
    deadline_s: float

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
