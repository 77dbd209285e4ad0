from __future__ import annotations

import json
from ipaddress import IPv4Address, IPv4Interface

import pytest

from tests.unit.verify import samples
from verify.errors import UnreadableFactError
from verify.parse import (
    parse_containers,
    parse_engine,
    parse_files,
    parse_gid_address,
    parse_hca_netdevs,
    parse_image_diff_ids,
    parse_netdevs,
    parse_rate,
    parse_rdma_port,
    parse_sha256sums,
)

DEVICE = "/sys/class/infiniband/rocep1s0f1"
PORT = f"{DEVICE}/ports/1"
SYSFS = f"""\
{DEVICE}/fw_ver:28.45.4028
{PORT}/state:4: ACTIVE
{PORT}/phys_state:5: LinkUp
{PORT}/rate:200 Gb/sec (2X NDR)
{PORT}/link_layer:Ethernet
{PORT}/gids/0:fe80:0000:0000:0000:4ebb:47ff:fe00:0001
{PORT}/gids/2:0000:0000:0000:0000:0000:ffff:c0a8:c80c
{PORT}/gids/10:0000:0000:0000:0000:0000:ffff:c0a8:c80c
{PORT}/gids/11:0000:0000:0000:0000:0000:0000:0000:0000
{PORT}/gid_attrs/types/0:IB/RoCE v1
{PORT}/gid_attrs/types/2:IB/RoCE v1
{PORT}/gid_attrs/types/10:RoCE v2
{PORT}/gid_attrs/ndevs/0:enp1s0f1np1
{PORT}/gid_attrs/ndevs/2:enp1s0f1np1
{PORT}/gid_attrs/ndevs/10:enp1s0f1np1
"""


def test_a_container_is_read_out_of_inspect() -> None:
    (found,) = parse_containers(json.dumps([samples.container_document(1)]))
    assert found.name == "sparklock-lab-g3-r1"
    assert found.engine_id == samples.CONFIG
    assert found.labels["io.sparklock.rank"] == "1"
    assert found.entrypoint == ("/opt/entrypoint.sh",)
    assert not found.privileged
    assert found.restart_policy == "no"


def test_a_container_without_labels_entrypoint_and_policy_is_read_too() -> None:
    document = samples.container_document(0)
    document["Config"] |= {"Labels": None, "Entrypoint": None}
    document["HostConfig"]["RestartPolicy"]["Name"] = ""
    (found,) = parse_containers(json.dumps([document]))
    assert found.labels == {}
    assert found.entrypoint == ()
    assert found.restart_policy == "no"


def test_inspect_without_a_needed_part_is_refused_and_named() -> None:
    document = samples.container_document(0)
    del document["HostConfig"]["Privileged"]
    with pytest.raises(UnreadableFactError, match="Privileged"):
        parse_containers(json.dumps([document]))


def test_text_that_is_no_json_is_refused() -> None:
    with pytest.raises(UnreadableFactError):
        parse_containers("Error: No such container")


def test_an_image_is_its_layers() -> None:
    text = json.dumps([{"RootFS": {"Type": "layers", "Layers": ["sha256:a", "sha256:b"]}}])
    assert parse_image_diff_ids(text) == ("sha256:a", "sha256:b")


def test_two_images_are_refused() -> None:
    with pytest.raises(UnreadableFactError):
        parse_image_diff_ids("[{}, {}]")


@pytest.mark.parametrize(
    ("status", "containerd"),
    [
        ([["Backing Filesystem", "extfs"], ["Supports d_type", "true"]], False),
        ([["driver-type", "io.containerd.snapshotter.v1"]], True),
        (None, False),
    ],
)
def test_the_store_of_an_engine_is_told_by_its_driver_status(
    status: list[list[str]] | None, *, containerd: bool
) -> None:
    text = json.dumps({"ServerVersion": "29.1.3", "DriverStatus": status})
    assert parse_engine(text).containerd_store is containerd


def test_a_port_is_read_out_of_sysfs_with_its_used_gids_in_order_of_index() -> None:
    port = parse_rdma_port("rocep1s0f1", parse_files(SYSFS))
    assert (port.state, port.phys_state, port.link_layer) == ("4: ACTIVE", "5: LinkUp", "Ethernet")
    assert port.rate_gbit_s == 200
    assert port.firmware == "28.45.4028"
    assert [gid.index for gid in port.gids] == [0, 2, 10]
    assert port.gids[0].address is None
    assert port.gids[2].kind == "RoCE v2"
    assert port.gids[2].netdev == "enp1s0f1np1"
    assert port.gids[2].address == IPv4Address("192.168.200.12")


