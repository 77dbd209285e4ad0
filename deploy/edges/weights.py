"""A model's files from the Hub to one node, and from node to node over the fabric.

From the Hub they come through huggingface_hub, in a container of the locked image on the node: that
library is in every image of vLLM, its version is pinned with the image, and nothing is installed.
"""

from __future__ import annotations

import secrets
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit, urlunsplit

from builder.digest import hex_of
from builder.edges.hub_login import HubLogin, hub_login
from builder.oci.reference import is_loopback
from deploy import node_errors, weights_errors
from deploy.edges.attached import attached
from deploy.edges.model import staged_name
from deploy.edges.programs_on_node import asking, facts_in, running, started
from deploy.edges.transfer import Watch
from deploy.launch import BindMount
from deploy.weights import HELPER

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from builder.digest import JsonValue
    from builder.lock import ModelFile
    from builder.manifest import ClusterManifest, Mount, Node
    from deploy.actions import CopyModel, FetchModel
    from deploy.edges.engine import Engine
    from deploy.edges.model import ModelFolder
    from deploy.edges.ssh import NodeConnection

CONNECTIONS: Final = 4
"""Of one copy at once: one stream of TCP alone fills no fast link. Not measured on a GB10's."""

BATCH: Final = 200
"""Files of one copy at once: each is open twice, and a process may have 1024."""

STREAMS: Final = ("OpenStdin", "StdinOnce", "AttachStdin", "AttachStdout", "AttachStderr")
"""Stdin is there, and ends for good with the connection that is attached to it."""

IN_CONTAINER: Final = "/sparklock-model"
"""Where the download's folder is inside of the container."""


