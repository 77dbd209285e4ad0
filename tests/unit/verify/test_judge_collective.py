from __future__ import annotations

from dataclasses import replace
from ipaddress import IPv4Address

import pytest

from tests.unit.verify import samples
from verify.judge import collective as judge
from verify.judge.collective import Traffic
from verify.nccl import NcclLog
from verify.parse import ModelShape
from verify.processes import Connection, Inside

CLUSTER = samples.expected()
HEAD, OTHER = CLUSTER.nodes
PORT, TWIN = OTHER.ports
IB = NcclLog(9, "IB", ("roceP2p1s0f1", "rocep1s0f1"), "2.28.9")
SILENT = NcclLog(0, "none", (), "")
SHAPE = ModelShape(layers=48, hidden=3072)


def test_rdma_by_both_devices_is_accepted() -> None:
    assert judge.nccl_transport(IB).holds
    assert judge.nccl_devices(OTHER.ports, IB).holds


@pytest.mark.parametrize("transport", ["socket", "none"])
def test_sockets_and_silence_about_the_transport_are_found(transport: str) -> None:
    log = replace(IB, transport=transport)  # type: ignore[arg-type] # literals of the parameters
    (finding,) = judge.nccl_transport(log).findings
    assert finding.found == transport


@pytest.mark.parametrize(
    "hcas", [(), ("rocep1s0f1",), ("roceP2p1s0f1", "rocep1s0f0", "rocep1s0f1")]
)
def test_half_of_the_cable_no_device_and_a_foreign_one_are_found(hcas: tuple[str, ...]) -> None:
    assert judge.nccl_devices(OTHER.ports, replace(IB, hcas=hcas)).findings


def test_a_log_without_nccl_is_not_applicable_and_never_passed() -> None:
    for verdict in (judge.nccl_transport(SILENT), judge.nccl_devices(OTHER.ports, SILENT)):
        assert "not shown by this run" in verdict.not_shown
        assert not verdict.holds


def connected(local: str, remote: str) -> Inside:
    link = Connection(IPv4Address(local), IPv4Address(remote), 7)
    return replace(samples.inside(1), connections=(link,))


@pytest.mark.parametrize(
    ("local", "remote"),
    [("192.168.200.12", "192.168.200.11"), ("192.168.201.12", "192.168.201.11")],
)
def test_a_connection_over_either_half_is_accepted(local: str, remote: str) -> None:
    assert judge.connections(OTHER, connected(local, remote)).holds


@pytest.mark.parametrize(
    ("local", "remote"),
    [
        ("10.0.0.12", "10.0.0.11"),
        ("127.0.0.1", "192.168.200.11"),
        ("192.168.200.12", "192.168.200.12"),
        ("192.168.200.12", "10.0.0.11"),
    ],
)
def test_a_connection_over_another_network_is_not_enough(local: str, remote: str) -> None:
    (finding,) = judge.connections(OTHER, connected(local, remote)).findings
    assert "spark-a" in finding.what


def test_no_connection_is_found() -> None:
    assert judge.connections(HEAD, samples.inside(0)).findings


def test_a_device_must_carry_both_ways() -> None:
    def holds(sent: int, received: int) -> bool:
        return judge.rdma_carries(PORT, Traffic(sent, received, 0), uses_rdma=True).holds

    assert holds(4, 4)
    assert not holds(0, 4)
    assert not holds(4, 0)


def test_ranks_without_rdma_devices_show_no_rdma() -> None:
    verdict = judge.rdma_carries(PORT, Traffic(0, 0, 9), uses_rdma=False)
    assert verdict.not_shown
    assert not verdict.findings


def test_rdma_counters_are_in_units_of_four_bytes_and_netdev_counters_are_not() -> None:
    paths = judge.counter_paths(PORT)
    before = dict.fromkeys(paths, 100)
    after = dict(zip(paths, (110, 120, 130), strict=True))
    assert judge.traffic_of(PORT, before, after) == Traffic(40, 80, 30)


def test_counters_that_are_missing_moved_nothing() -> None:
    assert judge.traffic_of(PORT, {}, {}) == Traffic(0, 0, 0)


def test_all_reduces_grow_with_tokens_and_are_shared_by_stages() -> None:
    assert judge.all_reduce_bytes(CLUSTER, SHAPE, tokens=64) == 48 * 3072 * 2 * 64
    staged = replace(CLUSTER, pipeline_parallel=2)
    assert judge.all_reduce_bytes(staged, SHAPE, tokens=64) == 24 * 3072 * 2 * 64
    assert judge.all_reduce_bytes(replace(CLUSTER, tensor_parallel=1), SHAPE, tokens=64) == 0


def test_the_bytes_of_all_halves_count_whether_by_rdma_or_tcp() -> None:
    traffic = {"a": Traffic(300, 0, 100), "b": Traffic(500, 0, 100)}
    assert judge.all_reduces_cross(traffic, 1000).holds
    assert judge.all_reduces_cross(traffic, 1001).findings


def test_a_server_that_sends_nothing_is_found() -> None:
    idle = {"a": Traffic(0, 0, 70)}
    (finding,) = judge.all_reduces_cross(idle, 18_000_000).findings
    assert finding.found == "70 bytes"


def test_without_tensor_parallelism_the_fabric_has_nothing_to_show() -> None:
    assert judge.all_reduces_cross({}, 0).not_shown
