"""Debian's docker-registry on loopback, and images pushed to it over the distribution protocol."""

from __future__ import annotations

import http.client
import shutil
import socket
import subprocess
import time
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING

import pytest

from builder.digest import hex_of
from builder.edges.registry.source import RegistrySource
from builder.oci.reference import ImageReference

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from builder.digest import Digest
    from builder.oci.model import Descriptor, Image

START_S = 20
REPOSITORY = "team/image"
CONFIG = """\
version: 0.1
log: {{level: error}}
storage: {{filesystem: {{rootdirectory: {folder}/data}}}}
http: {{addr: "127.0.0.1:{port}"}}
"""


@dataclass(frozen=True)
class DebianRegistry:
    """A running registry; its data lie in a folder of the test."""

    port: int
    folder: Path

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"

    def opened(self, name: str = f"{REPOSITORY}:v1") -> RegistrySource:
        text = f"{self.host}/{name}"
        return RegistrySource(ImageReference.parse(text), text)

    def blob(self, digest: Digest) -> Path:
        """The file of a blob."""
        name = hex_of(digest)
        blobs = self.folder / "data" / "docker" / "registry" / "v2" / "blobs" / "sha256"
        return blobs / name[:2] / name / "data"

    def push(
        self,
        image: Image,
        open_blob: Callable[[Descriptor], AbstractContextManager[Iterator[bytes]]],
        *,
        repository: str = REPOSITORY,
        tag: str = "v1",
    ) -> None:
        """Put an image under a tag, every byte as it is."""
        base = f"/v2/{repository}"
        self._put_blob(base, image.config.digest, image.config.raw)
        for layer in image.layers:
            with open_blob(layer.descriptor) as chunks:
                self._put_blob(base, layer.descriptor.digest, b"".join(chunks))
        manifest = image.manifest
        self.name(tag, manifest.raw, manifest.descriptor.media_type, repository=repository)

    def name(self, tag: str, raw: bytes, media_type: str, *, repository: str = REPOSITORY) -> None:
        """Put a manifest or an index under a tag, or a manifest under its digest."""
        target = f"/v2/{repository}/manifests/{tag}"
        self._ask("PUT", target, raw, {"Content-Type": media_type})

    def _put_blob(self, base: str, digest: Digest, data: bytes) -> None:
        location = self._ask("POST", f"{base}/blobs/uploads/")
        target = location.removeprefix(f"http://{self.host}")
        headers = {"Content-Type": "application/octet-stream"}
        self._ask("PUT", f"{target}&digest={digest}", data, headers)

    def _ask(
        self, method: str, target: str, body: bytes = b"", headers: dict[str, str] | None = None
    ) -> str:
        """The Location of a good answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(method, target, body, headers or {})
            answer = connection.getresponse()
            said = answer.read()
        finally:
            connection.close()
        assert answer.status < HTTPStatus.BAD_REQUEST, (method, target, answer.status, said)
        return answer.getheader("Location", "")


@contextmanager
def debian_registry(folder: Path) -> Iterator[DebianRegistry]:
    """The registry while it runs; skips, aloud, where it is not installed."""
    program = shutil.which("docker-registry")
    if program is None:
        pytest.skip("docker-registry is not installed: apt-get install docker-registry")
    folder.mkdir(parents=True, exist_ok=True)
    port = free_port()
    config = folder / "config.yml"
    config.write_text(CONFIG.format(folder=folder, port=port))
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [program, "serve", str(config)], stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
        try:
            await_registry(process, port, folder / "log")
            yield DebianRegistry(port, folder)
        finally:
            process.kill()
            process.wait()


def free_port() -> int:
    """A port that nobody has now: the registry takes no listening socket from us."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port


def await_registry(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    """Nothing, once it listens."""
    deadline = time.monotonic() + START_S
    while process.poll() is None and time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.02)
        else:
            return
    pytest.fail(f"docker-registry did not start: {log.read_text()}")
