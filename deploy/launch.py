"""How every rank's container is started: one value renders command, environment, mounts and labels.

Both ranks come out of one function, so they cannot drift apart: vLLM compares little of what its
ranks were given, and two different argument sets end in a deadlock or in silently wrong answers.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from builder import labels
from builder.digest import canonical_json, digest_bytes
from builder.privileges import RDMA_DEVICES, uses_rdma_devices
from builder.secret import API_KEY
from builder.topology import CACHE_ROOT, container_environment, keeps_caches, ranks
from builder.vllm_flags import has_distributed_timeout
from deploy.caches import cache_key
from deploy.rights import rights

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from builder.digest import Digest, JsonValue
    from builder.lock import Lock
    from builder.manifest import ArgValue, ClusterManifest, Node
    from builder.secret import Secret
    from builder.topology import Rank
    from deploy.rights import Rights

ALL_GPUS: Final[JsonValue] = {"Driver": "", "Count": -1, "Capabilities": [["gpu"]]}
"""What `docker run --gpus all` asks for."""


@dataclass(frozen=True, slots=True)
class BindMount:
    """A folder or file of the node inside the container; it must be there already."""

    source: str
    target: str
    read_only: bool

    def as_json(self) -> dict[str, JsonValue]:
        """The mount as the engine takes it."""
        return {
            "Type": "bind",
            "Source": self.source,
            "Target": self.target,
            "ReadOnly": self.read_only,
        }


@dataclass(frozen=True, slots=True)
class Made:
    """What only the making of a container settles, and no digest is of.

    `rdma_devices` are the files of the node's own devices of the spec's `hcas`: their numbers are
    the node's affair, and may change when it starts again. `secrets` are values by variable.
    `cache` is the name of a volume.
    """

    rdma_devices: tuple[str, ...] | None = None
    secrets: Mapping[str, Secret] = field(default_factory=dict)
    cache: str = ""


@dataclass(frozen=True, slots=True)
class ContainerSpec:
    """All that decides how one rank runs; equal specs run alike.

    `image` is the tag the image has on every node, and `manifest_digest` says which image that is.
    `hcas` are the RDMA devices that the container is to have; RDMA_DEVICES in `devices` stands for
    their files. `secrets` are the variables whose values only the engine is told. `cache` is the
    key of the volume for compile caches, if there is one.
    """

    cluster: str
    node: str
    rank: int
    image: str
    manifest_digest: Digest
    command: tuple[str, ...]
    env: tuple[tuple[str, str], ...]
    mounts: tuple[BindMount, ...]
    devices: tuple[str, ...]
    hcas: tuple[str, ...]
    gpus: bool
    shm_bytes: int
    rights: Rights
    user: str | None
    secrets: tuple[str, ...] = ()
    cache: str | None = None

    def request(self, made: Made | None = None) -> dict[str, JsonValue]:
        """The body of the engine's create call, labels left out (Docker Engine API 1.41).

        Without `made` it says only what is wanted of a node: what the spec digest is of.
        """
        made = made or Made()
        config: dict[str, JsonValue] = {
            "Cmd": self.command,
            "Env": [
                *(f"{name}={value}" for name, value in self.env),
                *(_secret(name, made) for name in self.secrets),
            ],
            "Image": self.image,
            "HostConfig": {
                **self.rights.host_config(),
                "DeviceRequests": [ALL_GPUS] if self.gpus else [],
                "Devices": [_device(path) for path in self._devices(made)],
                "Init": True,
                "Mounts": [*(mount.as_json() for mount in self.mounts), *self._cache(made)],
                "NetworkMode": "host",
                "ShmSize": self.shm_bytes,
            },
        }
        return config if self.user is None else {**config, "User": self.user}

    def _devices(self, made: Made) -> Iterator[str]:
        for path in self.devices:
            if path == RDMA_DEVICES and made.rdma_devices is not None:
                yield from made.rdma_devices
            else:
                yield path

    def _cache(self, made: Made) -> Iterator[JsonValue]:
        if self.cache is not None:
            source = made.cache or self.cache
            yield {"Type": "volume", "Source": source, "Target": CACHE_ROOT, "ReadOnly": False}

    @property
    def digest(self) -> Digest:
        """The spec digest: over all that the engine is given, except name and labels."""
        spec: dict[str, JsonValue] = {
            "manifest_digest": self.manifest_digest,
            "node": self.node,
            "rank": self.rank,
            "request": self.request(),
        }
        return digest_bytes(canonical_json(spec))

    def name(self, generation: int) -> str:
        """The name of this rank's container once it is confirmed."""
        return f"sparklock-{self.cluster}-g{generation}-r{self.rank}"

    def labels(self, lock_digest: Digest, generation: int) -> dict[str, str]:
        """The labels of this rank's container; `lock_digest` is of lockfile.json's bytes."""
        return {
            labels.CLUSTER: self.cluster,
            labels.GENERATION: str(generation),
            labels.LOCK_DIGEST: lock_digest,
            labels.RANK: str(self.rank),
            labels.SPEC_DIGEST: self.digest,
        }


