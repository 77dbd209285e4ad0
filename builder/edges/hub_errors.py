"""The ways in which a model's newest commit cannot be had."""

from __future__ import annotations

from dataclasses import dataclass

from builder.errors import BuildError, Message


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
