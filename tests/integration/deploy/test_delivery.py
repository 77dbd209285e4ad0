"""The ways of an image to real nodes, on both kinds of store, and what happens when one fails."""

from __future__ import annotations

import json
import shutil
import subprocess
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
import tomlkit

from builder import pipeline as builder
from builder.current import check_lock
from builder.edges.layout import LayoutSource
from builder.oci.model import Platform
from builder.oci.select import select_manifest
from builder.progress import Silent
from deploy import errors, node_errors, pipeline
from deploy.actions import LoadImage, PullBase, PullImage
from deploy.delivery import Way
from deploy.edges import delivery
from deploy.edges.engine import Engine
from deploy.lab.node_init import RECORD_FILE
from deploy.lab.nodes import running
from tests.debian_registry import DebianRegistry, debian_registry
from tests.integration.deploy.conftest import NODES, until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from deploy.actions import AnyAction
    from deploy.lab.control import LabNode
    from deploy.reports import DeployReport, PlanReport
    from tests.integration.deploy.conftest import Cluster

pytestmark = pytest.mark.lab
NO_TUNNEL = "AllowTcpForwarding local"
"""No port of the node may lead to us; `no` forbids to forward the engine's socket too."""

AROUND_BYTES = 25_000
"""What an archive has around its layers: config, manifests and the tar's own blocks."""


def forget_images(cluster: Cluster) -> None:
    """Nothing of any image is on the nodes then."""
    for name in NODES:
        node = cluster.node(name)
        node.run(["docker", "image", "prune", "--all", "--force"])
        assert node.run(["docker", "images", "--quiet"]) == ""


def is_ours_alone(cluster: Cluster, size_bytes: int) -> bool:
    """Whether our layers can have been sent, and nothing of the base."""
    lock = check_lock(cluster.file).lock
    new_bytes = lock.outputs.new_bytes
    assert sum(layer.size_bytes for layer in lock.image.base.layers) > AROUND_BYTES
    return new_bytes < size_bytes < new_bytes + AROUND_BYTES


def names(cluster: Cluster) -> str:
    """All names of images on the nodes."""
    form = ["docker", "images", "--digests", "--format", "{{.Repository}}:{{.Tag}}@{{.Digest}}"]
    return "".join(cluster.node(name).run(form) for name in NODES)


def changed(cluster: Cluster, word: str) -> None:
    """Lock an image whose layer of ours is another."""
    template = cluster.folder / "examples/lab/chat_template.jinja"
    template.write_text(template.read_text() + f"{{# {cluster.folder.name} {word} #}}\n")
    cluster.change("serve.args", max_model_len=128)


def ways(report: DeployReport) -> dict[str, Way]:
    return {node: item.way for node, item in report.deliveries}


def sizes(report: DeployReport) -> dict[str, int]:
    """What travelled to each node for the image, the model aside."""
    return {node: item.size_bytes for node, item in report.deliveries}


def bringing(plan: PlanReport) -> list[AnyAction]:
    kinds = (PullBase, PullImage, LoadImage)
    return [action for action in plan.plan.actions if isinstance(action, kinds)]


@contextmanager
def sshd_settings(cluster: Cluster, *lines: str) -> Iterator[None]:
    with ExitStack() as stack:
        for name in NODES:
            stack.enter_context(cluster.node(name).sshd_settings(*lines))
        yield


@pytest.mark.parametrize(
    "setting", [NO_TUNNEL, pytest.param("PermitListen none", marks=pytest.mark.slow)]
)
def test_where_sshd_forwards_no_port_archives_are_loaded_whole_then_partial(
    mixed_cluster: Cluster, setting: str
) -> None:
    forget_images(mixed_cluster)
    with sshd_settings(mixed_cluster, setting):
        planned = bringing(pipeline.plan(mixed_cluster.file))
        assert all(isinstance(action, LoadImage) and action.whole for action in planned)
        assert "AllowTcpForwarding" in planned[0].reason
        first = mixed_cluster.deploy()
        assert ways(first) == dict.fromkeys(NODES, Way.WHOLE)
        assert mixed_cluster.answers()
        changed(mixed_cluster, "partial")
        second = mixed_cluster.deploy()
        assert ways(second) == dict.fromkeys(NODES, Way.PARTIAL)
        assert all(is_ours_alone(mixed_cluster, size) for size in sizes(second).values())
        assert second.detours == ()
        assert not mixed_cluster.deploy().changed
    assert mixed_cluster.answers()
    assert ".trial" not in names(mixed_cluster)


