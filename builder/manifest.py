"""The models of cluster.toml: the wanted state, as people write it.

Text enters here, so these are pydantic models (frozen, no extra keys, strict). Rules that need more
than one field stand in builder/read/rules.py; reading the file in builder/edges/files.py.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Interface
from typing import Annotated, Final, Literal, TypeAlias

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    SerializerFunctionWrapHandler,
    StringConstraints,
    Tag,
    model_serializer,
)

from builder.digest import Digest, canonical_json, digest_bytes
from builder.values import (
    AbsolutePath,
    Address,
    ArgName,
    ClassPlace,
    Deadline,
    DigestText,
    DistributionName,
    DottedName,
    Environment,
    Expected,
    FolderPath,
    Hca,
    Mode,
    Name,
    Netdev,
    PackageName,
    PlatformText,
    Port,
    Positive,
    ReachablePath,
    RelativePath,
    RepoName,
    Revision,
    SourceText,
    TablePath,
    Text,
    sorted_table,
)

TABLE_TAG: Final = "{}"
LIST_TAG: Final = "[]"
"""The two forms of entries, as pydantic names them in the place of an error."""


class Section(BaseModel):
    """A table of cluster.toml: immutable, and every unknown key is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


def _float_as_text(value: object) -> object:
    """Floats become their shortest text, so that canonical JSON never meets one."""
    return repr(value) if isinstance(value, float) else value


ArgValue = Annotated[
    str | int | bool,
    BeforeValidator(_float_as_text, json_schema_input_type=str | int | float | bool),
    Expected("text, a number, true or false"),
]


class Source(Section):
    """Where an image comes from, and the digest that pins it.

    `digest` is the digest of an index or of one platform's manifest; of `docker:NAME` the image's
    ID in its engine, or the digest of its config or manifest.
    """

    source: SourceText
    digest: DigestText | None = None
    node: Name | None = Field(
        default=None,
        description="for docker:NAME, the node of [[nodes]] whose engine has the image; "
        "unset = the engine that Docker's own settings name here",
    )

    @property
    def digest_in_source(self) -> Digest | None:
        """The digest behind `@` of an image's name, if there is one."""
        _, at, digest = self.source.rpartition("@sha256:")
        return Digest(f"sha256:{digest}") if at else None

    @property
    def of_engine(self) -> bool:
        """Whether the image is an engine's own."""
        return self.source.startswith("docker:")

    @model_serializer(mode="wrap")
    def _without_node(self, standard: SerializerFunctionWrapHandler) -> dict[str, str | None]:
        """Without an unset `node`: the digests of manifests are older than the key."""
        found: dict[str, str | None] = standard(self)
        return {key: value for key, value in found.items() if key != "node" or value is not None}


class Graft(Section):
    """Whole files out of a donor, located inside a Python package of both images."""

    donor: str = Field(description="the donor's name in [image.donors]")
    package: PackageName = Field(description="the package to look in, such as vllm")
    files: Annotated[tuple[RelativePath, ...], Field(min_length=1)] = Field(
        description="files of the package, relative to its folder"
    )


class BareName(Section):
    """A value that is a name of the module, such as a class, and no text."""

    name: DottedName = Field(
        description="the name as the module knows it: AConfig, configs.AConfig"
    )


EntryPart: TypeAlias = Text | BareName
EntryValue = Annotated[
    EntryPart | Annotated[tuple[EntryPart, ...], Field(min_length=1)],
    Expected('text, a list of texts, or { name = "AClass" } for a name of the module'),
]
"""What an entry of a table holds."""


def _kind_of_entries(value: object) -> str | None:
    if isinstance(value, dict):
        return TABLE_TAG
    return LIST_TAG if isinstance(value, list | tuple) else None


Entries: TypeAlias = Annotated[
    Annotated[
        dict[Text, EntryValue], AfterValidator(sorted_table), Field(min_length=1), Tag(TABLE_TAG)
    ]
    | Annotated[tuple[EntryValue, ...], Field(min_length=1), Tag(LIST_TAG)],
    Discriminator(
        _kind_of_entries,
        custom_error_type="expected",
        custom_error_message="a table of entries { key = value }, or a list of them for a list",
    ),
]


class Register(Section):
    """Entries added to a table of a module, by syntax tree."""

    package: PackageName = Field(description="the package to look in, such as vllm")
    file: RelativePath = Field(description="the module, relative to the package's folder")
    table: TablePath = Field(
        description="the name the table is assigned to in the module; what stands inside another "
        'one is _TABLES["key"]'
    )
    entries: Entries = Field(
        description="key = value for a dict or a call with keywords, such as "
        "architecture = [module, class]; a list of values for a list"
    )


