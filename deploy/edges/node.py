"""One node in reach: its connection, its engine and its model folder, and every action on it."""

from __future__ import annotations

import threading
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Final

from builder.labels import image_repository
from builder.progress import Progress, Silent
from deploy import actions, node_errors
from deploy.edges.api_key import api_key_of
from deploy.edges.engine import Engine
from deploy.edges.http import answers, complete, unauthorized
from deploy.edges.master import Destination
from deploy.edges.model import ModelFolder
from deploy.edges.observe import observe, observe_unlocked
from deploy.edges.ssh import NodeConnection
from deploy.edges.supply import no_blobs
from deploy.serving import ServingAddress
from deploy.state import TRIAL, KeptModel, Outcome

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from types import TracebackType
    from typing import Self

    from builder.manifest import ClusterManifest, Node
    from builder.secret import Secret
    from deploy.caches import CacheFacts
    from deploy.delivery import Delivered
    from deploy.drift_facts import Witnessed
    from deploy.edges.delivery import ImageDelivery, ImageSupply
    from deploy.edges.guard import Guards
    from deploy.edges.making import ContainerMaker
    from deploy.edges.ssh import Opening
    from deploy.edges.supply import KnownBlobs
    from deploy.edges.transfer import Watch
    from deploy.edges.weights import NodeWeights
    from deploy.guard import Verb
    from deploy.scene import NodeScene, Socket
    from deploy.state import (
        Completion,
        ContainerFacts,
        EngineFacts,
        ImageName,
        LogLine,
        NodeState,
        RankState,
    )
    from deploy.wanted import Wanted

GRACE_S: Final = 20
"""What a rank may take to stop before it is killed, in seconds."""

ANSWER_S: Final = 5
"""What a server may take to answer at all, in seconds."""

LOG_LINES: Final = 20
"""How much of a rank's log a failure shows."""


@dataclass(frozen=True, slots=True)
class Supplies:
    """What the nodes may fetch from us, None where the plan fetches nothing, and each other."""

    image: ImageSupply | None
    model: Path | None
    peers: Mapping[str, RemoteNode] = field(default_factory=dict)


