"""Text of nodes as values: docker inspect, sysfs and ip.

Nothing here judges, and nothing guesses: text of another form than expected raises
UnreadableFactError, so a check that cannot read its fact does not pass.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Interface, IPv6Address
from typing import TYPE_CHECKING, Any

from builder.secret import API_KEY, Secret
from builder.topology import CACHE_ROOT
from verify.errors import UnreadableFactError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

RDMA_CLASS = "/sys/class/infiniband"
VERBS_CLASS = "/sys/class/infiniband_verbs"


@dataclass(frozen=True, slots=True)
class ContainerFacts:
    """A container as the engine describes it.

    `engine_id` names its image: the config's digest on a graph driver, the manifest's digest on
    the containerd store. `devices` are paths on the node; `api_key` is what its server
    wants from requests, `cache` the volume that it compiles into. `mounts` are the node's paths in
    it, by the path inside, as `mount_text` writes them.
    """

    id: str
    name: str
    engine_id: str
    running: bool
    labels: Mapping[str, str]
    privileged: bool
    restart_policy: str
    pid_mode: str
    entrypoint: tuple[str, ...]
    ipc_mode: str = "private"
    log_driver: str = ""
    log_options: Mapping[str, str] = field(default_factory=dict)
    devices: tuple[str, ...] = ()
    api_key: Secret | None = None
    cache: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    mounts: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EngineFacts:
    """An engine: its version, and whether images live in the containerd store."""

    version: str
    containerd_store: bool


@dataclass(frozen=True, slots=True)
class Gid:
    """One used entry of a port's GID table; `address` is set for an IPv4-mapped GID."""

    index: int
    kind: str
    netdev: str
    address: IPv4Address | None


@dataclass(frozen=True, slots=True)
class RdmaPort:
    """Port 1 of an RDMA device as sysfs shows it; empty text and None where it shows nothing.

    `description` is what the device says of itself: the host's name on real hardware.
    """

    hca: str
    description: str
    state: str
    phys_state: str
    rate_gbit_s: int | None
    link_layer: str
    firmware: str
    gids: tuple[Gid, ...]


@dataclass(frozen=True, slots=True)
class Netdev:
    """A network interface as `ip` shows it."""

    name: str
    mtu: int
    operstate: str
    carrier: bool
    addresses: tuple[IPv4Interface, ...]


def load_json(source: str, text: str) -> Any:  # noqa: ANN401 - JSON of an outside program; each caller reads it at once
    """The JSON value of an outside program's text."""
    try:
        return json.loads(text)
    except ValueError as error:
        raise UnreadableFactError(source=source, expected="JSON", text=text) from error


def parse_containers(text: str) -> tuple[ContainerFacts, ...]:
    """The containers of `docker container inspect`, in its order."""
    source = "docker container inspect"
    try:
        return tuple(_container(item) for item in load_json(source, text))
    except (KeyError, TypeError, AttributeError) as error:
        raise UnreadableFactError(
            source=source, expected=f"an object with {error}", text=text
        ) from error


def _container(item: Mapping[str, Any]) -> ContainerFacts:
    host, config = item["HostConfig"], item["Config"]
    return ContainerFacts(
        id=str(item["Id"]),
        name=str(item["Name"]).removeprefix("/"),
        engine_id=str(item["Image"]),
        running=item["State"]["Running"] is True,
        labels={str(key): str(value) for key, value in (config["Labels"] or {}).items()},
        privileged=host["Privileged"] is not False,
        restart_policy=str(host["RestartPolicy"]["Name"]) or "no",
        pid_mode=str(host["PidMode"]),
        entrypoint=tuple(str(word) for word in config["Entrypoint"] or ()),
        ipc_mode=str(host["IpcMode"]),
        log_driver=str(host["LogConfig"]["Type"]),
        log_options={str(k): str(v) for k, v in (host["LogConfig"]["Config"] or {}).items()},
        devices=tuple(str(device["PathOnHost"]) for device in host["Devices"] or ()),
        api_key=_api_key(config.get("Env") or ()),
        cache=_volume_at(CACHE_ROOT, host.get("Mounts") or ()),
        env=dict(_variable(item) for item in config.get("Env") or ()),
        mounts={
            str(mount["Destination"]): mount_text(str(mount["Source"]), read_only=not mount["RW"])
            for mount in item.get("Mounts") or ()
            if mount["Type"] == "bind"
        },
    )


def mount_text(source: str, *, read_only: bool) -> str:
    """A path of the node as a container has it: `/srv/models (read-only)`."""
    return f"{source} ({'read-only' if read_only else 'writable'})"


def _variable(item: str) -> tuple[str, str]:
    name, _, value = str(item).partition("=")
    return name, value


def _volume_at(target: str, mounts: Sequence[Mapping[str, Any]]) -> str:
    return next((str(item["Source"]) for item in mounts if item.get("Target") == target), "")


def _api_key(env: Sequence[str]) -> Secret | None:
    values = [item.partition("=")[2] for item in env if item.startswith(f"{API_KEY}=")]
    return Secret(values[-1]) if values else None


def parse_image_diff_ids(text: str) -> tuple[str, ...]:
    """The diff_id of each layer, bottom first, of `docker image inspect` of one image."""
    source = "docker image inspect"
    value = load_json(source, text)
    try:
        (image,) = value
        return tuple(str(layer) for layer in image["RootFS"]["Layers"])
    except (KeyError, TypeError, ValueError) as error:
        raise UnreadableFactError(
            source=source, expected="one image with RootFS.Layers", text=text
        ) from error


