"""A row per publicly reported fault that a lab can show: how it is made, and what must tell it."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tests.integration.verify.test_pair import signal_worker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from tests.integration.verify.conftest import Pair

    Inject = Callable[[Pair], AbstractContextManager[None]]

A, B = "spark-a", "spark-b"
HCA, TWIN = "rocep1s0f0", "roceP2p1s0f0"
NETDEV, TWIN_NETDEV = "enp1s0f0np0", "enP2p1s0f0np0"
MODEL: Final = "/srv/models/tiny-spark/model.safetensors"


@dataclass(frozen=True, slots=True)
class Row:
    """A fault; `reports` are public threads, `words` what the stage must say of it."""

    fault: str
    reports: str
    stage: str
    words: tuple[str, ...]
    inject: Inject
    short: bool = False


def edited(*changes: tuple[str, str]) -> Inject:
    """The manifest with texts replaced, each at its last place, which is the second node's."""

    @contextmanager
    def inject(pair: Pair) -> Iterator[None]:
        original = pair.manifest_path.read_text()
        text = original
        for old, new in changes:
            start, found, end = text.rpartition(old)
            assert found, old
            text = start + new + end
        pair.manifest_path.write_text(text)
        try:
            yield
        finally:
            pair.manifest_path.write_text(original)
            pair.lock()

    return inject


def variable(name: str, value: str) -> Inject:
    """A variable of the second node's container."""
    return edited(("[nodes.fabric]", f'[nodes.env]\n{name} = "{value}"\n\n[nodes.fabric]'))


def port_file(name: str, text: str, hca: str = HCA) -> Inject:
    """A file of a device of the second node shows something else."""

    @contextmanager
    def inject(pair: Pair) -> Iterator[None]:
        pair.node(B).set_port_file(hca, name, text)
        try:
            yield
        finally:
            pair.node(B).restore_fabric()

    return inject


def done(do: str, undo: str) -> Inject:
    """Something done on the second node, for as long as the block lasts."""

    @contextmanager
    def inject(pair: Pair) -> Iterator[None]:
        pair.node(B).run(do.split())
        try:
            yield
        finally:
            pair.node(B).run(undo.split())

    return inject


@contextmanager
def firewall(pair: Pair) -> Iterator[None]:
    rule = f"INPUT -i {NETDEV} -s {pair.lab.spec.node(A).address} -p tcp --syn -j DROP"
    with done(f"iptables -I {rule}", f"iptables -D {rule}")(pair):
        yield


@contextmanager
def half_fabric(pair: Pair) -> Iterator[None]:
    pair.node(B).remove_hca(TWIN)
    try:
        yield
    finally:
        pair.node(B).restore_fabric()


@contextmanager
def frozen(pair: Pair) -> Iterator[None]:
    pair.inside(B, *signal_worker("STOP"))
    try:
        yield
    finally:
        pair.inside(B, *signal_worker("CONT"))


@contextmanager
def killed(pair: Pair) -> Iterator[None]:
    pair.node(B).run(["docker", "kill", pair.container(B)])
    yield


@contextmanager
def other_weights(pair: Pair) -> Iterator[None]:
    pair.node(B).run(["sh", "-c", f"printf x | dd of={MODEL} conv=notrunc status=none"])
    yield


def changed_inside(command: str, undo: str) -> Inject:
    """Something done inside the second rank's container."""

    @contextmanager
    def inject(pair: Pair) -> Iterator[None]:
        pair.inside(B, "sh", "-c", command)
        try:
            yield
        finally:
            pair.inside(B, "sh", "-c", undo)

    return inject


REGISTRY: Final = "/usr/local/lib/python3.12/dist-packages/vllm/model_executor/models/registry.py"

ROWS: Final = (
    Row("loopback as a node's own address", "MiaAI Qwen3.8 Dual 3; vllm 6329", "manifest",
        ("VLLM_HOST_IP",), variable("VLLM_HOST_IP", "127.0.0.1"), short=True),
    Row("Gloo told the loopback interface", "aws-do-eks 50; vllm 40991", "manifest",
        ("GLOO_SOCKET_IFNAME",), variable("GLOO_SOCKET_IFNAME", "lo")),
    Row("a pinned GID index that is not the device's", "nccl 769, 1131; tonyd2wild 38", "preflight",
        ("GID",), variable("NCCL_IB_GID_INDEX", "1")),
    Row("HCA named by a guess", "getainode PR 82; mark-ramsey-ri 7", "preflight",
        ("mlx5_0", "not there"), edited((HCA, "mlx5_0"))),
    Row("cable names swapped", "sparkrun 135", "preflight",
        ("belongs to another interface",), edited((f'"{HCA}", "{TWIN}"', f'"{TWIN}", "{HCA}"'))),
    Row("one half of the cable listed", "playbooks PR 103; tonyd2wild PR 35", "preflight",
        ("half",), edited((f'"{HCA}", "{TWIN}"', f'"{HCA}"'))),
    Row("one half of the cable gone", "playbooks PR 103", "preflight",
        (TWIN, "not there"), half_fabric),
    Row("port down on one node", "nccl 2157", "preflight",
        ("RoCE port is not up",), port_file("state", "1: DOWN"), short=True),
    Row("no RoCE v2 GID after a flap", "nccl 769, 1131", "preflight",
        ("no RoCE v2 GID",), port_file("gid_attrs/types/3", "IB/RoCE v1")),
    Row("MTU on one side", "playbooks 25, PR 108", "preflight", ("another MTU",),
        done(f"ip link set {NETDEV} mtu 1500", f"ip link set {NETDEV} mtu 9000")),
    Row("a firewall between the nodes", "vllm's source: its channels", "preflight",
        ("a firewall",), firewall),
    Row("rank frozen, /health 200", "MiaAI DSpark 87; tonyd2wild GLM 10", "verify",
        ("serving.completion", "deadline"), frozen, short=True),
    Row("rank killed", "eugr 257; vllm 11996", "verify",
        (f"node {B}", "running container"), killed),
    Row("other weights on one rank", "vLLM 0.32 on CPU, measured", "verify",
        ("model.files", "model.safetensors"), other_weights),
    Row("the architecture missing on one node", "playbooks 75; verl PR 5381", "verify",
        ("image.files", "registry.py"),
        changed_inside(f"cp {REGISTRY} /dev/shm/r; echo >> {REGISTRY}",
                       f"cat /dev/shm/r > {REGISTRY}")),
)  # fmt: skip
"""In the order of the stages."""
