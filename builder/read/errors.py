"""The ways in which a manifest cannot be used."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from builder.errors import ManifestError, Message
from builder.read.loaded import line_of, place_text
from builder.read.problems import loc_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from builder.digest import Digest
    from builder.read.lines import Loc
    from builder.read.problems import Problem


@dataclass(eq=False)
class ManifestNotFoundError(ManifestError):
    """There is no manifest."""

    path: str

    template = Message(
        place="{path}",
        what="there is no manifest",
        expected="a TOML file that describes the image, the model and the nodes",
        found="no such file",
        remedy="run it in the repository's folder, name the file with --file, or copy one of "
        "examples/",
    )


@dataclass(eq=False)
class ManifestUnreadableError(ManifestError):
    """The operating system refuses to give the manifest; `reason` is what it says."""

    path: str
    reason: str

    template = Message(
        place="{path}",
        what="the manifest cannot be read",
        expected="a readable file",
        found="{reason}",
        remedy="name a file that you may read, with --file",
    )


@dataclass(eq=False)
class EmptyManifestError(ManifestError):
    """The manifest holds no key at all."""

    path: str

    template = Message(
        place="{path}:1",
        what="the manifest is empty",
        expected="[image], [vllm], [model], [serve] and [[nodes]]",
        found="no key at all",
        remedy="copy one of examples/ and change it",
    )


@dataclass(eq=False)
class ManifestNotUtf8Error(ManifestError):
    """The manifest has bytes that are not UTF-8; `offset` counts bytes from 0, `line` from 1."""

    path: str
    offset: int
    line: int
    byte: int

    template = Message(
        place="{path}:{line}",
        what="the manifest is not UTF-8",
        expected="UTF-8 text, as TOML demands",
        found="byte 0x{byte:02x} at offset {offset}",
        remedy="save the file as UTF-8",
    )


@dataclass(eq=False)
class ManifestNotTomlError(ManifestError):
    """The manifest is not TOML; `line` and `column` count from 1."""

    path: str
    line: int
    column: int
    problem: str
    found: str

    template = Message(
        place="{path}:{line}:{column}",
        what="the manifest is not TOML: {problem}",
        expected="a [table], a [[list item]] or key = value on each line",
        found="{found}",
        remedy="correct this line; text needs quotes, and each name may appear once",
    )


@dataclass(eq=False)
class InvalidManifestError(ManifestError):
    """The manifest's values cannot be used: all problems at once, from top to bottom."""

    path: str
    lines: Mapping[Loc, int]
    problems: tuple[Problem, ...]

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
            for problem in sorted(dict.fromkeys(self.problems), key=self._position)
        )

    def _position(self, problem: Problem) -> tuple[int, str, str]:
        return line_of(self.lines, problem.loc), loc_text(problem.loc), problem.what


@dataclass(eq=False)
class UnpinnedSourceError(ManifestError):
    """Images have no digest in the manifest, so a lock of them would be of moving names."""

    offered: tuple[tuple[str, Digest], ...]

    @property
    def messages(self) -> tuple[Message, ...]:
        """One message per image, with the digest that its source has now."""
        return tuple(
            Message(
                place=place,
                what="the image is not pinned",
                expected="digest = the digest of an index or of one platform's manifest, or the "
                "image ID of an engine's own",
                found="no digest",
                remedy=f'inv pin all; or, if this is the image you want, add: digest = "{digest}"',
            )
            for place, digest in self.offered
        )


@dataclass(eq=False)
class SshConfigMissingError(ManifestError):
    """There is no file at [ssh] config, so no node can be reached; `place` is the value's."""

    place: str
    path: str

    template = Message(
        place="{place}",
        what="there is no such file, so ssh cannot reach the nodes",
        expected="an ssh_config",
        found="no file {path}",
        remedy="if the nodes are the lab's: inv lab.up writes it; else correct the path",
    )
