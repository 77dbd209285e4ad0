"""For each check of verify/checks: facts of a real pair, altered so that its claim is false.

Also a plugin of the pytest run behind `inv verify`: with `--falsify N` every check sees its own
N-th falsification, and the pair's real facts beside it. Nodes that are really broken are in
test_pair.py.
"""

from __future__ import annotations

from dataclasses import replace
from ipaddress import IPv4Interface
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from verify.errors import ApiError
from verify.nccl import parse_nccl
from verify.processes import PathFacts

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Fixtures = Mapping[str, Any]
    Falsify = Callable[[Fixtures], dict[str, object]]
    Change = Callable[[Any], object]

SOCKET_LOG: Final = Path(__file__).parents[2] / "data" / "nccl" / "plain.log"
"""A real log of NCCL that fell back to TCP; the lab has no NCCL."""

NO_HASH: Final = "0" * 64

NO_INTERPRETER: Final = PathFacts(
    "file", executable=True, interpreter="/bin/no", interpreter_executable=False
)


class Altered:
    """An object with some attributes replaced."""

    def __init__(self, real: object, **facts: object) -> None:
        self._real = real
        self._facts = facts

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the attribute is
        return self._facts[name] if name in self._facts else getattr(self._real, name)


def on_node(fact: str, change: Change) -> Falsify:
    """The check's own node shows another fact."""
    return lambda fixtures: {"node": _node(fixtures["node"], fact, change)}


def on_every_node(fact: str, change: Change) -> Falsify:
    """All nodes show another fact."""
    return lambda fixtures: {"cluster": _cluster(fixtures, fact, change)}


def on_last_node(fact: str, change: Change) -> Falsify:
    """The last node alone shows another fact."""
    return lambda fixtures: {
        "cluster": _cluster(fixtures, fact, change, {fixtures["cluster"].nodes[-1].expected.name})
    }


def on_port(fact: str, key: str, change: Change) -> Falsify:
    """The check's own device or interface is another; `key` is its name's field of ExpectedPort."""

    def falsify(fixtures: Fixtures) -> dict[str, object]:
        name = getattr(fixtures["port"], key)
        return {
            "cluster": _cluster(fixtures, fact, lambda all_: {**all_, name: change(all_[name])})
        }

    return falsify


def _node(real: object, fact: str, change: Change) -> Altered:
    return Altered(real, **{fact: change(getattr(real, fact))})


def _cluster(
    fixtures: Fixtures, fact: str, change: Change, names: set[str] | None = None
) -> Altered:
    real = fixtures["cluster"]
    nodes = {
        node.expected.name: node
        if names is not None and node.expected.name not in names
        else _node(node, fact, change)
        for node in real.nodes
    }
    return Altered(
        real,
        node=nodes.__getitem__,
        each=lambda read: {name: read(node) for name, node in nodes.items()},
    )


def container(**changes: object) -> Change:
    return lambda facts: replace(facts, **changes)


def label(name: str, value: str) -> Change:
    key = f"io.sparklock.{name}"
    return lambda facts: replace(facts, labels={**facts.labels, key: value})


def paths(facts: PathFacts) -> Change:
    return lambda inside: replace(inside, paths=dict.fromkeys(inside.paths, facts))


def processes(change: Change) -> Change:
    return lambda inside: replace(inside, processes=tuple(map(change, inside.processes)))


def limit(name: str, value: str) -> Change:
    return processes(lambda one: replace(one, limits={**one.limits, name: value}))


def argument(old: str, new: str) -> Change:
    return processes(
        lambda one: replace(one, args=tuple(new if word == old else word for word in one.args))
    )


def without_workers(inside: Any) -> object:  # noqa: ANN401 - Inside, as every Change here
    kept = [one for one in inside.processes if "Worker" not in "".join(one.args[:1])]
    return replace(inside, processes=tuple(kept))


def one_subnet(netdevs: Mapping[str, Any]) -> object:
    hosts = count(1)
    return {
        name: replace(netdev, addresses=(IPv4Interface(f"10.9.9.{next(hosts)}/24"),))
        for name, netdev in netdevs.items()
    }


