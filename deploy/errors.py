"""What can go wrong between this machine and its nodes, one class each; exit code 5."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

from builder.errors import LockError, Message, NodeError, SparklockError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from builder.digest import Digest


class OneNodeError(NodeError):
    """A failure of one node: its text is one message, and `detail` quotes the end of output."""

    what: str
    remedy: str

    def __init__(self, node: str, *, found: str = "", detail: str = "") -> None:
        super().__init__(node)
        self.node = node
        self.found = found
        self.detail = detail

    @property
    def messages(self) -> tuple[Message, ...]:
        """The one message, which names the node."""
        return (
            Message(
                place=f"node {self.node}",
                what=self.what,
                found=self.found,
                detail=self.detail,
                remedy=self.remedy,
            ),
        )


class SshError(OneNodeError):
    """No connection: `destination` is what ssh was asked for, `detail` the end of its stderr."""

    what = "ssh failed"
    remedy = "see ssh's own words above"

    def __init__(self, node: str, destination: str, detail: str) -> None:
        super().__init__(node, detail=detail)
        self.destination = destination
        self.remedy = self.remedy.format(destination=shlex.quote(destination))


class NodeRefusedError(SshError):
    """The address answers and nothing listens on the port."""

    what = "the connection was refused"
    remedy = (
        "start sshd on the node, or correct HostName and Port of {destination} in the ssh config"
    )


class NodeUnreachableError(SshError):
    """The address does not answer in time."""

    what = "the node does not answer"
    remedy = "switch the node on and check its cable and address: ssh -v {destination} true"


class NodeUnresolvedError(SshError):
    """No address is known for the name."""

    what = "the name of the node is not known"
    remedy = (
        "correct `ssh` of the node in cluster.toml, or add Host {destination} to the ssh config"
    )


class HostKeyUnknownError(SshError):
    """The node's host key is not in known_hosts."""

    what = "the host key of the node is not known"
    remedy = (
        "connect once by hand and compare the fingerprint with the node's own: ssh {destination}"
    )


class HostKeyChangedError(SshError):
    """The node shows another host key than the known one."""

    what = "the host key of the node has changed"
    remedy = (
        "find out why (a new installation, or somebody in between) before you remove the old key "
        "with ssh-keygen -R"
    )


class SshPermissionError(SshError):
    """The node accepts none of our keys."""

    what = "the node refused the login"
    remedy = "add your public key on the node: ssh-copy-id {destination}"


class NoisyShellError(SshError):
    """The login shell prints text in a session without terminal, which would spoil every answer."""

    what = "the login shell prints text that belongs to no command"
    remedy = (
        "let the shell's start file on the node print only to a terminal: [ -t 1 ] before the echo"
    )


class ForwardingForbiddenError(SshError):
    """The node's sshd lets no port or socket through."""

    what = "the node's sshd forbids forwarding"
    remedy = (
        "set AllowTcpForwarding yes and AllowStreamLocalForwarding yes in the node's sshd_config, "
        "at least for this user"
    )


class NodeLostError(SshError):
    """The connection broke while it was used."""

    what = "the connection to the node broke"
    remedy = "see that the node is up, then run the task again: it continues or cleans up"


class EngineSocketMissingError(OneNodeError):
    """There is no engine socket at the path; `found` is the path."""

    what = "there is no Docker socket"
    remedy = "install or start Docker on the node, or set docker_socket of the node in cluster.toml"


class EngineSocketDeniedError(OneNodeError):
    """The ssh user may not use the engine's socket; `found` is the path."""

    what = "the ssh user may not use the Docker socket"
    remedy = "add the user to the group docker on the node, then log in again"


class EngineStoppedError(OneNodeError):
    """The socket is there and no engine answers on it; `found` is the path."""

    what = "the Docker engine does not answer"
    remedy = "start it on the node: systemctl start docker"


class EngineError(OneNodeError):
    """The engine refused a call; `call` names it, `detail` is what the engine said."""

    remedy = "see the engine's words above; its log has more: journalctl -u docker"

    def __init__(self, node: str, call: str, detail: str) -> None:
        super().__init__(node, detail=detail)
        self.call = call
        self.what = f"the Docker engine could not {call}"


class EngineNotFoundError(EngineError):
    """The engine has no such image or container."""

    remedy = "something removed it meanwhile; run the task again"


class EngineConflictError(EngineError):
    """The engine already has that name, or the object is in use."""

    remedy = "another deploy may be at work on this cluster; when it has ended, run the task again"