@pytest.mark.parametrize(
    "setting",
    ["AllowStreamLocalForwarding no", "AllowTcpForwarding no", "DisableForwarding yes"],
)
def test_without_any_forwarding_the_error_says_what_sshd_has_to_allow(
    mixed_cluster: Cluster, setting: str
) -> None:
    node = mixed_cluster.node("spark-b")
    with (
        node.sshd_settings(setting),
        pytest.raises(node_errors.ForwardingForbiddenError) as caught,
    ):
        pipeline.plan(mixed_cluster.file)
    assert caught.value.node == "spark-b"
    assert "AllowStreamLocalForwarding yes" in caught.value.remedy


@contextmanager
def dead_tunnels(node: LabNode) -> Iterator[None]:
    """Sshd opens ports on the node's loopback, and nobody there reaches them."""
    ports = ["--dport", "32768:65535"]  # where the kernel takes them from
    rule = ["OUTPUT", "-o", "lo", "-p", "tcp", "--syn", *ports, "-j", "REJECT"]
    iptables(node, "-I", *rule, "--reject-with", "tcp-reset")
    try:
        yield
    finally:
        iptables(node, "-D", *rule, "--reject-with", "tcp-reset")


def iptables(node: LabNode, *argv: str) -> None:
    subprocess.run([*inside(node), "iptables", "-w", *argv], check=True, capture_output=True)


def inside(node: LabNode) -> tuple[str, ...]:
    """The start of a command in the node's network, with this machine's files."""
    record = running(node.node.folder / RECORD_FILE)
    assert record is not None
    return ("nsenter", f"--net=/proc/{record.pid}/ns/net", "--")


