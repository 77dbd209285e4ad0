"""The templates of errors: a slip in one would be a traceback in place of a message."""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
from dataclasses import dataclass
from string import Formatter
from typing import TYPE_CHECKING

import pytest

import builder
import deploy
from builder.errors import BuildError, Message, SparklockError
from builder.oci.image_errors import EntryError

if TYPE_CHECKING:
    from collections.abc import Iterator

for package in (builder, deploy):
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        if not module.name.endswith(".__main__"):
            importlib.import_module(module.name)


def below(kind: type[SparklockError]) -> Iterator[type[SparklockError]]:
    for child in kind.__subclasses__():
        yield child
        yield from below(child)


STATED = sorted(
    (kind for kind in {*below(SparklockError)} - {EntryError} if hasattr(kind, "template")),
    key=lambda kind: kind.__name__,
)


@pytest.mark.parametrize("kind", STATED)
def test_a_template_names_only_what_its_error_has(kind: type[SparklockError]) -> None:
    assert dataclasses.is_dataclass(kind)
    has = {field.name for field in dataclasses.fields(kind)} | set(dir(kind))

    for part in dataclasses.astuple(kind.template):
        for _, name, _, _ in Formatter().parse(part):
            assert name is None or name in has


def test_there_are_many() -> None:
    assert len(STATED) > 60


@dataclass(eq=False)
class _SampleError(BuildError):
    place: str
    count: int

    template = Message(place="{place}", what="{count:03} of {{n}}", remedy="{place!r}")


def test_values_stand_in_a_template_as_they_are() -> None:
    (message,) = _SampleError("{count} {x}", 7).messages

    assert message == Message(place="{count} {x}", what="007 of {n}", remedy="'{count} {x}'")