def other_firmware(ports: Mapping[str, Any]) -> object:
    return {name: replace(port, firmware="0.0.1") for name, port in ports.items()}


def answers(**answer: object) -> Falsify:
    """The API gives another answer, whatever is asked."""
    return lambda fixtures: {"api": Altered(fixtures["api"], get=lambda *_, **__: answer)}


def canary(change: Change) -> Falsify:
    return lambda fixtures: {"canary": change(fixtures["canary"])}


def with_rdma(falsify: Falsify) -> Falsify:
    """As if the manifest gave the ranks RDMA devices, which the lab cannot have."""
    return lambda fixtures: {
        "expected": replace(fixtures["expected"], uses_rdma=True),
        **falsify(fixtures),
    }


def no_key_wanted(fixtures: Fixtures) -> dict[str, object]:
    open_api = Altered(fixtures["api"], get=lambda *_, **__: {"data": []})
    return {
        "expected": replace(fixtures["expected"], api_key_env="KEY"),
        "api": Altered(fixtures["api"], without_key=lambda: open_api),
    }


def _port(**changes: object) -> Falsify:
    return on_port("rdma_ports", "hca", lambda port: replace(port, **changes))


def _netdev(**changes: object) -> Falsify:
    return on_port("netdevs", "netdev", lambda netdev: replace(netdev, **changes))


def _all_rose(readings: Any) -> object:  # noqa: ANN401 - of every node by its counters' paths
    risen = {
        node: {path: value + 10**9 for path, value in counters.items()}
        for node, counters in readings[-1].items()
    }
    return (*readings[:-1], risen)


def two_answers(answer: object) -> Falsify:
    return canary(lambda real: replace(real, answers=(answer, answer)))


NOTHING_MOVED: Final = canary(lambda real: replace(real, readings=real.readings[:1] * 3))
ALL_ROSE: Final = canary(lambda real: replace(real, readings=_all_rose(real.readings)))
ONE_CHANNEL: Final = on_node(
    "nccl", lambda _: parse_nccl(["NCCL INFO Channel 00/0 : 0[0] -> 1[0] [send] via NET/IB/0"])
)
SOCKETS: Final = on_node("nccl", lambda _: parse_nccl(SOCKET_LOG.read_text().splitlines()))
DEAD: Final = ApiError("POST /v1/completions", problem="the deadline is over", deadline_s=1)

