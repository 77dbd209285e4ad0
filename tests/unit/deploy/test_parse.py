from __future__ import annotations

import json
from ipaddress import IPv4Interface

from deploy.parse import hca_facts, lines_by_file, listeners, listens, netdev_facts
from deploy.state import HcaFacts, Listener, NetdevFacts

PORT = "/sys/class/infiniband/rocep1s0f0/ports/1"
REST = "00000000:00000000 00:00000000 00000000     0"
SHOWN = f"""\
/proc/net/tcp:  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid
/proc/net/tcp:   0: 00000000:1F40 00000000:0000 0A {REST}
/proc/net/tcp:   1: 0100007F:0016 00000000:0000 0A {REST}
/proc/net/tcp:   2: 0B4D12C6:9C40 0C4D12C6:0016 01 {REST}
/proc/net/tcp6:  sl  local_address                         remote_address  st
/proc/net/tcp6:   0: {"0" * 32}:0050 {"0" * 32}:0000 0A {REST}
/proc/net/tcp6:   1: {"0" * 24}01000000:0051 {"0" * 32}:0000 0A {REST}
/proc/net/tcp6:   2: {"0" * 16}FFFF00000100007F:0052 {"0" * 32}:0000 0A {REST}
{PORT}/state:4: ACTIVE
{PORT}/link_layer:Ethernet
{PORT}/rate:200 Gb/sec (2X NDR)
"""


def test_listening_sockets_are_read_from_both_tables_and_no_other_state() -> None:
    files = lines_by_file(SHOWN)
    assert listeners([*files["/proc/net/tcp"], *files["/proc/net/tcp6"]]) == (
        Listener("127.0.0.1", 22),
        Listener("::", 80),
        Listener("::1", 81),
        Listener("127.0.0.1", 82),
        Listener("0.0.0.0", 8000),  # noqa: S104
    )


def test_a_device_has_its_port_and_the_interfaces_below_it() -> None:
    devices = (
        "/sys/class/infiniband/rocep1s0f0",
        "/sys/class/infiniband/mlx5_0",
        "/sys/class/infiniband/rocep1s0f0/device/net/enp1s0f0np0",
    )
    assert hca_facts(devices, lines_by_file(SHOWN)) == (
        HcaFacts("mlx5_0", "", "", None, ()),
        HcaFacts("rocep1s0f0", "4: ACTIVE", "Ethernet", 200, ("enp1s0f0np0",)),
    )


def test_interfaces_have_their_mtu_and_ipv4_addresses() -> None:
    shown = json.dumps(
        [
            {
                "ifname": "enp1s0f0np0",
                "mtu": 9000,
                "addr_info": [
                    {"family": "inet", "local": "198.18.77.11", "prefixlen": 24},
                    {"family": "inet6", "local": "fe80::1", "prefixlen": 64},
                ],
            },
            {},
            {"ifname": "docker0", "mtu": 1500},
        ]
    )
    assert netdev_facts(shown.encode()) == (
        NetdevFacts("docker0", 1500, ()),
        NetdevFacts("enp1s0f0np0", 9000, (IPv4Interface("198.18.77.11/24"),)),
    )
    assert netdev_facts(b"") == ()


def test_only_a_listening_unix_socket_of_the_path_counts() -> None:
    table = """\
Num       RefCount Protocol Flags    Type St Inode Path
0000000000000000: 00000002 00000000 00010000 0001 01 21417 /run/docker.sock
0000000000000000: 00000003 00000000 00000000 0001 03 26612 /run/other.sock
0000000000000000: 00000003 00000000 00000000 0001 03 26613
"""
    assert listens(table, "/run/docker.sock")
    assert listens(table, "/var/run/docker.sock")
    assert not listens(table, "/run/other.sock")
    assert not listens(table, "/run/docker")
