"""One node in reach: its connection, its engine and its model folder, and every action on it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from deploy import actions, node_errors
from deploy.edges.blobserver import BlobServer
from deploy.edges.engine import Engine
from deploy.edges.http import complete
from deploy.edges.model import ModelFolder
from deploy.edges.observe import observe
from deploy.edges.ssh import Destination, NodeConnection
from deploy.edges.transfer import Watch
from deploy.state import Outcome

if TYPE_CHECKING:
    import threading
    from contextlib import AbstractContextManager
    from pathlib import Path
    from types import TracebackType
    from typing import Self

    from builder.manifest import ClusterManifest, Node
    from builder.progress import Progress
    from deploy.edges.blobserver import Offer
    from deploy.state import Completion, ContainerFacts, EngineFacts, NodeState, RankState
    from deploy.wanted import Wanted, WantedImage

GRACE_S: Final = 20
"""What a rank may take to stop before it is killed, in seconds."""

LOG_LINES: Final = 20
"""How much of a rank's log a failure shows."""

GUARDED: Final = "/run"
"""The folder whose lock says that a deploy is at work: every node has it, and it needs no file."""


@dataclass(frozen=True, slots=True)
class Supplies:
    """What the nodes may fetch from us; None where the plan fetches nothing."""

    offer: Offer | None
    model: Path | None


