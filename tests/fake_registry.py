"""A registry in this process, on loopback, that fails as it is told to."""

from __future__ import annotations

import json
import re
import threading
from base64 import b64encode
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

from builder.digest import Digest, digest_bytes
from builder.edges.registry.source import RegistrySource
from builder.edges.registry.transport import Patience
from builder.oci.reference import ImageReference

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from builder.oci.model import Descriptor
    from tests.fakes import MemorySource

    Fault = Callable[["Handler"], None]

REPOSITORY = "team/image"
TAG = "v1"
PATH = re.compile(rf"/v2/{REPOSITORY}/(manifests|blobs)/(.+)\Z")


@dataclass(frozen=True)
class Asked:
    """A request that came."""

    method: str
    path: str
    query: Mapping[str, list[str]]
    headers: Mapping[str, str]
    body: str

    @property
    def authorization(self) -> str | None:
        return self.headers.get("authorization")


@dataclass
class Login:
    """Wants a token, which this server gives to a user, or to anybody when there is no user."""

    user: str = ""
    password: str = ""
    identity_token: str = ""
    token: str = "the-token"  # noqa: S105 - nobody's


@dataclass
class FakeRegistry:
    """What it serves, what it was asked, and what it does instead of serving.

    `faults` are used up, the first that waits for a path's end first.
    """

    source: MemorySource
    port: int = 0
    login: Login | None = None
    basic: Login | None = None
    ranges: bool = True
    asked: list[Asked] = field(default_factory=list)
    faults: list[tuple[str, Fault]] = field(default_factory=list)
    tagged: Descriptor | None = None

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def name(self) -> str:
        return f"{self.host}/{REPOSITORY}:{TAG}"

    def fail(self, fault: Fault, *, at: str = "", times: int = 1) -> None:
        """Do something else for the next requests whose path ends so."""
        self.faults += [(at, fault)] * times

    def paths(self) -> list[str]:
        return [asked.path.removeprefix(f"/v2/{REPOSITORY}/") for asked in self.asked]

    def opened(self, name: str | None = None, patience: Patience | None = None) -> RegistrySource:
        """A source of an image here, by default of the tag, that does not wait."""
        text = name or self.name
        return RegistrySource(ImageReference.parse(text), text, patience=patience or impatient())


def impatient(*, read_s: float = 5, pauses: list[float] | None = None) -> Patience:
    """Tries as often as usual without waiting; the waits are put into a list."""
    waited: list[float] = [] if pauses is None else pauses
    return Patience(read_s=read_s, sleep=waited.append, jitter=lambda: 1)


@contextmanager
def serving(source: MemorySource) -> Iterator[FakeRegistry]:
    """The registry while it runs; its tag is the source's only root."""
    registry = FakeRegistry(source, tagged=source.tops[0] if source.tops else None)
    handler = type("Handler", (Handler,), {"registry": registry})
    server = _Server(("127.0.0.1", 0), handler)
    registry.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield registry
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, request: object, client_address: object) -> None:
        """Nothing: many tests leave in the middle of an answer."""


