"""What makes a node unfit, found before anything is changed; every problem of every node."""

from __future__ import annotations

from ipaddress import IPv4Address, ip_address
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from builder.errors import Message
from builder.oci.model import OCI_LAYER_ZSTD
from deploy.actions import size_text
from deploy.delivery import ZSTD_SINCE, needed_bytes, reads_zstd, route
from deploy.plan import missing_model

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from builder.manifest import Fabric, Node
    from builder.oci.model import Layer
    from deploy.state import HcaFacts, Listener, NodeState, SupplyFacts
    from deploy.wanted import Wanted, WantedImage

ACTIVE: Final = "ACTIVE"
ETHERNET: Final = "Ethernet"


def preflight(wanted: Wanted, states: Mapping[str, NodeState]) -> tuple[Message, ...]:
    """The problems that deploying would meet, node by node; nothing when all are fit."""
    return tuple(
        message
        for node in wanted.manifest.nodes
        for message in _of_node(wanted, node, states[node.name])
    )


def _of_node(wanted: Wanted, node: Node, state: NodeState) -> Iterator[Message]:
    yield from _platform(wanted, node, state)
    if node.fabric is not None and len(wanted.manifest.nodes) > 1:
        yield from _hcas(node, node.fabric, state)
        yield from _netdevs(node, node.fabric, state)
    yield from _ports(wanted, node, state)
    yield from _model(wanted, node, state)
    if state.supply is not None:
        yield from _image(wanted.image, node, state, state.supply)


def _image(
    image: WantedImage, node: Node, state: NodeState, supply: SupplyFacts
) -> Iterator[Message]:
    """What keeps the image from being brought: layers the engine cannot read, no room."""
    if not reads_zstd(state.engine) and any(_is_zstd(layer) for layer in image.layers):
        yield Message(
            place=f"node {node.name}",
            what="the engine cannot read the image's layers, which are compressed with zstd",
            expected=f"Docker {ZSTD_SINCE} or later",
            found=f"Docker {state.engine.version}",
            remedy="update Docker on the node, or take a base whose layers are gzip",
        )
    chosen = route(image, supply)
    needed = needed_bytes(chosen, state.engine.store)
    if supply.free_bytes is not None and supply.free_bytes < needed:
        yield Message(
            place=f"node {node.name}",
            what=f"too little free space for the image, which is {chosen.way.value}",
            expected=f"at least {size_text(needed)}",
            found=size_text(supply.free_bytes),
            remedy="make room on the node: docker system df, then docker image prune",
        )


def _is_zstd(layer: Layer) -> bool:
    return layer.descriptor.media_type == OCI_LAYER_ZSTD


def _platform(wanted: Wanted, node: Node, state: NodeState) -> Iterator[Message]:
    expected = wanted.manifest.image.platform
    if expected.split("/")[:2] != state.engine.platform.split("/")[:2]:
        yield Message(
            place=f"node {node.name}",
            what="the node has another processor than the image",
            expected=expected,
            found=state.engine.platform,
            remedy="correct platform of [image] in cluster.toml, then: inv lock",
        )


def _hcas(node: Node, fabric: Fabric, state: NodeState) -> Iterator[Message]:
    known = {hca.name: hca for hca in state.hcas}
    netdevs = [*fabric.netdevs, *[""] * len(fabric.hcas)]
    for name, netdev in zip(fabric.hcas, netdevs, strict=False):
        if name in known:
            yield from _hca(node, fabric, known[name], netdev)
            continue
        yield Message(
            place=f"node {node.name}, {name}",
            what="the RDMA device is not there",
            found=", ".join(sorted(known)) or "no RDMA device at all",
            remedy="correct hcas of the node in cluster.toml (ibdev2netdev lists them), or put the "
            "cable in: without one the device may be gone",
        )


