"""The ways in which the Hub does not give a model; no text holds a token or a signed address."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Final

from builder.errors import BuildError, Message
from builder.hub_refusal import Refusal, refusal_of


@dataclass(eq=False)
class HubError(BuildError):
    """The Hub, or what stands in its place, did not say which commit a model's branch has."""

    place: str
    repo: str
    found: str

    template = Message(
        place="{place}",
        what="the newest commit of {repo} is not known",
        expected="the Hugging Face Hub's answer, or that of the server in HF_ENDPOINT",
        found="{found}",
        remedy="write by hand, as revision, one of https://huggingface.co/{repo}/commits; "
        "HF_TOKEN logs in to a gated model",
    )


@dataclass(eq=False)
class HubAddressError(HubError):
    """The environment names no server, or no token."""

    template = Message(
        place="{place}",
        what="the Hub cannot be asked for {repo}",
        expected="an address as HF_ENDPOINT, and a token as HF_TOKEN, or neither",
        found="{found}",
        remedy="correct the variable, or unset it: then huggingface.co is asked, with the login of "
        "`hf auth login` if there is one; https://huggingface.co/{repo}/commits has the revisions",
    )


@dataclass(eq=False)
class HubFilesError(BuildError):
    """The Hub's answer about a model's files cannot be used; `found` is what it said."""

    place: str
    repo: str
    revision: str
    found: str

    template = Message(
        place="{place}",
        what="the files of {repo} at {revision} are not known",
        expected="the Hugging Face Hub's answer, or that of the server in HF_ENDPOINT",
        found="{found}",
        remedy="try again later; a lock that names this revision already needs no answer",
    )


@dataclass(eq=False)
class HubGatedError(HubFilesError):
    """The model's licence was not accepted by the account whose token was sent."""

    template = Message(
        place="{place}",
        what="{repo} is gated: the Hub gives it to those who have accepted its terms",
        expected="a token of an account that has",
        found="{found}",
        remedy="open https://huggingface.co/{repo} logged in, accept the terms there, and give a "
        "token of that account: HF_TOKEN, or hf auth login",
    )


@dataclass(eq=False)
class HubDeniedError(HubFilesError):
    """The Hub does not let us see the repository, or there is none: it does not say which."""

    template = Message(
        place="{place}",
        what="the Hub shows no {repo}",
        expected="a public model, or a token that may read a private one",
        found="{found}",
        remedy="correct model.repo if it is misspelt; for a private or gated model give a token "
        "that may read it: HF_TOKEN, or hf auth login",
    )


@dataclass(eq=False)
class HubRevisionError(HubFilesError):
    """The repository has no such commit."""

    template = Message(
        place="{place}",
        what="{repo} has no commit {revision}",
        expected="one of https://huggingface.co/{repo}/commits",
        found="{found}",
        remedy="correct model.revision, or let `inv pin model` write the newest",
    )


@dataclass(eq=False)
class HubUnfitError(HubFilesError):
    """Files that cannot come to the nodes: by their names, their number, or for want of a hash."""

    template = Message(
        place="{place}",
        what="the files of {repo} at {revision} cannot be locked",
        expected="names that stand below the model's folder, each once; a SHA-256 of what is large",
        found="{found}",
        remedy="leave out what is not needed: model.include or model.exclude, such as "
        'exclude = ["original/*"]',
    )


@dataclass(eq=False)
class NoModelFileError(HubFilesError):
    """The patterns choose nothing."""

    template = Message(
        place="{place}",
        what="no file of {repo} is wanted",
        expected="a pattern that fits a file of the repository",
        found="{found}",
        remedy="correct model.include and model.exclude: they are compared with whole paths",
    )


@dataclass(eq=False)
class HubDamagedError(HubFilesError):
    """A file's bytes are not those that its listing names."""

    _: KW_ONLY
    path: str
    expected: str

    template = Message(
        place="{place}",
        what="the Hub gave other bytes for {path} of {repo}",
        expected="{expected}",
        found="{found}",
        remedy="try again; if it comes back, HF_ENDPOINT names a server that is not to be trusted",
    )


_REFUSALS: Final = {
    Refusal.GATED: HubGatedError,
    Refusal.HIDDEN: HubDeniedError,
    Refusal.NO_REVISION: HubRevisionError,
}


def refusal(status: int, code: str) -> type[HubFilesError]:
    """The error for an answer of the Hub; `code` is its header X-Error-Code."""
    return _REFUSALS.get(refusal_of(status, code), HubFilesError)
