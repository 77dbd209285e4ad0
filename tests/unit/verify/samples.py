"""A small pair as a manifest and its lock, and healthy facts of it that a test can spoil."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from builder.digest import Digest, digest_bytes, hex_of
from builder.lock import Lock
from builder.manifest import ClusterManifest
from verify.expected import ExpectedCluster, expect
from verify.parse import parse_containers
from verify.processes import Inside, PathFacts, Process

if TYPE_CHECKING:
    from collections.abc import Mapping

    from verify.parse import ContainerFacts

LOCK_DIGEST = digest_bytes(b"lockfile.json")
CONFIG = digest_bytes(b"config")
MANIFEST = digest_bytes(b"manifest")
BASE_DIFF_ID = digest_bytes(b"base layer, uncompressed")
OUR_LAYER = digest_bytes(b"our layer")
MODEL_FILE = digest_bytes(b"model")
GRAFTED = digest_bytes(b"grafted")
EDITED = digest_bytes(b"edited")
OWN = digest_bytes(b"own")
ANY = "0.0.0.0"  # noqa: S104 - only text here
SITE = "/usr/lib/python3/dist-packages/vllm"


def manifest(**changes: Any) -> ClusterManifest:  # noqa: ANN401 - any part of a TOML document
    """The manifest of a pair; `changes` replace whole tables."""
    document = {
        "schema": 1,
        "name": "lab",
        "image": {"platform": "linux/amd64", "base": {"source": "oci:base"}},
        "vllm": {"version": "0.17.1"},
        "model": {"files": "model", "path": "/srv/models/tiny"},
        "serve": {
            "tensor_parallel": 2,
            "node_script": "./run-cluster-node.sh",
            "args": {"max-model-len": 256, "enforce-eager": True, "enable-lora": False},
        },
        "container": {"devices": ["/dev/infiniband"]},
        "nodes": [node_table("spark-a", 11), node_table("spark-b", 12)],
        **changes,
    }
    return ClusterManifest.model_validate_json(json.dumps(document))


def node_table(name: str, last_byte: int) -> dict[str, Any]:
    """The [[nodes]] table of a node whose addresses end in a byte."""
    return {
        "name": name,
        "ssh": name,
        "fabric": {
            "address": f"192.168.200.{last_byte}",
            "netdev": "enp1s0f1np1",
            "hcas": ["rocep1s0f1", "roceP2p1s0f1"],
            "twin": {"address": f"192.168.201.{last_byte}", "netdev": "enP2p1s0f1np1"},
        },
    }


def lock(**image_changes: object) -> Lock:
    """A lock that fits the manifest."""
    image = {
        "platform": "linux/amd64",
        "epoch": 0,
        "base": {
            "asked": "oci:base",
            "index_digest": None,
            "manifest_digest": digest_bytes(b"base manifest"),
            "config_digest": digest_bytes(b"base config"),
            "layers": [
                {
                    "digest": digest_bytes(b"base layer, gzip"),
                    "size_bytes": 1,
                    "media_type": "application/vnd.oci.image.layer.v1.tar+gzip",
                    "diff_id": BASE_DIFF_ID,
                }
            ],
            "dirs": [],
        },
        "donors": [],
        "picks": [
            {
                "donor": "tiny",
                "source": "/donor/tiny.py",
                "target": f"{SITE}/tiny.py",
                "layer": digest_bytes(b"donor layer"),
                "size_bytes": 1,
                "mode": "0644",
                "digest": GRAFTED,
            }
        ],
        "tables": [_table(digest_bytes(b"once edited")), _table(EDITED)],
        "files": [
            {
                "source": "chat.jinja",
                "target": "/workspace/chat.jinja",
                "mode": "0644",
                "size_bytes": 1,
                "digest": OWN,
            }
        ],
        "whiteouts": [f"{SITE}/__pycache__/registry.pyc"],
        "changes": {},
        "entrypoint": ["/opt/entrypoint.sh"],
        "workdir": "/workspace",
        "vllm_version": "0.17.1",
        **image_changes,
    }
    document = {
        "lock_version": 1,
        "formats": {"layer": 1, "config": 1},
        "name": "lab",
        "cluster_digest": digest_bytes(b"cluster"),
        "image": image,
        "model": {
            "repo": None,
            "revision": None,
            "architectures": ["Tiny"],
            "files": [{"path": "model.safetensors", "size_bytes": 1, "digest": MODEL_FILE}],
        },
        "nodes": [],
        "inputs_digest": digest_bytes(b"inputs"),
        "outputs": {
            "layers": [{"digest": OUR_LAYER, "size_bytes": 1, "entries": 1}],
            "config_digest": CONFIG,
            "manifest_digest": MANIFEST,
            "manifest_size_bytes": 1,
            "layers_total": 2,
            "new_bytes": 1,
        },
    }
    return Lock.model_validate_json(json.dumps(document))


def _table(after: Digest) -> dict[str, object]:
    return {
        "target": f"{SITE}/registry.py",
        "table": "_MODELS",
        "mode": "0644",
        "before": digest_bytes(b"unedited"),
        "after": after,
        "entries": [],
    }


def expected(**manifest_changes: Any) -> ExpectedCluster:  # noqa: ANN401 - as for manifest()
    """What the sample manifest and lock let us expect."""
    return expect(manifest(**manifest_changes), lock(), LOCK_DIGEST)


def container_document(rank: int) -> dict[str, Any]:
    """A healthy container as `docker container inspect` shows it, as far as it is read."""
    return {
        "Id": "ab" * 32,
        "Name": f"/sparklock-lab-g3-r{rank}",
        "Image": CONFIG,
        "State": {"Running": True, "StartedAt": "2026-01-02T03:04:05.6Z"},
        "HostConfig": {
            "Privileged": False,
            "RestartPolicy": {"Name": "no", "MaximumRetryCount": 0},
            "PidMode": "",
            "IpcMode": "private",
            "LogConfig": {"Type": "json-file", "Config": {"max-file": "3", "max-size": "10m"}},
            "Devices": [
                {"PathOnHost": f"/dev/infiniband/{name}"}
                for name in ("rdma_cm", "uverbs0", "uverbs1")
            ],
        },
        "Config": {
            "Labels": {
                "io.sparklock.cluster": "lab",
                "io.sparklock.lock": LOCK_DIGEST,
                "io.sparklock.rank": str(rank),
                "io.sparklock.generation": "3",
                "org.opencontainers.image.title": "the base's own",
            },
            "Entrypoint": ["/opt/entrypoint.sh"],
        },
    }


def container(rank: int = 0, /, **labels: str) -> ContainerFacts:
    """A healthy container; `labels` replaces the last word of a label's key."""
    document = container_document(rank)
    for key, value in labels.items():
        document["Config"]["Labels"][f"io.sparklock.{key}"] = value
    return parse_containers(json.dumps([document]))[0]


