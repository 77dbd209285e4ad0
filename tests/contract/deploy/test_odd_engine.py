from __future__ import annotations

import socketserver
import threading
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING

import pytest

from deploy.edges.engine import Engine
from deploy.node_errors import EngineError, EngineStoppedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@contextmanager
def odd_engine(path: Path, answers: bytes) -> Iterator[None]:
    """A stand-in for a broken engine: it tells its version, and then the same to every question."""

    class Handler(BaseHTTPRequestHandler):
        def address_string(self) -> str:
            return "engine"

        def do_GET(self) -> None:
            version = b'{"ApiVersion": "1.41"}'
            said = version if self.path == "/version" and answers != b"nothing" else answers
            self.send_response(200)
            self.send_header("Content-Length", str(len(said)))
            self.end_headers()
            self.wfile.write(said)

        do_POST = do_GET  # noqa: N815 - the handler's own naming

        def log_message(self, *_: object) -> None:
            """Nothing."""

    with socketserver.ThreadingUnixStreamServer(str(path), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield
        server.shutdown()


@pytest.mark.parametrize("answer", [b"", b"null", b"[]", b"7", b'{"a": 1}', b'[{"Id": 7}]', b"<p>"])
def test_an_answer_of_another_shape_is_the_engines_failure(tmp_path: Path, answer: bytes) -> None:
    with odd_engine(tmp_path / "engine.sock", answer):
        engine = Engine("spark-a", tmp_path / "engine.sock", lambda: EngineStoppedError("spark-a"))
        asks: list[Callable[[], object]] = [
            engine.facts,
            lambda: engine.image("a"),
            lambda: engine.containers("pair"),
            lambda: engine.rank("a"),
            lambda: engine.pull("a", "sha256:" + "0" * 64, lambda: False),
        ]
        for ask in asks:
            with suppress(EngineError):  # what has the right shape by chance is an answer
                ask()
        with pytest.raises(EngineError, match="another shape"):
            engine.rank("a")
        engine.close()
