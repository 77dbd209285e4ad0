"""The models of [image] in cluster.toml: where images come from, and what is made of them."""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias

from pydantic import AfterValidator, Discriminator, Field, Tag

from builder.digest import Digest
from builder.section import Section
from builder.values import (
    AbsolutePath,
    ClassPlace,
    DigestText,
    DistributionName,
    DottedName,
    Environment,
    Expected,
    FolderPath,
    Mode,
    Name,
    PackageName,
    PlatformText,
    Reason,
    RelativePath,
    SourceText,
    TablePath,
    Text,
    sorted_table,
)

TABLE_TAG: Final = "{}"
LIST_TAG: Final = "[]"
"""The two forms of entries, as pydantic names them in the place of an error."""


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


class Accept(Section):
    """A finding of the closure check that the image is made in spite of."""

    finding: Text = Field(description="the finding's name, as the refused build writes it out")
    reason: Reason = Field(description="why it does no harm; the lock repeats it")


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
    accepts: tuple[Accept, ...] = Field(
        default=(), alias="accept", description="findings of the closure check that are accepted"
    )
    config: ConfigChanges = ConfigChanges()
    vendor: RelativePath | None = Field(
        default=None,
        exclude=True,  # where bytes are kept decides nothing of what runs: no digest is of it
        description="the folder, relative to the manifest's, that keeps all that a build needs "
        "beside the base's layers; `inv lock --vendor DIR` writes it",
    )
