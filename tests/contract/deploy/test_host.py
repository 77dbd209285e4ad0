"""What the one script tells of a machine: this one, through a real sshd."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from deploy.edges.host import ask_host
from tests.unit.deploy.clusters import document, manifest_of

if TYPE_CHECKING:
    from deploy.edges.ssh import NodeConnection
    from deploy.parse_host import MachineFacts


def asked(connection: NodeConnection, **serve: int) -> MachineFacts:
    parsed = document()
    parsed["serve"] |= serve
    parsed["container"] = {
        "mounts": [{"source": "/usr/bin", "target": "/b"}, {"source": "/no where", "target": "/n"}],
        "devices": ["/dev/null"],
    }
    manifest = manifest_of(parsed)
    return ask_host(manifest, manifest.head, connection)


@pytest.fixture(scope="module")
def facts(connection: NodeConnection) -> MachineFacts:
    return asked(connection)


def test_memory_kernel_and_boot_line_are_the_machines(facts: MachineFacts) -> None:
    assert facts.host.kernel == Path("/proc/sys/kernel/osrelease").read_text().strip()
    assert facts.host.boot_line == Path("/proc/cmdline").read_text().strip()
    memory = facts.host.memory
    assert memory is not None
    total = Path("/proc/meminfo").read_text().split()[1]
    assert memory.total == int(total) * 1024
    assert 0 < memory.free <= memory.total
    assert 0 < memory.available <= memory.total


def test_the_clock_of_the_same_machine_is_not_apart(facts: MachineFacts) -> None:
    assert facts.host.clock_ahead_s is not None
    assert abs(facts.host.clock_ahead_s) <= facts.host.clock_within_s


def test_a_path_that_is_not_there_is_told_whole(facts: MachineFacts) -> None:
    assert facts.host.missing == ("/no where",)


def test_a_folder_that_is_not_there_yet_has_the_room_of_the_disk_it_will_be_on(
    facts: MachineFacts,
) -> None:
    assert facts.host.model_free_bytes


def test_interfaces_come_with_flags_and_mtu(facts: MachineFacts) -> None:
    (loopback,) = (netdev for netdev in facts.netdevs if netdev.name == "lo")
    assert {"UP", "LOWER_UP"} <= set(loopback.flags)
    assert loopback.mtu == int(Path("/sys/class/net/lo/mtu").read_text())
    assert "127.0.0.1/8" in map(str, loopback.addresses)


def test_who_listens_on_a_port_of_the_manifest_is_named(connection: NodeConnection) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        facts = asked(connection, port=port)
        assert [(item.address, item.port) for item in facts.listeners if item.port == port] == [
            ("127.0.0.1", port)
        ]
        named = [item for item in facts.host.holders if item.port == port]
    assert [item.process[:6] for item in named] == ["python"]


def test_sockets_of_others_are_known_and_nobody_is_asked_for_a_free_port(
    facts: MachineFacts,
) -> None:
    assert facts.host.sockets_known
    assert facts.listeners
