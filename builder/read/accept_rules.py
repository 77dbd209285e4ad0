"""Rules about [[image.accept]]: which findings can be accepted at all, and each once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from builder.identities import KINDS, kind_of
from builder.read.problems import Problem, repeated, value_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from builder.read.fabric_rules import Rule
    from builder.read.parts import Parts


def only_judgements_are_accepted(parts: Parts) -> Iterator[Problem]:
    """Only a judgement is accepted: with a failing import or command, nothing would serve."""
    for number, item in parts.accepts.items():
        if kind_of(item.finding) not in KINDS:
            yield Problem(
                ("image", "accept", number, "finding"),
                "no finding that can be accepted has such a name",
                expected=f"a name that begins with {', '.join(KINDS)}",
                found=value_text(item.finding),
                remedy="copy the [[image.accept]] that the refused build writes out; a failing "
                "import, class, architecture, command or version has none, and must be mended",
            )


def acceptances_differ(parts: Parts) -> Iterator[Problem]:
    """No finding is accepted twice: one of the reasons would be lost on the reader."""
    yield from repeated(
        (
            (("image", "accept", number, "finding"), item.finding)
            for number, item in parts.accepts.items()
        ),
        "a finding is accepted twice",
        remedy="remove one of the two",
    )


ACCEPT_RULES: Final[tuple[Rule, ...]] = (only_judgements_are_accepted, acceptances_differ)