FALSIFIED: Final[Mapping[str, tuple[Falsify, ...]]] = {
    "image.identity": (on_node("container", container(engine_id=f"sha256:{NO_HASH}")),),
    "image.layers": (on_node("image_diff_ids", lambda found: found[::-1]),),
    "image.files": (on_node("inside", paths(PathFacts("file", sha256=NO_HASH))),),
    "image.stale_files": (on_node("inside", paths(PathFacts("file"))),),
    "image.executables": (
        on_node("inside", paths(PathFacts("file", executable=False))),
        on_node("inside", paths(NO_INTERPRETER)),
    ),
    "container.labels": (
        on_node("container", label("rank", "7")),
        on_node("container", label("cluster", "another")),
    ),
    "container.one_generation": (on_last_node("container", label("generation", "99")),),
    "container.one_cache": (on_last_node("container", container(cache="another")),),
    "container.least_privilege": (
        on_node("container", container(privileged=True)),
        on_node("container", container(pid_mode="host")),
        on_node("container", container(ipc_mode="host")),
    ),
    "container.capabilities": (
        on_node(
            "inside",
            processes(lambda one: replace(one, capabilities=one.capabilities | {"SYS_ADMIN"})),
        ),
        on_node("inside", processes(lambda one: replace(one, no_new_privileges=False))),
        on_node("inside", processes(lambda one: replace(one, capabilities=None))),
    ),
    "container.log_rotation": (
        on_node("container", container(log_driver="journald")),
        on_node("container", container(log_options={})),
    ),
    "container.restart_policy": (on_node("container", container(restart_policy="always")),),
    "container.entrypoint": (on_node("container", container(entrypoint=("vllm", "serve"))),),
    "container.devices": (on_node("container", container(devices=("/dev/sda",))),),
    "container.locked_memory": (with_rdma(on_node("inside", limit("locked memory", "8388608"))),),
    "container.open_files": (on_node("inside", limit("open files", "1024")),),
    "container.environment": (on_node("container", container(env={})),),
    "container.mounts": (
        on_node("container", container(mounts={})),
        on_node("container", lambda real: replace(real, mounts={**real.mounts, "/host": "/"})),
    ),
    "container.command": (
        on_node("inside", argument("256", "128")),
        on_node("inside", lambda inside: replace(inside, processes=())),
    ),
    "container.commands_agree": (on_last_node("inside", argument("256", "128")),),
    "model.files": (on_every_node("model_sha256", lambda found: dict.fromkeys(found, NO_HASH)),),
    "fabric.port_is_active": (_port(state="1: DOWN"),),
    "fabric.link_is_up": (_port(phys_state="2: Polling"),),
    "fabric.link_layer": (_port(link_layer="InfiniBand"),),
    "fabric.rate": (_port(rate_gbit_s=100), _port(rate_gbit_s=None)),
    "fabric.netdev": (on_port("hca_netdevs", "hca", lambda _: ("eth9",)),),
    "fabric.netdev_is_up": (_netdev(operstate="DOWN"), _netdev(carrier=False)),
    "fabric.mtu": (_netdev(mtu=1500),),
    "fabric.address": (_netdev(addresses=()),),
    "fabric.gid": (_port(gids=()),),
    "fabric.subnets_differ": (on_node("netdevs", one_subnet),),
    "fabric.firmware_agrees": (on_last_node("rdma_ports", other_firmware),),
    "collective.nccl_transport": (SOCKETS,),
    "collective.nccl_devices": (SOCKETS,),
    "collective.nccl_channels": (ONE_CHANNEL,),
    "collective.connections": (on_node("inside", lambda one: replace(one, connections=())),),
    "collective.rdma_carries": (with_rdma(NOTHING_MOVED),),
    "collective.all_reduces_cross": (NOTHING_MOVED,),
    "collective.netdev_is_quiet": (with_rdma(ALL_ROSE),),
    "collective.rdma_errors": (ALL_ROSE,),
    "serving.worker_titles": (on_node("inside", without_workers),),
    "serving.version": (answers(version="0.0.0"),),
    "serving.server_answers": (answers(data=[{"id": "another"}]),),
    "serving.api_key": (no_key_wanted,),
    "serving.completion": (
        canary(lambda real: replace(real, answers=(), failure=DEAD)),
        two_answers({"choices": [], "usage": {}}),
    ),
    "serving.same_answer": (two_answers({"choices": [{"text": "another"}]}),),
    "serving.two_at_once": (
        lambda fixtures: {"repeats": replace(fixtures["repeats"], together=({}, {}))},
    ),
    "serving.fingerprint": (two_answers({"system_fingerprint": "vllm-0.1.0-tp1-25b7cf36"}),),
    "serving.quiet_log": (
        on_node("log_since", lambda _: lambda _: ("ERROR 11-30 the rank failed a step",)),
    ),
}
"""By the check's id without its subject: every way in which its claim is made false."""

ROUNDS: Final = max(map(len, FALSIFIED.values()))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--falsify", type=int, default=0)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> None:
    """Give the check its falsified facts; a check without any sees the pair as it is."""
    group = pyfuncitem.path.stem.removeprefix("test_")
    name = f"{group}.{pyfuncitem.originalname.removeprefix('test_')}"
    ways = FALSIFIED.get(name)
    if ways:
        way = ways[pyfuncitem.config.getoption("--falsify") % len(ways)]
        pyfuncitem.funcargs.update(way(pyfuncitem.funcargs))
