from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from builder.digest import digest_bytes
from builder.secret import API_KEY
from deploy.drift import compare, current
from deploy.drift_facts import (
    Cause,
    Difference,
    Process,
    Stranger,
    Witnessed,
    inspected,
    strangers,
    written,
)
from deploy.drift_reports import DriftReport, apart
from deploy.state import ImageFacts
from tests.unit.deploy.clusters import serving, wanted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from deploy.drift_facts import Inspected
    from deploy.launch import ContainerSpec
    from deploy.wanted import Wanted

KEY = "sk-shown-nowhere"
IMAGE = {"Config": {"Env": ["PATH=/usr/bin"], "Labels": {"of": "image"}}}
ENGINES_OWN = {"CgroupnsMode": "host", "Runtime": "nvidia", "MaskedPaths": ["/proc/kcore"]}


def answer(goal: Wanted, spec: ContainerSpec) -> dict[str, Any]:
    """What an engine says of a container that was made as a spec asks and runs since."""
    request: dict[str, Any] = json.loads(json.dumps(spec.request()))
    host = request.pop("HostConfig")
    host["CapAdd"] = [f"CAP_{name}" for name in host["CapAdd"]]
    host["RestartPolicy"]["MaximumRetryCount"] = 0
    for mount in host["Mounts"]:
        if not mount["ReadOnly"]:
            del mount["ReadOnly"]
    labels = goal.labels(spec, 1) | {"of": "image"}
    return {
        "Name": f"/{spec.name(1)}",
        "Image": goal.image.config_digest,
        "RestartCount": 0,
        "Config": {
            **request,
            "Env": [*request["Env"], "PATH=/usr/bin"],
            "Labels": labels,
            "WorkingDir": "/workspace/vllm",
        },
        "HostConfig": {**host, **ENGINES_OWN, "Memory": 0, "PidsLimit": None, "Privileged": False},
        "State": {
            "Running": True,
            "Paused": False,
            "ExitCode": 0,
            "Pid": 10,
            "FinishedAt": "0001-01-01T00:00:00Z",
        },
    }


def processes(spec: ContainerSpec) -> tuple[Process, ...]:
    words = " ".join(spec.command)
    serve = words[words.index("serve") :]
    return (
        Process(10, 1, f"/sbin/docker-init -- {words}"),
        Process(11, 10, f"/usr/bin/python3 /usr/local/bin/vllm {serve}"),
        Process(12, 11, "VLLM::EngineCore"),
    )


def pair(
    goal: Wanted, change: Callable[[dict[str, Any]], object] = lambda _: None
) -> dict[str, Witnessed]:
    """A pair that runs as wanted, but for what was changed in rank 0's container."""
    views = {}
    for spec, state in zip(goal.specs, serving(goal).values(), strict=True):
        found = answer(goal, spec)
        if spec.rank == 0:
            change(found)
        container = inspected(found, IMAGE, {}, [])
        views[spec.node] = Witnessed(state, (replace(container, processes=processes(spec)),), ())
    return views


def with_rank_0(views: Mapping[str, Witnessed], **changes: Any) -> dict[str, Witnessed]:  # noqa: ANN401
    """The same with other facts of rank 0's container."""
    view = views["spark-a"]
    return {**views, "spark-a": replace(view, containers=(replace(view.containers[0], **changes),))}


def only(goal: Wanted, views: Mapping[str, Witnessed]) -> Difference:
    found = compare(goal, views)
    assert len(found) == 1, found
    return found[0]


def test_a_pair_as_it_was_made_differs_in_nothing() -> None:
    goal = wanted()
    assert compare(goal, pair(goal)) == ()


def test_nothing_deployed_is_one_difference() -> None:
    goal = wanted()
    views = {
        name: Witnessed(replace(view.state, containers=()), (), ())
        for name, view in pair(goal).items()
    }
    assert only(goal, views).what == "deployment"


def test_a_lock_that_changed_in_what_reaches_no_container_is_no_drift() -> None:
    goal = wanted()
    assert compare(replace(goal, lock_digest=digest_bytes(b"another")), pair(goal)) == ()


