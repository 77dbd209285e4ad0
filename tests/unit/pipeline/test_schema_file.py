from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from builder import pipeline
from builder.pipeline_errors import StaleSchemaError
from builder.schema import FILE_NAME, schema_text

if TYPE_CHECKING:
    from pathlib import Path


def test_the_schema_is_written_once(tmp_path: Path) -> None:
    path = tmp_path / FILE_NAME

    assert pipeline.schema(tmp_path, check=False) == f"{path} written"
    before = path.stat().st_mtime_ns
    assert pipeline.schema(tmp_path, check=False) == f"{path} is current"
    assert pipeline.schema(tmp_path, check=True) == f"{path} is current"
    assert (path.read_text(), path.stat().st_mtime_ns) == (schema_text(), before)


@pytest.mark.parametrize("text", [None, "", "{}\n"])
def test_an_old_schema_is_told_and_left_alone(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / FILE_NAME).write_text(text)

    with pytest.raises(StaleSchemaError) as caught:
        pipeline.schema(tmp_path, check=True)

    assert str(tmp_path / FILE_NAME) in str(caught.value)
    assert [path.read_text() for path in tmp_path.iterdir()] == ([] if text is None else [text])
