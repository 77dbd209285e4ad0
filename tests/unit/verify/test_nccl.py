"""Real logs of NCCL 2.28.9 without RDMA (tests/data/nccl), and lines of RoCE runs as published."""

from __future__ import annotations

from pathlib import Path

import pytest

from verify.nccl import parse_nccl

DATA = Path(__file__).parents[2] / "data" / "nccl"
INFO = "spark-a:71:99 [0] NCCL INFO "
BOTH = INFO + (
    "NET/IB : Using [0]rocep1s0f1:1/RoCE [1]roceP2p1s0f1:1/RoCE [RO]; "
    "OOB enp1s0f1np1:192.168.200.12<0>"
)


def real(name: str) -> list[str]:
    return (DATA / name).read_text().splitlines()


@pytest.mark.parametrize("name", ["plain.log", "bogus-hca.log"])
def test_a_real_run_that_fell_back_to_tcp_is_socket_and_lists_no_device(name: str) -> None:
    found = parse_nccl(real(name))
    assert found.transport == "socket"
    assert found.hcas == ()
    assert found.version == "2.28.9+cuda13.0"


def test_the_line_that_says_ib_without_a_device_decides_nothing() -> None:
    line = next(line for line in real("plain.log") if "NET/IB : Using" in line)
    found = parse_nccl([line])
    assert (found.lines, found.transport, found.hcas) == (1, "none", ())


@pytest.mark.parametrize("name", ["net-ib-required.log", "bogus-ifname.log"])
def test_a_real_run_that_failed_closed_has_no_transport(name: str) -> None:
    assert parse_nccl(real(name)).transport == "none"


def test_a_roce_run_is_ib_and_lists_both_devices() -> None:
    found = parse_nccl([BOTH, INFO + "Using network IB"])
    assert found.transport == "IB"
    assert found.hcas == ("roceP2p1s0f1", "rocep1s0f1")


def test_devices_that_nccl_merged_into_one_are_both_listed() -> None:
    line = INFO + (
        "NET/IB : Using [0]={[0] rocep1s0f1:1/RoCE, [1] roceP2p1s0f1:1/RoCE} [RO]; OOB eth0:x<0>"
    )
    assert parse_nccl([line]).hcas == ("roceP2p1s0f1", "rocep1s0f1")


def test_channels_alone_decide_too() -> None:
    assert parse_nccl([INFO + "Channel 00/0 : 1[0] -> 0[0] [send] via NET/IB/0"]).transport == "IB"


def test_one_socket_line_outweighs_any_number_of_ib_lines() -> None:
    lines = [BOTH, INFO + "Using network IB", INFO + "Channel 01/0 : 0 -> 1 via NET/Socket/0"]
    assert parse_nccl(lines).transport == "socket"


def test_lines_under_vllms_own_prefix_count() -> None:
    found = parse_nccl([f"(Worker_TP1 pid=77) {BOTH}"])
    assert found.hcas == ("roceP2p1s0f1", "rocep1s0f1")


def test_a_log_that_only_names_nccl_has_no_nccl_lines() -> None:
    lines = ["INFO vLLM is using nccl==2.28.9", "env NCCL_IB_HCA=rocep1s0f1 Using network IB"]
    found = parse_nccl(lines)
    assert (found.lines, found.transport) == (0, "none")
