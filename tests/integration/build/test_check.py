"""`inv build --check`: what depends on its surroundings is found, and told to the field."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from builder.edges.store import BlobStore
from builder.oci.tar import file_entry
from builder.pipeline_errors import (
    NotReproducibleError,
    OutputsDifferError,
    SecondAssemblyError,
)
from tests.project import EPOCH, MODELS, SITE, Project
from tests.repository import ROOT, inv

if TYPE_CHECKING:
    from builder.oci.tar import TarEntry

FAULTS: dict[str, tuple[str, str, str, str]] = {
    "a mode that follows the umask": (
        """
import os, builder.assembly as module
real, umask = module.file_entry, os.umask(0)
os.umask(umask)
module.file_entry = lambda path, content, *, mode, mtime: real(
    path, content, mode=mode & ~umask, mtime=mtime
)
""",
        f"layer 1 of ours: /{SITE}/{MODELS}/new.py: mode",
        "0644",
        "0600",
    ),
    "a time that follows the time zone": (
        """
import time, builder.assembly as module
real = module.file_entry
module.file_entry = lambda path, content, *, mode, mtime: real(
    path, content, mode=mode, mtime=mtime + time.timezone
)
""",
        f"layer 1 of ours: /{SITE}/{MODELS}/new.py: mtime",
        str(EPOCH),
        str(EPOCH - 14 * 3600),
    ),
    "a content that follows the hash seed": (
        """
import os, builder.assembly as module
real = module.edited
module.edited = lambda steps, blobs: real(steps, blobs).replace(
    b"MODELS", b"MODELZ" if os.environ["PYTHONHASHSEED"] == "4242" else b"MODELS", 1
)
""",
        f"layer 1 of ours: /{SITE}/{MODELS}/registry.py: content at byte 6",
        "0x53",
        "0x5a",
    ),
    "a time of the config that is local": (
        """
import datetime, builder.oci.assemble as module
module._timestamp = lambda epoch: datetime.datetime.fromtimestamp(epoch).strftime(
    "%Y-%m-%dT%H:%M:%SZ"
)
""",
        "config: created",
        "2026-01-01T00:00:00Z",
        "2026-01-01T14:00:00Z",
    ),
}


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path / "project")


@pytest.fixture
def utc(monkeypatch: pytest.MonkeyPatch) -> None:
    """The test's own process is not in the time zone that the other one gets."""
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.delenv("PYTHONHASHSEED", raising=False)
    time.tzset()


def break_the_other(monkeypatch: pytest.MonkeyPatch, folder: Path, code: str) -> None:
    """Code that only the other process runs, before anything else."""
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(code)
    monkeypatch.setenv("PYTHONPATH", str(folder))


def test_a_right_image_passes_and_leaves_nothing(project: Project) -> None:
    built = project.build(check=True)

    assert "checked" in built.text()
    assert not (project.folder / ".sparklock" / "check").exists()


@pytest.mark.usefixtures("utc")
@pytest.mark.parametrize("fault", FAULTS)
def test_what_depends_on_its_surroundings_is_told_to_the_field(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    code, where, before, after = FAULTS[fault]
    break_the_other(monkeypatch, tmp_path / "site", code)

    with pytest.raises(NotReproducibleError) as caught:
        project.build(check=True)

    (message,) = caught.value.messages
    assert message.what.endswith(f"first in {where}")
    assert (message.expected, message.found) == (f"{before} (locked)", after)
    assert caught.value.exit_code == 4
    kept = Path(message.place)
    outputs = project.read_lock().outputs
    assert BlobStore(tmp_path / "x").put([(kept / "locked/layer-1.tar").read_bytes()]) == (
        outputs.layers[0].digest
    )
    for name in ("layer-1.tar", "config.json", "manifest.json"):
        assert (kept / "again" / name).is_file()

    monkeypatch.delenv("PYTHONPATH")
    project.build(check=True)
    assert not kept.exists(), "of an earlier check nothing stays"


def test_another_process_that_fails_is_told_with_its_words(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = (
        "import sys; print('no room', file=sys.stderr); sys.stderr.flush(); import os; os._exit(7)"
    )
    project.lock()
    break_the_other(monkeypatch, tmp_path / "site", code)

    with pytest.raises(SecondAssemblyError) as caught:
        project.build(check=True)

    assert "exit status 7" in str(caught.value)
    assert "| no room" in str(caught.value)


def test_as_a_script_calls_it(project: Project) -> None:
    result = inv(ROOT, "build", "--check", "--json", "--file", str(project.file), cwd=ROOT)

    assert (result.returncode, result.stderr) == (0, "")
    assert json.loads(result.stdout)["checked"] is True


def test_a_plain_build_that_differs_from_its_lock_names_the_first_entry_too(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.build()
    real = file_entry

    def other(path: str, content: bytes, *, mode: int, mtime: int) -> TarEntry:
        return real(path, content, mode=mode, mtime=mtime + 1)

    monkeypatch.setattr("builder.assembly.file_entry", other)
    with pytest.raises(OutputsDifferError) as caught:
        project.build(locked=True)

    first = caught.value.messages[0]
    assert first.what == (
        f"the image differs first in layer 1 of ours: /{SITE}/{MODELS}/new.py: mtime"
    )
    assert (first.expected, first.found) == (f"{EPOCH} (as locked)", str(EPOCH + 1))
    assert caught.value.exit_code == 3
