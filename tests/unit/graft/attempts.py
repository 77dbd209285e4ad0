"""A graft in memory: files of the base and of a donor, and what is taken from the donor."""

from __future__ import annotations

from typing import TYPE_CHECKING

from builder.graft.closure import ClosureInputs, check_closure
from builder.graft.commands import Launch
from builder.graft.packages import find_package
from builder.graft.pick import pick
from builder.image_section import Graft
from builder.oci.model import Platform
from tests.unit.graft.images import python_image

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from builder.graft.findings import Finding

VENV = "opt/venv/lib/python3.12/site-packages"


def grafted(
    base: Mapping[str, str], donor: Mapping[str, str], files: Iterable[str]
) -> tuple[Finding, ...]:
    """What the closure check says of an image with the donor's files in the base's package."""
    return check_closure(inputs_of(base, donor, files))


def inputs_of(
    base: Mapping[str, str], donor: Mapping[str, str], files: Iterable[str]
) -> ClosureInputs:
    """What the check is asked for such an image."""
    image = python_image(base)
    image.file("usr/bin/python3", b"\x7fELF" + bytes(14) + b"\xb7\x00", 0o755)
    image.file("usr/local/bin/vllm", "#!/usr/bin/python3\n", 0o755)
    other = python_image(donor, site=VENV)
    root = find_package(image.tree, "vllm", image="base")
    place = "cluster.toml: image.graft[0]"
    taken = tuple(files)
    blobs = image.blobs | other.blobs
    return ClosureInputs(
        base=image.tree,
        read=lambda digest: blobs[digest],
        launch=Launch((), "/", ("/usr/local/bin",), None, (), Platform("linux", "arm64")),
        vllm_version="0.17.1",
        picks=pick(other.tree, Graft(donor="new", package="vllm", files=taken), root, place=place)
        if taken
        else (),
        donors={"new": other.tree},
    )
