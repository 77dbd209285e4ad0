"""The JSON Schema of cluster.toml, by which editors complete it and mark mistakes while typing."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from pydantic.json_schema import GenerateJsonSchema

from builder.manifest import ClusterManifest

if TYPE_CHECKING:
    from pydantic.json_schema import JsonSchemaValue
    from pydantic_core import core_schema

FILE_NAME: Final = "cluster.schema.json"
"""Where the schema is committed, beside cluster.toml, whose first line names it."""


def schema_text() -> str:
    """The schema's text as it is committed, with a newline at the end.

    It holds what a single value or table tells; rules between fields and files are for `inv lock`.
    """
    schema = ClusterManifest.model_json_schema(schema_generator=_TomlSchema)
    definitions = schema.pop("$defs")
    head = {
        "$schema": _TomlSchema.schema_dialect,
        "$id": "urn:sparklock:cluster.toml:1",
        "title": "cluster.toml of sparklock",
    }
    schema.pop("title")
    return json.dumps({**head, **schema, "$defs": definitions}, indent=2) + "\n"


class _TomlSchema(GenerateJsonSchema):
    """pydantic's schema, without null, which TOML cannot say, and without titles for each key."""

    def field_title_should_be_set(self, schema: object) -> bool:  # noqa: ARG002 - pydantic's name
        """Never: `Tensor Parallel` tells nothing that `tensor_parallel` does not."""
        return False

    def nullable_schema(self, schema: core_schema.NullableSchema) -> JsonSchemaValue:
        """The value's own schema: in TOML, unset is absent."""
        return self.generate_inner(schema["schema"])

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        """The default of a single value or list; a table's keys have defaults of their own."""
        found = super().default_schema(schema)
        if found.get("default") is None or isinstance(found["default"], dict):
            found.pop("default", None)
        return found

    def dict_schema(self, schema: core_schema.DictSchema) -> JsonSchemaValue:
        """A table of free names, closed to names that do not match."""
        found = super().dict_schema(schema)
        if "patternProperties" in found:
            found["additionalProperties"] = False
        return found