def test_a_model_that_the_lock_has_changed_is_the_locks() -> None:
    goal = wanted()
    fewer = replace(goal, model_files=goal.model_files[:1])
    found = compare(fewer, pair(goal))
    assert {(item.what, item.cause) for item in found} == {
        ("label io.sparklock.model", Cause.INPUTS)
    }


HOST = {
    "Memory": (2 << 30, "Memory"),
    "RestartPolicy": ({"Name": "always", "MaximumRetryCount": 0}, "RestartPolicy"),
    "Privileged": (True, "Privileged"),
    "CapAdd": (["IPC_LOCK", "SYS_ADMIN"], "CapAdd"),
    "ShmSize": (64 << 20, "ShmSize"),
    "Binds": (["/:/host"], "Binds"),
    "DeviceRequests": ([], "DeviceRequests"),
    "Ulimits": ([], "Ulimits"),
}


@pytest.mark.parametrize("name", HOST)
def test_a_setting_that_its_own_label_contradicts_was_changed_by_a_person(name: str) -> None:
    goal = wanted()
    value, what = HOST[name]
    found = only(goal, pair(goal, lambda item: item["HostConfig"].update({name: value})))
    assert (found.node, found.what, found.cause) == ("spark-a", what, Cause.PERSON)
    assert "docker rm --force sparklock-pair-g1-r0" in found.remedy


def test_an_argument_that_the_manifest_has_changed_since_is_the_manifests() -> None:
    then, now = wanted(), wanted(change={"serve": {"args": {"max-model-len": 512}}})
    found = compare(now, pair(then))
    assert {item.what for item in found} == {"Cmd"}
    assert {item.cause for item in found} == {Cause.INPUTS}
    assert "inv plan" in found[0].remedy


def test_beside_a_changed_manifest_only_what_docker_update_can_do_is_a_persons() -> None:
    then, now = wanted(), wanted(change={"serve": {"args": {"max-model-len": 512}}})
    views = pair(
        then, lambda item: item["HostConfig"].update(Memory=1, RestartPolicy={"Name": "always"})
    )
    causes = {item.what: item.cause for item in compare(now, views) if item.node == "spark-a"}
    assert causes == {
        "Cmd": Cause.INPUTS,
        "Memory": Cause.PERSON,
        "RestartPolicy": Cause.UNKNOWN,
    }


def test_another_image_in_the_lock_is_told_as_the_locks() -> None:
    found = compare(wanted(image="new"), pair(wanted()))
    assert {item.cause for item in found if item.what in {"Image", "image"}} == {Cause.INPUTS}


def test_the_values_of_secrets_are_never_shown() -> None:
    goal = wanted()
    views = pair(goal, lambda item: item["Config"]["Env"].extend(["HF_TOKEN=hf_abc", "SEED=1"]))
    found = {item.what: item.found for item in compare(goal, views)}
    assert found == {"Env HF_TOKEN": "a value that is not shown", "Env SEED": "'1'"}


@pytest.mark.parametrize(
    ("changes", "what", "found"),
    [
        ({"name": "foo"}, "name", "foo"),
        ({"paused": True}, "container sparklock-pair-g1-r0", "it is paused"),
        ({"running": False, "exit_code": 3}, "container sparklock-pair-g1-r0", "exit code 3"),
        ({"restarts": 2}, "container sparklock-pair-g1-r0", "again 2 times"),
        ({"ended": True}, "container sparklock-pair-g1-r0", "alone"),
        ({"image_id": "sha256:00"}, "image", "sha256:00"),
        ({"image_labels": frozenset()}, "label of", "image"),
        ({"written": ("C /opt/lib/site-packages/vllm/a.py",)}, "/vllm/a.py", "changed"),
        ({"written": ("A /workspace/vllm/b.sh",)}, "file /workspace/vllm/b.sh", "added"),
    ],
)
def test_what_a_person_does_to_a_container_is_named(
    changes: dict[str, Any], what: str, found: str
) -> None:
    goal = wanted()
    difference = only(goal, with_rank_0(pair(goal), **changes))
    assert what in difference.what
    assert found in difference.found


