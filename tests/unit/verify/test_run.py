"""Which ends of a run a report can be made of."""

from __future__ import annotations

import pytest

from builder.digest import digest_bytes
from verify import events
from verify.edges.process import Ended
from verify.errors import BrokenRunError, NothingSelectedError
from verify.events import Told
from verify.report import Check, result_of
from verify.run import require_whole
from verify.verdict import Finding, Verdict

LOCK = digest_bytes(b"lock")
CHECK = Check("image.files[a]", "a", "node a, rank 0", "Files.")
GOOD = Verdict(("x",))
BAD = Verdict(("x",), (Finding("w", "e", "f", "r"),))


def told(*verdicts: Verdict) -> Told:
    found = Told()
    found.hear(events.collected(LOCK, [CHECK]))
    for verdict in verdicts:
        found.hear(events.result(result_of(CHECK, verdict)))
    return found


def test_runs_that_came_to_their_end_are_whole() -> None:
    require_whole(told(GOOD), Ended(0, ""), None, LOCK)
    require_whole(told(BAD), Ended(1, ""), None, LOCK)
    require_whole(told(), Ended(1, ""), None, LOCK)  # a check without a result is an error itself


@pytest.mark.parametrize("status", [-9, 2, 3, 4, 5])
def test_any_other_end_is_broken_and_its_output_is_shown(status: int) -> None:
    with pytest.raises(BrokenRunError, match="the end of the output"):
        require_whole(told(GOOD), Ended(status, "the end of the output"), None, LOCK)


@pytest.mark.parametrize("status", [4, 5])
def test_a_selection_of_nothing_or_one_that_cannot_be_read_is_named(status: int) -> None:
    with pytest.raises(NothingSelectedError, match="--only 'nonsense and'"):
        require_whole(told(), Ended(status, ""), "nonsense and", LOCK)


def test_a_run_without_checks_proves_nothing() -> None:
    with pytest.raises(NothingSelectedError):
        require_whole(Told(), Ended(0, ""), None, LOCK)


def test_checks_of_another_lock_are_no_proof_of_this_one() -> None:
    with pytest.raises(BrokenRunError, match=r"lockfile\.json was changed"):
        require_whole(told(GOOD), Ended(0, ""), None, digest_bytes(b"another"))


def test_a_failure_that_only_pytest_saw_is_not_lost() -> None:
    with pytest.raises(BrokenRunError, match="no check told of"):
        require_whole(told(GOOD), Ended(1, ""), None, LOCK)


def test_every_end_that_is_not_whole_is_exit_code_6() -> None:
    with pytest.raises(BrokenRunError) as caught:
        require_whole(told(GOOD), Ended(3, ""), None, LOCK)
    assert caught.value.exit_code == 6
