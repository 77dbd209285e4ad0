"""The registry that a bare `docker pull` is measured with: Debian's docker-registry, else ours."""

from __future__ import annotations

import http.client
import shutil
import socket
import subprocess
import time
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final, Protocol

from deploy.edges.blobserver import BlobServer
from deploy.supplying import offer_of
from tests.bench.errors import MeasuredCommandError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from builder.digest import Digest
    from builder.reports import Built

PROGRAM: Final = "docker-registry"
REPOSITORY: Final = "bench"
START_S: Final = 20
CONFIG: Final = """\
version: 0.1
log: {{level: error}}
storage: {{filesystem: {{rootdirectory: {folder}}}}}
http: {{addr: "127.0.0.1:{port}"}}
"""


class Registry(Protocol):
    """A registry on our loopback."""

    name: str

    def serve(self, built: Built) -> AbstractContextManager[int]:
        """The port where the image can be pulled by its digest."""


@contextmanager
def plain_registry(folder: Path) -> Iterator[Registry]:
    """docker-registry, or where it is not installed our own blob server; gone afterwards."""
    program = shutil.which(PROGRAM)
    if program is None:
        yield OwnServer()
        return
    port = _free_port()
    config = folder / "registry.yml"
    config.write_text(CONFIG.format(folder=folder / "registry", port=port))
    argv = [program, "serve", str(config)]
    with (folder / "registry.log").open("w+b") as log:
        process = subprocess.Popen(argv, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        try:
            _await(process, port, argv, Path(log.name))
            yield DebianRegistry(port)
        finally:
            process.kill()
            process.wait()


class OwnServer:
    """Our blob server; then the comparison is of what our client does beside the pull."""

    name = "sparklock's own blob server, as docker-registry is not installed"

    @contextmanager
    def serve(self, built: Built) -> Iterator[int]:
        """The port of a server for this one image."""
        with BlobServer(offer_of(built), lambda _sent: None) as server:
            yield server.port


class DebianRegistry:
    """A running docker-registry that images are pushed to, over the distribution protocol."""

    name = PROGRAM

    def __init__(self, port: int) -> None:
        self._port = port

    @contextmanager
    def serve(self, built: Built) -> Iterator[int]:
        """The registry's port; all blobs and the manifest are there."""
        offer = offer_of(built)
        for digest in sorted(offer.blobs):
            path = offer.find(digest)
            assert path is not None, digest
            self._put_blob(digest, path)
        target = f"/v2/{REPOSITORY}/manifests/{offer.manifest_digest}"
        self._ask("PUT", target, offer.manifest, {"Content-Type": offer.media_type})
        yield self._port

    def _put_blob(self, digest: Digest, path: Path) -> None:
        status, _ = self._ask("HEAD", f"/v2/{REPOSITORY}/blobs/{digest}")
        if status == HTTPStatus.OK:
            return
        _, upload = self._ask("POST", f"/v2/{REPOSITORY}/blobs/uploads/")
        with path.open("rb") as file:
            size_bytes = str(path.stat().st_size)
            headers = {"Content-Type": "application/octet-stream", "Content-Length": size_bytes}
            self._ask("PUT", f"{upload}&digest={digest}", file, headers)

    def _ask(
        self,
        method: str,
        target: str,
        body: bytes | IO[bytes] | None = None,
        headers: dict[str, str] | None = None,
    ) -> tuple[int, str]:
        """The status and the Location of an answer; only HEAD may say that there is nothing."""
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)
        try:
            connection.request(method, target, body, headers or {})
            answer = connection.getresponse()
            said = answer.read().decode(errors="replace")
        finally:
            connection.close()
        if answer.status >= HTTPStatus.BAD_REQUEST and method != "HEAD":
            raise MeasuredCommandError([PROGRAM, method, target], answer.status, said)
        return answer.status, answer.getheader("Location", "")


def _free_port() -> int:
    """A port that nobody has now: the registry takes no listening socket from us."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _await(process: subprocess.Popen[bytes], port: int, argv: list[str], log: Path) -> None:
    deadline = time.monotonic() + START_S
    while process.poll() is None and time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.02)
        else:
            return
    raise MeasuredCommandError(argv, process.poll() or 1, log.read_text())