def serve_words(rank: int) -> list[str]:
    """The live command line of a rank's `vllm serve`."""
    where = ["--host", ANY, "--port", "8000"] if rank == 0 else ["--headless"]
    return [
        *("/usr/bin/python3", "/usr/local/bin/vllm", "serve", "/srv/models/tiny"),
        *("--tensor-parallel-size", "2", "--nnodes", "2", "--node-rank", str(rank)),
        *("--master-addr", "192.168.200.11", "--master-port", "29501", *where),
        *("--disable-custom-all-reduce", "--enforce-eager", "--max-model-len", "256"),
    ]


def process(pid: int, *words: str, **limits: str) -> Process:
    """A process with generous limits, where not said otherwise."""
    return Process(
        pid=pid,
        args=words,
        limits={"locked memory": "unlimited", "open files": "1048576", **limits},
        sockets=frozenset(),
        capabilities=expected().rights.capabilities,
        no_new_privileges=True,
    )


def inside(
    rank: int = 0,
    *,
    words: list[str] | None = None,
    paths: Mapping[str, PathFacts] | None = None,
    limits: Mapping[str, str] | None = None,
) -> Inside:
    """The inside of a healthy container of a rank."""
    titles = ["VLLM::EngineCore", "VLLM::Worker_TP0"] if rank == 0 else ["VLLM::Worker_TP1"]
    return Inside(
        paths={**healthy_paths(), **(paths or {})},
        processes=(
            process(1, "/sbin/docker-init", "--", "/opt/entrypoint.sh", "vllm", "serve"),
            process(7, *(serve_words(rank) if words is None else words), **(limits or {})),
            *(process(80 + place, title) for place, title in enumerate(titles)),
        ),
        connections=(),
    )


def healthy_paths() -> dict[str, PathFacts]:
    """What the sample lock wants to find inside."""
    script = PathFacts(
        "file", "/real", executable=True, interpreter="/bin/bash", interpreter_executable=True
    )
    return {
        f"{SITE}/tiny.py": PathFacts("file", sha256=hex_of(GRAFTED)),
        f"{SITE}/registry.py": PathFacts("file", sha256=hex_of(EDITED)),
        "/workspace/chat.jinja": PathFacts("file", sha256=hex_of(OWN)),
        f"{SITE}/__pycache__/registry.pyc": PathFacts("absent"),
        "/opt/entrypoint.sh": script,
        "/workspace/run-cluster-node.sh": script,
        "vllm": script,
        "/dev/infiniband": PathFacts("directory"),
    }
