"""What the programs for nodes and their errors make of single values."""

from __future__ import annotations

from fnmatch import fnmatchcase
from types import SimpleNamespace

import pytest

from deploy import weights_errors
from deploy.onnode.fetching import answer_of, escaped
from deploy.weights_errors import refusal


@pytest.mark.parametrize("path", ["a.b", "a*b?", "[ab].bin", "a[!b]", "]", "*"])
def test_a_pattern_of_a_path_fits_that_path_alone(path: str) -> None:
    assert fnmatchcase(path, escaped(path))
    assert not fnmatchcase(path + "x", escaped(path))
    assert not fnmatchcase("ab.bin", escaped(path))


def test_an_answer_is_found_behind_the_errors_that_came_of_it() -> None:
    class AnsweredError(Exception):
        response = SimpleNamespace(status_code=403, headers={"X-Error-Code": "GatedRepo"})

    outer = OSError("no snapshot")
    outer.__cause__ = ValueError("between")
    outer.__cause__.__context__ = AnsweredError()
    assert answer_of(outer) == (403, "GatedRepo")
    circle = OSError()
    circle.__cause__ = circle
    assert answer_of(circle) == (0, "")
    assert answer_of(None) == (0, "")


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (403, "GatedRepo", weights_errors.GatedModelError),
        (401, "GatedRepo", weights_errors.GatedModelError),
        (401, "", weights_errors.HubDeniedError),
        (404, "RepoNotFound", weights_errors.HubDeniedError),
        (404, "RevisionNotFound", weights_errors.NoSuchRevisionError),
        (500, "", weights_errors.HubFailedError),
        (0, "", weights_errors.HubFailedError),
    ],
)
def test_a_refusal_is_told_by_what_to_do(
    status: int, code: str, kind: type[weights_errors.HubFailedError]
) -> None:
    assert refusal(status, code) is kind
    error = kind("spark-a", "org/name", "a" * 40, detail="HTTP")
    assert error.exit_code == 5
    assert "org/name" in str(error)
    assert "{" not in str(error)
