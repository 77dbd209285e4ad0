"""The names of findings that a manifest can accept: the same until what they speak of changes."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Final


class Kind(StrEnum):
    """The first word of an identity: what a finding is about."""

    OVERRIDE = "override"
    SIGNATURE = "signature"
    MEMBER = "member"
    CALL = "call"
    INHERITED = "inherited"
    TABLE = "table"
    CODE = "code"
    LOST = "lost"
    INSTALLED = "installed"
    MODEL_TYPE = "model_type"


KINDS: Final = tuple(kind.value for kind in Kind)

WITHOUT_DONORS: Final = frozenset({Kind.LOST, Kind.MODEL_TYPE})
"""Kinds that base and grafted files alone decide; the others may need the donors."""


def identity(kind: Kind, *parts: str) -> str:
    """An identity on one line, without lines of files or digests.

    What cannot be printed is escaped, as in Python's own text of it.
    """
    return " ".join((kind.value, *map(_printable, parts)))


def kind_of(text: str) -> str:
    """The kind that an identity begins with, whether or not there is such a kind."""
    return text.partition(" ")[0]


def accepting(text: str) -> str:
    """The lines for cluster.toml that accept a finding, but for the reason."""
    return f'[[image.accept]]\nfinding = {json.dumps(text, ensure_ascii=False)}\nreason = ""'


def _printable(text: str) -> str:
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode() for each in text
    )
