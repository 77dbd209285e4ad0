from __future__ import annotations

from builder.errors import Message
from verify import events
from verify.events import Told
from verify.report import Check, Outcome, result_of
from verify.verdict import Verdict

A = Check("image.files[a]", "a", "node a, rank 0", "Files.")
B = Check("image.files[b]", "b", "node b, rank 1", "Files.")


def test_results_come_in_the_order_of_the_checks_whatever_order_they_ended_in() -> None:
    told = Told()
    told.hear(events.collected("sha256:0", [A, B]))
    told.hear(events.result(result_of(B, Verdict(("x",)))))
    told.hear(events.result(result_of(A, Verdict(("x",)))))
    assert [item.check for item in told.ended()] == [A, B]
    assert told.lock_digest == "sha256:0"


def test_a_check_that_was_collected_and_did_not_end_is_an_error() -> None:
    told = Told()
    told.hear(events.collected("sha256:0", [A, B]))
    told.hear(events.result(result_of(A, Verdict(("x",)))))
    outcomes = [item.outcome for item in told.ended()]
    assert outcomes == [Outcome.PASSED, Outcome.ERROR]


def test_a_heard_result_is_handed_on_and_other_lines_are_not() -> None:
    told = Told()
    assert told.hear(events.collected("sha256:0", [A])) is None
    heard = told.hear(events.result(result_of(A, Verdict(("x",)))))
    assert heard is not None
    assert heard.check == A


def test_nodes_that_cannot_be_checked_are_heard_of() -> None:
    told = Told()
    message = Message("node a", "cannot be reached", "start it", found="exit status 255")
    told.hear(events.unready([message]))
    assert told.unready == (message,)
