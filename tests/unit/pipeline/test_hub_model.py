"""Locking a model of the Hub: against a stand-in for the Hub, asked once and never again."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from builder import pipeline
from builder.digest import digest_bytes
from builder.edges import hub_errors
from builder.edges.files import write_lock
from builder.edges.registry.errors import OfflineError
from builder.graft.acceptance import ClosureError
from builder.pipeline_errors import CheckpointConfigError, StaleLockError
from builder.progress import Silent
from tests.hub import REPO, REVISION, Hub, serving

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.project import Project

CONFIG = json.dumps({"architectures": ["New"], "model_type": ""}).encode()
FILES = {
    "config.json": CONFIG,
    "tokenizer/vocab 1.txt": b"a b c",
    "model-1.safetensors": b"w" * 5000,
    "model-2.safetensors": b"v" * 5000,
    "README.md": b"read me",
    "original/a.pth": b"p" * 5000,
}
TOKEN = "hf_quite-secret"  # noqa: S105 - no real one


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Hub]:
    with serving(Hub(dict(FILES))) as opened:
        monkeypatch.setenv("HF_ENDPOINT", opened.url)
        monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
        for name in ("SPARKLOCK_OFFLINE", "HF_TOKEN", "HF_TOKEN_PATH"):
            monkeypatch.delenv(name, raising=False)
        yield opened


@pytest.fixture
def of_the_hub(project: Project) -> Project:
    """The project's model is one of the Hub."""
    return project.edit('files = "model"\n', f'repo = "{REPO}"\nrevision = "{REVISION}"\n')


def test_every_file_has_its_size_and_sha256(of_the_hub: Project, hub: Hub) -> None:
    hub.page = 2
    of_the_hub.lock()
    model = of_the_hub.read_lock().model
    wanted = {path: data for path, data in FILES.items() if path != "README.md"}
    assert {file.path: file.digest for file in model.files} == {
        path: digest_bytes(data) for path, data in wanted.items()
    }
    assert [file.size_bytes for file in model.files] == [len(wanted[p]) for p in sorted(wanted)]
    assert model.architectures == ("New",)
    assert not hub.paths("safetensors"), "large files are not read"
    assert len(hub.paths("/tree/")) == 4


def test_the_hub_is_asked_once(
    of_the_hub: Project, hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_the_hub.lock()
    before, asked = of_the_hub.lock_file.read_bytes(), len(hub.asked)
    monkeypatch.setenv("SPARKLOCK_OFFLINE", "1")
    of_the_hub.lock()
    pipeline.check_lock(of_the_hub.file)
    pipeline.build(of_the_hub.file, Silent(), locked=True)
    of_the_hub.edit("max-model-len = 256", "max-model-len = 128").lock()
    assert len(hub.asked) == asked
    assert of_the_hub.lock_file.read_bytes() != before


def test_patterns_are_locked_and_asked_for_anew(of_the_hub: Project, hub: Hub) -> None:
    of_the_hub.lock()
    plain = of_the_hub.lock_file.read_text()
    assert "exclude" not in plain
    of_the_hub.edit(f'repo = "{REPO}"\n', f'repo = "{REPO}"\nexclude = ["original/*"]\n').lock()
    model = of_the_hub.read_lock().model
    assert model.exclude == ("original/*",)
    assert "original/a.pth" not in [file.path for file in model.files]
    assert len(hub.paths("/tree/")) == 2


def test_a_lock_without_the_model_s_files_is_stale(of_the_hub: Project, hub: Hub) -> None:
    of_the_hub.lock()
    assert hub.asked
    lock = of_the_hub.read_lock()
    model = lock.model.model_copy(update={"files": ()})
    write_lock(of_the_hub.lock_file, lock.model_copy(update={"model": model}))
    with pytest.raises(StaleLockError, match=REPO):
        pipeline.check_lock(of_the_hub.file)


def test_an_architecture_that_the_image_does_not_know_is_told(
    of_the_hub: Project, hub: Hub
) -> None:
    hub.files["config.json"] = b'{"architectures": ["Other"]}'
    with pytest.raises(ClosureError, match="Other"):
        of_the_hub.lock()


def test_a_config_that_says_nothing_is_told(of_the_hub: Project, hub: Hub) -> None:
    hub.files["config.json"] = b"{}"
    with pytest.raises(CheckpointConfigError, match=REPO):
        of_the_hub.lock()


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (403, "GatedRepo", hub_errors.HubGatedError),
        (401, "GatedRepo", hub_errors.HubGatedError),
        (401, "", hub_errors.HubDeniedError),
        (404, "RepoNotFound", hub_errors.HubDeniedError),
        (404, "RevisionNotFound", hub_errors.HubRevisionError),
        (418, "", hub_errors.HubFilesError),
    ],
)
def test_a_refusal_is_told_by_what_to_do(
    of_the_hub: Project, hub: Hub, status: int, code: str, kind: type[hub_errors.HubFilesError]
) -> None:
    hub.refuse = (status, code)
    with pytest.raises(hub_errors.HubFilesError) as caught:
        of_the_hub.lock()
    assert type(caught.value) is kind
    assert caught.value.exit_code == 4
    assert "remedy" in str(caught.value)
    assert not of_the_hub.lock_file.exists()