class ImagePullError(EngineError):
    """The node could not fetch the image from us.

    `missing` are blobs it asked for in vain, `failures` why ones could not be passed on to it.
    """

    def __init__(
        self,
        node: str,
        reference: str,
        detail: str,
        *,
        missing: Sequence[Digest] = (),
        failures: Sequence[SparklockError] = (),
    ) -> None:
        super().__init__(node, f"pull {reference}", detail)
        self.missing = tuple(missing)
        self.failures = tuple(failures)
        if missing:
            self.found = f"asked for {missing[0]}, which is neither in the store nor in the base"
            self.remedy = "inv build fills the store; the base's source must be there too"

    @property
    def messages(self) -> tuple[Message, ...]:
        """The failed pull, then why we could not serve it."""
        return (
            *super().messages,
            *(message for failure in self.failures for message in failure.messages),
        )


class ImageMismatchError(OneNodeError):
    """After a pull the node has another image than the locked one."""

    what = "the image on the node is not the locked one"
    remedy = (
        "remove it there with docker image rm and deploy again; if it returns, the engine is broken"
    )

    def __init__(self, node: str, expected: Sequence[str], found: str) -> None:
        super().__init__(node, found=found)
        self.expected = tuple(expected)

    @property
    def messages(self) -> tuple[Message, ...]:
        """The one message, with the ids that would have been right."""
        return (
            Message(
                place=f"node {self.node}",
                what=self.what,
                expected=" or ".join(self.expected),
                found=self.found,
                remedy=self.remedy,
            ),
        )


class RemoteCommandError(OneNodeError):
    """A command on a node failed; `status` is its exit status, None when it took too long."""

    remedy = "run the command on the node by hand to see why"

    def __init__(self, node: str, argv: Sequence[str], status: int | None, detail: str) -> None:
        super().__init__(node, detail=detail)
        self.argv = tuple(argv)
        self.status = status
        end = "took too long" if status is None else f"ended with status {status}"
        self.what = f"{shlex.join(argv[:6])}{' ...' if len(argv) > 6 else ''} {end}"  # noqa: PLR2004
        if "No space left on device" in detail:
            self.remedy = "make room on the node: df -h"


class TransferDamagedError(OneNodeError):
    """A file arrived with other bytes than were sent."""

    what = "a file arrived damaged"
    remedy = "deploy again; if it comes back, check the node's memory and disk"


class ModelFileChangedError(LockError):
    """A file of [model].files is not the file that was locked."""

    def __init__(self, path: str, expected: Digest, found: str) -> None:
        super().__init__(path)
        self.path = path
        self.expected = expected
        self.found = found

    @property
    def messages(self) -> tuple[Message, ...]:
        """The one message, which names the file."""
        return (
            Message(
                place=self.path,
                what="the model file is not the one in the lock",
                expected=self.expected,
                found=self.found,
                remedy="restore the file, or accept the new one with: inv lock",
            ),
        )


class DeployBusyError(OneNodeError):
    """Another deploy or stop of this cluster is at work; `found` is the guard's file."""

    what = "another deploy of this cluster is at work on the node"
    remedy = "wait until it has ended, then run the task again"


class DeployInterruptedError(NodeError):
    """The user, or a signal to end, stopped the work."""

    @property
    def messages(self) -> tuple[Message, ...]:
        """The one message."""
        what = "interrupted before the new pair was confirmed"
        return (Message(place="deploy", what=what, remedy="run the task again when you like"),)


class PreflightError(NodeError):
    """Nodes are not fit for what the manifest asks; nothing was changed."""

    def __init__(self, findings: Sequence[Message]) -> None:
        super().__init__(f"{len(findings)} findings")
        self.findings = tuple(findings)

    @property
    def messages(self) -> tuple[Message, ...]:
        """Every finding of every node."""
        return self.findings


class NodesFailedError(NodeError):
    """Several nodes failed at the same step; `failures` in the order of the manifest."""

    def __init__(self, failures: Sequence[SparklockError]) -> None:
        super().__init__(f"{len(failures)} nodes failed")
        self.failures = tuple(failures)

    @property
    def messages(self) -> tuple[Message, ...]:
        """The messages of all failures."""
        return tuple(message for failure in self.failures for message in failure.messages)


class StartFailedError(NodeError):
    """A rank ended before the pair answered; `ends` has the first one to end first."""

    def __init__(self, ends: Sequence[RankEnd]) -> None:
        super().__init__(f"{ends[0].place} ended")
        self.ends = tuple(ends)

    @property
    def messages(self) -> tuple[Message, ...]:
        """The rank that ended first with the end of its own log, then the others with theirs."""
        return tuple(end.message(first=end is self.ends[0]) for end in self.ends)


