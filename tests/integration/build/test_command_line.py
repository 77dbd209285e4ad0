"""`inv lock` and `inv build` as a person or a script calls them: exit codes, text, JSON."""

from __future__ import annotations

import json
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from builder.digest import digest_bytes
from tests.project import Project
from tests.repository import ROOT, inv

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def run(folder: Path, *args: str) -> subprocess.CompletedProcess[str]:
    """`inv ARGS --file …` of this repository, on a project elsewhere."""
    return inv(ROOT, *args, "--file", str(folder / "cluster.toml"), cwd=folder)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path / "project")


def test_from_a_manifest_to_an_image_and_again(project: Project) -> None:
    locked = run(project.folder, "lock")
    assert (locked.returncode, locked.stdout.count("\n")) == (0, 1)
    assert locked.stdout.startswith(f"{project.lock_file} written: image sha256:")
    assert [line for line in locked.stderr.splitlines() if line.startswith(">")] == [
        f"> read base from oci:{project.folder}/images/base",
        f"> read donors.tiny from oci:{project.folder}/images/donor",
        "> resolve files and tables, check that the image closes",
    ]

    built = run(project.folder, "build", "--locked", "--output", "image", "--json")
    assert (built.returncode, built.stderr) == (0, "")
    told = json.loads(built.stdout)
    lock = project.read_lock()
    assert told["outputs"] == lock.outputs.model_dump(mode="json")
    assert told["output"] == "image"
    (entry,) = json.loads((project.folder / "image" / "index.json").read_bytes())["manifests"]
    assert entry["digest"] == lock.outputs.manifest_digest

    checked = run(project.folder, "lock", "--check", "--json")
    assert (checked.returncode, checked.stderr) == (0, "")
    assert json.loads(checked.stdout) == {
        "image_compared": True,
        "written": False,
        "lock_digest": digest_bytes(project.lock_file.read_bytes()),
        "manifest_digest": lock.outputs.manifest_digest,
        "config_digest": lock.outputs.config_digest,
        "changes": [],
        "accepted": [],
        "vendored": None,
    }


FAILURES: dict[str, tuple[Callable[[Project], object], tuple[str, ...], int, list[str]]] = {
    "a manifest with an unknown key": (
        lambda p: p.edit('name = "small"', 'name = "small"\ncolour = "red"'),
        ("lock",),
        2,
        ["cluster.toml:3: colour", "remedy:"],
    ),
    "no manifest": (lambda p: p.file.unlink(), ("build",), 2, ["cluster.toml"]),
    "no lock": (lambda p: p.lock_file.unlink(), ("build", "--locked"), 3, ["there is no lock"]),
    "an old lock": (
        lambda p: p.write("files/template.jinja", "other"),
        ("lock", "--check"),
        3,
        [
            "the lock is stale: files/template.jinja changed",
            "expected: sha256:",
            "found:    sha256:",
        ],
    ),
    "an image that does not close": (
        lambda p: p.edit('version = "1.0"', 'version = "2.0"'),
        ("build",),
        4,
        ["vllm.version", "expected: 2.0", "found:    1.0"],
    ),
    "a missing source": (
        lambda p: p.remove("images").remove(".sparklock"),
        ("build", "--locked"),
        4,
        ["no OCI image layout here"],
    ),
}


@pytest.mark.parametrize(("change", "args", "code", "words"), FAILURES.values(), ids=FAILURES)
def test_the_exit_code_and_one_clear_text_tell_of(
    project: Project,
    change: Callable[[Project], object],
    args: tuple[str, ...],
    code: int,
    words: list[str],
) -> None:
    project.lock()
    change(project)

    result = run(project.folder, *args, "--quiet")

    assert (result.returncode, result.stdout) == (code, "")
    assert result.stderr.startswith("error: ")
    assert "Traceback" not in result.stderr
    for word in (*words, "remedy:"):
        assert word in result.stderr


def test_a_failure_for_scripts_is_json_on_standard_output(project: Project) -> None:
    project.lock()
    project.edit("max-model-len = 256", "max-model-len = 1")

    result = run(project.folder, "build", "--locked", "--json")

    told = json.loads(result.stdout)
    assert (result.returncode, result.stderr) == (3, "")
    assert (told["error"], told["exit"]) == ("StaleLockError", 3)
    (message,) = told["messages"]
    assert set(message) == {"place", "what", "expected", "found", "remedy"}


@pytest.mark.parametrize("what", ["inspect", "copy"])
def test_skopeo_reads_the_output_under_the_same_digest(
    project: Project, tmp_path: Path, what: str
) -> None:
    if shutil.which("skopeo") is None:
        pytest.skip("skopeo is not installed: apt-get install skopeo")
    out = tmp_path / "out"
    digest = project.build(output=out).lock.outputs.manifest_digest
    skopeo = ("skopeo", "--insecure-policy")

    if what == "copy":
        copied = [*skopeo, "copy", "--preserve-digests", f"oci:{out}", f"oci:{tmp_path / 'copy'}"]
        subprocess.run(copied, check=True, capture_output=True)
        out = tmp_path / "copy"
    raw = subprocess.run(
        [*skopeo, "inspect", "--raw", f"oci:{out}"], check=True, capture_output=True
    ).stdout

    assert digest_bytes(raw) == digest


@pytest.mark.parametrize("kind", ["oci-archive", "docker-archive"])
def test_skopeo_reads_the_archive_as_either_of_its_kinds(
    project: Project, tmp_path: Path, kind: str
) -> None:
    if shutil.which("skopeo") is None:
        pytest.skip("skopeo is not installed: apt-get install skopeo")
    outputs = project.build(output=tmp_path / "out.tar").lock.outputs
    copied = ["skopeo", "--insecure-policy", "copy", f"{kind}:{tmp_path / 'out.tar'}"]

    subprocess.run([*copied, f"dir:{tmp_path / 'copy'}"], check=True, capture_output=True)

    raw = (tmp_path / "copy" / "manifest.json").read_bytes()
    assert json.loads(raw)["config"]["digest"] == outputs.config_digest
    if kind == "oci-archive":  # the other kind has no manifest: skopeo makes one
        assert digest_bytes(raw) == outputs.manifest_digest


def test_an_output_that_is_not_clear_is_the_caller_s_error(project: Project) -> None:
    result = run(project.folder, "build", "--quiet", "--output", "image.tar.gz")

    assert (result.returncode, result.stdout) == (2, "")
    assert "--output image.tar.gz" in result.stderr
    assert not project.lock_file.exists()