def launch(manifest: ClusterManifest, lock: Lock) -> tuple[ContainerSpec, ...]:
    """The container of every rank, head first."""
    digest = lock.outputs.manifest_digest
    return tuple(
        ContainerSpec(
            cluster=manifest.name,
            node=rank.node.name,
            rank=rank.node_rank,
            image=labels.image_reference(manifest.name, digest),
            manifest_digest=digest,
            command=_command(manifest, rank),
            env=tuple(sorted(container_environment(manifest, rank.node).items())),
            mounts=_mounts(manifest, rank.node),
            devices=_devices(manifest),
            hcas=rank.hcas if uses_rdma_devices(manifest) else (),
            gpus=manifest.container.gpus == "all",
            shm_bytes=manifest.container.shm_gib * 2**30,
            rights=rights(manifest.container),
            user=manifest.container.user,
            cache=cache_key(digest, lock.model.files) if keeps_caches(manifest) else None,
            secrets=(API_KEY,) if rank.is_head and manifest.serve.api_key_env else (),
        )
        for rank in ranks(manifest)
    )


def _secret(name: str, made: Made) -> str:
    """A variable with its value, if it is known."""
    return f"{name}={made.secrets[name].value}" if name in made.secrets else name


def _devices(manifest: ClusterManifest) -> tuple[str, ...]:
    rdma = uses_rdma_devices(manifest)
    return tuple(path for path in manifest.container.devices if rdma or path != RDMA_DEVICES)


def _device(path: str) -> JsonValue:
    """A device under its own path."""
    return {"PathOnHost": path, "PathInContainer": path, "CgroupPermissions": "rwm"}


def _mounts(manifest: ClusterManifest, node: Node) -> tuple[BindMount, ...]:
    """The model and the manifest's mounts.

    The model stands at one path inside every container, whatever the path on its node, so that the
    ranks' commands stay equal.
    """
    model = BindMount(manifest.model_path(node), manifest.model.path, read_only=True)
    own = (BindMount(m.source, m.target, m.read_only) for m in manifest.container.mounts)
    return (model, *own)


def _command(manifest: ClusterManifest, rank: Rank) -> tuple[str, ...]:
    script, fabric = manifest.serve.node_script, rank.node.fabric
    if script is None or fabric is None:
        return _vllm_command(manifest, rank)
    return (
        *(script, "--role", "head" if rank.is_head else "node"),
        *("--host-ip", str(fabric.address)),
        *("--eth-if", fabric.netdev),
        *("--ib-if", ",".join(fabric.hcas)),
        *("--head-ip", rank.master_addr or str(fabric.address)),
        "--",
        *_vllm_command(manifest, rank),
    )


def _vllm_command(manifest: ClusterManifest, rank: Rank) -> tuple[str, ...]:
    serve = manifest.serve
    return (
        *("vllm", "serve", manifest.model.path),
        *("--tensor-parallel-size", str(serve.tensor_parallel)),
        *_pipeline(serve.pipeline_parallel),
        *_meeting(manifest, rank),
        *_patience(manifest, rank),
        *(("--host", str(serve.host), "--port", str(serve.port)) if rank.is_head else ()),
        *(() if rank.is_head else ("--headless",)),
        *(() if rank.master_addr is None else ("--disable-custom-all-reduce",)),
        *_arguments(serve.args),
    )


def _pipeline(size: int) -> tuple[str, ...]:
    return ("--pipeline-parallel-size", str(size)) if size > 1 else ()


def _meeting(manifest: ClusterManifest, rank: Rank) -> tuple[str, ...]:
    """Where the ranks of several nodes meet.

    --disable-custom-all-reduce goes with it: some vLLM releases hang in its rendezvous across nodes
    (vllm#53894), and between two Sparks it could never be used.
    """
    if rank.master_addr is None:
        return ()
    return (
        *("--nnodes", str(len(manifest.nodes))),
        *("--node-rank", str(rank.node_rank)),
        *("--master-addr", rank.master_addr),
        *("--master-port", str(manifest.serve.master_port)),
    )


def _patience(manifest: ClusterManifest, rank: Rank) -> tuple[str, ...]:
    """How long ranks wait for each other, so that a start without one of them ends by itself.

    No less than a whole start may take: a rank whose disk is slower keeps the others waiting.
    """
    option = "distributed-timeout-seconds"
    given = manifest.serve.option(option) is not None
    if rank.master_addr is None or given or not has_distributed_timeout(manifest.vllm.version):
        return ()
    return (f"--{option}", str(manifest.serve.start_timeout_s))


def _arguments(args: Mapping[str, ArgValue]) -> Iterator[str]:
    """The arguments of vLLM by name; true is a bare flag, false is left out."""
    for key, value in args.items():
        if value is False:
            continue
        yield f"--{key}"
        if value is not True:
            yield str(value)