def parse_engine(text: str) -> EngineFacts:
    """The engine of `docker info --format '{{json .}}'`."""
    source = "docker info"
    value = load_json(source, text)
    try:
        status = [str(word) for row in value["DriverStatus"] or () for word in row]
        return EngineFacts(
            version=str(value["ServerVersion"]),
            containerd_store=any(word.startswith("io.containerd.snapshotter.") for word in status),
        )
    except (KeyError, TypeError) as error:
        raise UnreadableFactError(
            source=source, expected=f"an object with {error}", text=text
        ) from error


def parse_files(text: str) -> dict[str, str]:
    """Path to first line, of `grep -rs . PATH...` over sysfs, which prints `PATH:LINE`."""
    files: dict[str, str] = {}
    for line in text.splitlines():
        path, colon, value = line.partition(":")
        if not colon or not path.startswith("/"):
            raise UnreadableFactError(source="grep over sysfs", expected="PATH:LINE", text=line)
        files.setdefault(path, value.strip())
    return files


def parse_rdma_port(hca: str, files: Mapping[str, str]) -> RdmaPort:
    """Port 1 of a device out of the files of RDMA_CLASS."""
    device = f"{RDMA_CLASS}/{hca}"
    port = f"{device}/ports/1"
    rate = files.get(f"{port}/rate", "")
    return RdmaPort(
        hca=hca,
        description=files.get(f"{device}/node_desc", ""),
        state=files.get(f"{port}/state", ""),
        phys_state=files.get(f"{port}/phys_state", ""),
        rate_gbit_s=parse_rate(rate) if rate else None,
        link_layer=files.get(f"{port}/link_layer", ""),
        firmware=files.get(f"{device}/fw_ver", ""),
        gids=_gids(port, files),
    )


def parse_rate(text: str) -> int:
    """Gb/s of `200 Gb/sec (2X NDR)`.

    Only the leading number counts: the same link is reported as 2X NDR and as 4X HDR.
    """
    match = re.match(r"(\d+)(?:\.\d+)? Gb/sec\b", text)
    if match is None:
        raise UnreadableFactError(source="sysfs rate", expected="a number and Gb/sec", text=text)
    return int(match[1])


def parse_gid_address(text: str) -> IPv4Address | None:
    """The IPv4 address inside a mapped GID (`0000:...:ffff:c0a8:c80c`); None for another GID."""
    try:
        return IPv6Address(text).ipv4_mapped
    except ValueError as error:
        raise UnreadableFactError(
            source="sysfs gid", expected="eight groups of hex digits", text=text
        ) from error


def _gids(port: str, files: Mapping[str, str]) -> tuple[Gid, ...]:
    found = []
    for path, text in files.items():
        index = path.removeprefix(f"{port}/gids/")
        if index == path or not index.isdigit() or not text.strip("0:"):
            continue  # another file, or an unused entry, which is all zero
        found.append(
            Gid(
                index=int(index),
                kind=files.get(f"{port}/gid_attrs/types/{index}", ""),
                netdev=files.get(f"{port}/gid_attrs/ndevs/{index}", ""),
                address=parse_gid_address(text),
            )
        )
    return tuple(sorted(found, key=lambda gid: gid.index))


def parse_rdma_files(hcas: Sequence[str], files: Mapping[str, str]) -> dict[str, str]:
    """HCA to its device file, empty if there is none, out of VERBS_CLASS's `uverbsN/ibdev`."""
    found = {
        hca: f"/dev/infiniband/{path.split('/')[-2]}"
        for path, hca in files.items()
        if path.startswith(VERBS_CLASS)
    }
    return {hca: found.get(hca, "") for hca in hcas}


def parse_hca_netdevs(paths: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """HCA to netdevs, of the paths `RDMA_CLASS/HCA/device/net/NETDEV`."""
    found: dict[str, list[str]] = {}
    for path in paths:
        match = re.fullmatch(rf"{RDMA_CLASS}/([^/]+)/device/net/([^/]+)", path)
        if match is None:
            raise UnreadableFactError(
                source="find in sysfs", expected="HCA/device/net/NETDEV", text=path
            )
        found.setdefault(match[1], []).append(match[2])
    return {hca: tuple(sorted(netdevs)) for hca, netdevs in found.items()}


def parse_netdevs(text: str) -> dict[str, Netdev]:
    """Name to interface, of `ip -json address show`."""
    source = "ip -json address show"
    try:
        netdevs = [_netdev(item) for item in load_json(source, text)]
    except (KeyError, TypeError, ValueError) as error:
        raise UnreadableFactError(
            source=source, expected=f"interfaces with {error}", text=text
        ) from error
    return {netdev.name: netdev for netdev in netdevs}


def _netdev(item: Mapping[str, Any]) -> Netdev:
    return Netdev(
        name=str(item["ifname"]),
        mtu=int(item["mtu"]),
        operstate=str(item["operstate"]),
        carrier="LOWER_UP" in item["flags"],
        addresses=tuple(
            IPv4Interface(f"{info['local']}/{info['prefixlen']}")
            for info in item["addr_info"]
            if info["family"] == "inet"
        ),
    )


def parse_sha256sums(text: str) -> dict[str, str]:
    """Path to hex SHA-256, of `sha256sum --zero`, which escapes no name."""
    sums = {}
    for item in text.split("\0"):
        if not item:
            continue
        match = re.fullmatch(r"([0-9a-f]{64}) [ *](.+)", item, re.DOTALL)
        if match is None:
            raise UnreadableFactError(source="sha256sum", expected="SHA256  PATH", text=item)
        sums[match[2]] = match[1]
    return sums
