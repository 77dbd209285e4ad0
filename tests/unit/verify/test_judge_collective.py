from __future__ import annotations

from dataclasses import replace
from ipaddress import IPv4Address
from typing import TYPE_CHECKING, Any

import pytest

from tests.unit.verify import samples
from verify.judge import collective as judge
from verify.nccl import NcclLog
from verify.processes import Connection, Inside
from verify.shape import Demand
from verify.traffic import Moved, Traffic

if TYPE_CHECKING:
    from collections.abc import Mapping

CLUSTER = samples.expected()
HEAD, OTHER = CLUSTER.nodes
PORT, TWIN = OTHER.ports
IB = NcclLog(9, "IB", ("roceP2p1s0f1", "rocep1s0f1"), "2.28.9")
SILENT = NcclLog(0, "none", (), "")
REAL = Demand(short=11_000_000, long=273_000_000, prompt=265_000_000, tiny=False)
TINY = Demand(short=4_000, long=36_000, prompt=32_000, tiny=True)


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


def test_a_channel_must_go_by_every_device() -> None:
    both = replace(IB, used=IB.hcas)
    assert judge.nccl_channels(OTHER.ports, both).holds
    (finding,) = judge.nccl_channels(OTHER.ports, replace(IB, used=("rocep1s0f1",))).findings
    assert finding.found == "rocep1s0f1"
    assert judge.nccl_channels(OTHER.ports, replace(IB, used=())).findings
    assert "no line of a channel" in judge.nccl_channels(OTHER.ports, IB).not_shown


def connected(rank: int, *links: tuple[str, str, str]) -> Inside:
    """The inside of a rank with connections: title of the owner, local and remote address."""
    inside = samples.inside(rank)
    owned = {inode: title for inode, (title, _, _) in enumerate(links)}
    return replace(
        inside,
        processes=tuple(
            replace(
                process,
                sockets=frozenset(
                    inode for inode, title in owned.items() if f"VLLM::{title}" in process.args
                ),
            )
            for process in inside.processes
        ),
        connections=tuple(
            Connection(IPv4Address(local), IPv4Address(remote), inode)
            for inode, (_, local, remote) in enumerate(links)
        ),
    )


@pytest.mark.parametrize("half", [200, 201])
def test_a_connection_over_either_half_is_accepted(half: int) -> None:
    link = ("Worker_TP1", f"192.168.{half}.12", f"192.168.{half}.11")
    assert judge.connections(OTHER, connected(1, link)).holds


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
    links = connected(1, ("Worker_TP1", local, remote))
    (finding,) = judge.connections(OTHER, links).findings
    assert "spark-a" in finding.what


def test_the_head_s_worker_and_its_engine_core_each_need_a_connection_of_their_own() -> None:
    worker = ("Worker_TP0", "192.168.200.11", "192.168.200.12")
    core = ("EngineCore", "192.168.200.11", "192.168.200.12")
    assert judge.connections(HEAD, connected(0, worker, core)).holds
    for links, missing in ((worker, "EngineCore"), (core, "Worker_TP0")):
        (finding,) = judge.connections(HEAD, connected(0, links)).findings
        assert finding.what.startswith(missing)


def test_a_connection_of_another_process_is_not_vllm_s() -> None:
    other = connected(1, ("ray::IDLE", "192.168.200.12", "192.168.200.11"))
    assert judge.connections(OTHER, other).findings


def test_no_connection_is_found() -> None:
    assert len(judge.connections(HEAD, samples.inside(0)).findings) == 2