class NoCompletionError(NodeError):
    """All ranks run and no completion came: refused, too late twice, or not up at all in time."""

    def __init__(self, what: str, said: str, ends: Sequence[RankEnd]) -> None:
        super().__init__(what)
        self.what = what
        self.said = said
        self.ends = tuple(ends)

    @property
    def messages(self) -> tuple[Message, ...]:
        """What was asked and said, then the end of every rank's log."""
        asked = Message(
            place="POST /v1/completions",
            what=self.what,
            detail=self.said,
            remedy="see the ranks' last lines below; [serve] of cluster.toml has the time limits",
        )
        return (asked, *(end.message(first=False) for end in self.ends))


@dataclass(frozen=True, slots=True)
class RankEnd:
    """How a rank was found when a start failed; `exit_code` is None while it runs."""

    node: str
    rank: int
    container: str
    exit_code: int | None
    out_of_memory: bool
    log: str

    @property
    def place(self) -> str:
        """The node and rank, as a message names them."""
        return f"node {self.node}, rank {self.rank}"

    def message(self, *, first: bool) -> Message:
        """The rank's end and its last lines; `first` marks the rank that caused the failure."""
        if self.exit_code is None:
            what, remedy = "its last lines", "it was running: look here for what it waited for"
        elif first:
            what, remedy = "the server ended before the pair answered", "the cause is in its log"
        else:
            what, remedy = "it ended as well", "most likely because the rank above did"
        if self.out_of_memory:
            remedy = "the node ran out of memory: lower gpu-memory-utilization in [serve.args]"
        code = "" if self.exit_code is None else f"exit code {self.exit_code}"
        return Message(
            place=self.place,
            what=what,
            found=f"{code}, out of memory" if self.out_of_memory else code,
            detail=self.log or "(the log is empty)",
            remedy=remedy,
        )


class OldPairDownError(NodeError):
    """The old pair was stopped and stays so, since not all of its nodes can be used."""

    def __init__(self, nodes: Sequence[str]) -> None:
        super().__init__(", ".join(nodes))
        self.nodes = tuple(nodes)

    @property
    def messages(self) -> tuple[Message, ...]:
        """The one message."""
        names = ", ".join(self.nodes)
        what = f"the old pair was not started again, because of {names}: one rank serves nothing"
        return (Message(place="deploy", what=what, remedy=f"repair {names}, then inv deploy"),)


@dataclass(frozen=True, slots=True)
class Rollback:
    """What was undone after a failure, in words, and what could not be.

    `serving` names the containers of the old pair that run, as `node: container`;
    `started_again` says that they had been stopped, and are loading their model.
    """

    done: tuple[str, ...]
    serving: tuple[str, ...]
    failures: tuple[SparklockError, ...]
    started_again: bool


class DeployFailedError(NodeError):
    """A deploy failed and was rolled back; `cause` is why, `rollback` what became of the nodes."""

    def __init__(self, cause: SparklockError, rollback: Rollback) -> None:
        super().__init__(str(cause))
        self.cause = cause
        self.rollback = rollback

    @property
    def messages(self) -> tuple[Message, ...]:
        """The cause, then what was restored, then what could not be."""
        failed = tuple(part for error in self.rollback.failures for part in error.messages)
        return (*self.cause.messages, self._restored(), *failed)

    def _restored(self) -> Message:
        rollback = self.rollback
        remedy = "repair the cause above, then: inv deploy"
        if rollback.failures:
            what = "rolling back did not succeed everywhere; see below"
            remedy = "bring the node back, then inv deploy: it removes what is left"
        elif not rollback.serving:
            what = "rolled back: nothing of this deploy runs, and nothing ran before it"
        elif rollback.started_again:
            what = "rolled back: the old pair was started again and answers once it has loaded"
        else:
            what = "rolled back: the old pair was never stopped"
        return Message(place="deploy", what=what, detail="\n".join(rollback.done), remedy=remedy)


class CleanupFailedError(NodeError):
    """The new pair serves, and what was there before could not all be removed."""

    def __init__(self, cause: SparklockError) -> None:
        super().__init__(str(cause))
        self.cause = cause

    @property
    def messages(self) -> tuple[Message, ...]:
        """What holds, then the cause."""
        what = "the new pair serves; cleaning up after the old one did not end"
        note = Message(place="deploy", what=what, remedy="inv deploy finishes it")
        return (note, *self.cause.messages)
