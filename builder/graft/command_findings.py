"""What the closure check finds about commands: why a container could not execute one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from builder.errors import Message


@dataclass(frozen=True, slots=True)
class MissingCommand:
    """A command that is nowhere.

    `place` is where it is asked for, `name` how. `path` is the one absolute path it could have,
    and is empty for a name that is searched for in `search`. `elsewhere` are files of that name.
    """

    place: str
    name: str
    path: str
    workdir: str
    search: tuple[str, ...]
    elsewhere: tuple[str, ...]

    @property
    def message(self) -> Message:
        """The command, the engine's own words for its absence, and the two ways to have it."""
        where, failure = f"at {self.path}", f"stat {self.name}: no such file or directory"
        target = self.path
        if not self.path:
            where = f"{self.name} in a folder on PATH: {':'.join(self.search) or 'there is none'}"
            failure = f'exec: "{self.name}": executable file not found in $PATH'
            target = f"{self.search[0]}/{self.name}" if self.search else f"/FOLDER/{self.name}"
        elsewhere = f", though there is {', '.join(self.elsewhere)}" if self.elsewhere else ""
        return Message(
            place=self.place,
            what=f"{self.name} is not in the assembled image, whose working directory is "
            f"{self.workdir}",
            expected=f"an executable file {where}",
            found=f"nothing{elsewhere}; a container would fail with `{failure}`",
            remedy=f'use a base that has it, or add it with [[image.file]] target = "{target}", '
            'mode = "0755"',
        )


@dataclass(frozen=True, slots=True)
class NotExecutable:
    """A command that is there but has no execute bit, or is no regular file; `path` is absolute."""

    place: str
    name: str
    path: str
    found: str

    @property
    def message(self) -> Message:
        """What the path is instead of an executable file."""
        return Message(
            place=self.place,
            what=f"{self.name} cannot be executed",
            expected=f"a regular file with an execute bit at {self.path}",
            found=self.found,
            remedy='put an executable file there with [[image.file]] and mode = "0755", or use '
            "another base",
        )


@dataclass(frozen=True, slots=True)
class WrongFormat:
    """An executable file that the node's kernel would refuse: `exec format error`."""

    place: str
    name: str
    path: str
    expected: str
    found: str

    @property
    def message(self) -> Message:
        """The format that the file has, and the one that the platform needs."""
        return Message(
            place=self.place,
            what=f"{self.name} is not a program for the platform (`exec format error`)",
            expected=f"{self.expected} at {self.path}",
            found=self.found,
            remedy="use a base and files of the platform in [image] platform",
        )


@dataclass(frozen=True, slots=True)
class MissingInterpreter:
    """A script whose `#!` line names a program that is not there; `path` is the script's."""

    place: str
    path: str
    interpreter: str
    detail: str = ""

    @property
    def message(self) -> Message:
        """The script and the program; a carriage return in its name is made visible."""
        return Message(
            place=self.place,
            what=f"the interpreter of {self.path} is missing",
            expected=f"an executable file {self.interpreter!r} in the assembled image or below "
            "one of the container's mounts",
            found=self.detail or "nothing",
            remedy="use a base that has the interpreter, mount it in [container] mounts, or "
            "correct the script's first line",
        )


BadCommand: TypeAlias = MissingCommand | NotExecutable | WrongFormat | MissingInterpreter
