from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from builder.privileges import KERNEL_CAPABILITIES, weakenings
from tests.unit.deploy.clusters import document, manifest_of

if TYPE_CHECKING:
    from builder.manifest import ClusterManifest


def settings(**container: object) -> list[str]:
    parsed = document()
    parsed["container"] = container
    return [weakening.setting for weakening in weakenings(manifest_of(parsed))]


def test_the_default_weakens_nothing() -> None:
    assert settings() == []
    assert settings(user="1000", memory_gib=110, log_mb=1, ulimits={"stack": -1}) == []
    assert settings(mounts=[{"source": "/data", "target": "/data"}]) == []


def test_whatever_gives_more_of_the_node_is_named() -> None:
    assert settings(
        privileged=True,
        ipc="host",
        cap_add=["SYS_ADMIN"],
        security_opt=["seccomp=unconfined"],
        devices=["/dev/infiniband", "/dev/fuse"],
        mounts=[
            {"source": "/data", "target": "/data", "read_only": False},
            {"source": "/var/run/docker.sock", "target": "/var/run/docker.sock"},
        ],
    ) == [
        "privileged = true",
        'ipc = "host"',
        "cap_add SYS_ADMIN",
        "security_opt seccomp=unconfined",
        "devices /dev/fuse",
        "mount of /data",
        "mount of /var/run/docker.sock",
    ]


@pytest.mark.parametrize("source", ["/run", "/var/run", "/var", "/srv/docker.sock"])
def test_a_folder_with_the_engines_socket_in_it_gives_the_node_read_only_or_not(
    source: str,
) -> None:
    (found,) = weakenings(mounting(source))
    assert found.why.startswith("who reaches the engine is root")
    assert not weakenings(mounting("/runs"))


def mounting(source: str) -> ClusterManifest:
    parsed = document()
    parsed["container"] = {"mounts": [{"source": source, "target": "/t"}]}
    return manifest_of(parsed)


def test_capabilities_stand_at_their_numbers() -> None:
    numbers = {"NET_RAW": 13, "IPC_LOCK": 14, "SYS_ADMIN": 21, "MKNOD": 27, "AUDIT_WRITE": 29}
    assert {name: KERNEL_CAPABILITIES.index(name) for name in numbers} == numbers
    assert len(KERNEL_CAPABILITIES) == len(set(KERNEL_CAPABILITIES)) == 41
