"""The models of cluster.toml: the wanted state, as people write it.

Text enters here, so these are pydantic models (frozen, no extra keys, strict). Rules that need more
than one field stand in builder/rules.py; reading the file and finding
lines in builder/edges/files.py.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Interface
from typing import Annotated, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
)

from builder.digest import Digest, parse_digest
from builder.oci.model import Platform


class Section(BaseModel):
    """A table of cluster.toml: immutable, and every unknown key is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


def _platform(text: str) -> str:
    Platform.parse(text)
    return text


def _absolute(path: str) -> str:
    if not path.startswith("/") or ".." in path.split("/") or path != path.rstrip("/"):
        raise ValueError("an absolute path without '..' and without a '/' at the end")  # noqa: EM101, TRY003
    return path


def _relative(path: str) -> str:
    parts = path.split("/")
    if path.startswith("/") or not path or ".." in parts or "" in parts:
        raise ValueError("a relative path without '..', empty parts or a '/' at the end")  # noqa: EM101, TRY003
    return path


def _float_as_text(value: object) -> object:
    """Floats become their shortest text, so that canonical JSON never meets one."""
    return repr(value) if isinstance(value, float) else value


DigestText = Annotated[Digest, AfterValidator(parse_digest)]
PlatformText = Annotated[str, AfterValidator(_platform)]
AbsolutePath = Annotated[str, AfterValidator(_absolute)]
RelativePath = Annotated[str, AfterValidator(_relative)]
Name = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?$")]
Mode = Annotated[str, StringConstraints(pattern=r"^0[0-7]{3}$")]
Revision = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{40}$")]
PackageName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
Port = Annotated[int, Field(ge=1, le=65535)]
Positive = Annotated[int, Field(ge=1)]
Deadline = Annotated[int, Field(ge=1, le=86_400)]
ArgValue = Annotated[str | int | bool, BeforeValidator(_float_as_text)]
KernelName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_.-]{1,63}$")]


class Source(Section):
    """Where an image comes from, and the digest that pins it.

    `digest` is the digest of an index or of one platform's manifest.
    """

    source: Annotated[str, StringConstraints(min_length=1)]
    digest: DigestText | None = None


class Graft(Section):
    """Whole files out of a donor, located inside a Python package of both images."""

    donor: str
    package: PackageName
    files: Annotated[tuple[RelativePath, ...], Field(min_length=1)]


class Register(Section):
    """Entries added to a dict literal of a module, by syntax tree."""

    package: PackageName
    file: RelativePath
    table: PackageName
    entries: Annotated[
        dict[str, Annotated[tuple[str, str], Field(description="[module, class]")]],
        Field(min_length=1),
    ]


class OwnFile(Section):
    """One of our own files, read as bytes from beside the manifest."""

    source: RelativePath
    target: AbsolutePath
    mode: Mode = "0644"


class ConfigChanges(Section):
    """Changes to the base's image configuration; what is unset stays the base's."""

    entrypoint: tuple[str, ...] | None = None
    cmd: tuple[str, ...] | None = None
    env: dict[str, str] = {}
    workdir: AbsolutePath | None = None
    user: str | None = None


class ImageSection(Section):
    """How the hybrid image is assembled."""

    platform: PlatformText
    epoch: Annotated[int, Field(ge=0, le=2**33 - 1)] | None = Field(
        default=None,
        description="Unix time, in seconds, of every file we add; unset = the base's own `created`",
    )
    base: Source
    donors: dict[Name, Source] = {}
    grafts: tuple[Graft, ...] = Field(default=(), alias="graft")
    registers: tuple[Register, ...] = Field(default=(), alias="register")
    files: tuple[OwnFile, ...] = Field(default=(), alias="file")
    config: ConfigChanges = ConfigChanges()


class VllmSection(Section):
    """The vLLM that the assembled image must contain."""

    version: Annotated[str, StringConstraints(min_length=1)]


class ModelSection(Section):
    """The model: from the Hub at a commit, or our own files; and where it stands on the nodes."""

    repo: Annotated[str, StringConstraints(pattern=r"^[\w.-]+/[\w.-]+$")] | None = None
    revision: Revision | None = None
    files: RelativePath | None = Field(
        default=None, description="a folder beside the manifest that holds the model's files"
    )
    path: AbsolutePath = Field(description="the model's folder on the nodes")


class ServeSection(Section):
    """How vLLM is started and reached."""

    launcher: Literal["native"] = "native"
    tensor_parallel: Positive
    pipeline_parallel: Positive = 1
    host: IPv4Address = IPv4Address("0.0.0.0")  # noqa: S104 - vLLM's own default; a server is for its network
    port: Port = 8000
    master_port: Port = 29501
    node_script: str | None = Field(
        default=None,
        description="the base's launcher script, argv[0] of every container; "
        "a relative path starts at the image's working directory",
    )
    args: dict[str, ArgValue] = {}
    start_timeout_s: Deadline = 1800
    completion_timeout_s: Deadline = 60


class Mount(Section):
    """A bind mount from the node into the container."""

    source: AbsolutePath
    target: AbsolutePath
    read_only: bool = True


class ContainerSection(Section):
    """What a container may use of its node; as little as serving needs."""

    mounts: tuple[Mount, ...] = ()
    env: dict[str, str] = {}
    gpus: Literal["all", "none"] = "all"
    devices: tuple[AbsolutePath, ...] = ("/dev/infiniband",)
    shm_gib: Positive = 16


class Twin(Section):
    """The other PCIe half of the fabric port: its own netdev, its own subnet."""

    address: IPv4Address
    netdev: KernelName


class Fabric(Section):
    """The RoCE side of a node. `hcas` lists the RDMA devices, the one of `netdev` first."""

    address: IPv4Address
    netdev: KernelName
    hcas: Annotated[tuple[KernelName, ...], Field(min_length=1)]
    twin: Twin | None = None
    prefix_bits: Annotated[int, Field(ge=8, le=30)] = 24
    mtu: Annotated[int, Field(ge=1280, le=9978)] = 9000
    rate_gbit_s: Positive = 200

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
    ssh: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_.@:%-]+$", min_length=1)]
    fabric: Fabric | None = None
    model_path: AbsolutePath | None = None
    docker_socket: AbsolutePath = "/var/run/docker.sock"
    env: dict[str, str] = {}


class SshSection(Section):
    """How ssh is called; unset = the user's own configuration."""

    config: RelativePath | None = Field(
        default=None,
        description="an ssh_config file beside the manifest, used instead of ~/.ssh/config",
    )
    connect_timeout_s: Deadline = 10


class ClusterManifest(Section):
    """All of cluster.toml."""

    schema_version: Literal[1] = Field(alias="schema")
    name: Name
    image: ImageSection
    vllm: VllmSection
    model: ModelSection
    serve: ServeSection
    container: ContainerSection = ContainerSection()
    ssh: SshSection = SshSection()
    nodes: Annotated[tuple[Node, ...], Field(min_length=1)]

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
        return str(self.serve.args.get("served-model-name", self.model.path))

    def model_path(self, node: Node) -> str:
        """Where the model stands on a node, as an absolute path."""
        return node.model_path or self.model.path
