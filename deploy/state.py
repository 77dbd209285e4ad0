"""A node as it was observed: values only, with the few questions that planning asks of them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable
    from ipaddress import IPv4Interface

    from builder.digest import Digest
    from builder.lock import ModelFile
    from builder.secret import Secret
    from deploy.host import HostFacts, OtherContainer


TRIAL: Final = ".trial"
"""End of the name of a container that is not confirmed yet, or of an image that is not proven."""


class Standing(Enum):
    """Where a container stands, by the end of its name: the one part of it that can change."""

    TRIAL = TRIAL
    """Created, perhaps started, never confirmed."""
    FAILED = ".failed"
    """Never confirmed, and left for inspection by `inv deploy --no-rollback`."""
    CURRENT = ""
    """Confirmed, and of the generation that is to serve."""
    OLD = ".old"
    """Confirmed once, then superseded; kept stopped for rollback."""

    @classmethod
    def of(cls, name: str) -> Standing:
        """The standing that a container's name tells."""
        ends = (item for item in cls if item.value and name.endswith(item.value))
        return next(ends, cls.CURRENT)

    @property
    def confirmed(self) -> bool:
        """Whether such a container was ever part of a generation that answered."""
        return self in {Standing.CURRENT, Standing.OLD}


class ImageStore(Enum):
    """How an engine keeps images, which decides what its image ids are digests of."""

    GRAPH_DRIVER = "graph driver"
    CONTAINERD = "containerd image store"


@dataclass(frozen=True, slots=True)
class EngineFacts:
    """A node's Docker Engine; `platform` is `linux/arm64` or `linux/amd64`.

    `data_root` is the folder of its data; empty if it does not tell. `runtimes` are the names of
    its container runtimes, `gpu_cdi` says that it found GPUs through CDI, `rootless` that it runs
    as an ordinary user.
    """

    version: str
    store: ImageStore
    platform: str
    data_root: str = ""
    runtimes: tuple[str, ...] = ()
    gpu_cdi: bool = False
    rootless: bool = False
    cgroup_driver: str = ""


@dataclass(frozen=True, slots=True)
class ImageFacts:
    """An image a node has.

    `engine_id` is Docker's own id: the config digest on the graph driver, the manifest digest on
    the containerd store. `tags` are its names on the node, `digests` those by digest, such as
    `127.0.0.1:40495/sparklock/lab@sha256:…`.
    """

    engine_id: str
    tags: tuple[str, ...]
    diff_ids: tuple[str, ...]
    digests: tuple[str, ...] = ()

    @property
    def on_trial(self) -> bool:
        """Whether it has no name but one under which it was brought and never proven."""
        return bool(self.tags) and all(tag.endswith(TRIAL) for tag in self.tags)

    def left_over(self, repository: str) -> tuple[str, ...]:
        """The names in a repository it came under, which a killed deploy has not taken away."""
        trials = (tag for tag in self.tags if tag.endswith(TRIAL))
        return (*trials, *(name for name in self.digests if is_tunnel(name, repository)))


TUNNEL: Final = "127.0.0.1:"
"""How the names begin under which images come to a node; one that is left was interrupted."""


def is_tunnel(name: str, repository: str) -> bool:
    """Whether a name by digest is that of one deploy's tunnel for a repository."""
    return name.startswith(TUNNEL) and name.partition("@")[0].partition("/")[2] == repository


@dataclass(frozen=True, slots=True)
class ImageName:
    """A name that an engine has for an image, such as `sparklock/lab:0123456789ab`."""

    name: str
    engine_id: str

    @property
    def is_tunnel(self) -> bool:
        """Whether it is the name of one deploy's tunnel, which no container ever uses."""
        return self.name.startswith(TUNNEL)


class RegistryAnswer(Enum):
    """What the base's registry says to a node's engine, asked without a login."""

    FOUND = "has it"
    LOGIN = "wants a login"
    NONE = "does not give it"


