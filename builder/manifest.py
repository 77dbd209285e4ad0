"""The models of cluster.toml: the wanted state, as people write it.

Text enters here, so these are pydantic models (frozen, no extra keys, strict). Those of [image]
stand in builder/image_section.py, rules that need more than one field in builder/read/rules.py;
reading the file in builder/edges/files.py.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Interface
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints

from builder.digest import canonical_json, digest_bytes
from builder.image_section import ImageSection
from builder.privileges import RDMA_DEVICES, SecurityOption
from builder.section import Section
from builder.values import (
    AbsolutePath,
    Address,
    ArgName,
    Capability,
    Deadline,
    Environment,
    EnvName,
    Expected,
    Hca,
    Name,
    Netdev,
    Port,
    Positive,
    ReachablePath,
    RepoName,
    Revision,
    Text,
    Ulimit,
    UlimitName,
    UserText,
    sorted_table,
)

if TYPE_CHECKING:
    from builder.digest import Digest


def _float_as_text(value: object) -> object:
    """Floats become their shortest text, so that canonical JSON never meets one."""
    return repr(value) if isinstance(value, float) else value


ArgValue = Annotated[
    str | int | bool,
    BeforeValidator(_float_as_text, json_schema_input_type=str | int | float | bool),
    Expected("text, a number, true or false"),
]


class VllmSection(Section):
    """The vLLM that the assembled image must contain."""

    version: Text = Field(
        description="what the installed package's metadata and /version both must say"
    )


class ModelSection(Section):
    """The model: from the Hub at a commit, or our own files; and where it stands on the nodes."""

    repo: RepoName | None = None
    revision: Revision | None = None
    include: tuple[Text, ...] = Field(
        default=(),
        description="patterns of the repository's files that are wanted, such as *.safetensors; "
        "unset = all but README.md and Git's own",
    )
    exclude: tuple[Text, ...] = Field(
        default=(),
        description="patterns of the repository's files that are left out, such as original/*",
    )
    files: ReachablePath | None = Field(
        default=None,
        description="the folder of the model's files, relative to the manifest's folder",
    )
    path: AbsolutePath = Field(description="the model's folder on the nodes")


class ServeSection(Section):
    """How vLLM is started and reached."""

    launcher: Literal["native"] = Field(
        default="native", description="vLLM's own multi-node start (--nnodes)"
    )
    tensor_parallel: Positive = Field(description="ranks that split every layer between them")
    pipeline_parallel: Positive = Field(
        default=1, description="stages that split the layers between them"
    )
    host: Address = Field(
        default=IPv4Address("0.0.0.0"),  # noqa: S104 - vLLM's own default; a server is for its network
        description="the address the API listens on, at the head",
    )
    port: Port = Field(default=8000, description="the port of the API")
    master_port: Port = Field(default=29501, description="the port where the ranks meet")
    node_script: Text | None = Field(
        default=None,
        description="the base's launcher script, argv[0] of every container; "
        "a relative path starts at the image's working directory",
    )
    args: Annotated[dict[ArgName, ArgValue], AfterValidator(sorted_table)] = Field(
        default={},
        description="vLLM's own options; true is a bare flag, false leaves the option out",
    )
    api_key_env: EnvName | None = Field(
        default=None,
        description="a variable of where inv deploy is called; requests must bring its value, and "
        "the key itself is written down nowhere",
    )
    start_timeout_s: Deadline = Field(default=1800, description="until the API must answer")
    completion_timeout_s: Deadline = Field(default=60, description="for one short completion")
    rendezvous_timeout_s: Deadline | None = Field(
        default=None,
        description="until every rank is connected to the head; unset = a third of "
        "start_timeout_s, at least 120 s",
    )
    api_timeout_s: Deadline | None = Field(
        default=None,
        description="from then until the API answers; unset = what is left of start_timeout_s",
    )

    def option(self, name: str) -> ArgValue | None:
        """The value of an option in `args`, spelt with `-` or `_` as vLLM takes both, or None."""
        spelt = {key.replace("_", "-"): value for key, value in self.args.items()}
        return spelt.get(name)


class Mount(Section):
    """A bind mount from the node into the container."""

    source: AbsolutePath = Field(description="a path on the node")
    target: AbsolutePath = Field(description="the path in the container")
    read_only: bool = Field(default=True, description="whether the container may not write there")


class ContainerSection(Section):
    """What a container may use of its node; as little as serving needs."""

    mounts: tuple[Mount, ...] = Field(
        default=(), description="paths of the node, besides the model's folder"
    )
    env: Environment = Field(default={}, description="variables that are the same on every node")
    gpus: Literal["all", "none"] = Field(
        default="all", description="the node's GPUs, through NVIDIA's container runtime"
    )
    devices: tuple[AbsolutePath, ...] = Field(
        default=(RDMA_DEVICES,),
        description="devices of the node; /dev/infiniband stands for those of the node's own hcas, "
        "and for none on a single node",
    )
    on_boot: Literal["never", "pair"] | None = Field(
        default=None,
        description="after a node or an engine has restarted: never (the default) starts nothing, "
        "pair lets `inv boot --install` bring all ranks back together",
    )
    shm_gib: Positive = Field(default=16, description="size of /dev/shm in GiB")
    privileged: bool | None = Field(
        default=None, description="weakens: root in the container is root on the node"
    )
    ipc: Literal["private", "host"] | None = Field(
        default=None, description="whose shared memory; host weakens, and private is the default"
    )
    cap_add: tuple[Capability, ...] = Field(
        default=(), description="weakens: capabilities besides Docker's own and IPC_LOCK"
    )
    security_opt: tuple[SecurityOption, ...] = Field(
        default=(), description="weakens: guards of the engine that are switched off"
    )
    ulimits: Annotated[dict[UlimitName, Ulimit], AfterValidator(sorted_table)] = Field(
        default={}, description="limits besides memlock (none) and nofile (1048576), or for them"
    )
    user: UserText | None = Field(
        default=None, description="who runs in the container; unset = the image's own user"
    )
    memory_gib: Positive | None = Field(
        default=None,
        description="what the container's processes may take, so that sshd outlives them; what the "
        "GPU's driver takes may not count",
    )
    caches: Literal["keep", "off"] | None = Field(
        default=None,
        description="whether the nodes keep what vLLM, Triton, FlashInfer and CUDA compile at a "
        "start, by image and model; keep is the default",
    )
    drop_page_cache: bool | None = Field(
        default=None,
        description="whether the node's page cache is dropped before a rank starts; unset = when "
        "less is free than vLLM asks for",
    )
    log_mb: Positive | None = Field(
        default=None, description="size of one file of a rank's log in MB; 10 by default"
    )
    log_files: Positive | None = Field(
        default=None, description="files of a rank's log, the oldest goes first; 3 by default"
    )


class Twin(Section):
    """The other PCIe half of the fabric port: its own netdev, its own subnet."""

    address: Address
    netdev: Netdev


class Fabric(Section):
    """The RoCE side of a node. `hcas` lists the RDMA devices, the one of `netdev` first."""

    address: Address = Field(description="the node's address on the fabric")
    netdev: Netdev = Field(description="the interface that has the address")
    hcas: Annotated[tuple[Hca, ...], Field(min_length=1)] = Field(
        description="RDMA devices, the one of `netdev` first; both halves of the port for its "
        "full rate"
    )
    twin: Twin | None = None
    prefix_bits: Annotated[
        int, Field(ge=8, le=30), Expected("a prefix length: a whole number from 8 to 30")
    ] = 24
    mtu: Annotated[
        int, Field(ge=1280, le=9978), Expected("bytes: a whole number from 1280 to 9978")
    ] = 9000
    rate_gbit_s: Positive = Field(default=200, description="what the port must report, in Gbit/s")

    @property
    def addresses(self) -> tuple[IPv4Address, ...]:
        """The address of each half that has one."""
        return (self.address,) if self.twin is None else (self.address, self.twin.address)

    @property
    def netdevs(self) -> tuple[str, ...]:
        """The netdev of each half that is listed."""
        return (self.netdev,) if self.twin is None else (self.netdev, self.twin.netdev)

    def interface(self, address: IPv4Address) -> IPv4Interface:
        """An address of this fabric with its prefix."""
        return IPv4Interface((address, self.prefix_bits))


class Node(Section):
    """One machine. Its place in the list is its node rank; rank 0 is the head."""

    name: Name
    ssh: Annotated[
        str,
        StringConstraints(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.@:%-]*$"),
        Expected("an ssh destination, such as me@spark-a.example"),
    ]
    fabric: Fabric | None = None
    model_path: AbsolutePath | None = Field(
        default=None, description="the model's folder on this node, when it is not [model].path"
    )
    docker_socket: AbsolutePath = "/var/run/docker.sock"
    env: Environment = Field(default={}, description="variables of this node's container alone")


class SshSection(Section):
    """How ssh is called; unset = the user's own configuration."""

    config: ReachablePath | None = Field(
        default=None,
        description="an ssh_config file, relative to the manifest's folder, used instead of "
        "~/.ssh/config",
    )
    connect_timeout_s: Deadline = 10


