from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from builder import pipeline
from builder.edges.files import read_lock
from builder.edges.layout import LayoutSource
from builder.oci.select import select_manifest
from builder.progress import Silent
from tests.debian_registry import debian_registry

if TYPE_CHECKING:
    from collections.abc import Iterator

    from builder.digest import Digest
    from builder.lock import Lock
    from builder.oci.model import Image, Platform
    from tests.debian_registry import DebianRegistry

ROOT = Path(__file__).resolve().parents[3]
IMAGES = ROOT / "examples" / "lab" / "images"


@dataclass(frozen=True)
class LabProject:
    """A copy of the embedded default, whose images come from elsewhere."""

    folder: Path

    @property
    def file(self) -> Path:
        return self.folder / "cluster.toml"

    def change(self, old: str, new: str) -> None:
        """Replace a text that the manifest has exactly once."""
        text = self.file.read_text()
        assert text.count(old) == 1, f"{text.count(old)} times {old!r}"
        self.file.write_text(text.replace(old, new))

    def repin(self, source: str, digest: Digest) -> None:
        """Another digest behind a source."""
        old = rf'(source = "{re.escape(source)}"\ndigest = ")sha256:[0-9a-f]{{64}}'
        text, changed = re.subn(old, rf"\g<1>{digest}", self.file.read_text())
        assert changed == 1
        self.file.write_text(text)

    def lock(self) -> Lock:
        return pipeline.lock(self.file, Silent()).lock

    def committed(self) -> Lock:
        """The lock of the embedded default."""
        return read_lock(ROOT / "lockfile.json")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LabProject:
    """The default without its images: nothing of them can be read but from where a test says."""
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "nobody"))
    monkeypatch.delenv("SPARKLOCK_OFFLINE", raising=False)
    folder = tmp_path / "project"
    lab = folder / "examples" / "lab"
    lab.mkdir(parents=True)
    shutil.copy(ROOT / "cluster.toml", folder)
    shutil.copy(ROOT / "examples/lab/chat_template.jinja", lab)
    shutil.copytree(ROOT / "examples/lab/model", lab / "model")
    return LabProject(folder)


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DebianRegistry]:
    with debian_registry(tmp_path_factory.mktemp("registry")) as found:
        yield found


def lab_image(name: str, platform: Platform) -> tuple[LayoutSource, Image]:
    """One of the lab's images, out of the committed layout."""
    source = LayoutSource(IMAGES / name)
    return source, select_manifest(source, None, platform).image
