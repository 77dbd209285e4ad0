"""A stand-in for a Docker engine: a unix socket that tells of one image and saves it.

For what no real engine does when it is asked to. Real ones stand in tests/integration/sources.
"""

from __future__ import annotations

import json
import socketserver
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING
from urllib.parse import unquote

from builder.edges.daemon import DaemonSource
from builder.edges.daemon_api import EngineSocket, engine_behind
from builder.edges.store import BlobStore
from builder.progress import Silent
from deploy.node_errors import EngineStoppedError
from tests.unit.oci.archives import tar_of
from tests.unit.oci.image_archives import layout_members, saved_members

if TYPE_CHECKING:
    import tarfile
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from builder.digest import Digest
    from builder.edges.daemon_api import EngineApi
    from builder.errors import SparklockError
    from builder.oci.model import Platform
    from builder.progress import Progress
    from tests.unit.oci.archives import Published

NAME = "team/base:v1"
ASKED = "cluster.toml:9: image.base.source"
PIECE_BYTES = 64 * 2**10


@dataclass
class FakeEngine:
    """What the engine is and does. `members` is what it saves, `asked` what it was asked for.

    `cut_bytes` ends the archive after so many bytes: the connection breaks, or with `in_order` as
    if that were all. An engine that `dies` there answers nothing more: it is `gone`.
    """

    path: Path
    id: str
    members: list[tuple[tarfile.TarInfo, bytes]]
    names: list[str] = field(default_factory=lambda: [NAME])
    architecture: str = "amd64"
    in_containerd: bool = False
    cut_bytes: int | None = None
    in_order: bool = False
    dies: bool = False
    gone: bool = False
    refusal: tuple[int, str] | None = None
    asked: list[str] = field(default_factory=list)

    @property
    def saves(self) -> int:
        """How many images it was asked to save."""
        return sum(path.endswith("/get") for path in self.asked)

    def opened(self, place: str) -> AbstractContextManager[EngineApi]:
        return engine_behind(EngineSocket(self.path, self._why_silent), place)

    def source(  # noqa: PLR0913 - a DaemonSource's own
        self,
        store: Path,
        pin: Digest | None = None,
        *,
        name: str = NAME,
        progress: Progress | None = None,
        platform: Platform | None = None,
        keep: Callable[[str], bool] = lambda _path: False,
        whole: bool = False,
    ) -> DaemonSource:
        return DaemonSource(
            name,
            pin,
            self.opened,
            BlobStore(store),
            progress or Silent(),
            asked=ASKED,
            platform=platform,
            keep=keep,
            whole=whole,
        )

    def _why_silent(self) -> SparklockError:
        return EngineStoppedError("spark-a", found=str(self.path))


@contextmanager
def graph_driver(path: Path, published: Published) -> Iterator[FakeEngine]:
    """An engine that names its image by the config, and saves it as Docker 20 does."""
    (top,) = published.source.tops
    config = json.loads(published.source.blobs[top.digest])["config"]["digest"]
    with _serving(FakeEngine(path, config, saved_members(published))) as engine:
        yield engine


@contextmanager
def containerd_store(path: Path, published: Published) -> Iterator[FakeEngine]:
    """An engine that names its image by the manifest or index, and saves an OCI layout."""
    (top,) = published.source.tops
    fake = FakeEngine(path, top.digest, layout_members(published), in_containerd=True)
    with _serving(fake) as engine:
        yield engine


@contextmanager
def _serving(engine: FakeEngine) -> Iterator[FakeEngine]:
    handler = type("Handler", (_Handler,), {"engine": engine})
    with _Server(str(engine.path), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield engine
        finally:
            server.shutdown()
            thread.join()


class _Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Nothing: a client that goes away is what some tests are about."""


class _Handler(BaseHTTPRequestHandler):
    engine: FakeEngine
    protocol_version = "HTTP/1.1"

    def address_string(self) -> str:
        return "unix"

    def log_message(self, *parts: object) -> None:
        """Nothing."""

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        engine = self.engine
        path = unquote(self.path.partition("?")[0])
        path = path.split("/", 2)[2] if path.startswith("/v1") else path[1:]
        engine.asked.append(path)
        if engine.gone:
            self.close_connection = True
            return
        if engine.refusal and path not in ("version", "info", "_ping"):
            status, text = engine.refusal
            self._say({"message": text}, status)
        elif path.endswith("/get"):
            self._save()
        else:
            self._tell(path)

    def _tell(self, path: str) -> None:
        engine = self.engine
        status = [["driver-type", "io.containerd.snapshotter.v1"]] if engine.in_containerd else []
        answers: dict[str, object] = {
            "version": {"ApiVersion": "1.41", "Version": "20.10.24"},
            "info": {"DriverStatus": status},
            "_ping": b"OK",
            "images/json": [{"RepoTags": engine.names}],
        }
        found = {
            "Id": engine.id,
            "Os": "linux",
            "Architecture": engine.architecture,
            "Size": sum(len(data) for _, data in engine.members),
        }
        answers |= {f"images/{name}/json": found for name in (*engine.names, engine.id)}
        if path in answers:
            self._say(answers[path])
        else:
            self._say({"message": f"no such image: {path}"}, 404)

    def _say(self, answer: object, status: int = 200) -> None:
        body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def _save(self) -> None:
        engine = self.engine
        archive = tar_of(*engine.members)
        whole = engine.cut_bytes is None or engine.in_order
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        sent = archive[: engine.cut_bytes]
        for start in range(0, len(sent), PIECE_BYTES):
            piece = sent[start : start + PIECE_BYTES]
            self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece))
        if whole:
            self.wfile.write(b"0\r\n\r\n")
        else:
            engine.gone = engine.dies
            self.close_connection = True
