"""A pair of Sparks on paper: manifest, lock, and nodes as observed when all is well."""

from __future__ import annotations

import json
from dataclasses import replace
from ipaddress import IPv4Interface
from typing import TYPE_CHECKING, Any

from builder.digest import Digest, digest_bytes
from builder.image_section import ConfigChanges
from builder.lock import (
    Formats,
    Lock,
    LockedBase,
    LockedImage,
    LockedLayer,
    LockedModel,
    ModelFile,
    OutputLayer,
    Outputs,
)
from builder.manifest import ClusterManifest
from deploy.host import Gpu, HostFacts, Memory
from deploy.state import (
    ContainerFacts,
    EngineFacts,
    GidFacts,
    HcaFacts,
    ImageFacts,
    ImageStore,
    ModelFileFacts,
    NetdevFacts,
    NodeState,
)
from deploy.wanted import wanted as wanted_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from ipaddress import IPv4Address

    from builder.manifest import Node
    from deploy.wanted import Wanted

HCAS = ("rocep1s0f0", "roceP2p1s0f0")
NETDEVS = ("enp1s0f0np0", "enP2p1s0f0np0")
LOCK_DIGEST = digest_bytes(b"the lock")
HOST = HostFacts(
    product="NVIDIA_DGX_Spark",
    kernel="6.17.0-1008-nvidia",
    boot_line="root=/dev/nvme0n1p2 ro quiet",
    memory=Memory(total=130 * 10**9, free=125 * 10**9, available=126 * 10**9),
    clock_ahead_s=0.01,
    clock_within_s=0.02,
    gpu=Gpu(driver="580.95.05", count=1, hook=True),
    memlock=True,
    model_free_bytes=10**12,
)
"""A Spark that nothing else runs on."""
MODEL = (
    ModelFile(path="config.json", size_bytes=7, digest=digest_bytes(b"config")),
    ModelFile(path="weights/a.safetensors", size_bytes=9, digest=digest_bytes(b"weights")),
)


def document(nodes: int = 2) -> dict[str, Any]:
    """A manifest as its TOML text would be parsed."""
    return {
        "schema": 1,
        "name": "pair",
        "image": {
            "platform": "linux/arm64",
            "base": {"source": "oci:base", "digest": digest_bytes(b"base manifest")},
        },
        "vllm": {"version": "0.17.1"},
        "model": {"files": "model", "path": "/srv/models/m"},
        "serve": {
            "tensor_parallel": nodes,
            "node_script": "./run-cluster-node.sh",
            "args": {"max-model-len": 256, "enforce-eager": True, "enable-lora": False},
        },
        "container": {"mounts": [{"source": "/usr/bin", "target": "/usr/bin"}]},
        "nodes": [_node(rank) for rank in range(nodes)],
    }


def _node(rank: int) -> dict[str, Any]:
    name = f"spark-{'abcdef'[rank]}"
    return {
        "name": name,
        "ssh": name,
        "fabric": {
            "address": f"198.18.77.{11 + rank}",
            "netdev": NETDEVS[0],
            "hcas": list(HCAS),
            "twin": {"address": f"198.18.78.{11 + rank}", "netdev": NETDEVS[1]},
        },
    }


def manifest_of(parsed: dict[str, Any]) -> ClusterManifest:
    """The manifest of a parsed document."""
    return ClusterManifest.model_validate_json(json.dumps(parsed))


def lock(*, image: str = "image") -> Lock:
    """A lock whose output digests are made from `image`, so that other words give another image."""
    layer = LockedLayer(
        digest=digest_bytes(b"base layer"),
        size_bytes=1000,
        media_type="application/vnd.oci.image.layer.v1.tar+gzip",
        diff_id=digest_bytes(b"base tar"),
    )
    base = digest_bytes(b"base manifest")
    return Lock(
        formats=Formats(layer=1, config=1),
        name="pair",
        cluster_digest=digest_bytes(b"cluster"),
        image=LockedImage(
            platform="linux/arm64",
            base=LockedBase(
                asked="oci:base",
                index_digest=None,
                manifest_digest=base,
                config_digest=digest_bytes(b"base config"),
                layers=(layer,),
                dirs=(),
            ),
            epoch=0,
            donors=(),
            picks=(),
            tables=(),
            files=(),
            whiteouts=(),
            changes=ConfigChanges(),
            entrypoint=(),
            workdir="/",
            vllm_version="0.17.1",
        ),
        model=LockedModel(repo=None, revision=None, architectures=("M",), files=MODEL),
        nodes=(),
        inputs_digest=digest_bytes(b"inputs"),
        outputs=Outputs(
            layers=(OutputLayer(digest=_digest(image, "layer"), size_bytes=2048, entries=3),),
            config_digest=_digest(image, "config"),
            manifest_digest=_digest(image, "manifest"),
            manifest_size_bytes=700,
            layers_total=2,
            new_bytes=3000,
        ),
    )


