"""What must be true of every node, worked out anew from the manifest and its lock.

deploy/ renders commands and labels from the same two values, but in its own code: if both came out
of one function, a mistake in it would be expected here and found on the nodes.
"""

from __future__ import annotations

import posixpath
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING, Final, Literal

from builder import labels
from builder.digest import hex_of
from builder.privileges import (
    LOG_FILES,
    LOG_MB,
    NO_NEW_PRIVILEGES,
    RDMA_DEVICES,
    capabilities,
    has_rdma,
    uses_rdma_devices,
    weakenings,
)
from builder.topology import container_environment
from builder.vllm_flags import has_distributed_timeout
from verify.parse import mount_text

if TYPE_CHECKING:
    from collections.abc import Mapping
    from ipaddress import IPv4Address

    from builder.digest import Digest
    from builder.lock import Lock, LockedImage
    from builder.manifest import ArgValue, ClusterManifest, Fabric, Node

OPEN_FILES_AT_LEAST: Final = 16_384
"""A client is a file, and vLLM serves some hundreds at once; the usual soft limit is 1024."""

NOT_LISTED: Final = "a netdev and address in nodes[].fabric"

PER_RANK_FLAGS: Final = frozenset({"node-rank", "headless", "host", "port"})
"""The only flags in which the ranks' commands may differ."""

_TIMEOUT: Final = "distributed-timeout-seconds"

Flags = dict[str, str | Literal[True]]


@dataclass(frozen=True, slots=True)
class ExpectedImage:
    """The image every container must be made of.

    `files` maps a path to the hex SHA-256 of its bytes; `absent` are base files that were taken
    out; `executables` maps what a path is for to the path, absolute or to be found on PATH.
    """

    config_digest: Digest
    manifest_digest: Digest
    diff_ids: tuple[Digest, ...]
    files: Mapping[str, str]
    absent: tuple[str, ...]
    executables: Mapping[str, str]
    entrypoint: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ExpectedPort:
    """One listed RDMA device of a node, and the netdev and address of its half of the cable.

    A device beyond the listed halves has NOT_LISTED as netdev and no address: it can carry
    nothing, since a RoCE v2 GID comes from an address, and its checks say so.
    """

    node: str
    hca: str
    netdev: str
    address: IPv4Address | None
    prefix_bits: int
    mtu: int
    rate_gbit_s: int


@dataclass(frozen=True, slots=True)
class ExpectedNode:
    """One node and its rank.

    `titles` are the process titles vLLM must show there, without prefix. `peers` are the fabric
    addresses that a process of this node must have a connection to: for the head every other
    node, for the others the head. `mounts` are the node's paths in the
    container, by the path inside.
    """

    name: str
    rank: int
    labels: Mapping[str, str]
    ports: tuple[ExpectedPort, ...]
    model: str
    flags: Flags
    titles: tuple[str, ...]
    title_prefix: str
    addresses: frozenset[IPv4Address]
    peers: Mapping[str, frozenset[IPv4Address]]
    model_files: Mapping[str, str]
    model_config: str
    env: Mapping[str, str]
    mounts: Mapping[str, str]

    @property
    def place(self) -> str:
        """The node as an error names it."""
        return f"node {self.name}, rank {self.rank}"

    @property
    def is_head(self) -> bool:
        """Whether the API is served here."""
        return self.rank == 0


@dataclass(frozen=True, slots=True)
class ExpectedRights:
    """What every container may do on its node, at most.

    `capabilities` bound what any process in it can ever have, None for no bound; `weaker` tells, in
    words, what the manifest gives beyond the default.
    """

    privileged: bool
    host_ipc: bool
    capabilities: frozenset[str] | None
    no_new_privileges: bool
    log_limits: Mapping[str, str]
    weaker: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ExpectedCluster:
    """All that a verification of one lock expects.

    `uses_rdma` says whether containers are given RDMA devices, else collectives go over TCP;
    `gives_rdma_files` whether these are just the files of the node's listed ones. `devices` are
    the paths of all others. `must_be_of_lock` says that a container made from another lock is
    wrong, even if it runs as this one asks.
    """

    name: str
    lock_digest: Digest
    must_be_of_lock: bool
    image: ExpectedImage
    nodes: tuple[ExpectedNode, ...]
    rights: ExpectedRights
    devices: tuple[str, ...]
    uses_rdma: bool
    gives_rdma_files: bool
    keeps_caches: bool
    vllm_version: str
    served_model_name: str
    tensor_parallel: int
    pipeline_parallel: int
    max_model_len: int | None
    dtype: str | None
    api_host: str
    api_port: int
    api_key_env: str | None
    completion_timeout_s: int

    @property
    def head(self) -> ExpectedNode:
        """The node of rank 0."""
        return self.nodes[0]

    def node(self, name: str) -> ExpectedNode:
        """The node of a name; KeyError if there is none."""
        return {node.name: node for node in self.nodes}[name]


