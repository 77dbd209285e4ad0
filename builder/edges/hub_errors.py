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

    @property
    def messages(self) -> tuple[Message, ...]:
        """One message with the way by hand."""
        return (
            Message(
                place=self.place,
                what=f"the newest commit of {self.repo} is not known",
                expected="the Hugging Face Hub's answer, or that of the server in HF_ENDPOINT",
                found=self.found,
                remedy=f"write by hand, as revision, one of "
                f"https://huggingface.co/{self.repo}/commits; HF_TOKEN logs in to a gated model",
            ),
        )