@pytest.mark.parametrize(
    "entry", ["C /root/.cache/x", "A /opt/site-packages/a/__pycache__/a.cpython-312.pyc"]
)
def test_what_a_server_writes_by_itself_is_no_drift(entry: str) -> None:
    goal = wanted()
    assert compare(goal, with_rank_0(pair(goal), written=(entry,))) == ()


def test_ranks_that_were_all_started_again_are_no_drift() -> None:
    goal = wanted()
    views = {
        name: replace(view, containers=(replace(view.containers[0], ended=True),))
        for name, view in pair(goal).items()
    }
    assert compare(goal, views) == ()


def test_a_session_in_a_container_is_named_without_its_arguments() -> None:
    goal = wanted()
    session = Process(99, 5, "bash -c secret")
    difference = only(goal, with_rank_0(pair(goal), processes=(*processes(goal.specs[0]), session)))
    assert difference.found == "process 99: bash"


def test_a_live_server_with_other_arguments_is_told_where_they_differ() -> None:
    goal = wanted()
    init, server, engine = processes(goal.specs[0])
    other = replace(server, args=server.args.replace("--max-model-len 256", "--max-model-len 8"))
    difference = only(goal, with_rank_0(pair(goal), processes=(init, other, engine)))
    assert difference.what == "live command line"
    assert "--max-model-len 8" in difference.found


def test_a_rank_that_is_gone_and_containers_that_nobody_needs_are_named() -> None:
    goal = wanted()
    views = pair(goal)
    extra = replace(views["spark-a"].containers[0], name="copy")
    view = replace(views["spark-a"], strangers=(Stranger("hand", "sparklock/pair:0"),))
    views["spark-a"] = replace(view, containers=(*view.containers, extra))
    views["spark-b"] = replace(views["spark-b"], containers=())
    assert [item.what for item in compare(goal, views)] == [
        "container copy",
        "container hand",
        "container sparklock-pair-g1-r1",
    ]


def test_ranks_on_trial_or_superseded_are_not_the_current_generation() -> None:
    goal = wanted()
    views = pair(goal)
    (now,) = views["spark-a"].containers
    trial = _generation(replace(now, name="sparklock-pair-g3-r0.trial", running=False), 3)
    old = _generation(replace(now, name="sparklock-pair-g0-r0.old", running=False), 0)
    views["spark-a"] = replace(views["spark-a"], containers=(old, now, trial))
    assert current(views) == 1
    assert compare(goal, views) == ()
    awake = replace(views["spark-a"], containers=(replace(old, running=True), now))
    assert only(goal, {**views, "spark-a": awake}).what == "container sparklock-pair-g0-r0.old"


def _generation(item: Inspected, generation: int) -> Inspected:
    labels = {**item.labels, "io.sparklock.generation": str(generation)}
    return replace(item, config={**item.config, "Labels": labels})


def test_a_moved_tag_and_changed_model_files_are_named() -> None:
    goal = wanted()
    views = pair(goal)
    state = views["spark-b"].state
    moved = ImageFacts("sha256:" + "0" * 64, (goal.image.reference,), ())
    config, weights = state.model_files
    state = replace(
        state, image=moved, untagged=state.image, model_files=(replace(config, digest=None),)
    )
    views["spark-b"] = replace(views["spark-b"], state=state)
    found = {item.what: item for item in compare(goal, views)}
    assert set(found) == {
        f"tag {goal.image.reference}",
        f"model file {config.path}",
        f"model file {weights.path}",
    }
    assert found[f"tag {goal.image.reference}"].cause is Cause.PERSON
    assert found[f"model file {weights.path}"].cause is Cause.DISK
    assert found[f"model file {weights.path}"].found == "no such file"


def test_changed_files_come_without_the_folders_above_them() -> None:
    changes = [{"Path": "/a", "Kind": 0}, {"Path": "/a/b", "Kind": 1}, {"Path": "/c", "Kind": 2}]
    assert written(changes) == ("A /a/b", "D /c")


