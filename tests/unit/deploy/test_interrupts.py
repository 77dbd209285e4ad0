from __future__ import annotations

import signal

import pytest

from deploy.errors import DeployInterruptedError
from deploy.interrupts import Interrupts


def test_before_anything_is_changed_a_signal_ends_the_work() -> None:
    with pytest.raises(DeployInterruptedError), Interrupts() as interrupts:
        signal.raise_signal(signal.SIGTERM)
    assert interrupts.stopped.is_set()


def test_later_it_is_a_wish_and_more_of_them_only_tell_that_it_is_heard(
    capfd: pytest.CaptureFixture[str],
) -> None:
    with Interrupts() as interrupts:
        interrupts.defer()
        assert not interrupts.stopped.is_set()
        signal.raise_signal(signal.SIGINT)
        assert interrupts.stopped.is_set()
        assert "interrupted: what was begun is undone" in capfd.readouterr().err
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.raise_signal(number)
            assert "undoing is under way" in capfd.readouterr().err


def test_before_any_change_a_second_signal_is_told_that_nothing_is_undone(
    capfd: pytest.CaptureFixture[str],
) -> None:
    with Interrupts():
        with pytest.raises(DeployInterruptedError):
            signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        assert "nothing was changed" in capfd.readouterr().err


def test_a_signal_that_is_ignored_stays_so() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Interrupts() as interrupts:
            signal.raise_signal(signal.SIGHUP)
            assert not interrupts.stopped.is_set()
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
