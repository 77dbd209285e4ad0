"""A built image is put nowhere where the manifest has an input, which would be lost by that."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from builder.inputs import sources_of
from builder.oci.reference import ImageReference
from builder.options import OptionError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from builder.edges.output import Output
    from builder.read.loaded import LoadedManifest


def refuse_inputs(
    loaded: LoadedManifest, output: Output | None, target: ImageReference | None
) -> None:
    """Nothing, if neither place is one that the manifest reads; else OptionError.

    Of a registry only a tag is lost: the same repository under another one is fine.
    """
    if output is not None:
        option, real = f"--output {output.path}", os.path.realpath(output.path)
        for name, path in _inputs_on_disk(loaded):
            if os.path.realpath(path) == real:
                expected = "a place that the manifest reads nothing from"
                raise OptionError(option, expected, name)
    if target is not None and target.tag is not None:
        option = "--push"
        for name, source in sources_of(loaded.manifest).items():
            if _tag_of(source.source) == (target.host, target.repository, target.tag):
                expected = "a tag that the manifest reads nothing from"
                raise OptionError(option, expected, f"that of {name}: {source.source}")


def _inputs_on_disk(loaded: LoadedManifest) -> Iterator[tuple[str, Path]]:
    """Everything that the manifest names on disk: in words, and its path."""
    for name, source in sources_of(loaded.manifest).items():
        kind, _, path = source.source.partition(":")
        if kind in ("oci", "archive"):
            yield f"{name}: {source.source}", loaded.folder / path
    yield from ((name, loaded.folder / name) for name in loaded.own_files)
    if loaded.manifest.model.files is not None:
        for file in loaded.model_files:
            name = f"{loaded.manifest.model.files}/{file.path}"
            yield name, loaded.folder / name


def _tag_of(source: str) -> tuple[str, str, str | None] | None:
    """Host, repository and tag of an image in a registry; None for any other source."""
    try:
        found = ImageReference.parse(source)
    except ValueError:
        return None
    return found.host, found.repository, found.tag
