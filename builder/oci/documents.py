"""The JSON documents of an image, as far as they are read: text enters here."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from builder.digest import Digest, parse_digest
from builder.oci.image_errors import MalformedDocumentError
from builder.oci.model import Descriptor

_MAX_PROBLEMS = 10


class Document(BaseModel):
    """The keys of a JSON document that we read; others are left alone."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)


DigestText = Annotated[Digest, AfterValidator(parse_digest)]


class PlatformDocument(Document):
    """A descriptor's platform."""

    os: str
    architecture: str
    variant: str = ""


class DescriptorDocument(Document):
    """A descriptor, with the platform that an index gives it."""

    media_type: str = Field(alias="mediaType")
    digest: DigestText
    size: int = Field(ge=0)
    platform: PlatformDocument | None = None

    @property
    def descriptor(self) -> Descriptor:
        """The descriptor without its platform."""
        return Descriptor(self.media_type, self.digest, self.size)


class IndexDocument(Document):
    """An OCI index or a Docker manifest list."""

    schema_version: Literal[2] = Field(alias="schemaVersion")
    media_type: str = Field(default="", alias="mediaType")
    manifests: tuple[DescriptorDocument, ...]


class ManifestDocument(Document):
    """An OCI or Docker image manifest."""

    schema_version: Literal[2] = Field(alias="schemaVersion")
    media_type: str = Field(default="", alias="mediaType")
    config: DescriptorDocument
    layers: tuple[DescriptorDocument, ...]


class RootFsDocument(Document):
    """The config's list of uncompressed layers."""

    diff_ids: tuple[DigestText, ...]


class ContainerDocument(Document):
    """The config's `config` object."""

    entrypoint: tuple[str, ...] | None = Field(default=None, alias="Entrypoint")
    cmd: tuple[str, ...] | None = Field(default=None, alias="Cmd")
    env: tuple[str, ...] | None = Field(default=None, alias="Env")
    labels: dict[str, str] | None = Field(default=None, alias="Labels")
    workdir: str = Field(default="", alias="WorkingDir")
    user: str = Field(default="", alias="User")


class HistoryDocument(Document):
    """One entry of the config's history."""

    empty_layer: bool = False


class ConfigDocument(Document):
    """An image config, Docker's or OCI's."""

    os: str
    architecture: str
    variant: str = ""
    created: str | None = None
    rootfs: RootFsDocument
    config: ContainerDocument | None = None
    history: tuple[HistoryDocument, ...] | None = None


class SavedImageDocument(Document):
    """An image of a docker-archive's manifest.json: names of members."""

    config: str = Field(alias="Config")
    layers: tuple[str, ...] = Field(alias="Layers")


class SavedDocument(Document):
    """A docker-archive's manifest.json, as the value of a key, since it is a list."""

    images: tuple[SavedImageDocument, ...]


KnownDocument = TypeVar("KnownDocument", bound=Document)


def json_object(raw: bytes, *, place: str, wanted: str) -> dict[str, Any]:
    """The JSON object in the bytes, which must be UTF-8; MalformedDocumentError if it is none."""
    document = json_value(raw, place=place, wanted=wanted)
    if not isinstance(document, dict):
        problem = f"a JSON object was expected, found {type(document).__name__}"
        raise MalformedDocumentError(place, wanted=wanted, problems=(problem,))
    return document


def json_value(raw: bytes, *, place: str, wanted: str) -> object:
    """The JSON in the bytes, which must be UTF-8; MalformedDocumentError if it is none."""
    try:
        value: object = json.loads(raw.decode())
    except (ValueError, RecursionError) as error:
        problem = f"not JSON: {error}"
        raise MalformedDocumentError(place, wanted=wanted, problems=(problem,)) from error
    return value


def read_document(
    model: type[KnownDocument], raw: bytes, *, place: str, wanted: str
) -> KnownDocument:
    """The JSON object in the bytes as a model of this module; MalformedDocumentError otherwise."""
    document = json_object(raw, place=place, wanted=wanted)
    return parse_document(model, document, place=place, wanted=wanted)


def parse_document(
    model: type[KnownDocument], document: dict[str, Any], *, place: str, wanted: str
) -> KnownDocument:
    """The document as a model of this module; MalformedDocumentError if it does not fit."""
    try:
        return model.model_validate_json(json.dumps(document))
    except ValidationError as error:
        problems = tuple(
            f"{'.'.join(map(str, item['loc'])) or 'document'}: {item['msg']}"
            for item in error.errors(include_url=False)[:_MAX_PROBLEMS]
        )
        raise MalformedDocumentError(place, wanted=wanted, problems=problems) from error
