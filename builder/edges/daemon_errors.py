"""What can be wrong with an engine and an image of its own."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING

from builder.errors import BuildError, Message

if TYPE_CHECKING:
    from builder.digest import Digest


@dataclass(eq=False)
class NoEngineError(BuildError):
    """Nothing answers where Docker's settings say that the engine is."""

    place: str
    _: KW_ONLY
    address: str
    reason: str

    template = Message(
        place="{place}",
        what="no Docker engine answers on this machine",
        expected="an engine at {address}",
        found="{reason}",
        remedy="start it, or name another one in DOCKER_HOST or by `docker context use`; for the "
        'engine of a node add: node = "NAME"',
    )


@dataclass(eq=False)
class EngineDeniedError(BuildError):
    """The engine's socket is there, and this user may not use it."""

    place: str
    _: KW_ONLY
    address: str

    template = Message(
        place="{place}",
        what="this user may not use the Docker engine",
        expected="the right to write to {address}",
        found="permission denied",
        remedy="sudo usermod -aG docker $USER, and log in again",
    )


@dataclass(eq=False)
class EngineAddressError(BuildError):
    """Docker's settings name an engine in a way that cannot be used; `found` is what they say."""

    place: str
    _: KW_ONLY
    found: str
    reason: str

    template = Message(
        place="{place}",
        what="Docker's settings name no engine that can be used: {reason}",
        expected="unix:///PATH or tcp://HOST:PORT, in DOCKER_HOST or the docker context",
        found="{found}",
        remedy="correct DOCKER_HOST or DOCKER_CONTEXT; for an engine behind ssh list its machine "
        'in [[nodes]] and add: node = "NAME"',
    )


@dataclass(eq=False)
class EngineImageMissingError(BuildError):
    """The engine has no image of the name; `tags` are those that it has of the repository."""

    place: str
    _: KW_ONLY
    name: str
    tags: tuple[str, ...]

    @property
    def messages(self) -> tuple[Message, ...]:
        """The name, and the nearest ones."""
        remedy = f"docker build -t {self.name} ..., or docker pull or load it there"
        if self.tags:
            remedy = f'write the tag that you mean: source = "docker:{self.tags[0]}"'
        return (
            Message(
                place=self.place,
                what="the engine has no such image",
                expected=self.name,
                found=", ".join(self.tags) or "no image of that name, whatever its tag",
                remedy=remedy,
            ),
        )


@dataclass(eq=False)
class EngineImageDiffersError(BuildError):
    """The pinned image is not in the engine; `found` is what has the name now."""

    place: str
    _: KW_ONLY
    pin: Digest
    found: tuple[Digest, ...]

    @property
    def messages(self) -> tuple[Message, ...]:
        """Both IDs; each is written as it would be pinned."""
        return (
            Message(
                place=self.place,
                what="the engine's image is not the pinned one",
                expected=self.pin,
                found=" or ".join(self.found),
                remedy="build, load or pull the pinned image again; or, if you want the one that "
                f'is found: digest = "{self.found[0]}"',
            ),
        )


@dataclass(eq=False)
class EngineSaveError(BuildError):
    """The engine did not give the image to its end."""

    place: str
    _: KW_ONLY
    reason: str

    template = Message(
        place="{place}",
        what="the engine did not save the whole image",
        found="{reason}",
        remedy="see the engine's own log: journalctl -u docker; before Docker 25 it needs free "
        "space for all layers in its data folder; then run it again",
    )


@dataclass(eq=False)
class EngineCallError(BuildError):
    """The engine refused something else that was asked of it; `call` completes `could not`."""

    place: str
    _: KW_ONLY
    call: str
    reason: str

    template = Message(
        place="{place}",
        what="the engine could not {call}",
        found="{reason}",
        remedy="see the engine's own log: journalctl -u docker",
    )


@dataclass(eq=False)
class EngineArchiveError(BuildError):
    """What the engine saved is not the image that it was asked for, or not all of it."""

    place: str
    _: KW_ONLY
    expected: str
    found: str

    template = Message(
        place="{place}",
        what="what the engine saved is not the image it was asked for",
        expected="{expected}",
        found="{found}",
        remedy="run it again when nobody changes the image; if it stays so: docker save IMAGE -o "
        "FILE, and archive:FILE as source",
    )
