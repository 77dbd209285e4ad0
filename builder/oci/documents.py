"""The JSON documents of an image, as far as they are read: text enters here."""

from __future__ import annotations

import json
import typing
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from builder.digest import Digest, parse_digest
from builder.json_text import JsonTextError, parse_json
from builder.oci.image_errors import MalformedDocumentError
from builder.oci.model import Descriptor

if TYPE_CHECKING:
    from collections.abc import Iterator

_MAX_PROBLEMS = 10


class Document(BaseModel):
    """The keys of a JSON document that we read; others are left alone."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True, defer_build=True)


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
    size: int = Field(ge=0, lt=2**63)
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
        return parse_json(raw)
    except JsonTextError as error:
        problem = f"not JSON, line {error.line}: {error.reason}"
        raise MalformedDocumentError(place, wanted=wanted, problems=(problem,)) from error


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
    respelt = tuple(islice(_respelt(model, document), _MAX_PROBLEMS))
    if respelt:
        raise MalformedDocumentError(place, wanted=wanted, problems=respelt)
    try:
        return model.model_validate_json(json.dumps(document))
    except ValidationError as error:
        problems = tuple(
            f"{'.'.join(map(str, item['loc'])) or 'document'}: {item['msg']}"
            for item in error.errors(include_url=False)[:_MAX_PROBLEMS]
        )
        raise MalformedDocumentError(place, wanted=wanted, problems=problems) from error


def _respelt(model: type[Document], value: object) -> Iterator[str]:
    """Keys that are one of the model's in other letters.

    Go's reader, so every engine's, takes them for it, and would see another image than we do.
    """
    if isinstance(value, list):
        for item in value:
            yield from _respelt(model, item)
    if not isinstance(value, dict):
        return
    own = {field.alias or name: field.annotation for name, field in model.model_fields.items()}
    folded = {key.casefold(): key for key in own}
    for key, item in value.items():
        meant = folded.get(key.casefold(), key)
        if meant != key:
            yield f"the key {key!a}: some readers take it for {meant!a}"
        for inner in _documents_in(own.get(key)):
            yield from _respelt(inner, item)


def _documents_in(annotation: object) -> Iterator[type[Document]]:
    """The models in a field's type, such as the one in `tuple[DescriptorDocument, ...]`."""
    if isinstance(annotation, type) and issubclass(annotation, Document):
        yield annotation
    for argument in typing.get_args(annotation):
        yield from _documents_in(argument)
