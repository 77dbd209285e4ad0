"""The API key: asked of the environment, told to the engine, and shown to nobody."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

import pytest

from builder.manifest import cluster_digest
from builder.secret import API_KEY, Secret
from deploy.edges.api_key import api_key_of, require_api_key
from deploy.launch import Made
from deploy.launch_errors import ApiKeyError
from deploy.plan import make_plan
from deploy.reports import PlanReport
from tests.unit.deploy.clusters import document, manifest_of, serving, wanted

if TYPE_CHECKING:
    from builder.manifest import ClusterManifest
    from deploy.wanted import Wanted

KEY = "sk-the-key"


def keyed(key: str | None = KEY, nodes: int = 2) -> Wanted:
    goal = wanted(nodes, change={"serve": {"tensor_parallel": nodes, "api_key_env": "MY_KEY"}})
    return replace(goal, api_key=None if key is None else Secret(key))


def manifest(name: str | None = "MY_KEY") -> ClusterManifest:
    parsed = document()
    if name:
        parsed["serve"]["api_key_env"] = name
    return manifest_of(parsed)


def test_a_secret_prints_as_nothing_and_compares() -> None:
    assert KEY not in f"{Secret(KEY)} {Secret(KEY)!r} {[Secret(KEY)]}"
    assert Secret(KEY) == Secret(KEY) != Secret("other")


def test_the_key_comes_from_the_variable_that_the_manifest_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MY_KEY", KEY)
    assert api_key_of(manifest()) == Secret(KEY)
    assert api_key_of(manifest(None)) is None
    require_api_key(manifest())
    monkeypatch.delenv("MY_KEY")
    assert api_key_of(manifest()) is None
    require_api_key(manifest(None))


@pytest.mark.parametrize("value", [None, "", "two words", "line\n", "schlüssel"])
def test_a_key_that_is_missing_or_cannot_be_sent_is_an_error_that_does_not_show_it(
    value: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MY_KEY", raising=False)
    if value is not None:
        monkeypatch.setenv("MY_KEY", value)
    with pytest.raises(ApiKeyError, match=r"serve\.api_key_env: .* variable MY_KEY") as caught:
        require_api_key(manifest())
    assert caught.value.exit_code == 2
    assert not value or value not in str(caught.value)


def test_only_the_head_is_told_the_key_and_only_when_it_is_made() -> None:
    head, worker = keyed().specs
    secrets = {API_KEY: Secret(KEY)}
    assert f"{API_KEY}={KEY}" in json.dumps(head.request(Made((), secrets)))
    assert API_KEY in json.dumps(head.request())
    assert API_KEY not in json.dumps(worker.request(Made((), secrets)))
    assert KEY not in json.dumps([head.command, head.labels(head.digest, 1), head.digest])
    assert KEY not in json.dumps(asdict(head))


def test_a_key_is_no_part_of_any_digest_and_its_name_is() -> None:
    assert keyed().specs[0].digest == keyed("other").specs[0].digest
    assert keyed().specs[0].digest != wanted().specs[0].digest
    assert cluster_digest(manifest()) != cluster_digest(manifest(None))
    assert "api_key_env" not in json.dumps(manifest(None).stated())


def running(goal: Wanted, key: str | None) -> PlanReport:
    """The plan when a pair runs whose server has a key."""
    states = serving(goal)
    head = states["spark-a"]
    own = replace(head.containers[0], api_key=None if key is None else Secret(key))
    states["spark-a"] = replace(head, containers=(own,))
    return PlanReport("pair", make_plan(goal, states))


def test_another_key_replaces_the_pair_and_the_plan_shows_none() -> None:
    assert running(keyed(), KEY).up_to_date
    for there in ("another key", None):
        report = running(keyed(), there)
        assert "(the API key is another one; generation 1 is of lock" in report.text()
        told = report.text() + json.dumps(report.as_json()) + repr(report)
        assert KEY not in told
        assert "another key" not in told


def test_without_the_variable_the_key_that_runs_is_taken_as_it_is() -> None:
    assert running(keyed(None), "whatever").up_to_date
