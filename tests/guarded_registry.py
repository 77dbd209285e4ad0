"""Debian's docker-registry behind TLS and a token server, under a name that is not loopback's.

The registry and its protocol are real; the token server is one of the tests: it gives each user the
scopes of a table, signed by openssl, and keeps what it was asked for.
"""

from __future__ import annotations

import base64
import json
import shutil
import socket
import ssl
import subprocess
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.debian_registry import await_registry, free_port
from tests.fake_registry import basic_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

HOST = "registry.example"
PASSWORD = "p:w-hush"  # noqa: S105 - nobody's
SERVICE, ISSUER = "guarded", "the tests"
CONFIG = """\
version: 0.1
log: {{level: error}}
storage: {{filesystem: {{rootdirectory: {folder}/data}}}}
http:
  addr: "127.0.0.1:{port}"
  tls: {{certificate: {folder}/certificate.pem, key: {folder}/key.pem}}
auth:
  token:
    realm: "https://{host}:{token_port}/token"
    service: {service}
    issuer: {issuer}
    rootcertbundle: {folder}/certificate.pem
"""


@dataclass
class Guarded:
    """The registry and its guard; `rights` say for each user what may be done in a repository."""

    port: int
    folder: Path
    rights: Mapping[str, Mapping[str, set[str]]]
    asked: list[list[str]] = field(default_factory=list)

    @property
    def host(self) -> str:
        return f"{HOST}:{self.port}"

    @property
    def certificate(self) -> Path:
        return self.folder / "certificate.pem"

    def log_in(self, config_folder: Path, user: str) -> None:
        """As `docker login` does."""
        config_folder.mkdir(parents=True, exist_ok=True)
        auth = basic_of(user, PASSWORD).removeprefix("Basic ")
        document = {"auths": {self.host: {"auth": auth}}}
        (config_folder / "config.json").write_text(json.dumps(document))

    def token(self, user: str, scopes: list[str]) -> str:
        """A token with what the user may have of the scopes."""
        access = []
        for scope in scopes:
            kind, name, actions = scope.split(":")
            granted = sorted(set(actions.split(",")) & self.rights[user].get(name, set()))
            access.append({"type": kind, "name": name, "actions": granted})
        now = int(time.time())
        der = ssl.PEM_cert_to_DER_cert(self.certificate.read_text())
        head = {"typ": "JWT", "alg": "RS256", "x5c": [base64.b64encode(der).decode()]}
        claims = {
            "iss": ISSUER,
            "sub": user,
            "aud": SERVICE,
            "jti": str(now),
            "nbf": now - 60,
            "iat": now,
            "exp": now + 300,
            "access": access,
        }
        signed = b".".join(_base64(json.dumps(part).encode()) for part in (head, claims))
        signature = subprocess.run(
            ["openssl", "dgst", "-sha256", "-sign", str(self.folder / "key.pem")],
            input=signed,
            check=True,
            capture_output=True,
        ).stdout
        return (signed + b"." + _base64(signature)).decode()


@contextmanager
def guarded_registry(
    folder: Path, rights: Mapping[str, Mapping[str, set[str]]]
) -> Iterator[Guarded]:
    """The registry while it runs, its name known to this process alone."""
    for program in ("docker-registry", "openssl"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed: apt-get install {program}")
    folder.mkdir(parents=True, exist_ok=True)
    _make_certificate(folder)
    guarded = Guarded(free_port(), folder, rights)
    with _token_server(guarded) as token_port, pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket, "getaddrinfo", _knowing(socket.getaddrinfo))
        patch.setenv("REQUESTS_CA_BUNDLE", str(guarded.certificate))
        patch.setenv("NO_PROXY", HOST)
        names = {"host": HOST, "service": SERVICE, "issuer": ISSUER}
        text = CONFIG.format(folder=folder, port=guarded.port, token_port=token_port, **names)
        (folder / "config.yml").write_text(text)
        with (folder / "log").open("wb") as log:
            argv = ["docker-registry", "serve", str(folder / "config.yml")]
            process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
            try:
                await_registry(process, guarded.port, folder / "log")
                yield guarded
            finally:
                process.kill()
                process.wait()


def _make_certificate(folder: Path) -> None:
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
            *("-subj", f"/CN={HOST}", "-addext", f"subjectAltName=DNS:{HOST}"),
            *("-keyout", str(folder / "key.pem"), "-out", str(folder / "certificate.pem")),
        ],
        check=True,
        capture_output=True,
    )


@contextmanager
def _token_server(guarded: Guarded) -> Iterator[int]:
    handler = type("TokenHandler", (_TokenHandler,), {"guarded": guarded})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(guarded.certificate, guarded.folder / "key.pem")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _TokenHandler(BaseHTTPRequestHandler):
    guarded: Guarded

    def log_message(self, *parts: object) -> None:
        pass

    def do_GET(self) -> None:
        scopes = parse_qs(urlsplit(self.path).query).get("scope", [])
        users = {basic_of(user, PASSWORD): user for user in self.guarded.rights}
        user = users.get(self.headers.get("Authorization", ""))
        self.guarded.asked.append(scopes)
        body = (
            b"{}"
            if user is None
            else json.dumps({"token": self.guarded.token(user, scopes)}).encode()
        )
        self.send_response(401 if user is None else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _knowing(real: Any) -> Any:  # noqa: ANN401 - of getaddrinfo's many forms
    def known(host: Any, *rest: Any, **more: Any) -> Any:  # noqa: ANN401 - as above
        return real("127.0.0.1" if host == HOST else host, *rest, **more)

    return known


def _base64(data: bytes) -> bytes:
    return base64.urlsafe_b64encode(data).rstrip(b"=")
