"""A registry in this process that takes images too, mounts them, and fails as it is told to."""

from __future__ import annotations

import json
import re
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

from builder.digest import Digest, digest_bytes
from builder.edges.registry.push import RegistryTarget
from builder.oci.reference import ImageReference
from tests.fake_registry import REPOSITORY, Asked, FakeRegistry, Handler, _Server, impatient

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from builder.edges.registry.transport import Patience
    from tests.fakes import MemorySource

    TargetFault = Callable[["TargetHandler"], None]

SOURCE_REPOSITORY = "vendor/base"
UPLOADS = f"/v2/{REPOSITORY}/blobs/uploads/"
PIECE_BYTES = 2**16


@dataclass
class FakeTarget(FakeRegistry):
    """As FakeRegistry; `others` are blobs of SOURCE_REPOSITORY, `sessions` are open uploads."""

    others: dict[Digest, bytes] = field(default_factory=dict)
    sessions: dict[str, bytearray] = field(default_factory=dict)
    tags: dict[str, Digest] = field(default_factory=dict)
    scopes: list[str] = field(default_factory=list)
    target_faults: list[tuple[str, str, TargetFault]] = field(default_factory=list)
    begun: int = 0

    def fail_at(self, method: str, fault: TargetFault, *, end: str = "", times: int = 1) -> None:
        """Do something else for the next requests of a method whose path ends so."""
        self.target_faults += [(method, end, fault)] * times

    def target(
        self, *, mount_from: str | None = None, patience: Patience | None = None
    ) -> RegistryTarget:
        return RegistryTarget(
            ImageReference.parse(f"{self.host}/{REPOSITORY}"),
            mount_from=mount_from,
            patience=patience or impatient(),
        )

    def did(self, *methods: str) -> list[str]:
        """The requests of some methods, without what changes from run to run."""
        found = []
        for asked in self.asked:
            path = re.sub(
                r"uploads/\d+", "uploads/ID", asked.path.removeprefix(f"/v2/{REPOSITORY}/")
            )
            if asked.method in methods:
                found.append(f"{asked.method} {path}")
        return found


@contextmanager
def taking(source: MemorySource) -> Iterator[FakeTarget]:
    """The registry while it runs; what is pushed lands in the source."""
    registry = FakeTarget(source)
    handler = type("TargetHandler", (TargetHandler,), {"registry": registry})
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


