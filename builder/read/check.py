"""From a parsed TOML document to a manifest, or to everything that is wrong with it."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pydantic import ValidationError

from builder.manifest import ClusterManifest
from builder.read.parts import Parts, parts_of
from builder.read.problems import Problem, loc_text, problems_of
from builder.read.rules import broken_rules

if TYPE_CHECKING:
    from builder.read.lines import Loc

_WHOLE_NUMBERS: Final = range(-(2**63), 2**63)
"""What TOML promises; a longer number can even be too long to print."""


@dataclass(frozen=True, slots=True)
class Checked:
    """What checking a document found.

    `manifest` is None when not every field is valid. `parts` are the valid pieces: the files that
    they name are still to be looked at.
    """

    manifest: ClusterManifest | None
    parts: Parts
    problems: tuple[Problem, ...]


def check_document(document: dict[str, Any]) -> Checked:
    """The manifest of a TOML document as tomllib gives it, and all its problems.

    Validated as JSON: pydantic's strict mode takes text for an address, and a list for a tuple,
    only there.
    """
    strange: list[Problem] = []
    plain = {key: _plain(value, (key,), strange) for key, value in document.items()}
    manifest, error = None, None
    try:
        manifest = ClusterManifest.model_validate_json(json.dumps(plain))
    except ValidationError as raised:
        error = raised
    parts = parts_of(plain, error)
    wrong = problems_of(error, ClusterManifest, plain) if error else ()
    told = {problem.loc for problem in strange}
    return Checked(
        manifest=manifest,
        parts=parts,
        problems=(
            *strange,
            *(problem for problem in wrong if problem.loc not in told),
            *broken_rules(parts),
        ),
    )


def _plain(value: Any, loc: Loc, strange: list[Problem]) -> Any:  # noqa: ANN401 - TOML's values
    """The value for JSON; TOML's dates and endless numbers become problems, and empty text."""
    if isinstance(value, dict):
        return {key: _plain(item, (*loc, key), strange) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item, (*loc, number), strange) for number, item in enumerate(value)]
    found = _strangeness(value)
    if found is None:
        return value
    strange.append(
        Problem(
            loc,
            "a kind of value that no key takes",
            expected="text, a whole number, a decimal number, true or false",
            found=found,
            remedy=f"write {loc_text(loc)} in quotes if text is meant, or another value",
        )
    )
    return ""


def _strangeness(value: object) -> str | None:
    """What a value is that JSON cannot say; None if it can."""
    if isinstance(value, str | bool):
        return None
    if isinstance(value, int):
        return None if value in _WHOLE_NUMBERS else "a number of more than 64 bits"
    if isinstance(value, float):
        return None if math.isfinite(value) else str(value)
    return f"the date or time {value}"
