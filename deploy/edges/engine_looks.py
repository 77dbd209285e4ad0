"""Looking at one node's Docker Engine: all that is read of it, over a unix socket.

Every failure leaves here as an error of ours.
"""

from __future__ import annotations

import http.client
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from builder import labels
from builder.engine_store import in_containerd
from builder.secret import API_KEY, Secret
from deploy import node_errors
from deploy.caches import CacheFacts
from deploy.edges.engine_reads import EngineReads, EngineStatusError
from deploy.edges.ranks import NEVER, rank_state
from deploy.host import OtherContainer
from deploy.logscan import later_lines
from deploy.state import (
    ContainerFacts,
    EngineFacts,
    ImageFacts,
    ImageName,
    ImageStore,
    is_tunnel,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
    from pathlib import Path

    from builder.errors import NodeError
    from deploy.state import LogLine, RankState

CALL_S: Final = 60
"""The limit of one call, in seconds."""

AT_ONCE: Final = 4
"""How many containers an engine is asked about at the same time."""

GPU_KIND: Final = "nvidia.com/gpu="
"""How the names of GPUs begin that an engine (28.2 and later) finds through CDI."""

ODD: Final = "an answer of another shape than Docker's: {error!r}"


class EngineLooks:
    """One node's Docker Engine, read and never changed.

    `why_silent` finds out why nothing answers on the socket: only the connection can tell.
    """

    def __init__(self, node: str, socket: Path, why_silent: Callable[[], NodeError]) -> None:
        self.node = node
        self._why_silent = why_silent
        self._reads = EngineReads(socket, CALL_S)
        with self._looking("tell its version"):
            self._version = self._reads.version()
            self._api_version = str(self._version["ApiVersion"])

    def close(self) -> None:
        """Close the connections to the socket."""
        self._reads.close()

    def facts(self) -> EngineFacts:
        """The engine's version, store and platform."""
        with self._looking("tell about itself"):
            version, info = self._version, self._reads.info()
            return EngineFacts(
                version=str(version["Version"]),
                store=ImageStore.CONTAINERD if in_containerd(info) else ImageStore.GRAPH_DRIVER,
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
            with self._looking(f"inspect image {name}"):
                found = self._reads.image(name)
                return ImageFacts(
                    engine_id=str(found["Id"]),
                    tags=tuple(sorted(found.get("RepoTags") or ())),
                    diff_ids=tuple((found.get("RootFS") or {}).get("Layers") or ()),
                    digests=tuple(sorted(found.get("RepoDigests") or ())),
                )
        except node_errors.EngineNotFoundError:
            return None

    def image_ids(self) -> frozenset[str]:
        """The ids of all images that the engine lists.

        The containerd store does not list an image that a failed load has left without its blobs.
        """
        with self._looking("list images"):
            return frozenset(str(item["Id"]) for item in self._reads.images())

    def image_names(self, repository: str) -> tuple[ImageName, ...]:
        """Every name of an image in a repository, such as `sparklock/lab`, sorted.

        Those under which it came through a tunnel are among them.
        """
        with self._looking("list images"):
            found = [
                ImageName(str(name), str(item["Id"]))
                for item in self._reads.images()
                for name in (*(item.get("RepoTags") or ()), *(item.get("RepoDigests") or ()))
            ]
        own = (item for item in found if _is_in(item, repository))
        return tuple(sorted(own, key=lambda item: item.name))

    def images(self, ids: Collection[str]) -> tuple[ImageFacts, ...]:
        """The images of these ids, as far as they are there."""
        found = (self.image(name) for name in sorted(ids))
        return tuple(facts for facts in found if facts is not None)

    def containers(self, cluster: str) -> tuple[ContainerFacts, ...]:
        """Every container of a cluster, running or not, sorted by name."""
        with self._looking("list containers"):
            listed = self._reads.containers(f"{labels.CLUSTER}={cluster}")
            ids = [str(item["Id"]) for item in listed]
            with ThreadPoolExecutor(AT_ONCE) as pool:
                found = [_container(facts) for facts in pool.map(self._inspect, ids)]
        return tuple(sorted(found, key=lambda item: item.name))

    def caches(self, cluster: str) -> tuple[str, ...]:
        """The names of the volumes with a cluster's compile caches, sorted."""
        with self._looking("list volumes"):
            found = self._reads.volumes(f"{labels.CLUSTER}={cluster}")
            return tuple(sorted(str(v["Name"]) for v in found if labels.CACHE in v["Labels"]))

    def caches_used(self, cluster: str) -> tuple[CacheFacts, ...]:
        """A cluster's compile caches with their sizes, sorted by name."""
        with self._looking("tell the sizes of volumes"):
            found = [_cache(item) for item in self._reads.volumes_used() if _is_of(item, cluster)]
        return tuple(sorted(found, key=lambda cache: cache.name))

    def others(self, cluster: str) -> tuple[OtherContainer, ...]:
        """Every container that is not a cluster's, sorted by name."""
        with self._looking("list containers"):
            found = [_other(item) for item in self._reads.containers()]
        return tuple(sorted((o for o in found if o.cluster != cluster), key=lambda o: o.name))

    def rank(self, name: str) -> RankState:
        """Whether a container runs, which start of which container it is, and how it ended."""
        with self._looking(f"inspect container {name}"):
            return rank_state(self._inspect(name))

    def log(self, name: str, *, tail: int) -> str:
        """The last lines a container wrote, stdout and stderr in their order."""
        with self._looking(f"read the log of {name}"):
            data = self._reads.logs(name, tail=tail)
        return data.decode(errors="replace")

    def log_since(self, name: str, after: str, *, tail: int) -> tuple[LogLine, ...]:
        """What a container wrote later than `after`, oldest first, and of that the last lines.

        `after` is a time of the node's own clock, of a LogLine or of a RankState; empty for all.
        """
        with self._looking(f"read the log of {name}"):
            data = self._reads.logs(name, tail=tail, timestamps=True)
        return later_lines(data.decode(errors="replace"), after)

    def _inspect(self, name: str) -> dict[str, Any]:
        with self._looking(f"inspect container {name}"):
            return self._reads.container(name)

    @contextmanager
    def _looking(self, call: str) -> Iterator[None]:
        """Turn what goes wrong in a call and its answer into our errors.

        `call` completes `could not ...`. An answer of another shape is the engine's failure.
        """
        try:
            yield
        except EngineStatusError as error:
            raise self._refused(call, error.status, error.explanation) from error
        except TimeoutError as error:
            raise node_errors.EngineError(self.node, call, "no answer in time") from error
        except (OSError, http.client.HTTPException) as error:
            raise self._why_silent() from error
        except (LookupError, TypeError, AttributeError, ValueError) as error:
            raise node_errors.EngineError(self.node, call, ODD.format(error=error)) from error

    def _refused(self, call: str, status: int, explanation: str) -> node_errors.EngineError:
        """What the status of an answer says."""
        kinds = {404: node_errors.EngineNotFoundError, 409: node_errors.EngineConflictError}
        return kinds.get(status, node_errors.EngineError)(self.node, call, explanation)


def _is_in(image: ImageName, repository: str) -> bool:
    return is_tunnel(image.name, repository) or image.name.rpartition(":")[0] == repository


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
        image=str(config.get("Image") or ""),
        model_digest=str(own.get(labels.MODEL_DIGEST, "")),
        created_at=_moment(found.get("Created")),
        started_at=_moment(state.get("StartedAt")),
        api_key=_api_key(config.get("Env") or ()),
    )


def _moment(text: object) -> str:
    """A time as Docker tells it, which leaves out zeros at the end, as text that sorts."""
    whole, _, rest = str(text or "").removesuffix("Z").partition(".")
    return "" if not whole or whole.startswith(NEVER) else f"{whole}.{rest:0<9}Z"


def _other(item: Mapping[str, Any]) -> OtherContainer:
    return OtherContainer(
        id=str(item["Id"]),
        name=", ".join(str(name).removeprefix("/") for name in item.get("Names") or ()),
        cluster=str((item.get("Labels") or {}).get(labels.CLUSTER, "")),
        running=item.get("State") == "running",
        command=str(item.get("Command") or ""),
        mounts=tuple(str(mount.get("Source") or "") for mount in item.get("Mounts") or ()),
    )


def _api_key(env: Iterable[str]) -> Secret | None:
    values = [item.partition("=")[2] for item in env if item.startswith(f"{API_KEY}=")]
    return Secret(values[-1]) if values else None


def _is_of(volume: Mapping[str, Any], cluster: str) -> bool:
    own = volume.get("Labels") or {}
    return own.get(labels.CLUSTER) == cluster and labels.CACHE in own


def _cache(volume: Mapping[str, Any]) -> CacheFacts:
    usage = volume.get("UsageData") or {}
    size, uses = int(usage.get("Size", -1)), int(usage.get("RefCount", 0))
    return CacheFacts(str(volume["Name"]), None if size < 0 else size, uses > 0)


def _number(text: object) -> int:
    return int(text) if isinstance(text, str) and text.isdecimal() else -1
