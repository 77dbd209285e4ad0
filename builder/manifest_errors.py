"""The ways in which a manifest cannot be used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from builder.errors import ManifestError, Message
from builder.loaded import line_of, place_text
from builder.problems import loc_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from builder.lines import Loc
    from builder.problems import Problem


class ManifestNotFoundError(ManifestError):
    """There is no manifest."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self.path = path

    @property
    def messages(self) -> tuple[Message, ...]:
        """One message with the ways to get or name a manifest."""
        return (
            Message(
                place=self.path,
                what="there is no manifest",
                expected="a TOML file that describes the image, the model and the nodes",
                found="no such file",
                remedy="run it in the repository's folder, name the file with --file, "
                "or copy one of examples/",
            ),
        )


class ManifestUnreadableError(ManifestError):
    """The operating system refuses to give the manifest; `reason` is what it says."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__()
        self.path = path
        self.reason = reason

    @property
    def messages(self) -> tuple[Message, ...]:
        """One message with the system's reason."""
        return (
            Message(
                place=self.path,
                what="the manifest cannot be read",
                expected="a readable file",
                found=self.reason,
                remedy="name a file that you may read, with --file",
            ),
        )


class EmptyManifestError(ManifestError):
    """The manifest holds no key at all."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self.path = path

    @property
    def messages(self) -> tuple[Message, ...]:
        """One message; the list of all missing keys would say less."""
        return (
            Message(
                place=f"{self.path}:1",
                what="the manifest is empty",
                expected="[image], [vllm], [model], [serve] and [[nodes]]",
                found="no key at all",
                remedy="copy one of examples/ and change it",
            ),
        )


class ManifestNotUtf8Error(ManifestError):
    """The manifest has bytes that are not UTF-8; `offset` counts bytes from 0, `line` from 1."""

    def __init__(self, path: str, offset: int, line: int, byte: int) -> None:
        super().__init__()
        self.path = path
        self.offset = offset
        self.line = line
        self.byte = byte

    @property
    def messages(self) -> tuple[Message, ...]:
        """One message with the first such byte."""
        return (
            Message(
                place=f"{self.path}:{self.line}",
                what="the manifest is not UTF-8",
                expected="UTF-8 text, as TOML demands",
                found=f"byte 0x{self.byte:02x} at offset {self.offset}",
                remedy="save the file as UTF-8",
            ),
        )


class ManifestNotTomlError(ManifestError):
    """The manifest is not TOML; `line` and `column` count from 1."""

    def __init__(self, path: str, line: int, column: int, problem: str, found: str) -> None:
        super().__init__()
        self.path = path
        self.line = line
        self.column = column
        self.problem = problem
        self.found = found

    @property
    def messages(self) -> tuple[Message, ...]:
        """One message: a reader of TOML cannot go on after the first mistake."""
        return (
            Message(
                place=f"{self.path}:{self.line}:{self.column}",
                what=f"the manifest is not TOML: {self.problem}",
                expected="a [table], a [[list item]] or key = value on each line",
                found=self.found,
                remedy="correct this line; text needs quotes, and each name may appear once",
            ),
        )


class InvalidManifestError(ManifestError):
    """The manifest's values cannot be used: all problems at once, from top to bottom."""

    def __init__(self, path: str, lines: Mapping[Loc, int], problems: Iterable[Problem]) -> None:
        super().__init__()
        self.path = path
        self.lines = lines
        self.problems = tuple(sorted(dict.fromkeys(problems), key=self._position))

    @property
    def messages(self) -> tuple[Message, ...]:
        """One message per problem."""
        return tuple(
            Message(
                place=place_text(self.path, self.lines, problem.loc),
                what=problem.what,
                expected=problem.expected,
                found=problem.found,
                remedy=problem.remedy,
            )
            for problem in self.problems
        )

    def _position(self, problem: Problem) -> tuple[int, str, str]:
        return line_of(self.lines, problem.loc), loc_text(problem.loc), problem.what


class SshConfigMissingError(ManifestError):
    """There is no file at [ssh] config, so no node can be reached; `place` is the value's."""

    def __init__(self, place: str, path: str) -> None:
        super().__init__()
        self.place = place
        self.path = path

    @property
    def messages(self) -> tuple[Message, ...]:
        """One message instead of one from every node's ssh."""
        return (
            Message(
                place=self.place,
                what="there is no such file, so ssh cannot reach the nodes",
                expected="an ssh_config",
                found=f"no file {self.path}",
                remedy="if the nodes are the lab's: inv lab.up writes it; else correct the path",
            ),
        )
