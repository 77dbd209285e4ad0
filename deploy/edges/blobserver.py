"""A read-only registry on our loopback that serves one image and nothing else.

A node reaches it through a reverse tunnel and pulls by digest: its engine asks only for the layers
it lacks, checks every digest, and knows the image under the same digests on both kinds of store.
Protocol: OCI distribution specification 1.1, pull by digest.
"""

from __future__ import annotations

import re
import socket
import threading
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import IO, TYPE_CHECKING, Final

from builder.digest import Digest
from builder.errors import SparklockError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path
    from types import TracebackType
    from typing import Self

PATH: Final = re.compile(r"/v2/[a-z0-9._/-]+/(manifests|blobs)/(sha256:[0-9a-f]{64})\Z")
RANGE: Final = re.compile(r"bytes=(\d+)-(\d*)\Z")
SLICE_BYTES: Final = 2**22
IDLE_S: Final = 60
POLL_S: Final = 0.02
"""How often the server asks whether it should end: what closing it takes, at most, in seconds."""

BLOB_TYPE: Final = "application/octet-stream"
TLS_HANDSHAKE: Final = b"\x16"
"""The first byte of a TLS connection; no HTTP method begins with it."""

MAX_HELLO_BYTES: Final = 2**14


@dataclass(frozen=True, slots=True)
class Stream:
    """A blob that stands in no file of ours, such as a base's layer in its registry."""

    size_bytes: int
    open: Callable[[], AbstractContextManager[Iterator[bytes]]]


@dataclass(frozen=True, slots=True)
class Offer:
    """What may be fetched: one manifest, and the blobs it names, by where each may stand.

    `places` are asked in order for the file of a digest; a file that is not there is no answer.
    What no place has is passed on from `streams`, whole, whatever range was asked for.
    """

    manifest: bytes
    manifest_digest: Digest
    media_type: str
    blobs: frozenset[Digest]
    places: Sequence[Callable[[Digest], Path]]
    streams: Mapping[Digest, Stream] = field(default_factory=dict)

    def find(self, digest: Digest) -> Path | None:
        """The file of an offered blob, or None."""
        if digest not in self.blobs:
            return None
        found = (place(digest) for place in self.places)
        return next((path for path in found if path.is_file()), None)


class BlobServer:
    """The server while it runs: a context manager, made for one node so that its bytes count.

    `told` is called with all bytes sent so far, from the threads that send.
    """

    def __init__(self, offer: Offer, told: Callable[[int], None]) -> None:
        self._offer = offer
        self._told = told
        self._lock = threading.Lock()
        self._sent_bytes = 0
        self._contacted = False
        self._missing: list[Digest] = []
        self._failures: list[SparklockError] = []
        handler = type("Handler", (_Handler,), {"registry": self})
        self._server = _Server(("127.0.0.1", 0), handler)
        serve = partial(self._server.serve_forever, POLL_S)
        self._thread = threading.Thread(target=serve, daemon=True)

    @property
    def port(self) -> int:
        """The port on 127.0.0.1, chosen by the system."""
        return self._server.server_port

    @property
    def contacted(self) -> bool:
        """Whether anybody has asked for anything yet."""
        return self._contacted

    @property
    def sent_bytes(self) -> int:
        """Bytes of blobs sent so far, or on their way; headers and manifests not counted."""
        return self._sent_bytes

    @property
    def missing(self) -> tuple[Digest, ...]:
        """Blobs of the image that were asked for and stand nowhere."""
        return tuple(self._missing)

    @property
    def failures(self) -> tuple[SparklockError, ...]:
        """Why streams could not be passed on."""
        return tuple(self._failures)

    @property
    def offer(self) -> Offer:
        """What is served."""
        return self._offer

    def contact(self) -> None:
        """Remember that somebody asks."""
        self._contacted = True

    def sent(self, size_bytes: int) -> None:
        """Count bytes of a blob."""
        with self._lock:
            self._sent_bytes += size_bytes
            total = self._sent_bytes
        self._told(total)

    def lacked(self, digest: Digest) -> None:
        """Remember a blob that should have been served."""
        with self._lock:
            self._missing.append(digest)

    def failed(self, error: SparklockError) -> None:
        """Remember why a stream ended early."""
        with self._lock:
            self._failures.append(error)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Server(ThreadingHTTPServer):
    """A server that waits for no connection when it closes: a node may keep one open."""

    daemon_threads = True
    block_on_close = False

    def handle_error(self, request: object, client_address: object) -> None:
        """Nothing: a client that goes away is the client's matter, and its engine tells of it."""