def _hca(node: Node, fabric: Fabric, hca: HcaFacts, netdev: str) -> Iterator[Message]:
    place = f"node {node.name}, {hca.name}"
    if ACTIVE not in hca.state:
        yield Message(
            place=place,
            what="the RoCE port is not up",
            expected="4: ACTIVE",
            found=hca.state,
            remedy="check the cable at both ends and `ip link` of its interface on the node",
        )
    if hca.link_layer != ETHERNET:
        yield Message(
            place=place,
            what="the port does not speak RoCE",
            expected=ETHERNET,
            found=hca.link_layer,
            remedy="set the port's link type to Ethernet: mlxconfig set LINK_TYPE_P1=2",
        )
    if netdev and netdev not in hca.netdevs:
        yield Message(
            place=place,
            what="the RDMA device belongs to another interface",
            expected=netdev,
            found=", ".join(hca.netdevs),
            remedy="correct netdev and hcas of the node in cluster.toml: ibdev2netdev pairs them",
        )
    if hca.rate_gbit_s is not None and hca.rate_gbit_s < fabric.rate_gbit_s:
        yield Message(
            place=place,
            what="the port is slower than the manifest says",
            expected=f"{fabric.rate_gbit_s} Gbit/s",
            found=f"{hca.rate_gbit_s} Gbit/s",
            remedy="check the cable, or set rate_gbit_s of the node's fabric to what it is",
        )


def _netdevs(node: Node, fabric: Fabric, state: NodeState) -> Iterator[Message]:
    known = {netdev.name: netdev for netdev in state.netdevs}
    for name, address in zip(fabric.netdevs, fabric.addresses, strict=True):
        place = f"node {node.name}, {name}"
        found = known.get(name)
        interface = fabric.interface(address)
        if found is None or interface not in found.addresses:
            yield Message(
                place=place,
                what="the interface does not have its address",
                expected=str(interface),
                found=", ".join(map(str, found.addresses)) if found else "no such interface",
                remedy="give it the address on the node (/etc/netplan/40-cx7.yaml), or correct "
                "the node's fabric in cluster.toml",
            )
        if found is not None and found.mtu != fabric.mtu:
            yield Message(
                place=place,
                what="the interface has another MTU",
                expected=str(fabric.mtu),
                found=str(found.mtu),
                remedy="set the same on both nodes: a packet too large for one end is lost in "
                "silence",
            )


def _ports(wanted: Wanted, node: Node, state: NodeState) -> Iterator[Message]:
    """The head's two ports, unless our own running containers hold them."""
    if node.name != wanted.manifest.head.name:
        return
    serve = wanted.manifest.serve
    ours = {port for item in state.containers if item.running for port in _claimed(item.command)}
    asked = [("port", serve.host, serve.port)]
    if len(wanted.manifest.nodes) > 1:
        # The rendezvous listens on every address, whatever address the ranks are given.
        asked.append(("master_port", IPv4Address(0), serve.master_port))
    for key, host, port in asked:
        taken = [item for item in state.listeners if item.port == port and _meets(item, host)]
        if taken and port not in ours:
            yield Message(
                place=f"node {node.name}, TCP port {port}",
                what="something else listens on the port",
                found=", ".join(item.address for item in taken),
                remedy=f"end it (on the node: ss -ltnp 'sport = :{port}'), or choose another "
                f"{key} in [serve] of cluster.toml",
            )


def _claimed(command: Sequence[str]) -> Iterator[int]:
    """The ports that a rank's command says it listens on."""
    for option, value in pairwise(command):
        if option in ("--port", "--master-port") and value.isdecimal():
            yield int(value)


def _meets(listener: Listener, host: IPv4Address) -> bool:
    """Whether binding to `host` would fail because of a listener on the same port."""
    address = ip_address(listener.address)
    wide = host.is_unspecified and isinstance(address, IPv4Address)
    return wide or address.is_unspecified or address == host


def _model(wanted: Wanted, node: Node, state: NodeState) -> Iterator[Message]:
    """Model files that are missing and that nobody has told us where to take from."""
    if wanted.manifest.model.files is not None:
        return
    for file in missing_model(wanted, state):
        there = {facts.path: facts for facts in state.model_files}.get(file.path)
        folder = wanted.manifest.model_path(node)
        yield Message(
            place=f"node {node.name}, {folder}/{file.path}",
            what="the model file is not the locked one" if there else "the model file is missing",
            expected=file.digest,
            found=(there.digest or f"{there.size_bytes} bytes") if there else "",
            remedy=f"bring the locked revision to the node: {_download(wanted, folder)}",
        )


def _download(wanted: Wanted, folder: str) -> str:
    model = wanted.manifest.model
    return f"hf download {model.repo} --revision {model.revision} --local-dir {folder}"