class RemoteNode:
    """A node in reach; a context manager that ends its connection. Raises NodeError throughout."""

    def __init__(
        self,
        manifest: ClusterManifest,
        node: Node,
        ssh_config: Path | None,
        known: KnownBlobs = no_blobs,
        opening: Opening | None = None,
    ) -> None:
        """Connect; `known` tells the layers of manifests that were built here.

        `opening` can give up the connection while it is made.
        """
        self.supplies = Supplies(None, None)
        self.delivered: Delivered | None = None
        self.detours: list[str] = []
        self._progress: Progress = Silent()
        self._guards: Guards | None = None
        self._manifest = manifest
        self._node = node
        destination = Destination(node.name, node.ssh, ssh_config, manifest.ssh.connect_timeout_s)
        self._connection = NodeConnection(destination, opening)
        try:
            engine_socket = self._connection.forward_socket(node.docker_socket)
            why_silent = partial(self._connection.socket_problem, node.docker_socket)
            self._engine = Engine(node.name, engine_socket, why_silent)
        except BaseException:
            self._connection.close()
            raise
        self._known = known
        self._folder = ModelFolder(self._connection, manifest.model_path(node))
        self._key = api_key_of(manifest)
        self._apis: dict[tuple[str, int], Path] = {}
        self._apis_lock = threading.Lock()

    @cached_property
    def weights(self) -> NodeWeights:
        """The ways that the model comes by; made, and imported, when files of it are lacking."""
        from deploy.edges.weights import NodeWeights  # noqa: PLC0415 - as of the images

        parts = (self._manifest, self._node, self._connection, self._engine, self._folder)
        return NodeWeights(*parts)

    @cached_property
    def _images(self) -> ImageDelivery:
        """The ways to bring an image; made, and imported, when the node lacks it."""
        from deploy.edges.delivery import ImageDelivery  # noqa: PLC0415 - most looks bring nothing

        return ImageDelivery(
            self._connection,
            self._engine,
            docker_socket=self._node.docker_socket,
            known=self._known,
            proof=f"sparklock-{self._manifest.name}-proof{TRIAL}",
            told=self._tell,
        )

    def _maker(self) -> ContainerMaker:
        from deploy.edges.making import ContainerMaker  # noqa: PLC0415 - a look makes none

        return ContainerMaker(self._connection, self._engine, api_key_of(self._manifest))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def connection(self) -> NodeConnection:
        """The connection, for what concerns several nodes at once."""
        return self._connection

    def close(self) -> None:
        """End the connection and all that uses it."""
        self._connection.close()
        self._engine.close()

    def take_guard(self, guards: Guards, verb: Verb, *, by_force: bool) -> None:
        """Keep others off this node; DeployBusyError if one is at work, whom `by_force` ends.

        From now on nothing is changed here without the guards.
        """
        from deploy.edges.guard import take, this_process  # noqa: PLC0415 - a look takes none

        holder = this_process(self._manifest.name, verb)
        guards.add(take(self._connection, holder, by_force=by_force))
        self._guards = guards

    def observe(self, wanted: Wanted) -> NodeState:
        """Everything planning needs to know of this node."""
        image = wanted.image
        state = observe(wanted, self._node, self._connection, self._engine, self._folder)
        if image.is_image(state.image) or image.is_image(state.untagged):
            return state
        return replace(state, supply=self._images.facts(image, state.engine))

    def witness(self, wanted: Wanted) -> Witnessed:
        """This node as `observe` sees it, and its containers in full."""
        from deploy.edges.drift import witness  # noqa: PLC0415 - for `status --drift` alone

        return witness(self._manifest.name, self.observe(wanted), self._engine)

    def observe_unlocked(self) -> NodeState:
        """What is known of this node without a lock."""
        return observe_unlocked(self._manifest, self._node, self._connection, self._engine)

    def kept_model(self) -> KeptModel:
        """Whose replaced model files this node keeps."""
        return KeptModel(self._folder.path, self._folder.kept())

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

    def caches(self) -> tuple[CacheFacts, ...]:
        """The compile caches of this cluster on this node."""
        return self._engine.caches_used(self._manifest.name)

    def remove_cache(self, name: str) -> bool:
        """Remove a cache; False if a container has it."""
        from deploy.edges.volumes import remove_cache  # noqa: PLC0415 - for gc alone

        self._require_guard()
        return remove_cache(self._engine, name)

    def image_names(self) -> tuple[ImageName, ...]:
        """The names of this cluster's images on this node."""
        return self._engine.image_names(image_repository(self._manifest.name))

    def forget_image(self, name: str) -> bool:
        """Take a name from an image, and the image with its last one; False if it is in use."""
        self._require_guard()
        try:
            self._engine.untag(name)
        except node_errors.EngineConflictError:
            return False
        except node_errors.EngineNotFoundError:
            return True
        return True

    def perform(
        self, action: actions.AnyAction, progress: Progress, stopped: threading.Event
    ) -> int:
        """Do one action and return the bytes that travelled for it."""
        if self._guards is not None:
            self._guards.require_all()
        self._progress = progress
        match action:
            case actions.SendModel() | actions.FetchModel() | actions.CopyModel():
                return self._bring_model(action, progress, stopped)
            case actions.PullBase():
                self._images.pull_base(action, stopped.is_set)
            case actions.PullImage() | actions.LoadImage():
                return self._bring(action, progress, stopped)
            case actions.TagImage():
                self._images.tag(action.image)
            case _:
                self._change_here(action)
        return 0

    def _change_here(self, action: actions.AnyAction) -> None:
        """Do what needs nothing from elsewhere."""
        match action:
            case actions.PlaceModel():
                self._folder.place(action.files, action.replaced, action.owner)
            case actions.RestoreModel():
                self._folder.restore((), action.owner)
            case actions.DropModel():
                self._folder.drop(action.owners)
            case actions.SettleModel():
                self._folder.settle(action.keep)
            case _:
                self._change_container(action)

    def _tell(self, detour: str) -> None:
        """Keep, and tell at once, what goes another way than was planned."""
        self.detours.append(detour)
        self._progress.note(f"{self._node.name}: {detour}")

    def _bring_model(
        self,
        action: actions.SendModel | actions.FetchModel | actions.CopyModel,
        progress: Progress,
        stopped: threading.Event,
    ) -> int:
        watch = _watch(f"{action.node}: model", action.size_bytes, progress, stopped)
        match action:
            case actions.FetchModel():
                return self.weights.fetch(action, watch)
            case actions.CopyModel():
                return self.weights.copy(action, self.supplies.peers[action.source].weights, watch)
            case actions.SendModel():
                assert self.supplies.model is not None
                return self._folder.send(action.files, self.supplies.model, watch)

    def _bring(
        self,
        action: actions.PullImage | actions.LoadImage,
        progress: Progress,
        stopped: threading.Event,
    ) -> int:
        assert self.supplies.image is not None
        watch = _watch(f"{action.node}: image", action.size_bytes, progress, stopped)
        bring = self._images.pull if isinstance(action, actions.PullImage) else self._images.load
        self.delivered = bring(action.image, self.supplies.image, watch)
        return self.delivered.size_bytes

    def _change_container(self, action: actions.AnyAction) -> None:
        match action:
            case actions.CreateContainer():
                self._maker().make(action)
            case actions.StopContainer():
                self._engine.stop(action.name, grace_s=GRACE_S)
            case actions.StartContainer():
                self._make_room()
                self._engine.start(action.name)
            case actions.AcceptContainer() | actions.RetireContainer():
                self._engine.rename(action.name, action.final_name)
            case actions.RemoveContainer():
                self._engine.remove(action.name)
            case _:
                raise AssertionError(action)

    def _make_room(self) -> None:
        from deploy.edges.page_cache import make_room  # noqa: PLC0415 - a look starts nothing

        told = make_room(self._connection, self._manifest)
        if told:
            self._tell(told)

    def restore_model(self, action: actions.PlaceModel | actions.RestoreModel) -> None:
        """Put replaced model files back: undo a placing, however far it came, or an earlier one."""
        self._require_guard()
        placed = action.files if isinstance(action, actions.PlaceModel) else ()
        self._folder.restore(placed, action.owner)

    def start(self, name: str) -> None:
        """Start a container; nothing if it runs."""
        self._require_guard()
        self._engine.start(name)

    def stop(self, name: str) -> None:
        """Stop a container in order; nothing if it does not run, or is gone."""
        self._require_guard()
        with suppress(node_errors.EngineNotFoundError):
            self._engine.stop(name, grace_s=GRACE_S)

    def remove(self, name: str) -> None:
        """Remove a container, running or not; nothing if it is gone."""
        self._require_guard()
        self._engine.remove(name)

    def rename(self, name: str, new_name: str) -> None:
        """Give a container another name; nothing if it is gone."""
        self._require_guard()
        with suppress(node_errors.EngineNotFoundError):
            self._engine.rename(name, new_name)

    def _require_guard(self) -> None:
        if self._guards is not None:
            self._guards.require(self._node.name)

    def rank(self, name: str) -> RankState:
        """Whether a container runs."""
        return self._engine.rank(name)

    def log(self, name: str, tail: int = LOG_LINES) -> str:
        """The last lines of a container's log."""
        return self._engine.log(name, tail=tail)

    def log_since(self, name: str, after: str, tail: int) -> tuple[LogLine, ...]:
        """What a container wrote after a time of its node's clock: the last lines of that."""
        return self._engine.log_since(name, after, tail=tail)

    def sockets(self) -> tuple[Socket, ...]:
        """The TCP sockets of the node."""
        from deploy.edges.scene import sockets_of  # noqa: PLC0415 - for starts alone

        return sockets_of(self._connection)

    def look(self, container_id: str) -> NodeScene:
        """What the node's kernel tells of itself and of a container."""
        from deploy.edges.scene import look  # noqa: PLC0415 - for a failed start alone

        model = self._manifest.model_path(self._node)
        places = ("/", "/dev/shm", model, self._engine.facts().data_root)  # noqa: S108 - is only looked at
        return look(self._connection, container_id, [place for place in places if place])

    def answers(self, at: ServingAddress) -> bool:
        """Whether anything answers a request where the server of this node listens."""
        if answers(self._api(at), timeout_s=ANSWER_S):
            return True
        if self._connection.forwards_forbidden():
            raise self._connection.forbidden()
        return False

    def complete(self, timeout_s: float, at: ServingAddress | None = None) -> Completion:
        """What the server on this node answers to a short request for a completion.

        `at` is where it serves; None for where the manifest says.
        """
        if at is None:
            serve = self._manifest.serve
            host = "127.0.0.1" if serve.host.is_unspecified else str(serve.host)
            at = ServingAddress(host, serve.port, self._manifest.served_model_name)
        completion = complete(self._api(at), at.model, timeout_s=timeout_s, api_key=self._key)
        if unauthorized(completion):
            # An earlier generation wants the key that it was made with.
            self._key = self._key_of_server()
            completion = complete(self._api(at), at.model, timeout_s=timeout_s, api_key=self._key)
        if completion.outcome is Outcome.NOT_UP and self._connection.forwards_forbidden():
            raise self._connection.forbidden()
        return completion

    def _api(self, at: ServingAddress) -> Path:
        """A local socket that leads to a server; made once for each address."""
        with self._apis_lock:
            place = (at.host, at.port)
            if place not in self._apis:
                self._apis[place] = self._connection.forward_local(*place)
            return self._apis[place]

    def _key_of_server(self) -> Secret | None:
        """The API key in the environment of the container that runs here."""
        keys = (item.api_key for item in self.containers() if item.running)
        return next((key for key in keys if key is not None), None)


def _watch(what: str, total: int, progress: Progress, stopped: threading.Event) -> Watch:
    from deploy.edges.transfer import Watch  # noqa: PLC0415 - most looks bring nothing

    return Watch(lambda sent: progress.advance(what, sent, max(sent, total)), stopped.is_set)