def test_strangers_run_our_image_or_have_our_names_and_not_our_label() -> None:
    ours = {"io.sparklock.cluster": "pair"}
    theirs = {"io.sparklock.cluster": "pair-b"}
    listed: list[dict[str, Any]] = [
        {"Names": ["/a"], "Image": "x", "ImageID": "i", "State": "running", "Labels": ours},
        {"Names": ["/b"], "Image": "x", "ImageID": "i", "State": "running", "Labels": {}},
        {"Names": ["/c"], "Image": "sparklock/pair:1", "ImageID": "j", "State": "running"},
        {"Names": ["/d"], "Image": "x", "ImageID": "i", "State": "exited", "Labels": {}},
        {"Names": ["/sparklock-pair-g1-r0"], "Image": "y", "ImageID": "k", "State": "running"},
        {
            "Names": ["/sparklock-pair-b-g1-r0"],
            "ImageID": "i",
            "State": "running",
            "Labels": theirs,
        },
        {"Names": ["/other"], "Image": "y", "ImageID": "k", "State": "running"},
    ]
    found = strangers(listed, "pair", frozenset({"i"}))
    assert [item.name for item in found] == ["b", "c", "sparklock-pair-g1-r0"]


def test_a_report_tells_each_difference_with_its_maker_and_ends_with_6() -> None:
    goal = wanted()
    differences = compare(goal, with_rank_0(pair(goal), name="foo"))
    report = DriftReport("pair", 1, ("spark-a", "spark-b"), 40, differences)
    assert report.exit_code == 6
    assert "who:      a person changed it on the node" in report.text()
    assert report.as_json()["drift"] is True
    none = DriftReport("pair", 1, ("spark-a", "spark-b"), 40, ())
    assert none.exit_code == 0
    assert (
        none.text() == "pair: generation 1 is as locked: 40 settings and files on spark-a, spark-b"
    )


def as_made(answer: dict[str, Any]) -> None:
    """What only the making of a container settles: device files, the cache, the API key."""
    paths = ("/dev/infiniband/rdma_cm", "/dev/infiniband/uverbs1", "/dev/infiniband/uverbs3")
    (wish,) = answer["HostConfig"]["Devices"]
    answer["HostConfig"]["Devices"] = [
        wish | {"PathOnHost": path, "PathInContainer": path} for path in paths
    ]
    for mount in answer["HostConfig"]["Mounts"]:
        if mount["Type"] == "volume":
            mount["Source"] = f"sparklock-pair-cache-{mount['Source']}-g7"
    env = answer["Config"]["Env"]
    answer["Config"]["Env"] = [f"{API_KEY}={KEY}" if name == API_KEY else name for name in env]


def test_what_only_the_making_of_a_container_settles_is_no_drift_and_a_key_is_never_shown() -> None:
    goal = wanted(change={"serve": {"tensor_parallel": 2, "api_key_env": "MY_KEY"}})
    assert compare(goal, pair(goal, as_made)) == ()

    def without_key(answer: dict[str, Any]) -> None:
        as_made(answer)
        env = answer["Config"]["Env"]
        answer["Config"]["Env"] = [item for item in env if not item.startswith(API_KEY)]

    (found,) = compare(goal, pair(goal, without_key))
    assert (found.what, found.found) == (f"Env {API_KEY}", "nothing")
    assert KEY not in repr(found)


def test_long_texts_are_shown_where_they_differ() -> None:
    assert apart("true", "false") == ("true", "false")
    start = "vllm serve /srv/models/a-model --tensor-parallel-size 2 --nnodes 2 --node-rank"
    one, other = (
        f"{start} 0 --max-model-len 128 --port 8000",
        f"{start} 0 --max-model-len 200 --port 8000",
    )
    assert apart(one, other) == ("… 0 --max-model-len 128 …", "… 0 --max-model-len 200 …")
    assert apart(start, f"{start} 0") == ("… 2 --node-rank", "… 2 --node-rank 0")
    assert apart(f"x {start}", f"y {start}") == ("x …", "y …")
    assert apart(start, "nothing") == (start, "nothing")
