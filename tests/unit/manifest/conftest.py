"""A small manifest, its folder, and what reading a changed one says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import pytest

from builder.edges.files import read_manifest
from builder.errors import ManifestError

if TYPE_CHECKING:
    from pathlib import Path

    from builder.read.loaded import LoadedManifest

TEXT = """\
schema = 1
name = "pair"

[image]
platform = "linux/arm64"

[image.base]
source = "registry.example/vllm-node:2026-01"
digest = "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

[image.donors.tiny]
source = "oci:images/donor"

[[image.graft]]
donor = "tiny"
package = "vllm"
files = ["models/tiny.py"]

[[image.register]]
package = "vllm"
file = "models/registry.py"
table = "_MODELS"
entries = { Tiny = ["tiny", "Tiny"] }

[[image.file]]
source = "node/chat.jinja"
target = "/opt/chat.jinja"

[vllm]
version = "0.17.1"

[model]
files = "model"
path = "/srv/models/tiny"

[serve]
tensor_parallel = 2
node_script = "./run-cluster-node.sh"
args = { max-model-len = 256, gpu-memory-utilization = 0.8 }

[container]
mounts = [{ source = "/usr/bin", target = "/usr/bin" }]

[[nodes]]
name = "spark-a"
ssh = "spark-a"

[nodes.fabric]
address = "192.168.200.12"
netdev = "enp1s0f1np1"
hcas = ["rocep1s0f1", "roceP2p1s0f1"]
twin = { address = "192.168.201.12", netdev = "enP2p1s0f1np1" }

[[nodes]]
name = "spark-b"
ssh = "spark-b"

[nodes.fabric]
address = "192.168.200.13"
netdev = "enp1s0f1np1"
hcas = ["rocep1s0f1", "roceP2p1s0f1"]
twin = { address = "192.168.201.13", netdev = "enP2p1s0f1np1" }
"""


class Folder(Protocol):
    """A folder with a manifest and the files it names."""

    path: Path

    def read(self, text: str) -> LoadedManifest: ...

    def changed(self, *changes: tuple[str, str]) -> str: ...

    def error(self, text: str) -> str: ...


class _Folder:
    def __init__(self, path: Path) -> None:
        self.path = path
        (path / "node").mkdir()
        (path / "node/chat.jinja").write_text("chat\n")
        (path / "model").mkdir()
        (path / "model/config.json").write_text("{}\n")
        (path / ".sparklock/plugin").mkdir(parents=True)
        (path / ".sparklock/plugin/a.py").write_text("class A: ...\n")

    def read(self, text: str) -> LoadedManifest:
        """The manifest with this text."""
        file = self.path / "cluster.toml"
        file.write_bytes(text.encode())
        return read_manifest(file)

    def changed(self, *changes: tuple[str, str]) -> str:
        """The good text with each old part, which is there once, replaced by a new one."""
        text = TEXT
        for old, new in changes:
            assert text.count(old) == 1, f"{old!r} must be in the manifest once"
            text = text.replace(old, new)
        return text

    def error(self, text: str) -> str:
        """All that reading this text says, without the folder's path."""
        with pytest.raises(ManifestError) as caught:
            self.read(text)
        assert caught.value.exit_code == 2
        assert all(message.remedy for message in caught.value.messages)
        return str(caught.value).replace(f"{self.path}/", "")


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return _Folder(tmp_path)


@pytest.fixture
def good_text() -> str:
    return TEXT