def _digest(*words: str) -> Digest:
    return digest_bytes(" ".join(words).encode())


def wanted(
    nodes: int = 2, *, image: str = "image", change: Mapping[str, dict[str, Any]] | None = None
) -> Wanted:
    """The wanted state of a cluster; `change` has other values for tables of the manifest."""
    parsed = document(nodes)
    for table, values in (change or {}).items():
        parsed[table] = {**parsed.get(table, {}), **values}
    return wanted_of(manifest_of(parsed), lock(image=image), LOCK_DIGEST)


def fit(goal: Wanted, node: Node) -> NodeState:
    """A healthy node that has nothing of ours yet."""
    fabric = node.fabric
    assert fabric is not None
    return NodeState(
        node=node.name,
        engine=EngineFacts("28.3.3", ImageStore.GRAPH_DRIVER, goal.manifest.image.platform),
        image=None,
        untagged=None,
        containers=(),
        listeners=(),
        hcas=tuple(
            healthy_hca(hca, netdev, address)
            for hca, netdev, address in zip(HCAS, NETDEVS, fabric.addresses, strict=True)
        ),
        netdevs=tuple(
            NetdevFacts(netdev, 9000, (IPv4Interface(f"{address}/24"),), ("UP", "LOWER_UP"))
            for netdev, address in zip(fabric.netdevs, fabric.addresses, strict=True)
        ),
        model_files=(),
        model_transfer=False,
        host=HOST,
    )


def healthy_hca(name: str, netdev: str, address: IPv4Address) -> HcaFacts:
    """A device as a cabled Spark shows it."""
    digits = address.packed.hex()
    own = f"0000:0000:0000:0000:0000:ffff:{digits[:4]}:{digits[4:]}"
    return HcaFacts(
        name=name,
        state="4: ACTIVE",
        link_layer="Ethernet",
        rate_gbit_s=200,
        netdevs=(netdev,),
        phys_state="5: LinkUp",
        firmware="28.45.4028",
        pcie_gt_s=32.0,
        pcie_width=4,
        gids=(GidFacts(2, own, "IB/RoCE v1"), GidFacts(3, own, "RoCE v2")),
    )


def empty(goal: Wanted) -> dict[str, NodeState]:
    """All nodes healthy, with nothing of ours."""
    return {node.name: fit(goal, node) for node in goal.manifest.nodes}


def image_facts(goal: Wanted) -> ImageFacts:
    """The wanted image as a graph driver tells of it."""
    image = goal.image
    return ImageFacts(image.config_digest, (image.reference,), image.diff_ids)


def model_facts(goal: Wanted) -> tuple[ModelFileFacts, ...]:
    """The wanted model files, all there."""
    return tuple(ModelFileFacts(f.path, f.size_bytes, f.digest) for f in goal.model_files)


def container(goal: Wanted, rank: int, generation: int = 1, **changes: object) -> ContainerFacts:
    """The running, confirmed container of a rank; with some facts changed."""
    spec = goal.specs[rank]
    facts = ContainerFacts(
        id=f"id-{generation}-{rank}",
        name=spec.name(generation),
        rank=rank,
        generation=generation,
        lock_digest=goal.lock_digest,
        spec_digest=spec.digest,
        image_id=goal.image.config_digest,
        command=spec.command,
        running=True,
        exit_code=0,
        model_digest=goal.model_digest,
        started_at=f"{generation:09}",
    )
    return replace(facts, **changes)  # type: ignore[arg-type] # the caller names the fields


def serving(goal: Wanted, generation: int = 1) -> dict[str, NodeState]:
    """All nodes as they are when the wanted pair serves."""
    return {
        spec.node: replace(
            state,
            image=image_facts(goal),
            containers=(container(goal, spec.rank, generation),),
            model_files=model_facts(goal),
        )
        for spec, state in zip(goal.specs, empty(goal).values(), strict=True)
    }