class Handler(BaseHTTPRequestHandler):
    registry: FakeRegistry
    protocol_version = "HTTP/1.1"
    timeout = 10

    def log_message(self, *parts: object) -> None:
        pass

    def do_GET(self) -> None:
        self._serve()

    def do_POST(self) -> None:
        self._serve()

    def _serve(self) -> None:
        parts = urlsplit(self.path)
        size_bytes = int(self.headers.get("Content-Length", 0))
        self.registry.asked.append(
            Asked(
                self.command,
                parts.path,
                parse_qs(parts.query),
                {key.lower(): value for key, value in self.headers.items()},
                self.rfile.read(size_bytes).decode(),
            )
        )
        for number, (end, fault) in enumerate(self.registry.faults):
            if parts.path.endswith(end):
                del self.registry.faults[number]
                fault(self)
                return
        if parts.path == "/token":
            self._token()
        elif self._allowed():
            self.content()

    def content(self) -> None:
        """Serve what is asked for, as a registry does."""
        match = PATH.match(urlsplit(self.path).path)
        kind, name = (match[1], match[2]) if match else ("", "")
        top = self.registry.tagged
        digest = top.digest if kind == "manifests" and name == TAG and top else Digest(name)
        data = self.registry.source.blobs.get(digest)
        if data is None:
            code = "MANIFEST_UNKNOWN" if kind == "manifests" else "BLOB_UNKNOWN"
            self.refuse(404, code, "not known")
            return
        headers = {"Docker-Content-Digest": digest}
        if kind == "manifests" and data.startswith(b"{"):
            headers["Content-Type"] = json.loads(data).get("mediaType", "application/json")
        self.blob(data, headers)

    def blob(self, data: bytes, headers: Mapping[str, str], *, cut: int | None = None) -> None:
        """Send data, or what a Range asks of them; with `cut` only so many bytes of that."""
        wanted = re.match(r"bytes=(\d+)-\Z", self.headers.get("Range", ""))
        begin = int(wanted[1]) if wanted and self.registry.ranges else 0
        if begin and begin >= len(data):
            self.refuse(416, "RANGE", "not satisfiable")
            return
        self.send_response(206 if begin else 200)
        if begin:
            self.send_header("Content-Range", f"bytes {begin}-{len(data) - 1}/{len(data)}")
        for key, value in headers.items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(data) - begin))
        self.end_headers()
        self.wfile.write(data[begin : None if cut is None else begin + cut])
        if cut is not None:
            self.close_connection = True

    def refuse(self, status: int, code: str, message: str, **headers: str) -> None:
        """An error as the protocol has them."""
        body = json.dumps({"errors": [{"code": code, "message": message}]}).encode()
        self.send_response(status)
        for key, value in headers.items():
            self.send_header(key.replace("_", "-"), value)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _allowed(self) -> bool:
        """Whether the request may go on; if not, it is answered."""
        login, basic = self.registry.login, self.registry.basic
        sent = self.headers.get("Authorization")
        if login is not None and sent != f"Bearer {login.token}":
            challenge = (
                f'Bearer realm="http://{self.registry.host}/token",service="fake",'
                f'scope="repository:{REPOSITORY}:pull"'
            )
            self.refuse(401, "UNAUTHORIZED", "log in", WWW_Authenticate=challenge)
            return False
        if basic is not None and sent != basic_of(basic.user, basic.password):
            self.refuse(401, "UNAUTHORIZED", "log in", WWW_Authenticate='Basic realm="fake"')
            return False
        return True

    def _token(self) -> None:
        login = self.registry.login
        assert login is not None
        asked = self.registry.asked[-1]
        if self.command == "POST":
            right = parse_qs(asked.body).get("refresh_token") == [login.identity_token]
        else:
            wanted = basic_of(login.user, login.password) if login.user else None
            right = asked.authorization == wanted
        if not right:
            self.refuse(401, "UNAUTHORIZED", f"wrong: {asked.authorization}")
            return
        body = json.dumps({"token": login.token, "expires_in": 60}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def basic_of(user: str, password: str) -> str:
    return "Basic " + b64encode(f"{user}:{password}".encode()).decode()


def status(code: int, name: str = "OOPS", message: str = "no", **headers: str) -> Fault:
    """Answer with an error."""
    return lambda handler: handler.refuse(code, name, message, **headers)


def redirect(target: str, code: int = 307) -> Fault:
    """Lead to another address."""

    def fault(handler: Handler) -> None:
        handler.send_response(code)
        handler.send_header("Location", target)
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    return fault


def cut_after(size_bytes: int) -> Fault:
    """Serve a blob, and end the connection after so many bytes of it."""

    def fault(handler: Handler) -> None:
        digest = Digest(handler.path.rpartition("/")[2])
        handler.blob(handler.registry.source.blobs[digest], {}, cut=size_bytes)

    return fault


def body(data: bytes, **headers: str) -> Fault:
    """Answer 200 with other bytes."""

    def fault(handler: Handler) -> None:
        handler.send_response(200)
        for key, value in headers.items():
            handler.send_header(key.replace("_", "-"), value)
        handler.send_header("Content-Length", str(len(data)))
        handler.end_headers()
        handler.wfile.write(data)

    return fault


def hang_up(handler: Handler) -> None:
    """End the connection without an answer."""
    handler.close_connection = True


def put(registry: FakeRegistry, data: bytes) -> Digest:
    """Bytes that the registry has, whatever they are."""
    registry.source.blobs[digest_bytes(data)] = data
    return digest_bytes(data)
