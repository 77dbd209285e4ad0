from __future__ import annotations

import json
from ipaddress import IPv4Address

import pytest

from tests.unit.verify import samples
from verify.errors import UnreadableFactError
from verify.processes import (
    Connection,
    parse_capabilities,
    parse_cmdline,
    parse_inside,
    parse_limits,
    parse_serve,
    parse_tcp,
    serve_arguments,
    titles,
)

LIMITS = """\
Limit                     Soft Limit           Hard Limit           Units
Max cpu time              unlimited            unlimited            seconds
Max open files            1048576              1048576              files
Max locked memory         8388608              unlimited            bytes
Max nice priority         0                    0
"""
HEAD = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  inode"
TAIL = "00000000:00000000 00:00000000 00000000     0        0"
A, B = "0BC8A8C0", "0CC8A8C0"  # 192.168.200.11 and .12 as the kernel prints them on x86 and arm64


def tcp_line(local: str, remote: str, state: str, inode: int) -> str:
    return f"   0: {local} {remote} {state} {TAIL} {inode} 1 0000000000000000 20 4 30 10 -1"


def test_a_command_line_is_its_arguments() -> None:
    assert parse_cmdline("vllm\0serve\0\0--x\0") == ("vllm", "serve", "", "--x")


@pytest.mark.parametrize("padding", ["", "\0\0\0\0", "   ", "\0"])
def test_a_title_is_one_argument_whatever_it_is_padded_with(padding: str) -> None:
    assert parse_cmdline(f"VLLM::Worker_TP1{padding}") == ("VLLM::Worker_TP1",)


def test_a_kernel_thread_has_no_arguments() -> None:
    assert parse_cmdline("") == ()


def test_limits_are_the_soft_ones_by_the_kernels_names() -> None:
    found = parse_limits(LIMITS)
    assert found["locked memory"] == "8388608"
    assert found["open files"] == "1048576"
    assert found["cpu time"] == "unlimited"


def test_only_established_connections_are_found() -> None:
    text = "\n".join(
        [
            HEAD,
            tcp_line(f"{A}:73DD", f"{B}:C350", "01", 77),
            tcp_line("00000000:1F40", "00000000:0000", "0A", 78),
        ]
    )
    here, there = IPv4Address("192.168.200.11"), IPv4Address("192.168.200.12")
    assert parse_tcp(text) == (Connection(here, there, 77),)


def test_ipv4_over_an_ipv6_socket_is_found_and_plain_ipv6_is_not() -> None:
    mapped = "0000000000000000FFFF0000"
    loopback = "00000000000000000000000001000000"
    text = "\n".join(
        [
            HEAD,
            tcp_line(f"{mapped}{A}:73DD", f"{mapped}{B}:C350", "01", 5),
            tcp_line(f"{loopback}:1F40", f"{loopback}:C000", "01", 6),
        ]
    )
    assert [item.inode for item in parse_tcp(text)] == [5]


def test_a_tcp_table_of_another_form_is_refused() -> None:
    with pytest.raises(UnreadableFactError):
        parse_tcp(f"{HEAD}\n 0: nonsense")


@pytest.mark.parametrize(
    "words",
    [
        ["/usr/bin/python3", "/usr/local/bin/vllm", "serve", "M"],
        ["python3.12", "-s", "/opt/venv/bin/vllm", "serve", "M"],
        ["/usr/local/bin/vllm", "serve", "M"],
    ],
)
def test_the_server_is_told_by_its_program(words: list[str]) -> None:
    assert serve_arguments(words) == ("M",)


@pytest.mark.parametrize(
    "words",
    [
        ["/sbin/docker-init", "--", "/opt/entrypoint.sh", "vllm", "serve", "M"],
        ["/bin/bash", "./run-cluster-node.sh", "--", "vllm", "serve", "M"],
        ["python3", "-c", "from multiprocessing.spawn import spawn_main"],
        ["vllm", "bench"],
        [],
    ],
)
def test_what_was_only_given_the_words_is_not_the_server(words: list[str]) -> None:
    assert serve_arguments(words) is None


def test_flags_are_read_in_all_their_spellings() -> None:
    found = parse_serve(
        ["M", "--tensor-parallel-size", "2", "--node_rank=1", "--headless", "--seed", "-1"]
    )
    assert found.model == "M"
    assert found.flags == {
        "tensor-parallel-size": "2",
        "node-rank": "1",
        "headless": True,
        "seed": "-1",
    }


def test_titles_are_found_by_their_prefix_and_sorted() -> None:
    names = ["VLLM::Worker_TP0", "/bin/bash", "VLLM::EngineCore", "OTHER::Worker_TP1"]
    processes = [samples.process(pid, name) for pid, name in enumerate(names)]
    assert titles(processes, "VLLM") == ("EngineCore", "Worker_TP0")
    assert titles(processes, "OTHER") == ("Worker_TP1",)


@pytest.mark.parametrize("suffix", ["_EP0", "_DCP1_EP3", "_PCP0"])
def test_ranks_that_decide_no_place_are_left_out(suffix: str) -> None:
    process = samples.process(1, f"VLLM::Worker_PP1_TP0{suffix}")
    assert titles([process], "VLLM") == ("Worker_PP1_TP0",)


def test_a_connection_counts_only_if_a_process_of_the_container_owns_it() -> None:
    text = "\n".join(
        [
            HEAD,
            tcp_line(f"{A}:1", f"{B}:2", "01", 77),
            tcp_line(f"{A}:3", f"{B}:4", "01", 99),
        ]
    )
    found = parse_inside(
        json.dumps(
            {
                "paths": {"/x": {"kind": "absent"}},
                "processes": [
                    {
                        "pid": 7,
                        "cmdline": "a\0",
                        "limits": LIMITS,
                        "sockets": [77],
                        "status": "Name:\ta\nCapBnd:\t0000020000004001\nNoNewPrivs:\t1\n",
                    }
                ],
                "tcp": text,
                "tcp6": HEAD,
            }
        )
    )
    assert [item.inode for item in found.connections] == [77]
    assert found.paths["/x"].kind == "absent"
    assert found.processes[0].args == ("a",)
    assert found.processes[0].capabilities == frozenset({"CHOWN", "IPC_LOCK", "CAP_41"})
    assert found.processes[0].no_new_privileges


@pytest.mark.parametrize("text", ["", "CapBnd:\tall\n", "CapEff:\t0000000000000000\n"])
def test_capabilities_that_cannot_be_read_are_not_none_at_all(text: str) -> None:
    assert parse_capabilities(text) is None


@pytest.mark.parametrize("text", ["Traceback", "{}", '{"paths": {}, "processes": [{}]}'])
def test_facts_of_another_form_are_refused(text: str) -> None:
    with pytest.raises(UnreadableFactError):
        parse_inside(text)
