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


@pytest.mark.parametrize(
    ("text", "hcas"),
    [
        ("[0]mlx5_0:1/RoCE ; OOB eth0:10.0.0.1", ("mlx5_0",)),  # before [RO] was told of
        ("[0]mlx5_0:1/IB [1]mlx5_1:1/IB ; OOB ib0:10.0.0.1<0>", ("mlx5_0", "mlx5_1")),
        ("[0]mlx5_0:1/RoCE/SHARP [RO]; OOB eth0:10.0.0.1<0>", ("mlx5_0",)),
        ("[0]={[0] a:1/RoCE, [1] b:1/RoCE} [RO]; OOB eth0:10.0.0.1<0>", ("a", "b")),
        ("[0]={[0] a:1/RoCE, [1] b:1/RoCE} [2]c:1/RoCE [RO]; OOB x:y<0>", ("a", "b", "c")),
        ("[RO]; OOB eth0:10.0.0.1<0>", ()),
        (" ; OOB eth0:10.0.0.1<0>", ()),
    ],
)
def test_every_form_of_the_line_that_lists_devices(text: str, hcas: tuple[str, ...]) -> None:
    assert parse_nccl([INFO + "NET/IB : Using " + text]).hcas == hcas


@pytest.mark.parametrize(
    "text",
    [
        "Channel 00/0 : 1[0] -> 0[0] [send] via NET/IB/0",
        "Channel 00/0 : 1[0] -> 0[0] [receive] via NET/IB/0/GDRDMA",
        "Channel 00/0 : 3[3] -> 8[0] [send] via NET/IB/0(1)/GDRDMA",
        "Channel 00 : 1[1b000] -> 0[1b000] [send] via NET/IB/0",
        "Ring 00 : 3 -> 0 [send] via NET/IB/0",
        "Channel 00/0 : 0[0] -> 1[0] [send] via NET/IBext_v11/0",
        "Channel 00/0 : 1[0] -> 0[0] [receive] via NET/NCCL RDMA Plugin v10/0",
        "Using network IB",
        "Using network IBext_v8",
        "Using network NCCL RDMA Plugin v10",
    ],
)
def test_every_form_of_a_line_that_says_rdma(text: str) -> None:
    found = parse_nccl([BOTH, INFO + text])
    assert found.transport == "IB"
    assert found.used == (("rocep1s0f1",) if "via" in text else None)


@pytest.mark.parametrize(
    "text",
    [
        "Using network Socket",
        "Channel 00/0 : 1[0] -> 0[0] [send] via NET/Socket/0",
        "Channel 00/0 : 1[0] -> 0[0] [send] via NET/Socket/0/Shared",
    ],
)
def test_every_form_of_a_line_that_says_tcp(text: str) -> None:
    assert parse_nccl([BOTH, INFO + "Using network IB", INFO + text]).transport == "socket"


@pytest.mark.parametrize(
    "text",
    [
        "Using network",
        "Using network IBM",
        "Initialized NET plugin IB",
        "NET/IB : No device found.",
        "NCCL_NET set by environment to IB",
    ],
)
def test_lines_that_name_ib_and_decide_nothing(text: str) -> None:
    assert parse_nccl([BOTH, INFO + text]).transport == "none"


def test_a_later_failure_outweighs_what_was_said_before() -> None:
    failed = "spark-a:71:99 plugin/net.cc:379 NCCL WARN Failed to initialize any NET plugin"
    assert parse_nccl([BOTH, INFO + "Using network IB", failed]).transport == "none"


def test_half_of_the_cable_is_seen_in_the_list_and_in_the_channels() -> None:
    channels = [f"{INFO}Channel 0{n}/0 : 0[0] -> 1[0] [send] via NET/IB/0" for n in (0, 1)]
    one = BOTH.replace(" [1]roceP2p1s0f1:1/RoCE", "")
    assert parse_nccl([one, *channels]).hcas == ("rocep1s0f1",)
    listed = parse_nccl([BOTH, *channels])
    assert (len(listed.hcas), listed.used) == (2, ("rocep1s0f1",))
    other = channels[1].replace("IB/0", "IB/1")
    assert parse_nccl([BOTH, channels[0], other]).used == listed.hcas


def test_a_channel_by_a_merged_device_goes_by_all_its_parts() -> None:
    merged = (
        INFO + "NET/IB : Made virtual device [0] name=rocep1s0f1 speed=200000 ndevs=1",
        INFO + "NET/IB : Made virtual device [1] name=roceP2p1s0f1 speed=200000 ndevs=1",
        BOTH,
        INFO + "NET/IB : Made virtual device [2] name=rocep1s0f1+roceP2p1s0f1 speed=400000 ndevs=2",
        INFO + "Channel 00/0 : 0[0] -> 1[0] [send] via NET/IB/2",
    )
    assert parse_nccl(merged).used == ("roceP2p1s0f1", "rocep1s0f1")
    older = INFO + "NET/IB : Using [0]={[0] a:1/RoCE, [1] b:1/RoCE} [RO]; OOB x:y<0>"
    assert parse_nccl([older, INFO + "Channel 00/0 : 0 -> 1 [send] via NET/IB/0"]).used == (
        "a",
        "b",
    )


def test_a_channel_by_a_device_that_was_never_listed_goes_by_none() -> None:
    assert parse_nccl([BOTH, INFO + "Channel 00/0 : 0 -> 1 via NET/IB/7"]).used == ()


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
