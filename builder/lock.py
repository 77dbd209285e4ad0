"""The models of lockfile.json: the resolved state, written only by `inv lock`.

Asked and resolved stand side by side. No timestamps, host names or machine paths. The text is
canonical (builder/lockfile.py): keys in the order of these models, two spaces, one line per leaf
object in a list, a newline at the end; so equal locks are equal bytes and a reviewer's diff is made
of whole facts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    model_serializer,
)

from builder.digest import Digest
from builder.image_section import BareName, ConfigChanges
from builder.oci.formats import CONFIG_FORMAT, LAYER_FORMAT
from builder.values import (
    AbsolutePath,
    ClassPlace,
    DigestText,
    DirMode,
    DistributionName,
    Expected,
    Mode,
    Name,
    Reason,
    RelativePath,
    TablePath,
    Text,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from builder.digest import JsonValue

LOCK_VERSION: Final = 1


class Record(BaseModel):
    """An object of the lock: immutable and closed."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, defer_build=True)


class SparseRecord(Record):
    """A record whose later fields are left out while they are empty: older locks stay valid."""

    @model_serializer(mode="wrap")
    def _without_empty(self, standard: SerializerFunctionWrapHandler) -> dict[str, object]:
        found: dict[str, object] = standard(self)
        fields = type(self).model_fields
        return {key: value for key, value in found.items() if value or fields[key].is_required()}


class Formats(Record):
    """Versions of the byte formats that digests depend on."""

    layer: int
    config: int


FORMATS: Final = Formats(layer=LAYER_FORMAT, config=CONFIG_FORMAT)
"""Those that this sparklock writes."""


class LockedLayer(Record):
    """A layer of the base as its manifest names it, with its diff_id."""

    digest: DigestText
    size_bytes: int
    media_type: str
    diff_id: DigestText


class LockedDir(Record):
    """A directory of the base above something we write: its own attributes, emitted again."""

    path: AbsolutePath
    mode: DirMode
    uid: int
    gid: int
    mtime: int


class LockedBase(Record):
    """The base image as resolved."""

    asked: str
    index_digest: DigestText | None
    manifest_digest: DigestText
    config_digest: DigestText
    layers: tuple[LockedLayer, ...]
    dirs: tuple[LockedDir, ...]


class LockedDonor(Record):
    """A donor image as resolved."""

    name: Name
    asked: str
    index_digest: DigestText | None
    manifest_digest: DigestText
    config_digest: DigestText


class LockedPick(Record):
    """One file grafted out of a donor: where from, where to, and its bytes' digest."""

    donor: Name
    source: AbsolutePath
    target: AbsolutePath
    layer: DigestText
    size_bytes: int
    mode: Mode
    digest: DigestText


class LockedPatch(Record):
    """One file that a diff changes: digests before and after, None where it does not exist.

    `digest` is the diff's own, and `path` the file as the diff names it.
    """

    diff: RelativePath
    digest: DigestText
    path: str
    target: AbsolutePath
    mode: Mode
    before: DigestText | None
    after: DigestText | None


class LockedEntry(Record):
    """One entry of a table; `present` means that the table had exactly it before.

    An entry of a list has no key.
    """

    key: str | None
    value: Annotated[
        str | BareName | tuple[str | BareName, ...],
        Expected("an entry's value: text, a name, or a list of them"),
    ]
    state: Literal["added", "present"]


class LockedTable(Record):
    """A module whose table was edited: digests before and after, and each entry."""

    target: AbsolutePath
    table: TablePath
    mode: Mode
    before: DigestText
    after: DigestText
    entries: tuple[LockedEntry, ...]


class LockedFile(Record):
    """One of our own files."""

    source: RelativePath
    target: AbsolutePath
    mode: Mode
    size_bytes: int
    digest: DigestText


class LockedRegistration(Record):
    """An architecture that a plugin registers, and the module:Class of its model."""

    key: Text
    value: ClassPlace


class LockedMade(Record):
    """A file that is made of the other values of its record alone."""

    target: AbsolutePath
    mode: Mode
    size_bytes: int
    digest: DigestText


class LockedPlugin(Record):
    """A distribution made for the image: what it registers, its own modules, what installs it."""

    name: DistributionName
    version: str
    folder: AbsolutePath
    entries: tuple[LockedRegistration, ...]
    files: tuple[LockedFile, ...]
    made: tuple[LockedMade, ...]

    @property
    def written(self) -> tuple[LockedFile | LockedMade, ...]:
        """All files that it brings."""
        return (*self.files, *self.made)


