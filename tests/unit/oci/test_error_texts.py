from __future__ import annotations

import dataclasses
import inspect
from typing import Any

import pytest

from builder.digest import digest_bytes
from builder.errors import BuildError
from builder.oci import errors, image_errors

VALUES: dict[str, Any] = {
    "str": "some text",
    "int": 77,
    "Digest": digest_bytes(b""),
    "tuple[str, ...]": ("one", "two"),
    "tuple[BuildError, ...]": (image_errors.ContentSizeError("a/path", "some reason"),),
}
CLASSES = [
    found
    for module in (errors, image_errors)
    for _, found in inspect.getmembers(module, inspect.isclass)
    if issubclass(found, BuildError)
    and found.__module__ == module.__name__
    and not inspect.isabstract(found)
    and found not in (errors.BlobError, errors.LayerError, image_errors.EntryError)
    and not found.__name__.startswith("_")
]


@pytest.mark.parametrize("error", CLASSES)
def test_every_error_says_where_what_and_what_to_do(error: Any) -> None:  # noqa: ANN401 - classes of many fields
    fields = dataclasses.fields(error)
    found = error(**{field.name: VALUES[str(field.type)] for field in fields})

    assert isinstance(found, BuildError)
    assert found.exit_code == 4
    for message in found.messages:
        assert message.place
        assert message.what
        assert message.remedy
    for field in fields:
        values = VALUES[str(field.type)]
        for value in values if isinstance(values, tuple) else (values,):
            assert str(value) in str(found)


def test_there_are_as_many_as_we_think() -> None:
    assert len(CLASSES) > 25