def expect(
    manifest: ClusterManifest, lock: Lock, lock_digest: Digest, *, must_be_of_lock: bool = False
) -> ExpectedCluster:
    """The expectations of a manifest and a lock; `lock_digest` is of the lock's bytes."""
    serve = manifest.serve
    return ExpectedCluster(
        name=manifest.name,
        lock_digest=lock_digest,
        must_be_of_lock=must_be_of_lock,
        image=_image(lock, serve.node_script),
        nodes=tuple(
            _node(manifest, lock, lock_digest, rank) for rank in range(len(manifest.nodes))
        ),
        rights=_rights(manifest),
        devices=tuple(path for path in manifest.container.devices if path != RDMA_DEVICES),
        uses_rdma=has_rdma(manifest),
        gives_rdma_files=uses_rdma_devices(manifest),
        keeps_caches=manifest.container.caches != "off",
        vllm_version=lock.image.vllm_version,
        served_model_name=manifest.served_model_name,
        tensor_parallel=serve.tensor_parallel,
        pipeline_parallel=serve.pipeline_parallel,
        max_model_len=_whole_number(serve.option("max-model-len")),
        dtype=_text(serve.option("dtype")),
        api_host="127.0.0.1" if serve.host.is_unspecified else str(serve.host),
        api_port=serve.port,
        api_key_env=serve.api_key_env,
        completion_timeout_s=serve.completion_timeout_s,
    )


def _rights(manifest: ClusterManifest) -> ExpectedRights:
    container = manifest.container
    privileged = bool(container.privileged)
    return ExpectedRights(
        privileged=privileged,
        host_ipc=container.ipc == "host",
        capabilities=capabilities(container),
        no_new_privileges=f"{NO_NEW_PRIVILEGES}=false" not in container.security_opt,
        log_limits={
            "max-file": str(container.log_files or LOG_FILES),
            "max-size": f"{container.log_mb or LOG_MB}m",
        },
        weaker=tuple(weakening.text for weakening in weakenings(manifest)),
    )


def _image(lock: Lock, node_script: str | None) -> ExpectedImage:
    image, outputs = lock.image, lock.outputs
    written: list[tuple[str, Digest | None]] = [(pick.target, pick.digest) for pick in image.picks]
    written += [(step.target, step.after) for step in image.edits]
    written += [(file.target, file.digest) for file in image.files]
    written += [(file.target, file.digest) for made in image.plugins for file in made.written]
    return ExpectedImage(
        config_digest=outputs.config_digest,
        manifest_digest=outputs.manifest_digest,
        diff_ids=(
            *(layer.diff_id for layer in image.base.layers),
            *(layer.digest for layer in outputs.layers),
        ),
        files=_contents(written),
        absent=image.whiteouts,
        executables=_executables(image, node_script),
        entrypoint=image.entrypoint,
    )


def _contents(written: list[tuple[str, Digest | None]]) -> dict[str, str]:
    """Each file's hash after all that was written to it; what a diff deletes is none."""
    last = dict(written)
    return {target: hex_of(digest) for target, digest in last.items() if digest is not None}


def _executables(image: LockedImage, node_script: str | None) -> dict[str, str]:
    found = {"vllm": "vllm"}
    if image.entrypoint:
        found["entrypoint"] = _in_workdir(image.workdir, image.entrypoint[0])
    if node_script is not None:
        found["node script"] = _in_workdir(image.workdir, node_script)
    return found


def _in_workdir(workdir: str, program: str) -> str:
    """A program's absolute path; a name without `/` stays, since it is looked up on PATH."""
    if "/" not in program:
        return program
    return posixpath.normpath(posixpath.join("/", workdir, program))


