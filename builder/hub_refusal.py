"""What it means when the Hugging Face Hub gives nothing, to a controller or to a node."""

from __future__ import annotations

from enum import Enum


class Refusal(Enum):
    """Why the Hub gives nothing."""

    GATED = "its terms were not accepted"
    HIDDEN = "it does not say whether there is such a repository"
    NO_REVISION = "the repository has no such commit"
    OTHER = "anything else"


def refusal_of(status: int, code: str) -> Refusal:
    """What an HTTP status and the header X-Error-Code mean together."""
    match code:
        case "GatedRepo":
            return Refusal.GATED
        case "RevisionNotFound":
            return Refusal.NO_REVISION
        case "RepoNotFound":
            return Refusal.HIDDEN
        case _:
            return Refusal.HIDDEN if status in (401, 403, 404) else Refusal.OTHER
