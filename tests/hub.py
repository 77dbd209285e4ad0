"""A stand-in for the Hugging Face Hub: one repository at one commit, over HTTP.

It answers what huggingface_hub 2.4 asks while it takes a snapshot (the tree of a commit in pages,
HEAD and ranged GET of files with the Hub's headers), and refuses as the Hub does. It is no Hub: it
knows neither Xet nor redirects to another host.
"""

from __future__ import annotations

import hashlib
import json
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, ClassVar
from urllib.parse import parse_qs, quote, unquote, urlsplit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

REPO = "team/model"
REVISION = "c" * 40
SMALL_BYTES = 1000
"""What a file may have without going to LFS."""


@dataclass
class Hub:
    """What it has, how it fails, and what it was asked: (method, path, authorization)."""

    files: dict[str, bytes]
    repo: str = REPO
    revision: str = REVISION
    token: str | None = None
    page: int = 1000
    refuse: tuple[int, str] | None = None
    """A status and an X-Error-Code for everything."""
    cut_at: int | None = None
    """The bytes of one answer after which its connection is cut, once for each path."""
    listing: bytes | None = None
    """What it gives in place of the list of files."""
    spoilt: frozenset[str] = frozenset()
    """Files that are given with other bytes than are listed."""
    asked: list[tuple[str, str, str | None]] = field(default_factory=list)
    sent_bytes: dict[str, int] = field(default_factory=dict)
    url: str = ""
    leads_to: str = ""
    """What a page of the listing names as the next one, if not the next one."""
    cut: set[str] = field(default_factory=set)
    looked: Callable[[], None] = field(default=lambda: None)
    """Called while a large file is on its way, before its last byte."""

    def paths(self, part: str = "") -> list[str]:
        return [path for _, path, _ in self.asked if part in path]

    def entries(self) -> list[dict[str, object]]:
        folders = sorted({path.rpartition("/")[0] for path in self.files} - {""})
        found: list[dict[str, object]] = [
            {"type": "directory", "oid": "d" * 40, "size": 0, "path": path} for path in folders
        ]
        for path, data in sorted(self.files.items()):
            entry: dict[str, object] = {"type": "file", "path": path, "size": len(data)}
            entry["oid"] = hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()  # noqa: S324
            if len(data) > SMALL_BYTES:
                sha256 = hashlib.sha256(data).hexdigest()
                entry["lfs"] = {"oid": sha256, "size": len(data), "pointerSize": 130}
            found.append(entry)
        return found

    def etag(self, path: str) -> str:
        entry = next(entry for entry in self.entries() if entry["path"] == path)
        lfs = entry.get("lfs")
        return str(lfs["oid"] if isinstance(lfs, dict) else entry["oid"])


@contextmanager
def serving(hub: Hub, host: str = "127.0.0.1") -> Iterator[Hub]:
    """The hub, at its `url` for as long as this lasts."""
    server = ThreadingHTTPServer((host, 0), type("Handler", (_Handler,), {"hub": hub}))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    hub.url = f"http://{host}:{server.server_port}"
    try:
        yield hub
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    hub: ClassVar[Hub]
    protocol_version = "HTTP/1.1"

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def log_message(self, *_: object) -> None:
        """Nothing."""

    def _answer(self) -> None:  # noqa: PLR0911 - one for each kind of answer
        hub = self.hub
        given = self.headers.get("Authorization")
        hub.asked.append((self.command, self.path, given))
        if hub.refuse:
            return self._refuse(*hub.refuse)
        if hub.token and given != f"Bearer {hub.token}":
            return self._refuse(401, "GatedRepo")
        url = urlsplit(self.path)
        path = unquote(url.path)
        tree, files = f"/api/models/{hub.repo}/tree/", f"/{hub.repo}/resolve/"
        if path == f"/api/models/{hub.repo}/revision/main":
            return self._send(200, json.dumps({"id": hub.repo, "sha": hub.revision}).encode())
        if not path.startswith((tree, files)):
            return self._refuse(404, "RepoNotFound")
        revision, _, name = path.removeprefix(tree).removeprefix(files).partition("/")
        if revision != hub.revision:
            return self._refuse(404, "RevisionNotFound")
        if path.startswith(tree):
            return self._tree(parse_qs(url.query))
        if name not in hub.files:
            return self._refuse(404, "EntryNotFound")
        return self._file(name)

    def _tree(self, query: dict[str, list[str]]) -> None:
        if self.hub.listing is not None:
            return self._send(200, self.hub.listing)
        start = int(query.get("cursor", ["0"])[0])
        entries = self.hub.entries()
        end = start + self.hub.page
        headers = {}
        if end < len(entries):
            path = f"/api/models/{self.hub.repo}/tree/{self.hub.revision}"
            address = f"http://{self.headers['Host']}{path}?recursive=true&cursor={end}"
            headers["Link"] = f'<{self.hub.leads_to or address}>; rel="next"'
        return self._send(200, json.dumps(entries[start:end]).encode(), headers)

    def _file(self, name: str) -> None:
        hub = self.hub
        data = hub.files[name]
        if name in hub.spoilt:
            data = bytes([data[0] ^ 1]) + data[1:]
        headers = {
            "ETag": f'"{hub.etag(name)}"',
            "X-Repo-Commit": hub.revision,
            "X-Linked-Size": str(len(data)),
            "X-Linked-Etag": f'"{hub.etag(name)}"',
            "Accept-Ranges": "bytes",
            "Content-Disposition": f"inline; filename*=UTF-8''{quote(name)}",
        }
        asked = self.headers.get("Range")
        if not asked:
            return self._send(200, data, headers, name)
        first, _, last = asked.removeprefix("bytes=").partition("-")
        start, end = int(first), int(last) + 1 if last else len(data)
        headers["Content-Range"] = f"bytes {start}-{end - 1}/{len(data)}"
        return self._send(206, data[start:end], headers, name)

    def _refuse(self, status: int, code: str) -> None:
        body = json.dumps({"error": f"refused: {code}"}).encode()
        self._send(status, body, {"X-Error-Code": code, "X-Error-Message": f"refused: {code}"})

    def _send(
        self, status: int, body: bytes, headers: dict[str, str] | None = None, name: str = ""
    ) -> None:
        self.send_response(status)
        for key, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(key, value)
        self.end_headers()
        if self.command == "HEAD":
            return
        hub = self.hub
        if name and hub.cut_at is not None and len(body) > hub.cut_at and name not in hub.cut:
            hub.cut.add(name)
            body = body[: hub.cut_at]
            self.close_connection = True
        if name and len(body) > SMALL_BYTES:
            self.wfile.write(body[:-1])
            self.wfile.flush()
            hub.looked()
            body, sent = body[-1:], len(body) - 1
            hub.sent_bytes[name] = hub.sent_bytes.get(name, 0) + sent
        self.wfile.write(body)
        if name:
            hub.sent_bytes[name] = hub.sent_bytes.get(name, 0) + len(body)
