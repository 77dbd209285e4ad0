"""The few Docker Engine calls that a deployment needs, over a unix socket.

The docker package is imported when an engine is first used: it costs half a second that `inv
--list` must not pay. Every failure leaves here as an error of ours.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from builder import labels
from deploy import errors, node_errors
from deploy.state import ContainerFacts, EngineFacts, ImageFacts, ImageStore, RankState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from builder.errors import NodeError
    from deploy.launch import ContainerSpec

CALL_S: Final = 60
"""The limit of one call, in seconds. Pulling has none: its stream ends with the connection."""

SNAPSHOTTER: Final = ["driver-type", "io.containerd.snapshotter.v1"]
"""What DriverStatus holds when the engine keeps images in containerd (Docker 24 and later)."""


class Engine:
    """One node's Docker Engine.

    `why_silent` finds out why nothing answers on the socket: only the connection can tell.
    """

    def __init__(self, node: str, socket: Path, why_silent: Callable[[], NodeError]) -> None:
        import docker  # noqa: PLC0415 - see the module's docstring

        self.node = node
        self._why_silent = why_silent
        with self._call("tell its version"):
            self._api = docker.APIClient(f"unix://{socket}", version="auto", timeout=CALL_S)

    def close(self) -> None:
        """Close the client's connections."""
        self._api.close()

    def facts(self) -> EngineFacts:
        """The engine's version, store and platform."""
        with self._call("tell about itself"):
            version, info = self._api.version(), self._api.info()
        in_containerd = SNAPSHOTTER in (info.get("DriverStatus") or [])
        return EngineFacts(
            version=str(version["Version"]),
            store=ImageStore.CONTAINERD if in_containerd else ImageStore.GRAPH_DRIVER,
            platform=f"{version['Os']}/{version['Arch']}",
        )

    def image(self, name: str) -> ImageFacts | None:
        """The image of a tag, a digest reference or an id; None if there is none."""
        try:
            with self._call(f"inspect image {name}"):
                found = self._api.inspect_image(name)  # type: ignore[no-untyped-call]
        except node_errors.EngineNotFoundError:
            return None
        return ImageFacts(
            engine_id=str(found["Id"]),
            tags=tuple(sorted(found.get("RepoTags") or ())),
            diff_ids=tuple((found.get("RootFS") or {}).get("Layers") or ()),
        )

    def pull(self, repository: str, digest: str, stopped: Callable[[], bool]) -> None:
        """Fetch an image by digest; DeployInterruptedError when `stopped` says so on the way.

        Failures come as lines inside a successful answer, in `error`, `errorDetail` or both.
        """
        call = f"pull {repository}@{digest}"
        with self._call(call):
            # No credentials: the registry is ours, and the user's credential helper may well ask.
            stream = self._api.pull(repository, digest, stream=True, decode=True, auth_config={})
            for line in stream:
                problem = _problem_in(line)
                if problem:
                    raise node_errors.EngineError(self.node, call, problem)
                if stopped():
                    raise errors.DeployInterruptedError

    def tag(self, image: str, reference: str) -> None:
        """Give an image another name; `image` is a name or an id."""
        repository, _, tag = reference.rpartition(":")
        with self._call(f"tag image {reference}"):
            self._api.tag(image, repository, tag)

    def untag(self, reference: str) -> None:
        """Take a name from an image, and the image with it if it was the last one."""
        with self._call(f"remove image name {reference}"):
            self._api.remove_image(reference, noprune=True)

    def containers(self, cluster: str) -> tuple[ContainerFacts, ...]:
        """Every container of a cluster, running or not, sorted by name."""
        with self._call("list containers"):
            label = f"{labels.CLUSTER}={cluster}"
            listed = self._api.containers(all=True, filters={"label": label})
        found = [self._inspect(str(item["Id"])) for item in listed]
        return tuple(sorted((_container(item) for item in found), key=lambda item: item.name))

    def create(self, name: str, spec: ContainerSpec, labels: Mapping[str, str]) -> None:
        """Create a container and start nothing; the engine never pulls here."""
        with self._call(f"create container {name}"):
            request = {**spec.request(), "Labels": labels}
            self._api.create_container_from_config(request, name)  # type: ignore[no-untyped-call]

    def start(self, name: str) -> None:
        """Start a container; nothing if it runs."""
        with self._call(f"start container {name}"):
            self._api.start(name)

    def stop(self, name: str, *, grace_s: int) -> None:
        """Stop a container, by SIGKILL after `grace_s`; nothing if it does not run."""
        with self._call(f"stop container {name}"):
            self._api.stop(name, timeout=grace_s)

    def remove(self, name: str) -> None:
        """Remove a container with its anonymous volumes, running or not; nothing if it is gone."""
        try:
            with self._call(f"remove container {name}"):
                self._api.remove_container(name, v=True, force=True)
        except node_errors.EngineNotFoundError:
            return

    def rename(self, name: str, new_name: str) -> None:
        """Give a container another name."""
        with self._call(f"rename container {name}"):
            self._api.rename(name, new_name)

    def rank(self, name: str) -> RankState:
        """Whether a container runs, and how it ended."""
        state = self._inspect(name)["State"]
        return RankState(
            running=bool(state["Running"]),
            exit_code=int(state["ExitCode"]),
            finished_at=str(state["FinishedAt"]),
            out_of_memory=bool(state.get("OOMKilled")),
        )

    def log(self, name: str, *, tail: int) -> str:
        """The last lines a container wrote, stdout and stderr in their order."""
        with self._call(f"read the log of {name}"):
            data = self._api.logs(name, stdout=True, stderr=True, tail=tail)
        return data.decode(errors="replace")

    def _inspect(self, name: str) -> dict[str, Any]:
        with self._call(f"inspect container {name}"):
            found: dict[str, Any] = self._api.inspect_container(name)
        return found

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
            raise node_errors.EngineError(self.node, call, f"no answer in {CALL_S} s") from error
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
    return str(line.get("error") or detail.get("message") or "")


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
    )


def _number(text: object) -> int:
    return int(text) if isinstance(text, str) and text.isdecimal() else -1
