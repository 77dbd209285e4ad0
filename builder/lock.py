"""The models of lockfile.json: the resolved state, written only by `inv lock`.

Asked and resolved stand side by side. No timestamps, host names or machine paths. The text is
canonical (builder/lockfile.py): keys in the order of these models, two spaces, one line per leaf
object in a list, a newline at the end; so equal locks are equal bytes and a reviewer's diff is made
of whole facts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from builder.manifest import ConfigChanges
from builder.oci.formats import CONFIG_FORMAT, LAYER_FORMAT
from builder.values import AbsolutePath, DigestText, DirMode, Mode

if TYPE_CHECKING:
    from builder.digest import Digest

LOCK_VERSION: Final = 1


class Record(BaseModel):
    """An object of the lock: immutable and closed."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


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

    name: str
    asked: str
    index_digest: DigestText | None
    manifest_digest: DigestText
    config_digest: DigestText


class LockedPick(Record):
    """One file grafted out of a donor: where from, where to, and its bytes' digest."""

    donor: str
    source: AbsolutePath
    target: AbsolutePath
    layer: DigestText
    size_bytes: int
    mode: Mode
    digest: DigestText


class LockedEntry(Record):
    """One entry of a registration table; `present` means the base already had exactly it."""

    key: str
    value: tuple[str, str]
    state: Literal["added", "present"]


class LockedTable(Record):
    """A module whose table was edited: digests before and after, and each entry."""

    target: AbsolutePath
    table: str
    mode: Mode
    before: DigestText
    after: DigestText
    entries: tuple[LockedEntry, ...]


class LockedFile(Record):
    """One of our own files."""

    source: str
    target: AbsolutePath
    mode: Mode
    size_bytes: int
    digest: DigestText


class LockedImage(Record):
    """Everything that determines the hybrid image.

    `changes` are the changes asked of the base's configuration; `entrypoint` and `workdir` are what
    comes of them together with the base's own.
    """

    platform: str
    epoch: int
    base: LockedBase
    donors: tuple[LockedDonor, ...]
    picks: tuple[LockedPick, ...]
    tables: tuple[LockedTable, ...]
    files: tuple[LockedFile, ...]
    whiteouts: tuple[AbsolutePath, ...]
    changes: ConfigChanges
    entrypoint: tuple[str, ...]
    workdir: str
    vllm_version: str


class ModelFile(Record):
    """One file of the model; `path` is relative to the model's folder."""

    path: str
    size_bytes: int
    digest: DigestText


class LockedModel(Record):
    """The model: what was asked, and the files it must consist of."""

    repo: str | None
    revision: str | None
    architectures: tuple[str, ...]
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
    """Every blob digest the store needs to build this lock without any source."""
    image = lock.image
    unedited = {table.target: table.before for table in reversed(image.tables)}
    return frozenset(
        [image.base.manifest_digest, image.base.config_digest]
        + [pick.digest for pick in image.picks]
        + list(unedited.values())  # what a later edit starts from is made, not read
    )
