"""The HTTP server: OpenAI's routes, health, version and metrics."""

from __future__ import annotations

import hmac
import http.server
import json
import os
import socketserver
import threading
from http import HTTPStatus
from typing import Callable, Dict, Iterator, Tuple

from vllm.config import VllmConfig
from vllm.entrypoints.openai.protocol import Json, RequestError, parse_json
from vllm.entrypoints.openai.serving import Job, Serving
from vllm.envs import api_key
from vllm.logger import init_logger, log_like_uvicorn
from vllm.v1.engine.async_llm import AsyncLLM, EngineDeadError
from vllm.version import __version__

logger = init_logger(__name__)

_MAX_BODY_BYTES = 16 * 2**20
_WATCHDOG_S = 2.0
"""How long after the engine's death the server goes on answering 503, before it exits."""

PROMETHEUS_TYPE = "text/plain; version=1.0.0; charset=utf-8"


class Server(http.server.ThreadingHTTPServer):
    """The server; bound early, so that a taken port shows at once, listening once all is up."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, host: str, port: int) -> None:
        super().__init__((host, port), Handler, bind_and_activate=False)
        self.serving: Serving
        self.server_bind()

    def server_bind(self) -> None:
        """Bind, without the look-up of our own name that the base class does."""
        socketserver.TCPServer.server_bind(self)

    def close(self) -> None:
        """Close the socket; for a child that inherited it."""
        self.server_close()


class Handler(http.server.BaseHTTPRequestHandler):
    """One connection of a client."""

    protocol_version = "HTTP/1.1"
    server_version = "vllm-standin"
    sys_version = ""
    disable_nagle_algorithm = True
    server: Server

    def do_GET(self) -> None:
        """Answer a GET request."""
        self._answer()

    def do_POST(self) -> None:
        """Answer a POST request."""
        self._answer()

    def _answer(self) -> None:
        path = self.path.partition("?")[0]
        allowed = [method for method, known in ROUTES if known == path]
        try:
            if not self._may_ask(path):
                self.close_connection = True  # a body, if there is one, stays unread
                self._send_json(HTTPStatus.UNAUTHORIZED, {"error": "Unauthorized"})
            elif self.command in allowed:
                ROUTES[self.command, path](self)
            else:
                self.close_connection = True  # a body, if there is one, stays unread
                status = HTTPStatus.METHOD_NOT_ALLOWED if allowed else HTTPStatus.NOT_FOUND
                self._send_json(status, {"detail": status.phrase})
        except RequestError as error:
            self._send_json(error.status, error.body())
        except EngineDeadError as error:
            dead = RequestError(str(error), HTTPStatus.INTERNAL_SERVER_ERROR)
            self._send_json(dead.status, dead.body())
        except ConnectionError:
            self.close_connection = True  # the client went away

    def _may_ask(self, path: str) -> bool:
        """Whether the request brings the key that its route needs: as in vLLM only those of /v1."""
        key = api_key()
        if not key or not path.startswith("/v1"):
            return True
        sent = self.headers.get("Authorization", "").encode("utf-8", "replace")
        return hmac.compare_digest(sent, f"Bearer {key}".encode("utf-8", "surrogateescape"))

    def health(self) -> None:
        """200 while the engine core lives: as in vLLM this asks no rank anything."""
        dead = self.server.serving.engine.died.is_set()
        self._send(HTTPStatus.SERVICE_UNAVAILABLE if dead else HTTPStatus.OK, b"", "text/plain")

    def version(self) -> None:
        """The version of this stand-in."""
        self._send_json(HTTPStatus.OK, {"version": __version__})

    def models(self) -> None:
        """The served model, under each of its names."""
        self._send_json(HTTPStatus.OK, self.server.serving.models())

    def metrics(self) -> None:
        """Counters."""
        self._send(HTTPStatus.OK, self.server.serving.metrics_text().encode(), PROMETHEUS_TYPE)

    def completions(self) -> None:
        """Continue a text."""
        self._generate(self.server.serving.completion(self._read_json()))

    def chat_completions(self) -> None:
        """Answer in a conversation."""
        self._generate(self.server.serving.chat(self._read_json()))

    def _generate(self, job: Job) -> None:
        serving = self.server.serving
        if job.request.stream:
            self._send_events(serving.stream(job))
        else:
            self._send_json(HTTPStatus.OK, serving.answer(job))

    def _read_json(self) -> Json:
        try:
            size = int(self.headers.get("Content-Length", ""))
        except ValueError:
            self.close_connection = True  # the body, if any, cannot be told from the next request
            raise RequestError("The request needs a Content-Length.") from None
        if not 0 <= size <= _MAX_BODY_BYTES:
            self.close_connection = True
            raise RequestError(f"The body may have {_MAX_BODY_BYTES} bytes at most.")
        return parse_json(self.rfile.read(size))

    def _send_json(self, status: HTTPStatus, body: Json) -> None:
        self._send(status, json.dumps(body).encode(), "application/json")

    def _send(self, status: HTTPStatus, body: bytes, content_type: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)

    def _send_events(self, events: Iterator[Json]) -> None:
        """Server-sent events, each as soon as it is there; an error after the first is an event."""
        first = next(events)
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", "text/event-stream; charset=utf-8")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        try:
            self._send_event(json.dumps(first))
            for event in events:
                self._send_event(json.dumps(event))
        except EngineDeadError as error:
            body = RequestError(str(error), HTTPStatus.INTERNAL_SERVER_ERROR).body()
            self._send_event(json.dumps(body))
        self._send_event("[DONE]")
        self.wfile.write(b"0\r\n\r\n")

    def _send_event(self, data: str) -> None:
        chunk = f"data: {data}\n\n".encode()
        self.wfile.write(b"%x\r\n%s\r\n" % (len(chunk), chunk))

    def log_request(self, code: object = "-", size: object = "-") -> None:
        """One line per answer, as uvicorn logs it."""
        client = "%s:%d" % self.client_address[:2]
        status = code if isinstance(code, HTTPStatus) else HTTPStatus.BAD_REQUEST
        text = f'{client} - "{self.requestline}" {int(status)} {status.phrase}'
        log_like_uvicorn(logger, text)

    def log_message(self, format: str, *args: object) -> None:
        """What the base class has to say about malformed requests."""
        logger.warning(format, *args)


ROUTES: Dict[Tuple[str, str], Callable[[Handler], None]] = {
    ("GET", "/health"): Handler.health,
    ("GET", "/metrics"): Handler.metrics,
    ("GET", "/version"): Handler.version,
    ("GET", "/v1/models"): Handler.models,
    ("POST", "/v1/completions"): Handler.completions,
    ("POST", "/v1/chat/completions"): Handler.chat_completions,
}


def run_server(config: VllmConfig, host: str, port: int) -> int:
    """Start the engine, serve until a signal or the engine's death; the exit code."""
    try:
        server = Server(host, port)
    except OSError as error:
        logger.error("cannot listen on %s:%d: %s", host, port, error)
        return 1
    engine = AsyncLLM(config, close_in_engine=(server,))
    try:
        server.serving = Serving(config, engine)
        engine.wait_until_ready()
        _serve(server, engine)
    except (EngineDeadError, ValueError) as error:
        logger.error("%s: %s", type(error).__name__, error)
    finally:
        log_like_uvicorn(logger, "Shutting down")
        server.server_close()
        engine.shutdown()
        log_like_uvicorn(logger, f"Finished server process [{os.getpid()}]")
    return 1  # a signal leaves through SystemExit(0) instead


def _serve(server: Server, engine: AsyncLLM) -> None:
    """Serve until the engine dies, and a little longer."""
    log_like_uvicorn(logger, f"Started server process [{os.getpid()}]")
    log_like_uvicorn(logger, "Waiting for application startup.")
    logger.info("Starting vLLM server on http://%s:%d", *server.server_address[:2])
    for method, path in ROUTES:
        logger.info("Route: %s, Methods: %s", path, method)
    server.server_activate()
    threading.Thread(target=server.serve_forever, name="http", daemon=True).start()
    log_like_uvicorn(logger, "Application startup complete.")
    engine.died.wait()
    threading.Event().wait(_WATCHDOG_S)