def test_a_dead_tunnel_is_noticed_and_the_image_goes_over_the_socket(
    mixed_cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    if shutil.which("iptables") is None:
        pytest.skip("iptables is not installed: apt-get install iptables")
    monkeypatch.setattr(delivery, "FIRST_REQUEST_S", 8)
    forget_images(mixed_cluster)
    with ExitStack() as stack:
        for name in NODES:
            stack.enter_context(dead_tunnels(mixed_cluster.node(name)))
        planned = bringing(pipeline.plan(mixed_cluster.file))
        assert [type(action) for action in planned] == [PullImage, PullImage]
        report = mixed_cluster.deploy()
    assert ways(report) == dict.fromkeys(NODES, Way.WHOLE)
    assert {node for node, _ in report.detours} == set(NODES)
    assert "over the engine's socket, since no port of ours reaches it" in report.text()
    assert mixed_cluster.answers()


def everything(*args: Any) -> Any:  # noqa: ANN401 - stands in for `present`
    """A probe that is wrong: it says that every layer is there."""
    return frozenset(layer.descriptor.digest for layer in args[2].layers)


@pytest.mark.parametrize("lies", [pytest.param(False, marks=pytest.mark.slow), True])
def test_a_layer_that_was_thought_to_be_there_is_sent_after_all(
    mixed_cluster: Cluster, monkeypatch: pytest.MonkeyPatch, *, lies: bool
) -> None:
    """`lies`: as Docker from 27.2 on, load only prints that it failed. A stand-in hides that."""
    forget_images(mixed_cluster)
    load = Engine.load

    def hides(*args: Any) -> None:  # noqa: ANN401 - as Engine.load
        try:
            load(*args)
        except node_errors.EngineError:
            return

    monkeypatch.setattr(delivery, "present", everything)
    if lies:
        monkeypatch.setattr(Engine, "load", hides)
    with sshd_settings(mixed_cluster, NO_TUNNEL):
        report = mixed_cluster.deploy()
    assert ways(report) == dict.fromkeys(NODES, Way.WHOLE)
    assert {node for node, _ in report.detours} == set(NODES)
    assert mixed_cluster.answers()
    assert ".trial" not in names(mixed_cluster)


def test_one_layer_that_was_missing_is_added_and_the_rest_stays_out(
    mixed_cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    with sshd_settings(mixed_cluster, NO_TUNNEL):
        mixed_cluster.deploy()
        changed(mixed_cluster, "added")
        monkeypatch.setattr(delivery, "present", everything)  # ours is not
        report = mixed_cluster.deploy()
    assert ways(report) == dict.fromkeys(NODES, Way.PARTIAL)
    assert all(is_ours_alone(mixed_cluster, size) for size in sizes(report).values())
    assert mixed_cluster.answers()


def test_a_broken_record_that_a_killed_load_left_is_not_taken_for_the_image(
    mixed_cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    forget_images(mixed_cluster)

    def killed(*_args: Any) -> None:  # noqa: ANN401 - stands in for whatever tidies up
        return

    with monkeypatch.context() as patch, sshd_settings(mixed_cluster, NO_TUNNEL):
        patch.setattr(delivery, "present", everything)
        patch.setattr(delivery, "retried_without", lambda *_args, **_more: None)
        patch.setattr(delivery.ImageDelivery, "_discard", killed)
        with pytest.raises(errors.DeployFailedError) as caught:
            mixed_cluster.deploy()
        assert all(isinstance(e, node_errors.ImageLoadError) for e in _causes(caught.value))
    image = builder.build(mixed_cluster.file, Silent(), locked=True).image
    digest = image.manifest.descriptor.digest
    # This is what makes it dangerous: asked by its ID, the engine says that it has the image.
    assert digest in mixed_cluster.node("spark-b").run(["docker", "inspect", digest])
    assert ways(mixed_cluster.deploy()) == dict.fromkeys(NODES, Way.PULL)
    assert mixed_cluster.answers()
    assert ".trial" not in names(mixed_cluster)


def _causes(failed: errors.DeployFailedError) -> tuple[BaseException, ...]:
    cause = failed.cause
    return cause.failures if isinstance(cause, errors.NodesFailedError) else (cause,)


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[DebianRegistry]:
    with debian_registry(tmp_path / "registry") as found:
        yield found


def move_base(cluster: Cluster, registry: DebianRegistry) -> None:
    """Have the base come from the registry, and lock that; its digest stays."""
    layout = LayoutSource(cluster.folder / "examples/lab/images/base")
    document: Any = tomlkit.parse(cluster.file.read_text())
    platform = Platform.parse(document["image"]["platform"])
    image = select_manifest(layout, None, platform).image
    registry.push(image, layout.open_blob, repository="vendor/base")
    document["image"]["base"]["source"] = f"{registry.host}/vendor/base:v1"
    cluster.file.write_text(tomlkit.dumps(document))
    builder.lock(cluster.file, Silent())


@contextmanager
def reachable(
    cluster: Cluster, registry: DebianRegistry, change: Callable[[str], str] = str
) -> Iterator[None]:
    """The registry at the same address on the nodes' own loopback, with the same data.

    Each is a docker-registry in the node's network. `change` is given the configuration.
    """
    program = shutil.which("docker-registry")
    assert program is not None
    config = registry.folder / "on-nodes.yml"
    config.write_text(change((registry.folder / "config.yml").read_text()))
    started = []
    try:
        for name in NODES:
            node = cluster.node(name)
            with (registry.folder / f"log-{name}").open("wb") as log:
                argv = [*inside(node), program, "serve", str(config)]
                started.append(subprocess.Popen(argv, stdout=log, stderr=log))
        probe = f"exec 3<>/dev/tcp/127.0.0.1/{registry.port}"
        for name in NODES:
            argv = [*inside(cluster.node(name)), "bash", "-c", probe]
            until(partial(_succeeds, argv))
        yield
    finally:
        for process in started:
            process.kill()
            process.wait()


def _succeeds(argv: list[str]) -> bool:
    return subprocess.run(argv, check=False, capture_output=True).returncode == 0


def test_nodes_pull_the_base_from_its_registry_and_only_our_layer_travels(
    mixed_cluster: Cluster, registry: DebianRegistry
) -> None:
    move_base(mixed_cluster, registry)
    forget_images(mixed_cluster)
    with reachable(mixed_cluster, registry):
        planned = bringing(pipeline.plan(mixed_cluster.file))
        assert [type(action) for action in planned] == [PullBase, PullImage] * 2
        report = mixed_cluster.deploy()
    assert report.detours == ()
    assert all(is_ours_alone(mixed_cluster, size) for size in sizes(report).values())
    assert mixed_cluster.answers()
    assert "vendor/base" not in names(mixed_cluster)


@pytest.mark.slow
def test_nodes_that_reach_no_port_of_ours_pull_the_base_all_the_same(
    mixed_cluster: Cluster, registry: DebianRegistry
) -> None:
    move_base(mixed_cluster, registry)
    forget_images(mixed_cluster)
    with reachable(mixed_cluster, registry), sshd_settings(mixed_cluster, NO_TUNNEL):
        report = mixed_cluster.deploy()
    assert ways(report) == dict.fromkeys(NODES, Way.PARTIAL)
    assert all(is_ours_alone(mixed_cluster, size) for size in sizes(report).values())
    assert mixed_cluster.answers()


def test_a_registry_that_only_we_reach_has_its_base_sent_from_here(
    mixed_cluster: Cluster, registry: DebianRegistry
) -> None:
    move_base(mixed_cluster, registry)
    forget_images(mixed_cluster)
    planned = bringing(pipeline.plan(mixed_cluster.file))
    assert [type(action) for action in planned] == [PullImage, PullImage]
    assert "its base's registry" in planned[0].reason
    assert "connection refused" in planned[0].reason
    report = mixed_cluster.deploy()
    assert not any(is_ours_alone(mixed_cluster, size) for size in sizes(report).values())
    assert mixed_cluster.answers()


def test_a_registry_that_fails_the_nodes_on_the_way_has_its_base_sent_from_here(
    mixed_cluster: Cluster, registry: DebianRegistry
) -> None:
    move_base(mixed_cluster, registry)
    forget_images(mixed_cluster)
    layers = builder.build(mixed_cluster.file, Silent(), locked=True).lock.image.base.layers
    registry.blob(layers[0].digest).unlink()
    with reachable(mixed_cluster, registry):
        planned = bringing(pipeline.plan(mixed_cluster.file))
        assert [type(action) for action in planned] == [PullBase, PullImage] * 2
        report = mixed_cluster.deploy()
    assert {node for node, _ in report.detours} == set(NODES)
    assert "sent from here" in report.text()
    assert mixed_cluster.answers()


@pytest.mark.slow
def test_a_registry_that_wants_a_login_is_asked_with_the_nodes_own(
    mixed_cluster: Cluster, registry: DebianRegistry
) -> None:
    if shutil.which("htpasswd") is None:
        pytest.skip("htpasswd is not installed: apt-get install apache2-utils")
    move_base(mixed_cluster, registry)
    forget_images(mixed_cluster)
    users = registry.folder / "users"
    subprocess.run(["htpasswd", "-Bbc", str(users), "node", "secret"], check=True)
    auth = f"auth: {{htpasswd: {{realm: lab, path: {users}}}}}\n"
    login = {"auths": {registry.host: {"auth": "bm9kZTpzZWNyZXQ="}}}
    # The other node has no login, so the base is sent to it.
    folder = mixed_cluster.node(NODES[0]).root / "root" / ".docker"
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(login))
    try:
        with reachable(mixed_cluster, registry, lambda config: config + auth):
            planned = bringing(pipeline.plan(mixed_cluster.file))
            assert {action.with_login for action in planned if isinstance(action, PullBase)} == {
                True
            }
            report = mixed_cluster.deploy()
    finally:
        (folder / "config.json").unlink()
    sent = sizes(report)
    assert is_ours_alone(mixed_cluster, sent[NODES[0]])
    assert sent[NODES[1]] > sent[NODES[0]] + AROUND_BYTES
    assert [node for node, _ in report.detours] == [NODES[1]]
    assert "secret" not in report.text()
    assert mixed_cluster.answers()
