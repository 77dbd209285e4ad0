"""A server that wants a key, from its deploy to its verification, with the key shown nowhere."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from builder.progress import Silent
from deploy import daily, keeping, pipeline
from deploy.launch_errors import ApiKeyError
from tests.integration.deploy.conftest import NODES
from verify.run import run_checks

if TYPE_CHECKING:
    from tests.integration.deploy.conftest import Cluster

pytestmark = pytest.mark.lab

VARIABLE = "SPARKLOCK_TEST_KEY"
FIRST, SECOND = "sk-first-3f9a", "sk-second-77b1"


def test_a_server_with_a_key_is_deployed_verified_and_given_another(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.change("serve", api_key_env=VARIABLE)
    with pytest.raises(ApiKeyError, match=VARIABLE):
        cluster.deploy()
    assert cluster.containers() == {name: [] for name in NODES}

    monkeypatch.setenv(VARIABLE, FIRST)
    told = [cluster.deploy().text()]
    assert not cluster.deploy().changed
    told.append(verified(cluster))
    monkeypatch.delenv(VARIABLE)
    told.append(verified(cluster))  # by the key that the server was given
    told.append(json.dumps(daily.status(cluster.file).as_json()))

    monkeypatch.setenv(VARIABLE, SECOND)
    plan = pipeline.plan(cluster.file)
    assert "the API key is another one" in plan.text()
    report = cluster.deploy()
    assert (report.generation, dict(report.sent_bytes)) == (2, dict.fromkeys(NODES, 0))
    told += [plan.text(), json.dumps(plan.as_json()), json.dumps(report.as_json())]
    told.append(verified(cluster))
    told.append(daily.logs(cluster.file, tail=1000).text())
    told += [(cluster.folder / name).read_text() for name in ("lockfile.json", "cluster.toml")]
    told += [cluster.node(name).run(["ps", "axww", "-o", "args"]) for name in NODES]
    told.append(environment_of(cluster, "spark-b"))
    assert f"VLLM_API_KEY={SECOND}" in environment_of(cluster, "spark-a")

    monkeypatch.delenv(VARIABLE)
    back = keeping.rollback(cluster.file, None, Silent())
    assert back.answer
    assert f"VLLM_API_KEY={FIRST}" in environment_of(cluster, "spark-a")
    told += [back.text(), json.dumps(back.as_json())]
    for key in (FIRST, SECOND):
        assert not [text for text in told if key in text]


def verified(cluster: Cluster) -> str:
    """What the checks of the API say, all of them good."""
    report = run_checks(cluster.file, progress=Silent(), only="serving")
    report.require_passed()
    (check,) = (item for item in report.checks if item.check.id == "serving.api_key")
    assert check.evidence == ("answer without a key: HTTP 401",)
    return json.dumps(report.as_json())


def environment_of(cluster: Cluster, node: str) -> str:
    label = f"label=io.sparklock.cluster={cluster.folder.name}"
    run = cluster.node(node).run
    ids = run(["docker", "ps", "--quiet", "--filter", label]).split()
    return run(["docker", "container", "inspect", "--format", "{{json .Config.Env}}", *ids])
