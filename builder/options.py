"""Values of options that invoke hands over as text: a wrong one is an error, not a traceback."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

from builder.errors import Message, SparklockError
from builder.oci.reference import ImageReference

if TYPE_CHECKING:
    from collections.abc import Mapping


DIGITS: Final = 9
"""Plenty for any option, and thousands of them make int() raise."""


@dataclass(eq=False)
class OptionError(SparklockError):
    """An option has a value that the task cannot use."""

    exit_code: ClassVar[int] = 2

    option: str
    expected: str
    found: str

    template = Message(
        place="{option}",
        what="the option's value cannot be used",
        expected="{expected}",
        found="{found}",
        remedy="correct it, or leave the option out",
    )


@dataclass(eq=False)
class NotUtf8Error(SparklockError):
    """This process would read and write the names of files in another encoding than UTF-8."""

    exit_code: ClassVar[int] = 2

    encoding: str

    @property
    def messages(self) -> tuple[Message, ...]:
        """One message with the encoding."""
        return (
            Message(
                place="file names",
                what="they are not UTF-8 in this process",
                expected="utf-8, as locks and images have it",
                found=self.encoding,
                remedy="set PYTHONUTF8=1, or a locale of UTF-8",
            ),
        )


def require_utf8(encoding: str) -> None:
    """Nothing, if names of files are UTF-8; else NotUtf8Error: they would be those of others."""
    if encoding != "utf-8":
        raise NotUtf8Error(encoding)


def only_one(options: Mapping[str, object]) -> None:
    """Nothing, unless several options are given that each ask for something else; OptionError."""
    given = [name for name, value in options.items() if value not in (None, False)]
    if len(given) > 1:
        raise OptionError(given[1], f"no {given[1]} beside {given[0]}", " and ".join(given))


def path_of(text: str | None, *, option: str) -> Path | None:
    """The path; None for an option that is not given, OptionError for an empty text.

    A variable of the shell that is not set is no wish to do without.
    """
    if text == "":
        raise OptionError(option, "the name of a file or folder", "no text")
    return None if text is None else Path(text)


def whole_number(text: str, *, option: str, least: int) -> int:
    """The number in decimal digits; OptionError if it is none, below `least` or of ten digits."""
    if text.isascii() and text.isdecimal() and len(text) <= DIGITS and int(text) >= least:
        return int(text)
    raise OptionError(option, f"a whole number from {least} to {10**DIGITS - 1}", repr(text))


def push_target(text: str, *, option: str) -> ImageReference:
    """The repository, and perhaps the tag, to push to; OptionError if the text names none."""
    expected = "a registry's HOST/NAME or HOST/NAME:TAG"
    try:
        reference = ImageReference.parse(text)
    except ValueError as error:
        raise OptionError(option, expected, repr(text)) from error
    if reference.digest is not None:
        raise OptionError(option, f"{expected}; the digest is the image's own", repr(text))
    return reference
