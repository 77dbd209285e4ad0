"""Rules on the engine: its processor, what it can read and give to a container, room for images."""

from __future__ import annotations

from typing import TYPE_CHECKING

from builder.oci.model import OCI_LAYER_ZSTD
from builder.privileges import uses_rdma_devices
from deploy.actions import size_text
from deploy.delivery import ZSTD_SINCE, needed_bytes, reads_zstd, route
from deploy.preflight import known, rows
from deploy.preflight.finding import Spot

if TYPE_CHECKING:
    from collections.abc import Iterator

    from builder.manifest import ClusterManifest, Node
    from builder.oci.model import Layer
    from deploy.preflight.finding import Finding
    from deploy.state import NodeState
    from deploy.wanted import WantedImage


def processor(manifest: ClusterManifest, node: Node, state: NodeState) -> Iterator[Finding]:
    """The node can run what the image holds."""
    expected = manifest.image.platform
    if expected.split("/")[:2] != state.engine.platform.split("/")[:2]:
        yield Spot(rows.PROCESSOR, (node.name,)).error(
            "the node has another processor than the image",
            expected=expected,
            found=state.engine.platform,
            remedy="correct platform of [image] in cluster.toml, then: inv lock",
        )


def rootful(manifest: ClusterManifest, node: Node, state: NodeState) -> Iterator[Finding]:
    """The engine runs as root: a rootless one has no host network and lifts no limits."""
    if state.engine.rootless and len(manifest.nodes) > 1:
        yield Spot(rows.ENGINE, (node.name,)).error(
            "the engine is rootless: its containers reach neither the fabric nor RDMA devices",
            expected="an engine that runs as root",
            found=f"Docker {state.engine.version}, rootless",
            remedy="set docker_socket of the node to the system's engine, /var/run/docker.sock",
        )


def gpu_runtime(manifest: ClusterManifest, node: Node, state: NodeState) -> Iterator[Finding]:
    """Where the manifest asks for GPUs: the kernel has one, and the engine can give it."""
    if manifest.container.gpus != "all":
        return
    spot = Spot(rows.GPU, (node.name,))
    engine, host = state.engine, state.host
    if "nvidia" not in engine.runtimes and not engine.gpu_cdi and not (host and host.gpu.hook):
        yield spot.error(
            "the engine cannot give a GPU to a container",
            expected="the runtime nvidia, or a GPU found through CDI",
            found=f"runtimes {', '.join(engine.runtimes) or 'unknown'}",
            remedy="install the NVIDIA Container Toolkit on the node, then: sudo nvidia-ctk "
            "runtime configure --runtime=docker && sudo systemctl restart docker",
        )
    if engine.cgroup_driver == "systemd" and not engine.gpu_cdi:
        yield spot.note(
            "systemctl daemon-reload takes the GPU away from containers that run",
            found="cgroup driver systemd, GPUs by the runtime's hook",
            remedy="after a daemon-reload or an update of packages: inv status, then inv deploy "
            "once more if it does not serve",
        )
    if host is not None and host.gpu.driver and not host.gpu.count:
        yield spot.error(
            "NVIDIA's driver is loaded and finds no GPU",
            remedy="look at dmesg on the node; on a Spark a power cycle often brings the GPU back",
        )


def gpu_driver(manifest: ClusterManifest, node: Node, state: NodeState) -> Iterator[Finding]:
    """Where the manifest asks for GPUs: a driver is loaded, and not one that is known to fail."""
    if manifest.container.gpus != "all" or state.host is None:
        return
    spot, version = Spot(rows.DRIVER, (node.name,)), state.host.gpu.driver
    if not version:
        yield spot.error(
            "NVIDIA's driver is not loaded",
            expected="/proc/driver/nvidia/version",
            found="nothing there",
            remedy="install the driver on the node (DGX OS: apt install nvidia-driver-580-open), "
            "reboot, then: nvidia-smi",
        )
    elif not version.startswith((known.GOOD_DRIVER, *(bad.version for bad in known.BAD_DRIVERS))):
        yield spot.note(
            "the driver is of another branch than most working pairs have",
            expected=f"{known.GOOD_DRIVER}x",
            found=version,
            remedy="nothing, if it serves",
        )
    eager = manifest.serve.option("enforce-eager") is True
    for item in known.BAD_DRIVERS:
        if version.startswith(item.version) and len(manifest.nodes) > 1:
            tell = spot.warning if eager else spot.error
            yield tell(item.what, item.remedy, expected=f"{known.GOOD_DRIVER}x", found=version)


def memlock(manifest: ClusterManifest, node: Node, state: NodeState) -> Iterator[Finding]:
    """The engine can lift the limit of locked memory, without which RDMA registers none."""
    if state.host is None or not uses_rdma_devices(manifest):
        return
    spot = Spot(rows.MEMLOCK, (node.name,))
    remedy = "set LimitMEMLOCK=infinity for docker.service on the node (systemctl edit docker)"
    if state.host.memlock is None:
        yield spot.unknown(
            "whether the engine can lift the limit of locked memory could not be read", remedy
        )
    elif not state.host.memlock:
        yield spot.error(
            "the engine cannot lift a container's limit of locked memory, which RDMA needs",
            expected="dockerd without a limit, or with CAP_SYS_RESOURCE",
            found="neither",
            remedy=remedy,
        )


def paths(_manifest: ClusterManifest, node: Node, state: NodeState) -> Iterator[Finding]:
    """What the manifest mounts or passes into the container is there."""
    for path in () if state.host is None else state.host.missing:
        device = path.startswith("/dev/")
        yield Spot(rows.PATHS, (node.name,), at=path).error(
            "the device is not there" if device else "a mount's source is not there",
            remedy="load the RDMA modules (modprobe ib_uverbs) and look at the cable, or correct "
            "devices of [container] in cluster.toml"
            if device
            else "make it on the node, or correct mounts of [container] in cluster.toml",
        )


def image(image: WantedImage, node: Node, state: NodeState) -> Iterator[Finding]:
    """What keeps the image from being brought: layers the engine cannot read, no room."""
    supply, spot = state.supply, Spot(rows.IMAGE, (node.name,))
    if supply is None:
        return
    if not reads_zstd(state.engine) and any(_is_zstd(layer) for layer in image.layers):
        yield spot.error(
            "the engine cannot read the image's layers, which are compressed with zstd",
            expected=f"Docker {ZSTD_SINCE} or later",
            found=f"Docker {state.engine.version}",
            remedy="update Docker on the node, or take a base whose layers are gzip",
        )
    chosen = route(image, supply)
    needed = needed_bytes(chosen, state.engine.store)
    if supply.free_bytes is None:
        yield spot.unknown(
            "free space for the image could not be read",
            remedy="docker info on the node tells its data root; look at it with df -h",
            found=state.engine.data_root,
        )
    elif supply.free_bytes < needed:
        yield spot.error(
            f"too little free space for the image, which is {chosen.way.value}",
            expected=f"at least {size_text(needed)}",
            found=size_text(supply.free_bytes),
            remedy="make room on the node: docker system df, then docker image prune",
        )


def _is_zstd(layer: Layer) -> bool:
    return layer.descriptor.media_type == OCI_LAYER_ZSTD