class LockedAcceptance(Record):
    """A finding of the closure check that the manifest accepts, and why."""

    finding: Text
    reason: Reason


class LockedImage(SparseRecord):
    """Everything that determines the hybrid image, and which findings it was made in spite of.

    `changes` are the changes asked of the base's configuration; `entrypoint` and `workdir` are what
    comes of them together with the base's own.
    """

    platform: str
    epoch: int
    base: LockedBase
    donors: tuple[LockedDonor, ...]
    picks: tuple[LockedPick, ...]
    patches: tuple[LockedPatch, ...] = ()
    tables: tuple[LockedTable, ...]
    plugins: tuple[LockedPlugin, ...] = ()
    files: tuple[LockedFile, ...]
    whiteouts: tuple[AbsolutePath, ...]
    changes: ConfigChanges
    entrypoint: tuple[str, ...]
    workdir: str
    vllm_version: str
    accepted: tuple[LockedAcceptance, ...] = ()

    @property
    def edits(self) -> tuple[LockedPatch | LockedTable, ...]:
        """All edits in the order in which those of one file follow each other."""
        return (*self.patches, *self.tables)


class ModelFile(Record):
    """One file of the model; `path` is relative to the model's folder."""

    path: RelativePath
    size_bytes: Annotated[int, Field(ge=0)]
    digest: DigestText


class LockedModel(SparseRecord):
    """The model: what was asked, and the files it must consist of.

    `model_type` is that of a checkpoint of the Hub, whose config.json need not be read again.
    """

    repo: str | None
    revision: str | None
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    architectures: tuple[str, ...]
    model_type: str = ""
    files: tuple[ModelFile, ...]


class LockedNode(Record):
    """A node's rank and place in the fabric."""

    rank: int
    name: str
    fabric: str | None
    hcas: tuple[str, ...]


class OutputLayer(Record):
    """A layer of ours: a plain tar, so digest and diff_id are one."""

    digest: DigestText
    size_bytes: int
    entries: int


class Outputs(Record):
    """What the image must be.

    Docker's graph driver names an image by config_digest, its containerd store by manifest_digest.
    """

    layers: tuple[OutputLayer, ...]
    config_digest: DigestText
    manifest_digest: DigestText
    manifest_size_bytes: int
    layers_total: int
    new_bytes: int


class Lock(Record):
    """All of lockfile.json."""

    lock_version: Literal[1] = LOCK_VERSION
    formats: Formats
    name: str
    cluster_digest: DigestText = Field(description="digest of the canonical cluster.toml")
    image: LockedImage
    model: LockedModel
    nodes: tuple[LockedNode, ...]
    inputs_digest: DigestText = Field(description="digest of everything that determines the image")
    outputs: Outputs


def all_digests(lock: Lock) -> frozenset[Digest]:
    """Every blob digest the store needs to build this lock without any source.

    Those of own_sources are not among them: they lie beside the manifest.
    """
    image = lock.image
    unedited = {step.target: step.before for step in reversed(image.edits)}
    return frozenset(
        [image.base.manifest_digest, image.base.config_digest]
        + [pick.digest for pick in image.picks]
        # what a later edit starts from is made, not read
        + [digest for digest in unedited.values() if digest is not None]
    )


def own_sources(image: LockedImage) -> tuple[tuple[str, Digest], ...]:
    """Every file of the repository that the image is made of: path and digest, sorted."""
    files = [*image.files, *(file for plugin in image.plugins for file in plugin.files)]
    found = {(file.source, file.digest) for file in files}
    return tuple(sorted(found | {(patch.diff, patch.digest) for patch in image.patches}))


def named_digests(lock: Lock) -> frozenset[Digest]:
    """Every digest that the lock names, but for the donors' layers that its picks came from.

    So whatever a later version names as well is among them, too.
    """
    document = lock.model_dump(mode="json")
    document["image"].pop("accepted", None)  # a reason is anybody's words
    for pick in document["image"]["picks"]:
        pick.pop("layer", None)
    return frozenset(_digests_in(document))


def _digests_in(value: JsonValue) -> Iterator[Digest]:
    if isinstance(value, dict):
        for item in value.values():
            yield from _digests_in(item)
    elif isinstance(value, list):
        for item in value:
            yield from _digests_in(item)
    elif isinstance(value, str) and value.startswith("sha256:"):
        yield Digest(value)