class _Handler(BaseHTTPRequestHandler):
    """One connection; only GET and HEAD have a method, so anything else is 501."""

    registry: BlobServer
    protocol_version = "HTTP/1.1"
    timeout = IDLE_S

    def handle(self) -> None:
        """Serve the connection's requests; one that begins with TLS is told that this is HTTP.

        With the containerd store Docker tries TLS first, on loopback too, and falls back to HTTP
        only if the first bytes of the answer are `HTTP/`. Python's server would wait for the end
        of a line, and then answer in HTTP 0.9, without that word.
        """
        first = self.connection.recv(1, socket.MSG_PEEK)
        if first:
            self.registry.contact()
        if first == TLS_HANDSHAKE:
            self.connection.recv(MAX_HELLO_BYTES)  # unread bytes would turn our close into a reset
            self.connection.sendall(b"HTTP/1.0 400 Bad Request\r\n\r\nthis is plain HTTP\n")
            return
        super().handle()

    def do_GET(self) -> None:
        """Serve a document or a blob."""
        self._answer(with_body=True)

    def do_HEAD(self) -> None:
        """Serve the headers alone."""
        self._answer(with_body=False)

    def log_message(self, *parts: object) -> None:
        """Nothing: requests are counted, not logged."""

    def _answer(self, *, with_body: bool) -> None:
        if self.path in ("/v2", "/v2/"):
            self._send(b"{}", {"Content-Type": "application/json"}, with_body=with_body)
            return
        match = PATH.match(self.path)
        if match is None:
            self._refuse()
            return
        kind, digest = match.group(1), Digest(match.group(2))
        if kind == "manifests":
            self._answer_manifest(digest, with_body=with_body)
        else:
            self._answer_blob(digest, with_body=with_body)

    def _answer_manifest(self, digest: Digest, *, with_body: bool) -> None:
        offer = self.registry.offer
        if digest != offer.manifest_digest:
            self._refuse()
            return
        headers = {"Content-Type": offer.media_type, "Docker-Content-Digest": digest}
        self._send(offer.manifest, headers, with_body=with_body)

    def _answer_blob(self, digest: Digest, *, with_body: bool) -> None:
        offer = self.registry.offer
        path = offer.find(digest)
        if path is None:
            self._answer_elsewhere(digest, with_body=with_body)
            return
        with path.open("rb") as file:
            size_bytes = path.stat().st_size
            begin, end = _asked_range(self.headers.get("Range"), size_bytes)
            partial = end - begin < size_bytes
            self.send_response(HTTPStatus.PARTIAL_CONTENT if partial else HTTPStatus.OK)
            if partial:
                self.send_header("Content-Range", f"bytes {begin}-{end - 1}/{size_bytes}")
            headers = {"Content-Type": BLOB_TYPE, "Docker-Content-Digest": digest}
            self._headers({**headers, "Accept-Ranges": "bytes"}, end - begin)
            if with_body:
                self._send_file(file, begin, end)

    def _answer_elsewhere(self, digest: Digest, *, with_body: bool) -> None:
        """Serve a blob that is in no file, or refuse it."""
        offer = self.registry.offer
        stream = offer.streams.get(digest) if digest in offer.blobs else None
        if stream is None:
            if digest in offer.blobs:
                self.registry.lacked(digest)
            self._refuse()
            return
        self.send_response(HTTPStatus.OK)
        headers = {"Content-Type": BLOB_TYPE, "Docker-Content-Digest": digest}
        self._headers(headers, stream.size_bytes)
        if with_body:
            self._pass_on(stream)

    def _pass_on(self, stream: Stream) -> None:
        try:
            with stream.open() as chunks:
                for chunk in chunks:
                    self.registry.sent(len(chunk))
                    self.wfile.write(chunk)
        except SparklockError as error:
            self.registry.failed(error)
            self.close_connection = True

    def _send_file(self, file: IO[bytes], begin: int, end: int) -> None:
        self.wfile.flush()
        while begin < end:
            size_bytes = min(SLICE_BYTES, end - begin)
            # Counted before they go: whoever has them may ask for the count at once.
            self.registry.sent(size_bytes)
            if self.connection.sendfile(file, begin, size_bytes) < size_bytes:
                # Shorter than it was a moment ago: cut the connection, the client must not wait.
                self.close_connection = True
                return
            begin += size_bytes

    def _send(self, body: bytes, headers: Mapping[str, str], *, with_body: bool) -> None:
        self.send_response(HTTPStatus.OK)
        self._headers(headers, len(body))
        if with_body:
            self.wfile.write(body)

    def _refuse(self) -> None:
        self.send_response(HTTPStatus.NOT_FOUND)
        self._headers({}, 0)

    def _headers(self, headers: Mapping[str, str], size_bytes: int) -> None:
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(size_bytes))
        self.end_headers()


def _asked_range(header: str | None, size_bytes: int) -> tuple[int, int]:
    """First byte and end of what is asked for; all of it when the header is none we know."""
    match = RANGE.match(header or "")
    if match is None:
        return 0, size_bytes
    begin = int(match.group(1))
    end = int(match.group(2)) + 1 if match.group(2) else size_bytes
    if begin >= min(end, size_bytes):
        return 0, size_bytes
    return begin, min(end, size_bytes)
