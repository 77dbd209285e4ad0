from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from builder.progress import Silent
from deploy import daily, errors, generations_errors, keeping, pipeline
from tests.integration.deploy.conftest import NODES, until

if TYPE_CHECKING:
    from tests.integration.deploy.conftest import Cluster

pytestmark = pytest.mark.lab


def test_a_rollback_goes_back_and_forward_and_everything_stays(served: Cluster) -> None:
    served.change("serve.args", max_model_len=128)
    served.deploy()
    assert served.names()["spark-a"] == ["g1-r0.old", "g2-r0"]
    ids = dict(item for items in served.containers().values() for item in items)

    back = keeping.rollback(served.file, None, Silent())
    assert (back.plan.generation, back.before) == (1, 2)
    assert back.answer
    assert served.names() == {
        node: [f"g1-r{rank}", f"g2-r{rank}.old"] for rank, node in enumerate(NODES)
    }
    assert served.answers()
    assert not daily.status(served.file).up_to_date
    assert not keeping.rollback(served.file, 1, Silent()).changed

    forward = keeping.rollback(served.file, 2, Silent())
    assert forward.plan.generation == 2
    assert dict(item for items in served.containers().values() for item in items) == ids
    assert daily.status(served.file).up_to_date
    report = keeping.generations(served.file)
    assert [(g.number, g.whole) for g in report.history.generations] == [(1, True), (2, True)]
    assert "current, runs" in report.text()
    assert "kept, stopped" in report.text()


def test_a_lock_that_a_newer_generation_has_replaced_is_refused_and_deployed_on_request(
    served: Cluster,
) -> None:
    manifest, lock = served.file.read_text(), (served.folder / "lockfile.json").read_text()
    served.change("serve.args", max_model_len=128)
    served.deploy()
    before = served.containers()
    served.file.write_text(manifest)
    (served.folder / "lockfile.json").write_text(lock)
    with pytest.raises(generations_errors.OlderLockError) as caught:
        served.deploy()
    assert (caught.value.older, caught.value.current) == (1, 2)
    assert caught.value.exit_code == 3
    assert served.containers() == before
    with pytest.raises(generations_errors.OlderLockError):
        pipeline.plan(served.file)
    report = pipeline.deploy(served.file, Silent(), pipeline.Wishes(older=True))
    assert report.generation == 3
    assert served.names()["spark-b"] == ["g1-r1.old", "g2-r1.old", "g3-r1"]


def test_a_stopped_pair_is_started_again_by_a_deploy_and_no_new_one_is_made(
    served: Cluster,
) -> None:
    before = served.containers()
    stopped = daily.stop(served.file)
    assert len(stopped.containers) == len(NODES)
    assert "inv rollback 1, or" in stopped.text()
    with pytest.raises(generations_errors.UnknownGenerationError, match="no generation 7"):
        daily.logs(served.file, tail=1, generation=7)
    assert "nothing ran" in daily.stop(served.file).text()
    report = served.deploy()
    assert (report.generation, report.changed) == (1, True)
    assert report.answer
    assert served.containers() == before


def test_a_failed_deploy_restores_the_old_pair_and_says_that_it_answers(served: Cluster) -> None:
    before = served.containers()
    served.change("serve.args", no_such_flag=True)
    with pytest.raises(errors.DeployFailedError) as caught:
        served.deploy()
    assert caught.value.rollback.outcome is errors.Outcome.ANSWERS
    assert "generation 1" in str(caught.value)
    assert served.containers() == before
    assert served.answers()


def test_failed_ranks_are_left_on_request_and_cleared_by_the_next_deploy(served: Cluster) -> None:
    served.change("serve.args", no_such_flag=True)
    with pytest.raises(errors.DeployFailedError) as caught:
        pipeline.deploy(served.file, Silent(), pipeline.Wishes(leave_failed=True))
    assert caught.value.rollback.outcome is errors.Outcome.LEFT
    assert served.names()["spark-a"] == ["g1-r0", "g2-r0.failed"]
    status = daily.status(served.file)
    assert "failed and left for inspection" in status.text()
    assert any("no-such-flag" in log.text for log in daily.logs(served.file, tail=50).logs)
    back = keeping.rollback(served.file, 1, Silent())
    assert back.plan.generation == 1
    assert served.names() == {node: [f"g1-r{rank}"] for rank, node in enumerate(NODES)}
    assert served.answers()


def test_a_generation_that_is_not_whole_is_refused_before_anything_stops(served: Cluster) -> None:
    served.change("serve.args", max_model_len=128)
    served.deploy()
    before = served.containers()
    served.node("spark-b").run(["docker", "rm", f"sparklock-{served.folder.name}-g1-r1.old"])
    with pytest.raises(generations_errors.CannotReturnError, match="rank 1"):
        keeping.rollback(served.file, None, Silent())
    with pytest.raises(generations_errors.NoGenerationError, match=r"1, 2 \(current\)"):
        keeping.rollback(served.file, 7, Silent())
    assert served.containers() == before


def test_a_killed_rollback_is_finished_or_undone_by_the_next_one(served: Cluster) -> None:
    served.change("serve.args", max_model_len=128)
    served.deploy()
    for rank, node in enumerate(NODES):  # as a rollback that was killed before it was confirmed
        name = f"sparklock-{served.folder.name}"
        served.node(node).run(["docker", "stop", "--time", "1", f"{name}-g2-r{rank}"])
        if rank:
            served.node(node).run(["docker", "start", f"{name}-g1-r{rank}.old"])
    assert served.deploy().generation == 2
    assert served.names()["spark-b"] == ["g1-r1.old", "g2-r1"]
    assert served.answers()


def test_the_tasks_print_what_a_script_reads(served: Cluster) -> None:
    def inv(*words: str) -> subprocess.CompletedProcess[str]:
        argv = [sys.executable, "-m", "invoke", *words, "--file", str(served.file), "--json"]
        return subprocess.run(argv, cwd=served.root, capture_output=True, text=True, check=False)

    told = json.loads(inv("generations").stdout)
    assert told["current"] == 1
    assert [rank["node"] for rank in told["generations"][0]["ranks"]] == list(NODES)
    refused = inv("rollback")
    assert refused.returncode == 5
    assert json.loads(refused.stdout or refused.stderr)["error"] == "NoGenerationError"
    until(served.answers)


def test_gc_keeps_so_many_generations_and_their_images_on_every_node(served: Cluster) -> None:
    def images(node: str) -> set[str]:
        argv = ["docker", "images", "--format", "{{.Tag}}", f"sparklock/{served.folder.name}"]
        return set(served.node(node).run(argv).split())

    first = {node: images(node) for node in NODES}
    template = served.folder / "examples/lab/chat_template.jinja"
    template.write_text(template.read_text() + f"{{# {served.folder.name} #}}\n")
    served.change("serve.args", max_model_len=128)
    served.deploy()
    served.change("serve.args", max_model_len=64)
    served.deploy()
    would = keeping.sweep(served.file, keep=1, dry_run=True)
    assert served.names()["spark-a"] == ["g1-r0.old", "g2-r0.old", "g3-r0"]
    did = keeping.sweep(served.file, keep=1)
    assert did.kept == would.kept
    assert did.kept.generations == (3, 2)
    for rank, node in enumerate(NODES):
        assert served.names()[node] == [f"g2-r{rank}.old", f"g3-r{rank}"]
        assert images(node)
        assert not images(node) & first[node]
    assert not served.deploy().changed
    assert keeping.rollback(served.file, None, Silent()).plan.generation == 2
