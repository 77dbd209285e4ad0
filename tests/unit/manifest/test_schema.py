"""The committed JSON Schema: current, true of the manifests here, and wrong for spoilt ones."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from builder.schema import FILE_NAME, schema_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.unit.manifest.conftest import Folder

ROOT = Path(__file__).parents[3]
SCHEMA = json.loads(schema_text())
KINDS: dict[str, Any] = {
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "array": list,
    "object": dict,
}
NOTES = {"$schema", "$id", "$defs", "title", "description", "default", "propertyNames"}
KEYS = {"properties", "patternProperties"}  # read with additionalProperties, which all tables have


def errors(schema: dict[str, Any], value: object) -> Iterator[str]:
    """What a validator would say, for just the keywords that the schema uses."""
    assert "additionalProperties" in schema or not KEYS & set(schema), "a table is open"
    for keyword, wanted in schema.items():
        if keyword not in NOTES | KEYS:
            yield from CHECKS[keyword](wanted, value, schema)


def one(ok: object, text: str) -> Iterator[str]:
    if not ok:
        yield text


def in_table(wanted: Any, value: Any, schema: dict[str, Any]) -> Iterator[str]:  # noqa: ANN401
    named = schema.get("properties", {})
    free = schema.get("patternProperties", {})
    for key, item in value.items():
        kinds = [named[key]] if key in named else [free[p] for p in free if re.search(p, key)]
        yield from one(kinds or wanted is not False, f"key {key}")
        for kind in kinds:
            yield from errors(kind, item)


CHECKS: dict[str, Any] = {
    "$ref": lambda ref, v, _: errors(SCHEMA["$defs"][ref.removeprefix("#/$defs/")], v),
    "type": lambda kind, v, _: one(
        isinstance(v, KINDS[kind]) and (kind == "boolean") == isinstance(v, bool), f"type of {v}"
    ),
    "const": lambda wanted, v, _: one(v == wanted, f"const {v}"),
    "enum": lambda wanted, v, _: one(v in wanted, f"enum {v}"),
    "anyOf": lambda kinds, v, _: one(any(not list(errors(k, v)) for k in kinds), f"anyOf {v}"),
    "oneOf": lambda kinds, v, _: one(sum(not list(errors(k, v)) for k in kinds) == 1, f"oneOf {v}"),
    "pattern": lambda p, v, _: one(not isinstance(v, str) or re.search(p, v), f"pattern {v}"),
    "format": lambda name, v, _: one(re.fullmatch(r"[0-9.]{7,15}", v), f"{name} {v}"),
    "minimum": lambda least, v, _: one(not isinstance(v, int) or v >= least, f"minimum {v}"),
    "maximum": lambda most, v, _: one(not isinstance(v, int) or v <= most, f"maximum {v}"),
    "minLength": lambda least, v, _: one(not isinstance(v, str) or len(v) >= least, f"length {v}"),
    "minItems": lambda least, v, _: one(not isinstance(v, list) or len(v) >= least, f"items {v}"),
    "maxItems": lambda most, v, _: one(not isinstance(v, list) or len(v) <= most, f"items {v}"),
    "minProperties": lambda least, v, _: one(len(v) >= least, f"entries {v}"),
    "required": lambda keys, v, _: one(not isinstance(v, dict) or set(keys) <= set(v), "required"),
    "additionalProperties": lambda wanted, v, s: (
        in_table(wanted, v, s) if isinstance(v, dict) else ()
    ),
    "items": lambda kind, v, _: (
        (e for i in v for e in errors(kind, i)) if isinstance(v, list) else ()
    ),
    "prefixItems": lambda kinds, v, _: (
        e for k, i in zip(kinds, v, strict=False) for e in errors(k, i)
    ),
}


def test_the_committed_schema_is_current_or_else_run_inv_schema() -> None:
    assert (ROOT / FILE_NAME).read_text() == schema_text()


def test_the_committed_manifest_names_the_schema_for_editors() -> None:
    assert (ROOT / "cluster.toml").read_text().splitlines()[0] == f"#:schema ./{FILE_NAME}"


@pytest.mark.parametrize(
    "path",
    ["cluster.toml", *(str(p.relative_to(ROOT)) for p in ROOT.glob("examples/**/cluster.toml"))],
)
def test_every_manifest_here_fits_the_schema(path: str) -> None:
    assert list(errors(SCHEMA, tomllib.loads((ROOT / path).read_text()))) == []


def test_the_schema_knows_no_null_since_toml_has_none() -> None:
    assert "null" not in schema_text()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("tensor_parallel = 2", 'tensor_parallel = "2"'),
        ("tensor_parallel = 2", "tensor_parallel = 0"),
        ("tensor_parallel = 2", "tensor-parallel = 2"),
        ("tensor_parallel = 2", "tensor_parallel = 2\nport = 65536"),
        ('name = "pair"', 'name = "The Pair"'),
        ("schema = 1", "schema = 2"),
        ("[[image.graft]]", "[image.graft]"),
        ('files = ["models/tiny.py"]', "files = []"),
        ('Tiny = ["tiny", "Tiny"]', "Tiny = []"),
        ('Tiny = ["tiny", "Tiny"]', 'Tiny = ["tiny", 1]'),
        ('Tiny = ["tiny", "Tiny"]', "Tiny = { names = 'x' }"),
        ('{ Tiny = ["tiny", "Tiny"] }', '"Tiny"'),
        ('{ Tiny = ["tiny", "Tiny"] }', "[]"),
        ("max-model-len = 256", "max-model-len = [256]"),
        ("max-model-len = 256", "--max-model-len = 256"),
        ("[image.donors.tiny]", '[image.donors."The donor"]'),
        ('"192.168.200.13"', '"spark-b.local"'),
        ("[container]", '[container]\ngpus = "some"'),
        ("[container]", '[container]\nenv = { "A B" = "x" }'),
        ('digest = "sha256:', 'digest = "sha512:'),
        ('target = "/opt/chat.jinja"', 'target = "/opt/chat.jinja"\nmode = "4755"'),
    ],
)
def test_a_spoilt_manifest_does_not_fit(folder: Folder, old: str, new: str) -> None:
    assert list(errors(SCHEMA, tomllib.loads(folder.changed((old, new)))))


def test_a_decimal_number_fits_an_option(folder: Folder) -> None:
    text = folder.changed(("max-model-len = 256", "max-model-len = 0.5"))
    assert list(errors(SCHEMA, tomllib.loads(text))) == []