@dataclass(frozen=True, slots=True)
class NodeWeights:
    """One node's model files and the ways they come: its connection, engine and folder."""

    manifest: ClusterManifest
    node: Node
    connection: NodeConnection
    engine: Engine
    folder: ModelFolder

    def fetch(self, action: FetchModel, watch: Watch) -> int:
        """Bring files from the Hub into the inbox, proven; the bytes that were not there yet.

        What an interrupted fetch has left is used. Raises NodeError.
        """
        self.folder.begin()
        left = self.folder.missing(action.files)
        self.folder.take_in(left)
        left = self.folder.missing(left)
        if not left:
            return 0
        self._run_hub(action, left, watch)
        wrong = self.folder.take_in(left)
        if wrong:
            raise weights_errors.WrongBytesError(self.node.name, action.repo, wrong)
        absent = self.folder.missing(left)
        if absent:
            said = f"{len(absent)} files did not come, such as {absent[0].path}; no more was said"
            raise weights_errors.HubFailedError(self.node.name, action.repo, detail=said)
        return sum(file.size_bytes for file in left)

    def _run_hub(self, action: FetchModel, files: Sequence[ModelFile], watch: Watch) -> None:
        login = hub_login(f"node {self.node.name}", action.repo)
        with ExitStack() as stack:
            endpoint = stack.enter_context(self._endpoint(login))
            download = BindMount(self.folder.download, IN_CONTAINER, read_only=False)
            request, text = self._request(action.image, "fetching", [download])
            asked: JsonValue = {
                "repo": action.repo,
                "revision": action.revision,
                "files": [file.path for file in files],
                "folder": IN_CONTAINER,
                "endpoint": endpoint,
                "token": login.token,
            }
            name = f"sparklock-{self.manifest.name}-weights"
            lines = stack.enter_context(
                attached(self.engine, name, request, text + asking(asked), watch.stopped)
            )
            ended = None
            for facts in facts_in(lines):
                if "bytes" in facts:
                    watch.told(int(facts["bytes"]))
                else:
                    ended = facts
            self._require_done(action, ended, lines.stderr)

    def _request(
        self, image: str, program: str, mounts: Sequence[BindMount]
    ) -> tuple[dict[str, JsonValue], bytes]:
        """A container's request, and its program, which its stdin begins with."""
        ids = self.connection.run(("sh", "-c", "id -u; id -g")).stdout.decode().split()
        arguments, text = started(program)
        own = (BindMount(m.source, m.target, read_only=True) for m in self._mounts)
        env = {**self.manifest.container.env, **self.node.env, "HOME": "/tmp"}  # noqa: S108
        return {
            "Image": image,
            "Entrypoint": ["python3"],
            "Cmd": [*arguments],
            "Env": [f"{name}={value}" for name, value in sorted(env.items())],
            "Labels": {HELPER: self.manifest.name},
            "User": ":".join(ids),
            "WorkingDir": "/",
            **dict.fromkeys(STREAMS, True),
            "HostConfig": {
                "AutoRemove": True,
                "CapDrop": ["ALL"],
                "LogConfig": {"Type": "none"},
                "Mounts": [mount.as_json() for mount in (*mounts, *own)],
                "NetworkMode": "host",
                "SecurityOpt": ["no-new-privileges"],
                "Tmpfs": {"/tmp": ""},  # noqa: S108 - inside of the container, and in memory
            },
        }, text

    @property
    def _mounts(self) -> Sequence[Mount]:
        return self.manifest.container.mounts

    def has_python(self) -> bool:
        """Whether the node itself has a python3."""
        return not self.connection.run(("sh", "-c", "command -v python3"), ok=(0, 1, 127)).status

    @contextmanager
    def _at_work(
        self, program: str, asked: JsonValue, image: str, watch: Watch
    ) -> Iterator[Iterator[dict[str, Any]]]:
        """What a program tells: run by the node's python3, or in a container if it has none."""
        if self.has_python():
            with running(self.connection, program, asked) as process:
                yield process.told(watch.stopped)
            return
        folder = self.folder.path
        request, text = self._request(image, program, [BindMount(folder, folder, read_only=False)])
        name = f"sparklock-{self.manifest.name}-{program}"
        if self.engine.image(image) is None:
            raise node_errors.NoPythonError(self.node.name, found=f"no python3, and no {image}")
        data = text + asking(asked)
        with attached(self.engine, name, request, data, watch.stopped) as lines:
            yield facts_in(lines)

    @contextmanager
    def _endpoint(self, login: HubLogin) -> Iterator[str]:
        """The server as the node reaches it: one on our loopback comes through the connection."""
        parts = urlsplit(login.endpoint)
        if not is_loopback(parts.hostname or ""):
            if parts.scheme != "https":
                raise weights_errors.PlainHubError(self.node.name, found=login.endpoint)
            yield login.endpoint
            return
        port = parts.port or {"https": 443, "http": 80}[parts.scheme]
        with self.connection.forward_remote(port) as remote:
            yield urlunsplit((parts.scheme, f"127.0.0.1:{remote}", parts.path, "", ""))

    def _require_done(self, action: FetchModel, ended: dict[str, Any] | None, stderr: str) -> None:
        """Nothing, if the program has said that it is done; else the error it told."""
        if ended is not None and ended.get("done"):
            return
        node, told = self.node.name, ended or {}
        said = str(told.get("said") or stderr or "the container ended without a word")
        if told.get("error") == "library":
            raise weights_errors.NoHubLibraryError(node, found=said)
        kind = weights_errors.refusal(int(told.get("status") or 0), str(told.get("code") or ""))
        raise kind(node, action.repo, action.revision, detail=said)

    def copy(self, action: CopyModel, source: NodeWeights, watch: Watch) -> int:
        """Bring files of another node into the inbox over the fabric; the bytes that travelled.

        Raises NodeError.
        """
        self.folder.begin()
        files = self.folder.missing(action.files)
        travelled = done_bytes = 0
        for start in range(0, len(files), BATCH):
            batch = files[start : start + BATCH]
            part = Watch(partial(_told_after, watch, done_bytes), watch.stopped)
            travelled += self._copy_batch(action, source, batch, part)
            done_bytes += sum(file.size_bytes for file in batch)
        return travelled

    def _copy_batch(
        self, action: CopyModel, source: NodeWeights, files: Sequence[ModelFile], watch: Watch
    ) -> int:
        assert self.node.fabric is not None
        assert source.node.fabric is not None
        secret = secrets.token_hex(32)
        serve: JsonValue = {
            "address": str(source.node.fabric.address),
            "secret": secret,
            "paths": source.folder.places_of(files),
        }
        with source._at_work("serving", serve, action.image, watch) as server:
            receive: JsonValue = {
                "address": str(source.node.fabric.address),
                "own": str(self.node.fabric.address),
                "port": self._port_in(server, action),
                "secret": secret,
                "folder": self.folder.inbox,
                "connections": CONNECTIONS,
                "files": [
                    {
                        "name": staged_name(file),
                        "size": file.size_bytes,
                        "sha256": hex_of(file.digest),
                    }
                    for file in files
                ],
            }
            with self._at_work("receiving", receive, action.image, watch) as receiver:
                travelled = self._received(action, receiver, files, watch)
        self.folder.arrived(files)
        return travelled

    def _port_in(self, told: Iterator[dict[str, Any]], action: CopyModel) -> int:
        for facts in told:
            if "port" in facts:
                return int(facts["port"])
        raise weights_errors.CopyLostError(self.node.name, action.source, "nothing serves there")

    def _received(
        self,
        action: CopyModel,
        told: Iterator[dict[str, Any]],
        files: Sequence[ModelFile],
        watch: Watch,
    ) -> int:
        for facts in told:
            if "done" in facts:
                return int(facts["done"])
            if "error" in facts:
                raise self._copy_error(action, facts, files)
            watch.told(int(facts.get("bytes", 0)))
        raise weights_errors.CopyLostError(self.node.name, action.source, "the receiver ended")

    def _copy_error(
        self, action: CopyModel, facts: dict[str, Any], files: Sequence[ModelFile]
    ) -> node_errors.OneNodeError:
        node, said = self.node.name, str(facts.get("said", ""))
        match facts["error"]:
            case "space":
                return weights_errors.NoSpaceError(
                    node, int(facts["needed"]), int(facts["free"]), self.folder.inbox
                )
            case "damaged":
                names = {staged_name(file): file.path for file in files}
                path = names.get(str(facts.get("name")), "")
                return weights_errors.CopyDamagedError(node, action.source, path)
            case "disk":
                return weights_errors.NotWritableError(node, self.folder.inbox, said)
            case _:
                return weights_errors.CopyLostError(node, action.source, said)


def _told_after(watch: Watch, before: int, size_bytes: int) -> None:
    """Tell of a part of a copy, other parts of which have ended before."""
    watch.told(before + size_bytes)