class RemoteNode:
    """A node in reach; a context manager that ends its connection. Raises NodeError throughout."""

    def __init__(self, manifest: ClusterManifest, node: Node, ssh_config: Path | None) -> None:
        self.supplies = Supplies(None, None)
        self._manifest = manifest
        self._node = node
        destination = Destination(node.name, node.ssh, ssh_config, manifest.ssh.connect_timeout_s)
        self._connection = NodeConnection(destination)
        try:
            socket = self._connection.forward_socket(node.docker_socket)
            why_silent = partial(self._connection.socket_problem, node.docker_socket)
            self._engine = Engine(node.name, socket, why_silent)
        except BaseException:
            self._connection.close()
            raise
        self._folder = ModelFolder(self._connection, manifest.model_path(node))
        self._api: Path | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the connection and all that uses it."""
        self._connection.close()
        self._engine.close()

    def guard(self) -> AbstractContextManager[None]:
        """Keep other deploys off this node; DeployBusyError if one is at work."""
        return self._connection.guard(GUARDED)

    def observe(self, wanted: Wanted) -> NodeState:
        """Everything planning needs to know of this node."""
        return observe(wanted, self._node, self._connection, self._engine, self._folder)

    def remember_model(self, progress: Progress) -> None:
        """Note the model hashes that had to be computed, for the next deploy."""
        try:
            self._folder.remember()
        except node_errors.RemoteCommandError as error:
            progress.note(
                f"{self._node.name}: the next deploy hashes the model again: {error.what}"
            )

    def facts(self) -> EngineFacts:
        """The engine of this node."""
        return self._engine.facts()

    def containers(self) -> tuple[ContainerFacts, ...]:
        """The containers of this cluster on this node."""
        return self._engine.containers(self._manifest.name)

    def perform(
        self, action: actions.AnyAction, progress: Progress, stopped: threading.Event
    ) -> int:
        """Do one action and return the bytes that travelled for it."""
        match action:
            case actions.SendModel() | actions.PullImage():
                return self._fetch(action, progress, stopped)
            case actions.TagImage():
                self._tag(action.image)
            case actions.PlaceModel():
                self._folder.place(action.files, action.replaced)
            case actions.SettleModel():
                self._folder.settle()
            case _:
                self._change_container(action)
        return 0

    def _fetch(
        self,
        action: actions.SendModel | actions.PullImage,
        progress: Progress,
        stopped: threading.Event,
    ) -> int:
        if isinstance(action, actions.SendModel):
            what, total = f"{action.node}: model", action.size_bytes
        else:
            what, total = f"{action.node}: image", action.image.new_bytes
        watch = Watch(lambda sent: progress.advance(what, sent, max(sent, total)), stopped.is_set)
        if isinstance(action, actions.SendModel):
            assert self.supplies.model is not None
            return self._folder.send(action.files, self.supplies.model, watch)
        return self._pull(action.image, watch)

    def _change_container(self, action: actions.AnyAction) -> None:
        match action:
            case actions.CreateContainer():
                self._engine.create(action.name, action.spec, dict(action.labels))
            case actions.StopContainer():
                self.stop(action.name)
            case actions.StartContainer():
                self._engine.start(action.name)
            case actions.AcceptContainer():
                self._engine.rename(action.name, action.final_name)
            case actions.RemoveContainer():
                self._engine.remove(action.name)
            case _:
                raise AssertionError(action)

    def restore_model(self, action: actions.PlaceModel) -> None:
        """Undo the placing of model files, however far it came."""
        self._folder.restore(action.files)

    def start(self, name: str) -> None:
        """Start a container; nothing if it runs."""
        self._engine.start(name)

    def stop(self, name: str) -> None:
        """Stop a container in order; nothing if it does not run."""
        self._engine.stop(name, grace_s=GRACE_S)

    def remove(self, name: str) -> None:
        """Remove a container, running or not; nothing if it is gone."""
        self._engine.remove(name)

    def rank(self, name: str) -> RankState:
        """Whether a container runs."""
        return self._engine.rank(name)

    def log(self, name: str, tail: int = LOG_LINES) -> str:
        """The last lines of a container's log."""
        return self._engine.log(name, tail=tail)

    def complete(self, timeout_s: float) -> Completion:
        """What the server on this node answers to a short request for a completion."""
        serve = self._manifest.serve
        if self._api is None:
            host = "127.0.0.1" if serve.host.is_unspecified else str(serve.host)
            self._api = self._connection.forward_local(host, serve.port)
        model = self._manifest.served_model_name
        completion = complete(self._api, model, timeout_s=timeout_s)
        if completion.outcome is Outcome.NOT_UP and self._connection.forwards_forbidden():
            raise self._connection.forbidden()
        return completion

    def _pull(self, image: WantedImage, watch: Watch) -> int:
        """Let the engine fetch the image from us through a tunnel, then name it and nothing else.

        The engine keeps an image it pulled by digest under the registry's name too; that name,
        with this tunnel's port in it, would gather with every deploy.
        """
        assert self.supplies.offer is not None
        repository, _, _ = image.reference.rpartition(":")
        with (
            BlobServer(self.supplies.offer, watch.told) as server,
            self._connection.forward_remote(server.port) as port,
        ):
            source = f"127.0.0.1:{port}/{repository}"
            try:
                self._engine.pull(source, image.manifest_digest, watch.stopped)
            except node_errors.EngineError as error:
                raise node_errors.ImagePullError(
                    self._node.name,
                    image.reference,
                    error.detail,
                    missing=server.missing,
                    failures=server.failures,
                ) from error
            pulled = f"{source}@{image.manifest_digest}"
            self._name(image, pulled)
            return server.sent_bytes

    def _name(self, image: WantedImage, pulled: str) -> None:
        found = self._engine.image(pulled)
        if image.is_image(found):
            self._engine.tag(pulled, image.reference)
        self._engine.untag(pulled)
        if not image.is_image(found):
            ids = sorted(image.engine_ids)
            raise node_errors.ImageMismatchError(
                self._node.name, ids, found.engine_id if found else "nothing"
            )

    def _tag(self, image: WantedImage) -> None:
        for name in sorted(image.engine_ids):
            if image.is_image(self._engine.image(name)):
                self._engine.tag(name, image.reference)
                return
        raise node_errors.EngineNotFoundError(
            self._node.name, f"tag image {image.reference}", "the image is gone"
        )
