"""What can go wrong with one node and the way to it, one class each: ssh, engine and files."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Final

from builder.errors import LockError, Message, NodeError, SparklockError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from builder.digest import Digest
    from deploy.guard import Holder


MOST_WORDS: Final = 6
"""Of a command, that its error shows."""


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
    """No connection: `destination` is what ssh was asked for, `detail` the end of its stderr.

    `config` is the ssh_config it was given, so that a remedy names a command that does the same.
    """

    what = "ssh failed"
    remedy = "see ssh's own words above"

    def __init__(
        self, node: str, destination: str, detail: str, config: Path | None = None
    ) -> None:
        super().__init__(node, detail=detail)
        self.destination = destination
        self.remedy = self.remedy.format(
            destination=shlex.quote(destination),
            ssh=shlex.join(("ssh", "-F", str(config)) if config else ("ssh",)),
        )


class SshMissingError(SshError):
    """There is no ssh on this machine."""

    what = "this machine has no ssh program"
    remedy = "install OpenSSH's client here: apt install openssh-client"


class NodeRefusedError(SshError):
    """The address answers and nothing listens on the port."""

    what = "the connection was refused"
    remedy = (
        "start sshd on the node, or correct HostName and Port of {destination} in the ssh config"
    )


class NodeUnreachableError(SshError):
    """The address does not answer in time."""

    what = "the node does not answer"
    remedy = "switch the node on and check its cable and address: {ssh} -v {destination} true"


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
        "connect once by hand and compare the fingerprint with the node's own: {ssh} {destination}"
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
        "allow it for this user in the node's /etc/ssh/sshd_config, without DisableForwarding: "
        "AllowStreamLocalForwarding yes and AllowTcpForwarding yes (or local, with slower delivery)"
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


class ContainerRefusedError(EngineError):
    """The engine could not start a container, for a reason that its words tell."""

    def __init__(self, node: str, call: str, detail: str, *, reason: str, remedy: str) -> None:
        super().__init__(node, call, detail)
        self.found = reason
        self.remedy = remedy


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
        """The failed pull, then why we could not serve it, once for all the engine's attempts."""
        reasons = (message for failure in self.failures for message in failure.messages)
        return (*super().messages, *dict.fromkeys(reasons))


class TunnelFailedError(OneNodeError):
    """The engine did not reach us through a port that ssh opened on the node; `detail` says how."""

    what = "the engine does not reach the port that leads here"
    remedy = "look at AllowTcpForwarding and PermitListen in the node's sshd_config"


class ImageLoadError(EngineError):
    """The node could not load the image, in the end not even as a whole archive."""

    def __init__(self, node: str, reference: str, detail: str) -> None:
        super().__init__(node, f"load {reference}", detail)


class ImageUnprovenError(EngineError):
    """The engine says that it has the image, and creates no container from it."""

    remedy = "its record was removed; inv deploy brings the image again"


class NoRoomError(OneNodeError):
    """The node's disk does not hold what loading an archive takes."""

    what = "too little free space to load the image"
    remedy = "make room on the node: docker system df, then docker image prune"

    def __init__(self, node: str, needed_bytes: int, free_bytes: int) -> None:
        super().__init__(node, found=f"{free_bytes} bytes free, {needed_bytes} needed")
        self.needed_bytes = needed_bytes
        self.free_bytes = free_bytes


class ImageMismatchError(OneNodeError):
    """After it was brought the node has another image than the locked one."""

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
        self.what = f"{_shown(argv)} {end}"
        if "No space left on device" in detail:
            self.remedy = "make room on the node: df -h"
        elif "Permission denied" in detail:
            self.remedy = "give the ssh user the right to it on the node"


def _shown(argv: Sequence[str]) -> str:
    """The begin of a command in one line; a whole program in it is left out."""
    words = ["..." if "\n" in word else shlex.quote(word) for word in argv[:MOST_WORDS]]
    return " ".join(words if len(argv) <= MOST_WORDS else [*words, "..."])


class NoPythonError(OneNodeError):
    """The node has no python3; `detail` is what its shell said."""

    what = "the node has no python3, by which files are copied between nodes"
    remedy = (
        "install it there (apt install python3; DGX OS has it), or let `inv deploy` bring the "
        "image first, which has one"
    )


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
    """Another deploy, or another verb that changes nodes, is at work; `holder` None if unseen."""

    def __init__(self, node: str, holder: Holder | None, *, cluster: str) -> None:
        super().__init__(node)
        self.holder = holder
        if holder is None:
            self.what = "another deploy is at work on the node"
            self.found = "its process is one that the ssh user may not see"
            self.remedy = "wait until it has ended, then run the task again"
            return
        self.what = f"another {holder.verb} is at work on the node"
        self.found = holder.text()
        self.remedy = "wait until it has ended, then run the task again"
        if holder.cluster == cluster:
            self.remedy += "; or, if nobody is at work there any more, end its hold: --break-guard"


class GuardLostError(OneNodeError):
    """Our guard of a node is gone; `broken` if somebody ended it on purpose."""

    what = "this process lost its guard of the node, and does nothing more there"
    remedy = "see what runs with inv status; when nobody else is at work: inv deploy"

    def __init__(self, node: str, *, found: str, broken: bool = False) -> None:
        super().__init__(node, found=found)
        self.broken = broken


class GuardUnbreakableError(OneNodeError):
    """The process that holds the guard is another user's, and sudo asks for a password."""

    what = "the guard could not be broken"
    remedy = "let its owner or root end it there: see `ps -ef` for sparklock-guard, then kill"