def _node(manifest: ClusterManifest, lock: Lock, lock_digest: Digest, rank: int) -> ExpectedNode:
    node = manifest.nodes[rank]
    model_path = manifest.model_path(node)
    return ExpectedNode(
        name=node.name,
        rank=rank,
        labels=_labels(lock.name, lock_digest, rank),
        ports=_ports(node),
        model=manifest.model.path,
        flags=_flags(manifest, rank),
        titles=_titles(manifest, rank),
        title_prefix=_environment(manifest, node).get("VLLM_PROCESS_NAME_PREFIX", "VLLM"),
        addresses=_addresses(node),
        peers={
            other.name: _addresses(other)
            for place, other in enumerate(manifest.nodes)
            if place != rank and 0 in (place, rank)
        },
        model_files={
            posixpath.join(model_path, file.path): hex_of(file.digest) for file in lock.model.files
        },
        model_config=posixpath.join(model_path, "config.json"),
        env=container_environment(manifest, node),
        mounts={
            manifest.model.path: mount_text(model_path, read_only=True),
            **{
                mount.target: mount_text(mount.source, read_only=mount.read_only)
                for mount in manifest.container.mounts
            },
        },
    )


def _labels(cluster: str, lock_digest: Digest, rank: int) -> dict[str, str]:
    return {
        labels.CLUSTER: cluster,
        labels.LOCK_DIGEST: lock_digest,
        labels.RANK: str(rank),
    }


def _environment(manifest: ClusterManifest, node: Node) -> dict[str, str]:
    return {**manifest.container.env, **node.env}


def _addresses(node: Node) -> frozenset[IPv4Address]:
    return frozenset(node.fabric.addresses if node.fabric else ())


def _ports(node: Node) -> tuple[ExpectedPort, ...]:
    if node.fabric is None:
        return ()
    fabric = node.fabric
    halves = zip_longest(fabric.hcas, fabric.netdevs, fabric.addresses)
    return tuple(
        ExpectedPort(
            node=node.name,
            hca=hca,
            netdev=netdev or NOT_LISTED,
            address=address,
            prefix_bits=fabric.prefix_bits,
            mtu=fabric.mtu,
            rate_gbit_s=fabric.rate_gbit_s,
        )
        for hca, netdev, address in halves
        if hca is not None
    )


def _flags(manifest: ClusterManifest, rank: int) -> Flags:
    """The flags that a rank must have been started with; a flag of False must be absent."""
    serve = manifest.serve
    given = {key.replace("_", "-"): value for key, value in serve.args.items()}
    flags: Flags = {key: _flag(value) for key, value in given.items() if value is not False}
    flags["tensor-parallel-size"] = str(serve.tensor_parallel)
    if serve.pipeline_parallel > 1:
        flags["pipeline-parallel-size"] = str(serve.pipeline_parallel)
    if len(manifest.nodes) > 1:
        flags |= {
            "nnodes": str(len(manifest.nodes)),
            "node-rank": str(rank),
            "master-addr": _meeting_address(manifest.head.fabric),
            "master-port": str(serve.master_port),
            "disable-custom-all-reduce": True,
        }
        if _TIMEOUT not in given and has_distributed_timeout(manifest.vllm.version):
            flags[_TIMEOUT] = str(serve.start_timeout_s)
    if rank == 0:
        return {**flags, "host": str(serve.host), "port": str(serve.port)}
    return {**flags, "headless": True}


def _flag(value: ArgValue) -> str | Literal[True]:
    return True if value is True else str(value)


def _meeting_address(fabric: Fabric | None) -> str:
    return "an address of [nodes.fabric]" if fabric is None else str(fabric.address)


def _titles(manifest: ClusterManifest, rank: int) -> tuple[str, ...]:
    """The process titles of a rank, sorted; a node is a rank, since a GB10 has one GPU.

    A lone rank's worker lives inside the engine core and has no title of its own.
    """
    tensor, stages = manifest.serve.tensor_parallel, manifest.serve.pipeline_parallel
    worker = "Worker"
    if stages > 1:
        worker += f"_PP{rank // tensor}"
    if tensor > 1:
        worker += f"_TP{rank % tensor}"
    core = ("EngineCore",) if rank == 0 else ()
    return tuple(sorted((*core, worker) if manifest.world_size > 1 else core))


def _text(value: ArgValue | None) -> str | None:
    return None if value is None else str(value)


def _whole_number(value: ArgValue | None) -> int | None:
    text = str(value)
    return int(text) if text.isdigit() else None
