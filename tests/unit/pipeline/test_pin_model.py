"""Pinning a model: against a stand-in for the Hub's API, since no Hub can be reached here."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import pytest

from builder import pinning, updating
from builder.digest import digest_bytes
from builder.edges.hub_errors import HubError
from builder.edges.registry.errors import OfflineError
from builder.inputs import UnknownInputError
from builder.progress import Silent
from tests.hub import Hub, serving

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.project import Project

OLD, NEW = "a" * 40, "b" * 40
TOKEN = "hf_not-a-real-one"  # noqa: S105


class StandInHub:
    """What one request for a model's main branch is answered with; it keeps what it was asked."""

    def __init__(self, status: int, body: bytes) -> None:
        self.status = status
        self.body = body
        self.asked: list[tuple[str, str | None]] = []


@contextmanager
def standing_in(hub: StandInHub) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            hub.asked.append((self.path, self.headers.get("Authorization")))
            self.send_response(hub.status)
            self.send_header("Content-Length", str(len(hub.body)))
            self.end_headers()
            self.wfile.write(hub.body)

        def log_message(self, *_: object) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def of_the_hub(project: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    """The project's model is one of the Hub."""
    monkeypatch.delenv("SPARKLOCK_OFFLINE", raising=False)
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    return project.edit('files = "model"\n', f'repo = "team/model"\nrevision = "{OLD}" # pinned\n')


def test_a_model_s_newest_commit_is_written_and_locked(
    of_the_hub: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = (of_the_hub.folder / "model" / "config.json").read_bytes()
    files = {"config.json": config, "weights": b"w" * 2000}
    with serving(Hub(files, revision=OLD, token=TOKEN)) as hub:
        monkeypatch.setenv("HF_ENDPOINT", f"{hub.url}/")
        of_the_hub.lock()
        before = of_the_hub.file.read_text(), of_the_hub.read_lock()
        hub.revision, hub.files["weights"] = NEW, b"v" * 2000
        hub.asked.clear()
        report = updating.update(of_the_hub.file, "model", Silent())

    assert of_the_hub.file.read_text() == before[0].replace(OLD, NEW)
    after = of_the_hub.read_lock()
    assert after.model.revision == NEW
    assert [file.digest for file in after.model.files] == [
        digest_bytes(data) for data in hub.files.values()
    ]
    assert after.image == before[1].image
    assert f"model: team/model: {OLD} -> {NEW} (commit of main)" in report.text()
    assert hub.asked[0] == ("GET", "/api/models/team/model/revision/main", f"Bearer {TOKEN}")


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (404, b'{"error":"Repository not found"}'),
        (401, b"{}"),
        (200, b"<html>"),
        (200, b'{"sha": "main"}'),
        (200, b"[]"),
    ],
)
def test_an_answer_without_a_commit_is_told_and_nothing_written(
    of_the_hub: Project, monkeypatch: pytest.MonkeyPatch, status: int, body: bytes
) -> None:
    before = of_the_hub.file.read_bytes()
    with standing_in(StandInHub(status, body)) as endpoint:
        monkeypatch.setenv("HF_ENDPOINT", endpoint)
        with pytest.raises(HubError, match=r"huggingface\.co/team/model/commits") as caught:
            pinning.pin(of_the_hub.file, "model", Silent())

    assert caught.value.exit_code == 4
    assert TOKEN not in str(caught.value)
    assert of_the_hub.file.read_bytes() == before


@pytest.mark.parametrize(
    "endpoint",
    [
        *("not an address", "http://hub.example", "ftp://a"),
        *("https://[x", "https://host:abc", "https://host:99999", "https://me:hush@hub.example"),
    ],
)
def test_a_token_goes_to_no_unsafe_address(
    of_the_hub: Project, monkeypatch: pytest.MonkeyPatch, endpoint: str
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", endpoint)
    with pytest.raises(HubError) as caught:
        pinning.pin(of_the_hub.file, "model", Silent())
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize("token", ["hush\nother: header", "hush \u20ac", "hush hush"])
def test_a_token_that_is_none_is_told_and_not_shown(
    of_the_hub: Project, monkeypatch: pytest.MonkeyPatch, token: str
) -> None:
    monkeypatch.setenv("HF_TOKEN", token)
    hub = StandInHub(200, json.dumps({"sha": NEW}).encode())
    with standing_in(hub) as endpoint:
        monkeypatch.setenv("HF_ENDPOINT", endpoint)
        with pytest.raises(HubError, match="HF_TOKEN is no token") as caught:
            pinning.pin(of_the_hub.file, "model", Silent())
    assert "hush" not in str(caught.value)
    assert hub.asked == []


def test_offline_no_hub_is_asked(of_the_hub: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARKLOCK_OFFLINE", "1")
    with pytest.raises(OfflineError):
        pinning.pin(of_the_hub.file, "model", Silent())


def test_a_model_of_own_files_has_no_pin(project: Project) -> None:
    with pytest.raises(UnknownInputError, match=r"one of base, donors\.tiny"):
        pinning.pin(project.file, "model", Silent())