class Patch(Section):
    """A unified diff of the repository, applied to files of the base or of a donor."""

    diff: RelativePath = Field(description="the diff, relative to the manifest's folder")
    package: PackageName | None = Field(
        default=None,
        description="the package whose files the diff changes; its paths begin with this name",
    )
    root: FolderPath | None = Field(
        default=None, description="the folder of the image where the diff's paths start"
    )
    strip: Annotated[int, Field(ge=0, le=99), Expected("a whole number from 0 to 99")] | None = (
        Field(
            default=None,
            description="folders taken off the front of each path; unset = 1 for a/ and b/, else 0",
        )
    )


class Plugin(Section):
    """A distribution made for the image, through which vLLM itself registers models."""

    name: DistributionName = Field(
        default="sparklock-plugin", description="the distribution's name"
    )
    source: RelativePath | None = Field(
        default=None,
        description="a folder of the repository with the plugin's own modules, which go beside "
        "the base's vllm package",
    )
    register_: Annotated[
        dict[Text, ClassPlace], AfterValidator(sorted_table), Field(min_length=1)
    ] = Field(alias="register", description='architecture = "module:Class"')


class OwnFile(Section):
    """One of our own files, read as bytes from beside the manifest."""

    source: RelativePath = Field(description="the file, relative to the manifest's folder")
    target: AbsolutePath = Field(description="where it stands in the image")
    mode: Mode = "0644"


class ConfigChanges(Section):
    """Changes to the base's image configuration; what is unset stays the base's."""

    entrypoint: tuple[Text, ...] | None = Field(
        default=None, description="the program of every container; [] = none"
    )
    cmd: tuple[Text, ...] | None = Field(
        default=None, description="the command when none is given; sparklock gives one to each rank"
    )
    env: Environment = Field(default={}, description="variables added to the base's, or replaced")
    workdir: AbsolutePath | None = None
    user: Text | None = None


class ImageSection(Section):
    """How the hybrid image is assembled."""

    platform: PlatformText
    epoch: (
        Annotated[int, Field(ge=0, le=2**33 - 1), Expected("Unix time in whole seconds")] | None
    ) = Field(
        default=None,
        description="Unix time, in seconds, of every file we add; unset = the base's own `created`",
    )
    base: Source = Field(description="the image everything else is added to")
    donors: Annotated[dict[Name, Source], AfterValidator(sorted_table)] = Field(
        default={}, description="images that files are taken from, by a name of your choice"
    )
    grafts: tuple[Graft, ...] = Field(
        default=(), alias="graft", description="files taken from donors"
    )
    registers: tuple[Register, ...] = Field(
        default=(), alias="register", description="entries added to tables of Python modules"
    )
    patches: tuple[Patch, ...] = Field(
        default=(), alias="patch", description="diffs of the repository, applied in this order"
    )
    plugins: tuple[Plugin, ...] = Field(
        default=(), alias="plugin", description="models registered by a plugin of vLLM"
    )
    files: tuple[OwnFile, ...] = Field(
        default=(), alias="file", description="files of the repository put into the image"
    )
    config: ConfigChanges = ConfigChanges()
    vendor: RelativePath | None = Field(
        default=None,
        exclude=True,  # where bytes are kept decides nothing of what runs: no digest is of it
        description="the folder, relative to the manifest's, that keeps all that a build needs "
        "beside the base's layers; `inv lock --vendor DIR` writes it",
    )

    @model_serializer(mode="wrap")
    def _without_empty(self, standard: SerializerFunctionWrapHandler) -> dict[str, object]:
        """Without patches and plugins if there are none: digests of manifests are older."""
        found: dict[str, object] = standard(self)
        newer = {"patch", "patches", "plugin", "plugins"}
        return {key: value for key, value in found.items() if key not in newer or value}


class VllmSection(Section):
    """The vLLM that the assembled image must contain."""

    version: Text = Field(
        description="what the installed package's metadata and /version both must say"
    )


class ModelSection(Section):
    """The model: from the Hub at a commit, or our own files; and where it stands on the nodes."""

    repo: RepoName | None = None
    revision: Revision | None = None
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
    start_timeout_s: Deadline = Field(default=1800, description="until the API must answer")
    completion_timeout_s: Deadline = Field(default=60, description="for one short completion")


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
        default=("/dev/infiniband",), description="devices of the node; RDMA's by default"
    )
    shm_gib: Positive = Field(default=16, description="size of /dev/shm in GiB")


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
        return str(self.serve.args.get("served-model-name", self.model.path))

    def model_path(self, node: Node) -> str:
        """Where the model stands on a node, as an absolute path."""
        return node.model_path or self.model.path


def cluster_digest(manifest: ClusterManifest) -> Digest:
    """The digest of the canonical manifest: every value, defaults too; no comment, no layout.

    Defaults count because they decide what runs: a sparklock with another default makes the
    lock stale instead of silently meaning something else.
    """
    return digest_bytes(canonical_json(manifest.model_dump(mode="json", by_alias=True)))