def test_an_absent_device_has_empty_facts() -> None:
    port = parse_rdma_port("roceP2p1s0f1", parse_files(SYSFS))
    assert (port.state, port.rate_gbit_s, port.gids) == ("", None, ())


def test_a_used_gid_whose_attributes_are_unreadable_has_no_type() -> None:
    (gid,) = parse_rdma_port("x", {"/sys/class/infiniband/x/ports/1/gids/3": "fe80::1"}).gids
    assert (gid.kind, gid.netdev) == ("", "")


@pytest.mark.parametrize(
    ("text", "rate"),
    [("200 Gb/sec (2X NDR)", 200), ("200 Gb/sec (4X HDR)", 200), ("2.5 Gb/sec (1X SDR)", 2)],
)
def test_only_the_leading_number_of_a_rate_counts(text: str, rate: int) -> None:
    assert parse_rate(text) == rate


@pytest.mark.parametrize("text", ["fast", "200", "-1 Gb/sec"])
def test_a_rate_of_another_form_is_refused(text: str) -> None:
    with pytest.raises(UnreadableFactError):
        parse_rate(text)


def test_only_a_mapped_gid_has_an_ipv4_address() -> None:
    assert parse_gid_address("0000:0000:0000:0000:0000:ffff:c612:4d0b") == IPv4Address(
        "198.18.77.11"
    )
    assert parse_gid_address("fe80:0000:0000:0000:4ebb:47ff:fe00:0001") is None
    with pytest.raises(UnreadableFactError):
        parse_gid_address("not a gid")


def test_a_line_without_a_path_is_refused() -> None:
    with pytest.raises(UnreadableFactError):
        parse_files("grep: something odd\n")


def test_netdevs_of_devices_come_out_of_their_paths() -> None:
    paths = [
        "/sys/class/infiniband/rocep1s0f1/device/net/enp1s0f1np1",
        "/sys/class/infiniband/rocep1s0f1/device/net/alias",
        "/sys/class/infiniband/roceP2p1s0f1/device/net/enP2p1s0f1np1",
    ]
    assert parse_hca_netdevs(paths) == {
        "rocep1s0f1": ("alias", "enp1s0f1np1"),
        "roceP2p1s0f1": ("enP2p1s0f1np1",),
    }
    with pytest.raises(UnreadableFactError):
        parse_hca_netdevs(["/somewhere/else"])


def test_interfaces_are_read_out_of_ip() -> None:
    text = json.dumps(
        [
            {
                "ifname": "enp1s0f1np1",
                "flags": ["BROADCAST", "UP", "LOWER_UP"],
                "mtu": 9000,
                "operstate": "UP",
                "addr_info": [
                    {"family": "inet", "local": "192.168.200.12", "prefixlen": 24},
                    {"family": "inet6", "local": "fe80::1", "prefixlen": 64},
                ],
            },
            {
                "ifname": "enp1s0f0np0",
                "flags": ["NO-CARRIER", "BROADCAST", "UP"],
                "mtu": 1500,
                "operstate": "DOWN",
                "addr_info": [],
            },
        ]
    )
    found = parse_netdevs(text)
    assert found["enp1s0f1np1"].addresses == (IPv4Interface("192.168.200.12/24"),)
    assert (found["enp1s0f1np1"].mtu, found["enp1s0f1np1"].carrier) == (9000, True)
    assert (found["enp1s0f0np0"].operstate, found["enp1s0f0np0"].carrier) == ("DOWN", False)


def test_ip_without_json_is_refused() -> None:
    with pytest.raises(UnreadableFactError):
        parse_netdevs("1: lo: <LOOPBACK,UP,LOWER_UP> mtu 65536")


def test_hashes_are_read_with_any_name() -> None:
    digest = "0" * 64
    text = f"{digest}  /srv/a b\n.bin\0{digest} */srv/c\0"
    assert parse_sha256sums(text) == {"/srv/a b\n.bin": digest, "/srv/c": digest}
    with pytest.raises(UnreadableFactError):
        parse_sha256sums("sha256sum: nonsense\0")


def test_a_container_tells_its_variables_and_the_paths_it_has_of_the_node() -> None:
    document = samples.container_document(0)
    document["Config"]["Env"] = ["EMPTY=", "TWO=a=b"]
    document["Mounts"] = [
        {"Type": "bind", "Source": "/srv/m", "Destination": "/models", "RW": False},
        {"Type": "bind", "Source": "/srv/w", "Destination": "/apps", "RW": True},
        {"Type": "volume", "Source": "/var/lib/docker/v", "Destination": "/cache", "RW": True},
    ]
    (found,) = parse_containers(json.dumps([document]))
    assert found.env == {"EMPTY": "", "TWO": "a=b"}
    assert found.mounts == {"/models": "/srv/m (read-only)", "/apps": "/srv/w (writable)"}
