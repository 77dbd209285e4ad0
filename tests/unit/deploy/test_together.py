from __future__ import annotations

import signal
import threading

import pytest

from deploy.errors import DeployInterruptedError, NodesFailedError
from deploy.interrupts import Interrupts
from deploy.node_errors import EngineError
from deploy.together import each, failure_of, together


def fails(node: str) -> str:
    raise EngineError(node, "answer", "no")


def test_each_has_the_results_of_some_nodes_and_the_failures_of_others() -> None:
    found, failures = each({"a": lambda: 1, "b": lambda: int(fails("b")), "c": lambda: 3})
    assert found == {"a": 1, "c": 3}
    assert [str(error) for error in failures] == [str(EngineError("b", "answer", "no"))]
    assert failure_of(failures) is failures[0]


def test_each_with_nobody_left_raises_what_together_would() -> None:
    with pytest.raises(EngineError):
        each({"a": lambda: fails("a")})
    with pytest.raises(NodesFailedError):
        each({"a": lambda: fails("a"), "b": lambda: fails("b")})


def test_each_of_nothing_is_nothing() -> None:
    assert each({}) == ({}, [])
    assert failure_of([]) is None


def test_a_bug_is_no_failure_of_a_node() -> None:
    with pytest.raises(ZeroDivisionError):
        each({"a": lambda: 1, "b": lambda: 1 // 0})


def test_an_interrupt_does_not_wait_for_a_node_that_is_silent() -> None:
    answered = threading.Event()

    def asked() -> bool:
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        return answered.wait()

    with pytest.raises(DeployInterruptedError), Interrupts():
        together({"a": asked, "b": answered.wait})
    answered.set()