class ClusterManifest(Section):
    """All of cluster.toml."""

    schema_version: Literal[1] = Field(alias="schema", description="version of this file's format")
    name: Name = Field(description="names the containers and the image on the nodes")
    image: ImageSection
    vllm: VllmSection
    model: ModelSection
    serve: ServeSection
    container: ContainerSection = ContainerSection()
    ssh: SshSection = SshSection()
    nodes: Annotated[tuple[Node, ...], Field(min_length=1)] = Field(
        description="the machines; the order is the node rank, and the first is the head"
    )

    @property
    def head(self) -> Node:
        """The node of rank 0."""
        return self.nodes[0]

    @property
    def world_size(self) -> int:
        """Ranks of the server: tensor times pipeline parallel."""
        return self.serve.tensor_parallel * self.serve.pipeline_parallel

    @property
    def served_model_name(self) -> str:
        """The name clients use: the `served-model-name` argument, else the model's path."""
        return str(self.serve.option("served-model-name") or self.model.path)

    def model_path(self, node: Node) -> str:
        """Where the model stands on a node, as an absolute path."""
        return node.model_path or self.model.path


def cluster_digest(manifest: ClusterManifest) -> Digest:
    """The digest of the canonical manifest: all that it states; no comment, no layout.

    Defaults count because they decide what runs: a sparklock with another default makes the
    lock stale instead of silently meaning something else.
    """
    return digest_bytes(canonical_json(manifest.stated()))
