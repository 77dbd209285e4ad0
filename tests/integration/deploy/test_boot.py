"""A pair comes back as one after engines and nodes have restarted, or does not come back at all."""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from builder.progress import Silent
from deploy import booting, daily, keeping
from deploy.boot import FOLDERS
from deploy.lab.errors import LabCommandError
from deploy.lab.lifecycle import lab_down, lab_up
from tests.integration.conftest import lab_slot
from tests.integration.deploy.conftest import NODES, own_cluster, until

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.integration.deploy.conftest import Cluster

pytestmark = pytest.mark.lab

HEAD, WORKER = NODES
QUICK = {"poll_s": 0.5, "settle_s": 2.0, "pauses_s": [1.0, 2.0]}
HOLD = "exec flock --no-fork --nonblock /run sh -c 'echo held; exec sleep 600'"


@pytest.fixture
def booted(cluster: Cluster) -> Iterator[Cluster]:
    """A pair that serves, on nodes that bring it back; without the pauses meant for real nodes."""
    take_part(cluster, NODES)
    try:
        yield cluster
    finally:
        for name in NODES:
            if not on(cluster, name):
                cluster.node(name).power_on()
        booting.remove(cluster.file)


@pytest.fixture(params=[1, 4])
def sized(
    lab_root: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[tuple[Cluster, tuple[str, ...]]]:
    """As `booted`, on another number of nodes; a single one has no fabric."""
    count: int = request.param
    with lab_slot(lab_root) as spec:
        try:
            lab = lab_up(replace(spec, node_count=count), Silent())
            with own_cluster(lab, lab_root, tmp_path, f"boot {count}", fabric=count > 1) as own:
                names = tuple(node.name for node in lab.spec.nodes)
                take_part(own, names)
                yield own, names
                booting.remove(own.file)
        finally:
            lab_down(spec)


def take_part(cluster: Cluster, names: Sequence[str]) -> None:
    """Deploy, and have the nodes bring it back."""
    cluster.change("container", on_boot="pair")
    cluster.deploy()
    booting.install(cluster.file)
    for name in names:
        file = folder(cluster, name) / "boot.json"
        file.write_text(json.dumps(json.loads(file.read_text()) | QUICK))
        cluster.node(name).run(["systemctl", "restart", unit(cluster)])
    until(lambda: said(cluster) == "generation 1 runs")


def unit(cluster: Cluster) -> str:
    return f"sparklock-{cluster.folder.name}.service"


def folder(cluster: Cluster, node: str) -> Path:
    return cluster.node(node).root / FOLDERS[1:] / cluster.folder.name


def said(cluster: Cluster, node: str = HEAD) -> str:
    """What a node's copy of the program said last."""
    file = folder(cluster, node) / "said"
    return file.read_text() if file.exists() else ""


def on(cluster: Cluster, node: str) -> bool:
    try:
        cluster.node(node).run(["true"])
    except LabCommandError:
        return False
    return True


def states(cluster: Cluster, names: Sequence[str] = NODES) -> dict[str, tuple[str, bool, str]]:
    """Every node's current container: its id, whether it runs, and when it was started."""
    form = "{{.Name}} {{.Id}} {{.State.Running}} {{.State.StartedAt}}"
    label = f"label=io.sparklock.cluster={cluster.folder.name}"
    found = {}
    for name in names:
        node = cluster.node(name)
        numbers = node.run(["docker", "ps", "-aq", "--filter", label]).split()
        lines = node.run(["docker", "inspect", "--format", form, *numbers]).splitlines()
        words = (line.split() for line in lines)
        ((_, number, running, started),) = (w for w in words if not w[0].endswith(".old"))
        found[name] = (number, running == "true", started)
    return found


def answers(cluster: Cluster) -> bool:
    try:
        return cluster.answers()
    except LabCommandError:
        return False


@contextmanager
def brought_back(
    cluster: Cluster, generation: int = 1, names: Sequence[str] = NODES
) -> Iterator[None]:
    """After the block the same containers run, all of them started anew, and they answer."""
    before = states(cluster, names)

    def started_anew() -> bool:
        after = states(cluster, names)
        return all(after[name][1] and after[name][2] > before[name][2] for name in names)

    yield
    until(lambda: started_anew() and said(cluster) == f"generation {generation} runs")
    until(lambda: answers(cluster))
    after = states(cluster, names)
    assert [after[name][0] for name in names] == [before[name][0] for name in names]
    assert daily.status(cluster.file).up_to_date


@contextmanager
def held_guard(cluster: Cluster, node: str) -> Iterator[None]:
    """As a deploy holds it."""
    cluster.node(node).run(["sh", "-c", f"{HOLD} >/run/held 2>&1 & echo $! >/run/holder"])
    file = cluster.node(node).root / "run/held"
    until(lambda: file.exists() and file.read_text() == "held\n")
    yield
    cluster.node(node).run(["sh", "-c", "kill $(cat /run/holder); rm /run/held /run/holder"])


def restart_engine(cluster: Cluster, *names: str, crash: bool = False) -> None:
    for name in names:
        cluster.node(name).stop_engine(crash=crash)
    for name in names:
        cluster.node(name).start_engine()


def restart_nodes(cluster: Cluster, off: tuple[str, ...], back: tuple[str, ...]) -> None:
    """Power cuts; with both nodes off, the one that is on again first waits for the other."""
    for name in off:
        cluster.node(name).power_off()
    for name in back:
        cluster.node(name).power_on()
        if name == HEAD and not on(cluster, WORKER):
            until(lambda: said(cluster).startswith("waits for spark-b"))


def test_after_engines_or_nodes_have_restarted_the_same_pair_comes_back(booted: Cluster) -> None:
    with brought_back(booted):
        restart_engine(booted, WORKER)
    with brought_back(booted):
        restart_engine(booted, HEAD)
    with brought_back(booted):
        restart_nodes(booted, (WORKER,), (WORKER,))
    with brought_back(booted):
        restart_nodes(booted, NODES, (HEAD, WORKER))


@pytest.mark.slow
def test_the_pair_comes_back_after_other_orders_too(booted: Cluster) -> None:
    with brought_back(booted):
        restart_engine(booted, *NODES)
    with brought_back(booted):
        restart_engine(booted, WORKER, crash=True)
    with brought_back(booted):
        restart_nodes(booted, (HEAD,), (HEAD,))
    with brought_back(booted):
        restart_nodes(booted, NODES, (WORKER, HEAD))
    with brought_back(booted):
        restart_nodes(booted, (WORKER, HEAD), (WORKER, HEAD))


def test_nothing_starts_beside_a_deploy_or_with_different_generations(booted: Cluster) -> None:
    name = booted.folder.name
    old, new = f"sparklock-{name}-g1-r1", f"sparklock-{name}-g2-r1"
    worker = booted.node(WORKER)
    with brought_back(booted):
        with held_guard(booted, WORKER):
            restart_engine(booted, WORKER)
            until(lambda: said(booted).startswith("not started: spark-b: the guard is taken"))
            worker.run(["docker", "rename", old, new])
            until(lambda: "different generations (spark-a 1, spark-b 2)" in said(booted))
        seen = said(booted)
        assert not states(booted)[WORKER][1]
        worker.run(["docker", "rename", new, old])
    assert "`inv deploy`" in seen


@pytest.mark.parametrize(
    "stopped",
    [
        "inv",
        pytest.param(HEAD, marks=pytest.mark.slow),
        pytest.param(WORKER, marks=pytest.mark.slow),
    ],
)
def test_what_a_person_stopped_stays_down_after_a_restart(booted: Cluster, stopped: str) -> None:
    before = states(booted)
    if stopped == "inv":
        daily.stop(booted.file)
    else:
        booted.node(stopped).run(["docker", "stop", before[stopped][0]])
    until(lambda: "by itself or a person" in said(booted))
    restart_engine(booted, *NODES)
    until(lambda: "stays down" in said(booted))
    assert [running for _, running, _ in states(booted).values()] == [False, False]
    daily.stop(booted.file, remove=True)
    until(lambda: said(booted) == "nothing is deployed")


@pytest.mark.slow
def test_one_node_comes_back_and_so_do_four(sized: tuple[Cluster, tuple[str, ...]]) -> None:
    cluster, names = sized
    with brought_back(cluster, names=names):
        cluster.node(names[-1]).power_off()
        cluster.node(names[-1]).power_on()
    with brought_back(cluster, names=names):
        restart_engine(cluster, *names)


@pytest.mark.slow
def test_it_is_the_current_generation_that_comes_back(booted: Cluster) -> None:
    booted.change("serve.args", max_model_len=128)
    assert booted.deploy().generation == 2
    until(lambda: said(booted) == "generation 2 runs")
    with brought_back(booted, 2):
        restart_engine(booted, *NODES)
    keeping.rollback(booted.file, 1, Silent())
    until(lambda: said(booted) == "generation 1 runs")
    before = states(booted)
    restart_nodes(booted, (WORKER,), (WORKER,))
    until(lambda: states(booted)[WORKER][1] and said(booted) == "generation 1 runs")
    until(lambda: answers(booted))
    assert states(booted)[WORKER][0] == before[WORKER][0]


@pytest.mark.slow
def test_a_rank_that_cannot_start_is_given_up_and_the_pair_is_stopped(booted: Cluster) -> None:
    model = booted.node(WORKER).root / "srv/models" / booted.folder.name
    model.rename(model.with_name("moved"))
    try:
        restart_engine(booted, WORKER)
        until(lambda: said(booted).startswith("gave up after 3 attempts"))
        assert [running for _, running, _ in states(booted).values()] == [False, False]
    finally:
        model.with_name("moved").rename(model)


def test_the_unit_is_installed_once_told_apart_and_removed_without_a_trace(
    cluster: Cluster,
) -> None:
    assert booting.look(cluster.file).as_declared
    cluster.change("container", on_boot="pair")
    assert not booting.look(cluster.file).as_declared
    first = booting.install(cluster.file)
    assert [node.done for node in first.nodes] == ["installed", "installed"]
    assert first.as_declared
    again = booting.install(cluster.file)
    assert [node.done for node in again.nodes] == ["as before", "as before"]
    assert "secret" not in first.text()
    assert (folder(cluster, HEAD) / "secret").stat().st_mode & 0o777 == 0o600

    cluster.change("serve", master_port=8200)
    changed = booting.look(cluster.file)
    assert [Path(path).name for node in changed.nodes for path in node.outdated] == [
        "boot.json",
        "boot.json",
    ]
    assert changed.exit_code == 6
    assert [node.done for node in booting.install(cluster.file).nodes] == ["updated", "updated"]

    removed = booting.remove(cluster.file)
    assert not any(node.installed for node in removed.nodes)
    for name in NODES:
        root = cluster.node(name).root
        assert not (root / FOLDERS[1:]).exists()
        assert not [*(root / "etc/systemd/system").rglob("*sparklock*")]
        processes = cluster.node(name).run(["ps", "-eo", "args"])
        assert "boot.pyz" not in processes
