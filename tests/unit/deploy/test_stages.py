from __future__ import annotations

import pytest

from deploy.scene import Stage
from deploy.stages import Limits, limits_of
from tests.unit.deploy.clusters import document, manifest_of


@pytest.mark.parametrize(
    ("start_s", "meet_s", "expected"),
    [(1800, None, 600), (60, None, 60), (300, None, 120), (60, 5, 5), (60, 90, 60)],
)
def test_meeting_has_its_own_limit_within_that_of_the_start(
    start_s: float, meet_s: float | None, expected: float
) -> None:
    assert Limits(start_s, 60, meet_s).meeting() == expected


def test_every_stage_has_to_follow_in_its_own_time() -> None:
    limits = Limits(start_s=1800, completion_s=60, api_s=600)
    assert limits.deadline(Stage.STARTED, 100, 100) == 700
    assert limits.deadline(Stage.MET, 100, 250) == 850
    assert limits.deadline(Stage.MET, 100, 1700) == 1900
    assert Limits(1800, 60).deadline(Stage.MET, 100, 250) == 1900
    # A server that is up at the last moment is asked all the same.
    assert limits.deadline(Stage.API, 100, 1890) == 2010


def test_what_was_missed_names_the_limit_and_its_key() -> None:
    limits = Limits(start_s=1800, completion_s=60, api_s=600)
    assert limits.missed(Stage.STARTED) == (
        "the ranks have not met within 600 s of the start (rendezvous_timeout_s)"
    )
    assert "600 s after the ranks met (api_timeout_s)" in limits.missed(Stage.MET)
    assert "not completed a prompt within 120 s" in limits.missed(Stage.API)
    whole = "no completion within 60 s of the start (start_timeout_s)"
    assert Limits(60, 20).missed(Stage.STARTED) == whole
    assert Limits(60, 20).missed(Stage.MET) == whole


def test_the_limits_are_the_manifests() -> None:
    text = document()
    text["serve"] |= {"start_timeout_s": 900, "rendezvous_timeout_s": 30, "api_timeout_s": 400}
    limits = limits_of(manifest_of(text).serve)
    assert limits == Limits(start_s=900, completion_s=limits.completion_s, meet_s=30, api_s=400)