@dataclass(frozen=True, slots=True)
class RegistryFacts:
    """Whether a node's engine gets the base from its registry; `said` is why not."""

    answer: RegistryAnswer
    said: str = ""


@dataclass(frozen=True, slots=True)
class SupplyFacts:
    """What a node has of an image that it lacks, and how the rest can get there.

    `present` are the layers proven to be there, by the digest of their blobs. `tunnel_problem` is
    why the node reaches no port of ours; empty when it does. `registry` is None when the base's
    layers are there or the base is in no registry. `free_bytes` are of the disk of the engine's
    data; None when the node does not tell.
    """

    present: frozenset[Digest]
    tunnel_problem: str
    registry: RegistryFacts | None
    free_bytes: int | None


@dataclass(frozen=True, slots=True)
class ContainerFacts:
    """A container of this cluster, running or not.

    A label that is missing or unreadable is the empty text, or -1 for a number. `image_id` is the
    engine id of the image it was made from; `exit_code` counts only when it is not running. The
    engine calls a paused container running, though it never answers. `api_key` is what its server
    wants from requests. `created_at` and `started_at` are the node's own clock, as RFC 3339 text in
    UTC that sorts; empty if it never started. `image` is the name it was made from.
    """

    id: str
    name: str
    rank: int
    generation: int
    lock_digest: str
    spec_digest: str
    image_id: str
    command: tuple[str, ...]
    running: bool
    exit_code: int
    paused: bool = False
    api_key: Secret | None = None
    image: str = ""
    model_digest: str = ""
    created_at: str = ""
    started_at: str = ""

    @property
    def standing(self) -> Standing:
        """Whether it is on trial, current or kept, as its name tells."""
        return Standing.of(self.name)

    @property
    def awake(self) -> bool:
        """Whether it runs and is not paused."""
        return self.running and not self.paused

    def name_as(self, standing: Standing) -> str:
        """Its name with another standing."""
        return self.name.removesuffix(self.standing.value) + standing.value


@dataclass(frozen=True, slots=True)
class Listener:
    """A listening TCP socket of a node; `address` is `0.0.0.0` or `::` for all addresses."""

    address: str
    port: int


@dataclass(frozen=True, slots=True)
class GidFacts:
    """A used slot of a port's GID table; `kind` is `RoCE v2` or `IB/RoCE v1`, empty if untold."""

    index: int
    gid: str
    kind: str


@dataclass(frozen=True, slots=True)
class HcaFacts:
    """Port 1 of an RDMA device, as sysfs tells it; what it does not tell is empty or None.

    `pcie_gt_s` and `pcie_width` are the link that the device has now. `gids` is None when its table
    cannot be read.
    """

    name: str
    state: str
    link_layer: str
    rate_gbit_s: int | None
    netdevs: tuple[str, ...]
    phys_state: str = ""
    firmware: str = ""
    pcie_gt_s: float | None = None
    pcie_width: int | None = None
    gids: tuple[GidFacts, ...] | None = None


@dataclass(frozen=True, slots=True)
class NetdevFacts:
    """A network interface and its IPv4 addresses; `mtu` in bytes.

    `flags` are the kernel's: `UP` is what was asked of it, `LOWER_UP` that it has a carrier.
    """

    name: str
    mtu: int
    addresses: tuple[IPv4Interface, ...]
    flags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ModelFileFacts:
    """A file in the model's folder; `path` is relative to it.

    `digest` is None when the size alone says that it is another file than the locked one.
    """

    path: str
    size_bytes: int
    digest: Digest | None


@dataclass(frozen=True, slots=True)
class ModelObstacle:
    """What keeps files from being put into the model's folder: at `path`, `found` in words."""

    kind: Literal["blocked", "read-only", "rights"]
    path: str
    found: str


@dataclass(frozen=True, slots=True)
class KeptModel:
    """A model's folder, and whose replaced files it keeps: the `deploy.replaced.owner` of each."""

    folder: str
    owners: frozenset[str]


