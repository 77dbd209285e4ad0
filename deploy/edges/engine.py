"""The few Docker Engine calls that a deployment needs, over a unix socket.

The docker package is imported when an engine is first used: it costs half a second that `inv
--list` must not pay. Every failure leaves here as an error of ours.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, TypeVar

from builder import labels
from builder.edges.daemon_api import SNAPSHOTTER
from builder.edges.registry.docker_config import require_usable_by_docker
from builder.secret import API_KEY, Secret
from deploy import node_errors
from deploy.edges.ranks import rank_state
from deploy.edges.waiting import until_stopped
from deploy.host import OtherContainer
from deploy.logscan import later_lines
from deploy.state import (
    ContainerFacts,
    EngineFacts,
    ImageFacts,
    ImageStore,
    RegistryAnswer,
    RegistryFacts,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
    from pathlib import Path

    import docker

    from builder.digest import JsonValue
    from builder.errors import NodeError
    from deploy.state import LogLine, RankState

R = TypeVar("R")

CALL_S: Final = 60
"""The limit of one call, in seconds. Pulling has none: its stream ends with the connection."""

LOAD_S: Final = 3600
"""The limit of a silence while an archive is loaded: unpacking a layer tells nothing."""

REGISTRY_S: Final = 15
"""What a registry may take to answer the engine."""

LOGIN_WORDS: Final = ("unauthorized", "denied", "authentication required", "basic auth")
"""What registries say to those who have not logged in; Docker gives no status of its own to it."""

GPU_KIND: Final = "nvidia.com/gpu="
"""How the names of GPUs begin that an engine (28.2 and later) finds through CDI."""

ODD: Final = "an answer of another shape than Docker's: {error!r}"

UNPACK_FAILED: Final = "Error unpacking image"
"""What Docker 27.2 and later only print when a load did not do its work (moby#48293)."""


class Engine:
    """One node's Docker Engine.

    `why_silent` finds out why nothing answers on the socket: only the connection can tell.
    """

    def __init__(self, node: str, socket: Path, why_silent: Callable[[], NodeError]) -> None:
        import docker  # noqa: PLC0415 - see the module's docstring

        self.node = node
        self._socket = socket
        self._why_silent = why_silent
        require_usable_by_docker()
        with self._answer("tell its version"):
            self._api = docker.APIClient(f"unix://{socket}", version="auto", timeout=CALL_S)

    def close(self) -> None:
        """Close the client's connections."""
        self._api.close()

    def facts(self) -> EngineFacts:
        """The engine's version, store and platform."""
        with self._answer("tell about itself"):
            version, info = self._api.version(), self._api.info()
            in_containerd = SNAPSHOTTER in (info.get("DriverStatus") or [])
            return EngineFacts(
                version=str(version["Version"]),
                store=ImageStore.CONTAINERD if in_containerd else ImageStore.GRAPH_DRIVER,
                platform=f"{version['Os']}/{version['Arch']}",
                data_root=str(info.get("DockerRootDir") or ""),
                runtimes=tuple(sorted(info.get("Runtimes") or ())),
                gpu_cdi=any(
                    str(item.get("ID", "")).startswith(GPU_KIND)
                    for item in info.get("DiscoveredDevices") or ()
                ),
                rootless=any("rootless" in item for item in info.get("SecurityOptions") or ()),
                cgroup_driver=str(info.get("CgroupDriver") or ""),
            )

    def image(self, name: str) -> ImageFacts | None:
        """The image of a tag, a digest reference or an id; None if there is none."""
        try:
            with self._answer(f"inspect image {name}"):
                found = self._api.inspect_image(name)  # type: ignore[no-untyped-call]
                return ImageFacts(
                    engine_id=str(found["Id"]),
                    tags=tuple(sorted(found.get("RepoTags") or ())),
                    diff_ids=tuple((found.get("RootFS") or {}).get("Layers") or ()),
                )
        except node_errors.EngineNotFoundError:
            return None

    def image_ids(self) -> frozenset[str]:
        """The ids of all images that the engine lists.

        The containerd store does not list an image that a failed load has left without its blobs.
        """
        with self._answer("list images"):
            return frozenset(str(item["Id"]) for item in self._api.images())

    def images(self, ids: Collection[str]) -> tuple[ImageFacts, ...]:
        """The images of these ids, as far as they are there."""
        found = (self.image(name) for name in sorted(ids))
        return tuple(facts for facts in found if facts is not None)

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

    def containers(self, cluster: str) -> tuple[ContainerFacts, ...]:
        """Every container of a cluster, running or not, sorted by name."""
        with self._answer("list containers"):
            label = f"{labels.CLUSTER}={cluster}"
            listed = self._api.containers(all=True, filters={"label": label})
            found = [_container(self._inspect(str(item["Id"]))) for item in listed]
        return tuple(sorted(found, key=lambda item: item.name))

    def others(self, cluster: str) -> tuple[OtherContainer, ...]:
        """Every container that is not a cluster's, sorted by name."""
        with self._answer("list containers"):
            found = [_other(item) for item in self._api.containers(all=True)]
        return tuple(sorted((o for o in found if o.cluster != cluster), key=lambda o: o.name))

    def create(self, name: str, request: Mapping[str, JsonValue]) -> None:
        """Create a container and start nothing; the engine never pulls here."""
        with self._answer(f"create container {name}"):
            self._api.create_container_from_config(request, name)  # type: ignore[no-untyped-call]

    def start(self, name: str) -> None:
        """Start a container; nothing if it runs."""
        with self._answer(f"start container {name}"):
            self._api.start(name)

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

    def rank(self, name: str) -> RankState:
        """Whether a container runs, which start of which container it is, and how it ended."""
        with self._answer(f"inspect container {name}"):
            return rank_state(self._inspect(name))

    def log(self, name: str, *, tail: int) -> str:
        """The last lines a container wrote, stdout and stderr in their order."""
        with self._answer(f"read the log of {name}"):
            data = self._api.logs(name, stdout=True, stderr=True, tail=tail)
        return data.decode(errors="replace")

    def log_since(self, name: str, after: str, *, tail: int) -> tuple[LogLine, ...]:
        """What a container wrote later than `after`, oldest first, and of that the last lines.

        `after` is a time of the node's own clock, of a LogLine or of a RankState; empty for all.
        """
        with self._answer(f"read the log of {name}"):
            data = self._api.logs(name, stdout=True, stderr=True, timestamps=True, tail=tail)
        return later_lines(data.decode(errors="replace"), after)

    def ask(self, call: str, question: Callable[[docker.APIClient], R]) -> R:
        """What a question of another module comes to; `call` completes `could not ...`."""
        with self._answer(call):
            return question(self._api)

    def _inspect(self, name: str) -> dict[str, Any]:
        with self._answer(f"inspect container {name}"):
            found: dict[str, Any] = self._api.inspect_container(name)
        return found

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
        import docker  # noqa: PLC0415 - see the module's docstring

        version = self._api.api_version
        client = docker.APIClient(f"unix://{self._socket}", version=version, timeout=timeout_s)
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
            kinds = {404: node_errors.EngineNotFoundError, 409: node_errors.EngineConflictError}
            status = 0 if error.response is None else error.response.status_code
            kind = kinds.get(status, node_errors.EngineError)
            raise kind(self.node, call, str(error.explanation or error)) from error
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


def _container(found: Mapping[str, Any]) -> ContainerFacts:
    config, state = found["Config"], found["State"]
    own = config.get("Labels") or {}
    return ContainerFacts(
        id=str(found["Id"]),
        name=str(found["Name"]).removeprefix("/"),
        rank=_number(own.get(labels.RANK)),
        generation=_number(own.get(labels.GENERATION)),
        lock_digest=str(own.get(labels.LOCK_DIGEST, "")),
        spec_digest=str(own.get(labels.SPEC_DIGEST, "")),
        image_id=str(found["Image"]),
        command=tuple(config.get("Cmd") or ()),
        running=bool(state["Running"]),
        paused=bool(state["Paused"]),
        exit_code=int(state["ExitCode"]),
        api_key=_api_key(config.get("Env") or ()),
    )


def _other(item: Mapping[str, Any]) -> OtherContainer:
    return OtherContainer(
        id=str(item["Id"]),
        name=", ".join(str(name).removeprefix("/") for name in item.get("Names") or ()),
        cluster=str((item.get("Labels") or {}).get(labels.CLUSTER, "")),
        running=item.get("State") == "running",
        command=str(item.get("Command") or ""),
    )


def _api_key(env: Iterable[str]) -> Secret | None:
    values = [item.partition("=")[2] for item in env if item.startswith(f"{API_KEY}=")]
    return Secret(values[-1]) if values else None


def _number(text: object) -> int:
    return int(text) if isinstance(text, str) and text.isdecimal() else -1
