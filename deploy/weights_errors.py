"""What can go wrong while a model comes to the nodes, one class each; exit code 5, a check's 6."""

from __future__ import annotations

import errno
import os
from shlex import quote
from typing import TYPE_CHECKING, Final

from builder.errors import ChecksFailedError, Message
from builder.hub_refusal import Refusal, refusal_of
from deploy.actions import size_text
from deploy.node_errors import OneNodeError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from builder.lock import ModelFile


class NoHubLibraryError(OneNodeError):
    """The locked image has no huggingface_hub, or no python3 that finds it."""

    what = "the locked image has no huggingface_hub, by which models are fetched"
    remedy = (
        "take a base that has it, as vLLM's images do; or put the files on one node yourself (hf "
        "download REPO --revision REVISION --local-dir FOLDER) and run this again; or name a "
        "folder here: files of [model]"
    )


class PlainHubError(OneNodeError):
    """HF_ENDPOINT is plain HTTP over a network; `found` is the address."""

    what = "the server in HF_ENDPOINT is plain HTTP"
    remedy = "name one with https, or one on this machine's loopback: it is passed on through ssh"


class HubFailedError(OneNodeError):
    """The Hub did not give the files; `detail` is what huggingface_hub said."""

    what = "the Hub did not give the files of {repo}"
    remedy = "see its words above; run it again: what has come is not fetched again"

    def __init__(self, node: str, repo: str, revision: str = "", *, detail: str = "") -> None:
        super().__init__(node, detail=detail)
        self.what = self.what.format(repo=repo, revision=revision)
        self.remedy = self.remedy.format(repo=repo, revision=revision)


class GatedModelError(HubFailedError):
    """The model's licence was not accepted by the token's account."""

    what = "{repo} is gated: the Hub gives it to those who have accepted its terms"
    remedy = (
        "open https://huggingface.co/{repo} logged in, accept the terms there, and give a token of "
        "that account: HF_TOKEN, or hf auth login"
    )


class HubDeniedError(HubFailedError):
    """The Hub does not show the repository."""

    what = "the Hub shows the node no {repo}"
    remedy = "for a private model give a token that may read it: HF_TOKEN, or hf auth login"


class NoSuchRevisionError(HubFailedError):
    """The repository has no such commit."""

    what = "{repo} has no commit {revision}"
    remedy = "correct model.revision, or let `inv pin model` write the newest; then: inv lock"


_REFUSALS: Final = {
    Refusal.GATED: GatedModelError,
    Refusal.HIDDEN: HubDeniedError,
    Refusal.NO_REVISION: NoSuchRevisionError,
}


def refusal(status: int, code: str) -> type[HubFailedError]:
    """The error for an answer of the Hub; `code` is its header X-Error-Code."""
    return _REFUSALS.get(refusal_of(status, code), HubFailedError)


class WrongBytesError(OneNodeError):
    """The Hub gave files whose hashes are not those of the lock; they were removed."""

    what = "the Hub gave other bytes than the lock names"
    remedy = (
        "run it again; if it comes back, HF_ENDPOINT names a server that is not to be trusted, or "
        "the lock was changed by hand: inv lock"
    )

    def __init__(self, node: str, repo: str, files: Sequence[ModelFile]) -> None:
        super().__init__(node, found=f"{repo}: {', '.join(file.path for file in files)}")


class CopyLostError(OneNodeError):
    """The copy between two nodes was cut, however often it was tried."""

    def __init__(self, node: str, source: str, said: str) -> None:
        super().__init__(node, detail=said)
        self.what = f"the copy from node {source} over the fabric was cut"
        self.remedy = (
            "see that the fabric's addresses reach each other and no firewall is between them (inv "
            "doctor); then run it again: it goes on where it was"
        )


class CopyDamagedError(OneNodeError):
    """A file arrived with other bytes than were hashed on the node it came from."""

    remedy = (
        "run it again; if it comes back, check both nodes' memory and disks: the source's file may "
        "have changed since it was hashed"
    )

    def __init__(self, node: str, source: str, path: str) -> None:
        super().__init__(node, found=path)
        self.what = f"a file from node {source} arrived damaged"


class NoSpaceError(OneNodeError):
    """The disk of the model's folder has too little room."""

    def __init__(self, node: str, needed: int, free: int, folder: str) -> None:
        super().__init__(node, found=f"{size_text(free)} free, {size_text(needed)} needed")
        self.what = f"too little free space for the model in {folder}"
        self.remedy = f"make room on the node: df -h {folder}"


WRITE_REMEDIES: Final = {
    errno.ENOSPC: "make room on the node: df -h {folder}",
    errno.EDQUOT: "make room within the ssh user's quota, or raise it: quota -s shows it",
    errno.EROFS: "have the disk mounted for writing: df {folder} names it",
    errno.EACCES: 'give the folder to the ssh user: sudo chown -R "$USER" {folder}',
    errno.EPERM: 'give the folder to the ssh user: sudo chown -R "$USER" {folder}',
    errno.EIO: "the disk fails, and dmesg on the node says how; set model_path of the node to a "
    "folder on another one",
}
"""What helps when a file cannot be written, by the system's reason."""


class NotWritableError(OneNodeError):
    """A file cannot be written in `folder`; `said` is the node's system's own reason."""

    what = "the model's folder cannot be written"

    def __init__(self, node: str, folder: str, said: str) -> None:
        super().__init__(node, found=f"{folder}: {said}")
        known = (text for code, text in WRITE_REMEDIES.items() if os.strerror(code) == said)
        remedy = next(known, "see what the node says: df {folder}; ls -ld {folder}")
        self.remedy = remedy.format(folder=quote(folder))


class WeightsDifferError(ChecksFailedError):
    """`inv weights --check` found files missing, or others."""

    def __init__(self, cluster: str, nodes: Sequence[str]) -> None:
        super().__init__(cluster)
        self.cluster = cluster
        self.nodes = tuple(nodes)

    @property
    def messages(self) -> tuple[Message, ...]:
        """The one message."""
        what = f"the model is not as locked on {', '.join(self.nodes)}"
        return (Message(place=self.cluster, what=what, remedy="inv weights brings it there"),)