def moved(sent: int, received: int | None = None, **long: Any) -> Moved:  # noqa: ANN401 - fields of Traffic
    """A long completion's bytes by RDMA, after a short one's tenth of them."""
    received = sent if received is None else received
    return Moved(Traffic(sent // 10, received // 10), Traffic(sent, received, **long))


def holds(found: Moved, demand: Demand = REAL) -> bool:
    return judge.rdma_carries(PORT, found, demand, halves=2, uses_rdma=True).holds


def test_a_device_must_carry_half_of_its_share_of_the_prompt_both_ways() -> None:
    share = REAL.prompt // 2 // 2
    assert holds(moved(share))
    assert not holds(moved(share - 1, share))
    assert not holds(moved(share, share - 1))
    assert not holds(moved(4))
    assert not holds(moved(0))


def test_for_a_tiny_model_what_the_longer_completion_moves_beyond_the_short_one_counts() -> None:
    share = (TINY.long - TINY.short) // 2 // 2
    assert holds(Moved(Traffic(7, 7), Traffic(7 + share, 7 + share)), TINY)
    constant = 100 * TINY.long
    flat = Moved(Traffic(constant, constant), Traffic(constant + share - 1, constant + share - 1))
    assert not holds(flat, TINY)


def test_counters_that_cannot_be_read_carry_nothing_and_are_named() -> None:
    unread = Moved(Traffic(), Traffic(unread=("/sys/gone",)))
    (finding,) = judge.rdma_carries(PORT, unread, REAL, 2, uses_rdma=True).findings
    assert finding.found.endswith("not readable: /sys/gone")


def test_a_completion_of_no_tokens_proves_no_traffic() -> None:
    nothing = Demand(short=0, long=0, prompt=0, tiny=True)
    assert not holds(moved(10**9), nothing)
    assert judge.all_reduces_cross({"a": moved(10**9)}, nothing, uses_rdma=True).findings


def test_ranks_without_rdma_devices_show_no_rdma() -> None:
    found = moved(0)
    for verdict in (
        judge.rdma_carries(PORT, found, REAL, 2, uses_rdma=False),
        judge.netdev_is_quiet(PORT, found, REAL, uses_rdma=False),
    ):
        assert verdict.not_shown
        assert not verdict.findings


def test_the_bytes_of_all_halves_count_by_rdma_or_by_tcp_but_not_by_both() -> None:
    half = REAL.long // 2
    by_rdma = {"a": moved(half - 9), "b": moved(9)}
    by_tcp = {"a": moved(0, netdev_sent=half - 9), "b": moved(0, netdev_sent=9)}
    assert judge.all_reduces_cross(by_rdma, REAL, uses_rdma=True).holds
    assert judge.all_reduces_cross(by_tcp, REAL, uses_rdma=False).holds
    assert judge.all_reduces_cross(by_tcp, REAL, uses_rdma=True).findings
    assert judge.all_reduces_cross(by_rdma, REAL, uses_rdma=False).findings
    less = {"a": moved(half - 10), "b": moved(9)}
    assert judge.all_reduces_cross(less, REAL, uses_rdma=True).findings


def test_a_server_that_sends_nothing_is_found() -> None:
    idle = {"a": moved(0, netdev_sent=70)}
    (finding,) = judge.all_reduces_cross(idle, REAL, uses_rdma=False).findings
    assert finding.found == "70 bytes"


def test_a_netdev_that_moves_as_much_as_the_all_reduces_does_it_by_tcp() -> None:
    half = REAL.long // 2

    def quiet(**long: int) -> bool:
        return judge.netdev_is_quiet(PORT, moved(half, **long), REAL, uses_rdma=True).holds

    assert quiet(netdev_sent=half - 1, netdev_received=half - 1)
    assert not quiet(netdev_sent=half)
    assert not quiet(netdev_received=half)


def test_control_messages_of_both_completions_do_not_count_as_tcp_of_a_tiny_one() -> None:
    constant = Traffic(netdev_sent=10 * TINY.long, netdev_received=10 * TINY.long)
    assert judge.netdev_is_quiet(PORT, Moved(constant, constant), TINY, uses_rdma=True).holds


def test_without_tensor_parallelism_the_fabric_has_nothing_to_show() -> None:
    assert judge.all_reduces_cross({}, None, uses_rdma=True).not_shown
    assert judge.rdma_carries(PORT, moved(0), None, 2, uses_rdma=True).not_shown
    assert judge.netdev_is_quiet(PORT, moved(0), None, uses_rdma=True).not_shown


@pytest.mark.parametrize("part", [0, 1])
def test_an_error_counter_that_rose_during_either_completion_is_named(part: int) -> None:
    calm: Mapping[str, int] = {"hw_counters/out_of_sequence": 0, "counters/symbol_error": 0}
    parts = [Traffic(errors=calm), Traffic(errors=calm)]
    assert judge.rdma_errors(PORT, Moved(*parts)).holds
    parts[part] = Traffic(errors={**calm, "hw_counters/out_of_sequence": 3})
    (finding,) = judge.rdma_errors(PORT, Moved(*parts)).findings
    assert finding.found == "out_of_sequence by 3"


def test_a_device_without_error_counters_shows_none() -> None:
    assert judge.rdma_errors(PORT, Moved(Traffic(errors={}), Traffic())).not_shown