@dataclass(frozen=True, slots=True)
class NodeState:
    """Everything planning knows of one node.

    `image` is what the wanted tag names, and `untagged` the wanted image when only its id is
    there. `containers` are sorted by name, `model_files` by path; `model_files` holds no file that
    the lock does not name, and `model_transfer` says whether an earlier transfer left files beside
    them. `hcas` are all RDMA devices of the node, listed in the manifest or not. `supply` is asked
    only when the node lacks the image. `host` is the machine, and `others` are the containers that
    are not this cluster's. `model_staged` are paths of wanted files that were brought, proven, and
    are not in place; `model_obstacle` is why none can be brought, and `model_beside_bytes`
    what lies beside the places, whole or in part; both are asked only when some are lacking.
    `model_hidden` is a link by which a wanted file lies where the container does not see it.
    `model_kept` says whose replaced files are kept, as `deploy.replaced.owner` names them.
    `caches` are the names of the volumes with the cluster's compile caches.
    """

    node: str
    engine: EngineFacts
    image: ImageFacts | None
    untagged: ImageFacts | None
    containers: tuple[ContainerFacts, ...]
    listeners: tuple[Listener, ...]
    hcas: tuple[HcaFacts, ...]
    netdevs: tuple[NetdevFacts, ...]
    model_files: tuple[ModelFileFacts, ...]
    model_transfer: bool
    supply: SupplyFacts | None = None
    host: HostFacts | None = None
    others: tuple[OtherContainer, ...] = ()
    model_staged: frozenset[str] = frozenset()
    model_obstacle: ModelObstacle | None = None
    model_beside_bytes: int = 0
    model_hidden: str = ""
    model_kept: frozenset[str] = frozenset()
    caches: tuple[str, ...] = ()


def lacking(files: Iterable[ModelFile], state: NodeState) -> tuple[ModelFile, ...]:
    """The model files that have to travel to a node: neither in place nor beside it."""
    there = {file.path: file.digest for file in state.model_files}
    return tuple(
        file
        for file in files
        if there.get(file.path) != file.digest and file.path not in state.model_staged
    )


@dataclass(frozen=True, slots=True)
class RankIdentity:
    """Which container a rank is, and which start of it: equal for as long as nobody touched it.

    `labels` are those of sparklock's, sorted; `image_id` is the engine's; `started_at` its clock.
    """

    id: str
    image_id: str
    labels: tuple[tuple[str, str], ...]
    started_at: str


@dataclass(frozen=True, slots=True)
class RankState:
    """Whether a rank's container runs; times are the node's own clock, as RFC 3339 text.

    `error` is the engine's when it could not start it, `host_ip` the address that the rank tells
    others (VLLM_HOST_IP). A container that was never started has an empty `started_at`. What it
    wrote in this start is later than `log_from`; empty for all that it wrote.
    """

    running: bool
    exit_code: int
    finished_at: str
    out_of_memory: bool
    identity: RankIdentity = RankIdentity("", "", (), "")
    command: tuple[str, ...] = ()
    paused: bool = False
    restarts: int = 0
    error: str = ""
    host_ip: str = ""
    log_from: str = ""


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line of a container's log; `at` is the node's own clock, and sorts as text."""

    at: str
    text: str


class Outcome(Enum):
    """How a request for a completion ended."""

    ANSWERED = "answered"
    NOT_UP = "nothing listens yet"
    REFUSED = "refused"
    """An answer that waiting does not change: the server is up and does not take the request."""
    FAILED = "failed"
    """An answer that the server may recover from, or that precedes its end."""
    TOO_LATE = "no answer in time"


@dataclass(frozen=True, slots=True)
class Completion:
    """What became of a request; `text` is the completion, or the end of what was said instead."""

    outcome: Outcome
    text: str = ""
    tokens: int = 0