def test_other_bytes_than_listed_are_refused(of_the_hub: Project, hub: Hub) -> None:
    hub.spoilt = frozenset({"config.json"})
    with pytest.raises(hub_errors.HubDamagedError, match=r"config\.json"):
        of_the_hub.lock()


def test_a_name_that_leads_out_is_refused(of_the_hub: Project, hub: Hub) -> None:
    hub.files["../../etc/cron.d/x"] = b"x" * 2000
    with pytest.raises(hub_errors.HubUnfitError, match=r"etc/cron"):
        of_the_hub.lock()


def test_what_is_no_listing_is_the_servers_fault_not_the_names(
    of_the_hub: Project, hub: Hub
) -> None:
    hub.listing = b"<html>log in first</html>"
    with pytest.raises(hub_errors.HubFilesError, match="no JSON") as caught:
        of_the_hub.lock()
    assert "exclude" not in str(caught.value)


@pytest.mark.parametrize("address", ["http://[::1", "file:///etc/passwd", "http://192.0.2.1/x"])
def test_a_listing_that_leads_elsewhere_is_the_hubs_fault_and_no_registrys(
    of_the_hub: Project, hub: Hub, address: str
) -> None:
    hub.page, hub.leads_to = 1, address
    with pytest.raises(hub_errors.HubFilesError) as caught:
        of_the_hub.lock()
    assert "registry" not in str(caught.value)


def test_a_large_file_without_a_hash_is_told_with_the_way_to_leave_it_out(
    of_the_hub: Project, hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert hub.url
    monkeypatch.setattr("builder.edges.hub.MOST_SMALL_BYTES", 4)
    with pytest.raises(hub_errors.HubUnfitError, match="no SHA-256") as caught:
        of_the_hub.lock()
    assert "exclude" in str(caught.value)


def test_patterns_that_fit_nothing_are_told(of_the_hub: Project, hub: Hub) -> None:
    assert hub.url
    of_the_hub.edit(f'repo = "{REPO}"\n', f'repo = "{REPO}"\ninclude = ["*.onnx"]\n')
    with pytest.raises(hub_errors.NoModelFileError):
        of_the_hub.lock()


@pytest.mark.parametrize("kept_in", ["HF_TOKEN", "HF_TOKEN_PATH", "HF_HOME"])
def test_the_token_opens_the_hub_and_is_kept_nowhere(
    of_the_hub: Project, hub: Hub, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kept_in: str
) -> None:
    hub.token = TOKEN
    with pytest.raises(hub_errors.HubGatedError):
        of_the_hub.lock()
    if kept_in == "HF_TOKEN":
        monkeypatch.setenv(kept_in, TOKEN)
    else:
        (tmp_path / "login").mkdir()
        (tmp_path / "login" / "token").write_text(f"{TOKEN}\n")
        path = tmp_path / "login" / ("token" if kept_in == "HF_TOKEN_PATH" else "")
        monkeypatch.setenv(kept_in, str(path))
    of_the_hub.lock()
    kept = [path for path in of_the_hub.folder.rglob("*") if path.is_file()]
    assert not [path for path in kept if TOKEN.encode() in path.read_bytes()]


def test_offline_nothing_is_asked(
    of_the_hub: Project, hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARKLOCK_OFFLINE", "1")
    with pytest.raises(OfflineError):
        of_the_hub.lock()
    assert not hub.asked
