"""The three manifests of examples/entrypoint-collision in a folder of the test's own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from builder import hybrid, pipeline
from builder.progress import Silent
from deploy.lab.manifest import lab_manifest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from deploy.lab.lifecycle import LabState
    from deploy.lab.spec import LabSpec

ROOT: Final = Path(__file__).resolve().parents[3]
STORY: Final = Path("examples/entrypoint-collision")
NEEDED: Final = ("examples/lab/images", "examples/lab/model", str(STORY))
LIMIT_S: Final = 300


@dataclass(frozen=True)
class Examples:
    """A copy of the examples; `inv` runs there, as it would in the repository."""

    folder: Path

    def manifest(self, name: str) -> Path:
        return self.folder / STORY / name / "cluster.toml"

    def lock(self, name: str) -> Path:
        return self.manifest(name).with_name("lockfile.json")

    def keep_the_donors_entrypoint(self) -> None:
        """Take out the line of the donor's manifest that clears it."""
        lines = self.manifest("donor").read_text().splitlines(keepends=True)
        kept = [line for line in lines if not line.startswith("entrypoint = []")]
        assert len(kept) == len(lines) - 1
        self.manifest("donor").write_text("".join(kept))

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """What `inv WORDS` said and how it ended."""
        argv = [sys.executable, "-m", "invoke", "--search-root", str(ROOT), *words]
        return subprocess.run(
            argv, cwd=self.folder, capture_output=True, text=True, timeout=LIMIT_S, check=False
        )

    def inv(self, task: str, name: str, *options: str) -> subprocess.CompletedProcess[str]:
        """The same of a task with one of the manifests."""
        return self.run(task, "--file", str(STORY / name / "cluster.toml"), *options)


@pytest.fixture
def examples(tmp_path: Path) -> Examples:
    """The examples as committed."""
    for name in NEEDED:
        without = shutil.ignore_patterns(".sparklock")
        shutil.copytree(ROOT / name, tmp_path / name, ignore=without)
    return Examples(tmp_path)


@pytest.fixture
def on_the_lab(examples: Examples, lab: LabState) -> Iterator[Examples]:
    """The examples turned to the test lab; nothing of them runs there afterwards."""
    for path in (examples.folder / STORY).glob("*/cluster.toml"):
        path.write_text(_turned(path, lab.spec))
    yield examples
    stopped = examples.inv("stop", "hybrid")  # the three manifests are of one cluster
    assert stopped.returncode == 0, stopped.stderr


def _turned(path: Path, spec: LabSpec) -> str:
    ssh_config = os.path.relpath(spec.ssh_config, path.resolve().parent)
    return lab_manifest(path.read_text(), spec, ssh_config)


@pytest.fixture
def force_lock(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], None]:
    """Writes the lock that `inv lock` refuses: the closure check finds nothing, all else is real.

    A build by the lock alone does not repeat the check, so `inv deploy` takes it from there.
    """
    monkeypatch.setattr(hybrid, "check_closure", lambda *_: ())

    def write(manifest: Path) -> None:
        pipeline.lock(manifest, Silent())

    return write
