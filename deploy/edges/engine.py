"""The few Docker Engine calls with which a deployment changes a node, over a unix socket.

The docker package is imported with the first of them: it takes a quarter of a second of processor
time, more than all of a look at two nodes. Every failure leaves here as an error of ours.
"""

from __future__ import annotations

import socket
from contextlib import contextmanager, suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, TypeVar

from deploy import node_errors
from deploy.edges.attached import socket_of
from deploy.edges.engine_looks import CALL_S, ODD, EngineLooks
from deploy.edges.waiting import until_stopped
from deploy.refusals import refusal
from deploy.state import RegistryAnswer, RegistryFacts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path

    import docker

    from builder.digest import JsonValue
    from builder.errors import NodeError

R = TypeVar("R")

LOAD_S: Final = 3600
"""The limit of a silence while an archive is loaded: unpacking a layer tells nothing."""

REGISTRY_S: Final = 15
"""What a registry may take to answer the engine."""

LOGIN_WORDS: Final = ("unauthorized", "denied", "authentication required", "basic auth")
"""What registries say to those who have not logged in; Docker gives no status of its own to it."""

UNPACK_FAILED: Final = "Error unpacking image"
"""What Docker 27.2 and later only print when a load did not do its work (moby#48293)."""


class Engine(EngineLooks):
    """One node's Docker Engine, to look at and to change."""

    def __init__(self, node: str, socket: Path, why_silent: Callable[[], NodeError]) -> None:
        super().__init__(node, socket, why_silent)
        self._socket = socket

    @cached_property
    def _api(self) -> docker.APIClient:
        """The client for what changes something: pulling has no limit, one call CALL_S."""
        return self._new_client(CALL_S)

    def _new_client(self, timeout_s: int) -> docker.APIClient:
        import docker  # noqa: PLC0415 - see the module's docstring

        # The same holds for what it brings along.
        from builder.edges.registry.docker_config import require_usable_by_docker  # noqa: PLC0415

        require_usable_by_docker()
        url = f"unix://{self._socket}"
        return docker.APIClient(url, version=self._api_version, timeout=timeout_s)

    def close(self) -> None:
        """Close the connections to the socket."""
        super().close()
        if "_api" in vars(self):
            self._api.close()

    def pull(self, repository: str, digest: str, stopped: Callable[[], bool]) -> None:
        """Fetch an image by digest; DeployInterruptedError when `stopped` says so on the way.

        No credentials go with it: the user's credential helper may well ask.
        """
        self._follow(
            f"pull {repository}@{digest}",
            lambda: self._api.pull(repository, digest, stream=True, decode=True, auth_config={}),
            stopped,
        )

    def load(self, name: str, chunks: Iterator[bytes], stopped: Callable[[], bool]) -> None:
        """Load an archive; `name` is what errors call it.

        That it returns does not say that the image can be used, see `prove`.
        """
        self._follow(f"load {name}", lambda: self._loading(chunks), stopped)

    def _loading(self, chunks: Iterator[bytes]) -> Iterator[Any]:
        with self._client(LOAD_S) as client:
            yield from client.load_image(chunks, quiet=False)  # type: ignore[no-untyped-call]

    def prove(self, image: str, name: str) -> None:
        """Nothing, if a container can be created from an image; EngineError otherwise.

        It is created, never started, and removed: the only sign on the containerd store that the
        layers are unpacked.
        """
        self.remove(name)
        with self._answer(f"create a container from {image}"):
            config = {"Image": image, "Cmd": ["none"], "HostConfig": {"NetworkMode": "none"}}
            self._api.create_container_from_config(config, name)  # type: ignore[no-untyped-call]
        self.remove(name)

    def registry(self, reference: str) -> RegistryFacts:
        """What the image's registry says to the engine, which asks it for a manifest, no more."""
        try:
            with (
                self._answer(f"ask the registry for {reference}"),
                self._client(REGISTRY_S) as client,
            ):
                client.inspect_distribution(reference, auth_config={})  # type: ignore[no-untyped-call]
        except node_errors.EngineError as error:
            wants_login = any(word in error.detail.lower() for word in LOGIN_WORDS)
            kind = RegistryAnswer.LOGIN if wants_login else RegistryAnswer.NONE
            return RegistryFacts(kind, error.detail)
        return RegistryFacts(RegistryAnswer.FOUND)

    def tag(self, image: str, reference: str) -> None:
        """Give an image another name; `image` is a name or an id."""
        repository, _, tag = reference.rpartition(":")
        with self._answer(f"tag image {reference}"):
            self._api.tag(image, repository, tag)

    def untag(self, reference: str) -> None:
        """Take a name from an image, and the image with it if it was the last one."""
        with self._answer(f"remove image name {reference}"):
            self._api.remove_image(reference, noprune=True)

    def create(self, name: str, request: Mapping[str, JsonValue]) -> None:
        """Create a container and start nothing; the engine never pulls here."""
        with self._answer(f"create container {name}"):
            self._api.create_container_from_config(request, name)  # type: ignore[no-untyped-call]

    @contextmanager
    def attach(self, name: str) -> Iterator[socket.socket]:
        """A connection to a container's stdin, stdout and stderr, as Docker frames them."""
        streams = {"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1}
        with self._client(CALL_S) as client:
            with self._answer(f"attach to container {name}"):
                answer = client.attach_socket(name, params=streams)
                connection = socket_of(answer)
            try:
                yield connection
            finally:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
                answer.close()

    def start(self, name: str) -> None:
        """Start a container; nothing if it runs. ContainerRefusedError if words tell why not."""
        call = f"start container {name}"
        try:
            with self._call(call):
                self._api.start(name)
        except node_errors.EngineError as error:
            known = refusal(error.detail)
            if known is None:
                raise
            reason, remedy = known
            raise node_errors.ContainerRefusedError(
                self.node, call, error.detail, reason=reason, remedy=remedy
            ) from error

    def stop(self, name: str, *, grace_s: int) -> None:
        """Stop a container, by SIGKILL after `grace_s`; nothing if it does not run."""
        with self._answer(f"stop container {name}"):
            self._api.stop(name, timeout=grace_s)

    def remove(self, name: str) -> None:
        """Remove a container with its anonymous volumes, running or not; nothing if it is gone."""
        try:
            with self._answer(f"remove container {name}"):
                self._api.remove_container(name, v=True, force=True)
        except node_errors.EngineNotFoundError:
            return

    def rename(self, name: str, new_name: str) -> None:
        """Give a container another name."""
        with self._answer(f"rename container {name}"):
            self._api.rename(name, new_name)

    def ask(self, call: str, question: Callable[[docker.APIClient], R]) -> R:
        """What a question of another module comes to; `call` completes `could not ...`."""
        with self._answer(call):
            return question(self._api)

    def _follow(
        self, call: str, begin: Callable[[], Iterable[Any]], stopped: Callable[[], bool]
    ) -> None:
        """Read the lines of a call that takes its time, until they end or `stopped` says so.

        Failures come as lines inside a successful answer, in `error`, `errorDetail` or both.
        """
        for line in until_stopped(lambda: self._lines(call, begin), stopped):
            if not isinstance(line, dict):
                raise node_errors.EngineError(self.node, call, ODD.format(error=line))
            problem = _problem_in(line)
            if problem:
                raise node_errors.EngineError(self.node, call, problem)

    def _lines(self, call: str, begin: Callable[[], Iterable[Any]]) -> Iterator[Any]:
        with self._call(call):
            yield from begin()

    @contextmanager
    def _client(self, timeout_s: int) -> Iterator[docker.APIClient]:
        """Another client of the engine, with another limit of a silence."""
        client = self._new_client(timeout_s)
        try:
            yield client
        finally:
            client.close()

    @contextmanager
    def _answer(self, call: str) -> Iterator[None]:
        """As `_call`, for the whole of an answer: one of another shape is the engine's failure."""
        with self._call(call):
            try:
                yield
            except (LookupError, TypeError, AttributeError, ValueError) as error:
                if isinstance(error, OSError):  # requests' own are of both kinds
                    raise
                raise node_errors.EngineError(self.node, call, ODD.format(error=error)) from error

    @contextmanager
    def _call(self, call: str) -> Iterator[None]:
        """Turn what docker and requests raise into our errors; `call` completes `could not ...`."""
        import docker.errors  # noqa: PLC0415 - see the module's docstring
        import requests  # noqa: PLC0415
        import urllib3  # noqa: PLC0415

        try:
            yield
        except docker.errors.APIError as error:
            status = 0 if error.response is None else error.response.status_code
            raise self._refused(call, status, str(error.explanation or error)) from error
        except requests.exceptions.ReadTimeout as error:
            raise node_errors.EngineError(self.node, call, "no answer in time") from error
        except (
            docker.errors.StreamParseError,
            requests.exceptions.InvalidJSONError,
        ) as error:
            raise node_errors.EngineError(self.node, call, ODD.format(error=error)) from error
        except (
            docker.errors.DockerException,
            requests.exceptions.RequestException,
            urllib3.exceptions.HTTPError,
            OSError,
        ) as error:
            raise self._why_silent() from error


def _problem_in(line: Mapping[str, Any]) -> str:
    """The failure that a line of a progress stream tells of, or the empty text."""
    detail = line.get("errorDetail") or {}
    told = str(line.get("stream") or "")
    printed = told.strip() if UNPACK_FAILED in told else ""
    return str(line.get("error") or detail.get("message") or printed)
