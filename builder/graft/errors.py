"""Failures of grafting: a package or file that is not there.

Those of editing a table stand beside it, in builder/graft/table_errors.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from builder.errors import BuildError, Message

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


@dataclass(eq=False)
class PackageNotFoundError(BuildError):
    """An image has no such package in any of its site-packages folders."""

    image: str
    package: str
    sites: tuple[str, ...]
    links: Mapping[str, str]

    @property
    def messages(self) -> tuple[Message, ...]:
        """One message; it tells an editable install, which is a link, from an absent package."""
        found = (
            f"none, in {_listed(self.sites)}" if self.sites else "no site-packages folder at all"
        )
        remedy = f"use an image that has {self.package} installed"
        if self.links:
            found = _listed(f"{path} -> {link}" for path, link in sorted(self.links.items()))
            remedy = "a linked package cannot be grafted; use an image with a plain installation"
        return (
            Message(
                place=self.image,
                what=f"the package {self.package} was not found",
                expected=f"one **/{{site,dist}}-packages/{self.package}/__init__.py",
                found=found,
                remedy=remedy,
            ),
        )


@dataclass(eq=False)
class PackageAmbiguousError(BuildError):
    """An image has the package more than once, so nobody can say which one would be imported."""

    image: str
    package: str
    paths: tuple[str, ...]

    @property
    def messages(self) -> tuple[Message, ...]:
        """One message that lists every place of the package."""
        return (
            Message(
                place=self.image,
                what=f"the package {self.package} is installed {len(self.paths)} times",
                expected=f"one **/{{site,dist}}-packages/{self.package}/__init__.py",
                found=_listed(self.paths),
                remedy="use an image with one installation of it",
            ),
        )


@dataclass(eq=False)
class DistInfoError(BuildError):
    """An image does not say which version of a package is installed, or says it twice."""

    image: str
    package: str
    site: str
    paths: tuple[str, ...]

    @property
    def messages(self) -> tuple[Message, ...]:
        """One message that lists the METADATA files found."""
        return (
            Message(
                place=f"{self.image}: /{self.site}",
                what=f"the installed version of {self.package} cannot be read",
                expected=f"one {self.package}-VERSION.dist-info/METADATA with a Version line",
                found=_listed(self.paths) if self.paths else "none",
                remedy=f"use an image in which pip knows {self.package}",
            ),
        )


@dataclass(frozen=True, slots=True)
class Fault:
    """Why a donor's file cannot be taken, what is there instead, and the way out."""

    what: str
    found: str
    remedy: str


@dataclass(frozen=True, slots=True)
class BadPick:
    """A file that cannot be taken; `place` is `cluster.toml: image.graft[0].files[1]`."""

    place: str
    donor: str
    source: str
    fault: Fault

    @property
    def message(self) -> Message:
        """The file, where it was looked for, and what to do instead."""
        return Message(
            place=self.place,
            what=f"donor {self.donor}: {self.fault.what}",
            expected=f"a regular file at /{self.source}",
            found=self.fault.found,
            remedy=self.fault.remedy,
        )


@dataclass(eq=False)
class PickError(BuildError):
    """Files of a graft cannot be taken out of their donor."""

    bad: tuple[BadPick, ...]

    @property
    def messages(self) -> tuple[Message, ...]:
        """One message per file."""
        return tuple(bad.message for bad in self.bad)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names)