class TargetHandler(Handler):
    registry: FakeTarget

    def __getattr__(self, name: str) -> Callable[[], None]:
        """Every method is taken by one function."""
        if name.startswith("do_"):
            return self._serve
        raise AttributeError(name)

    @property
    def query(self) -> dict[str, list[str]]:
        return parse_qs(urlsplit(self.path).query)

    @property
    def left(self) -> int:
        return int(self.headers.get("Content-Length", 0))

    def _serve(self) -> None:
        parts = urlsplit(self.path)
        headers = {key.lower(): value for key, value in self.headers.items()}
        if parts.path == "/token":
            self.registry.scopes += self.query.get("scope", [])
            super()._serve()
            return
        self.registry.asked.append(Asked(self.command, parts.path, self.query, headers, ""))
        for number, (method, end, fault) in enumerate(self.registry.target_faults):
            if method == self.command and parts.path.endswith(end):
                del self.registry.target_faults[number]
                fault(self)
                return
        if self._allowed():
            self.act()
        elif self.left:
            self.close_connection = True

    def act(self) -> None:
        """Do what is asked, as a registry does."""
        path = urlsplit(self.path).path
        if path.startswith(UPLOADS):
            getattr(self, f"_{self.command.lower()}_upload")(path.removeprefix(UPLOADS))
        elif self.command == "PUT":
            self._put_manifest(path.rpartition("/")[2])
        else:
            self._head(path)

    def say(self, status: int, **headers: str) -> None:
        self.send_response(status)
        for key, value in headers.items():
            self.send_header(key.replace("_", "-"), value)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _head(self, path: str) -> None:
        kind, name = path.removeprefix(f"/v2/{REPOSITORY}/").split("/")
        digest = self.registry.tags.get(name, Digest(name))
        data = self.registry.source.blobs.get(digest)
        if data is None or (kind == "manifests") != (digest in self.registry.tags.values()):
            self.say(404)
            return
        self.send_response(200)
        self.send_header("Docker-Content-Digest", digest)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()

    def _post_upload(self, _: str) -> None:
        (mount,) = self.query.get("mount", [""])
        wanted = f"repository:{SOURCE_REPOSITORY}:pull"
        readable = self.registry.login is None or wanted in self.registry.scopes
        if mount in self.registry.others and readable:
            assert self.query["from"] == [SOURCE_REPOSITORY]
            self.registry.source.blobs[Digest(mount)] = self.registry.others[Digest(mount)]
            self.say(201, Docker_Content_Digest=mount)
            return
        self.registry.begun += 1
        self.registry.sessions[str(self.registry.begun)] = bytearray()
        self.say(202, **self.session(str(self.registry.begun)))

    def session(self, name: str) -> dict[str, str]:
        stored = len(self.registry.sessions[name])
        state = f"{UPLOADS}{name}?_state={stored}"
        return {"Location": state, "Range": f"0-{max(stored - 1, 0)}"}

    def _stored(self, name: str) -> bytearray | None:
        stored = self.registry.sessions.get(name)
        if stored is None:
            self.close_connection = True
            self.refuse(404, "BLOB_UPLOAD_UNKNOWN", "no such upload")
        elif self.query["_state"] != [str(len(stored))]:
            self.close_connection = True
            self.refuse(416, "RANGE_INVALID", "not where it ended")
            return None
        return stored

    def _get_upload(self, name: str) -> None:
        if name in self.registry.sessions:
            self.say(204, **self.session(name))
        else:
            self.refuse(404, "BLOB_UPLOAD_UNKNOWN", "no such upload")

    def _patch_upload(self, name: str) -> None:
        if self._stored(name) is not None:
            self.store(name, self.left)
            self.say(202, **self.session(name))

    def store(self, name: str, size_bytes: int) -> None:
        """Take so many bytes of the request's body."""
        while size_bytes:
            piece = self.rfile.read(min(size_bytes, PIECE_BYTES))
            if not piece:
                self.close_connection = True
                return
            size_bytes -= len(piece)
            self.registry.sessions[name] += piece

    def _put_upload(self, name: str) -> None:
        stored = self._stored(name)
        if stored is None:
            return
        data, (digest,) = bytes(stored), self.query["digest"]
        del self.registry.sessions[name]
        if digest_bytes(data) != digest:
            self.refuse(400, "DIGEST_INVALID", "other bytes")
            return
        self.registry.source.blobs[Digest(digest)] = data
        self.say(201, Docker_Content_Digest=digest)

    def _delete_upload(self, name: str) -> None:
        self.say(204 if self.registry.sessions.pop(name, None) is not None else 404)

    def _put_manifest(self, name: str) -> None:
        raw = self.rfile.read(self.left)
        document = json.loads(raw)
        blobs = [document["config"], *document["layers"]]
        lacking = [item for item in blobs if item["digest"] not in self.registry.source.blobs]
        digest = digest_bytes(raw)
        if lacking or (name.startswith("sha256:") and name != digest):
            self.refuse(400, "MANIFEST_INVALID", f"lacks {lacking}")
            return
        self.registry.source.blobs[digest] = raw
        self.registry.tags[name] = digest
        self.say(201, Docker_Content_Digest=digest)


def cut_upload(size_bytes: int) -> TargetFault:
    """Take so many bytes of a PATCH, then end the connection."""

    def fault(handler: TargetHandler) -> None:
        handler.store(urlsplit(handler.path).path.removeprefix(UPLOADS), size_bytes)
        handler.close_connection = True

    return fault


def answer(status: int, **headers: str) -> TargetFault:
    """Take the request's body, and answer with a status."""

    def fault(handler: TargetHandler) -> None:
        handler.rfile.read(handler.left)
        handler.say(status, **headers)

    return fault


def after_doing(then: TargetFault) -> TargetFault:
    """Do what is asked, and answer otherwise."""

    def fault(handler: TargetHandler) -> None:
        said = handler.say
        handler.say = lambda *_, **__: None  # type: ignore[method-assign]
        handler.act()
        handler.say = said  # type: ignore[method-assign]
        then(handler)

    return fault
