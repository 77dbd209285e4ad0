from __future__ import annotations

from pathlib import Path

from builder.edges.layout import LayoutSource
from builder.oci.model import Platform
from builder.oci.select import select_manifest
from tests.bench.base_image import write_base

LAB_BASE = Path(__file__).resolve().parents[3] / "examples/lab/images/base"
PLATFORM = Platform("linux", "amd64")


def test_a_large_base_is_the_labs_own_and_one_layer_of_the_size_asked_for(tmp_path: Path) -> None:
    digest = write_base(tmp_path / "base", LAB_BASE, size_mb=3)
    small = select_manifest(LayoutSource(LAB_BASE), None, PLATFORM).image
    large = select_manifest(LayoutSource(tmp_path / "base"), digest, PLATFORM).image
    *same, added = large.layers
    assert same == list(small.layers)
    assert 3_000_000 <= added.descriptor.size_bytes < 3_100_000


def test_a_large_base_is_the_same_every_time(tmp_path: Path) -> None:
    digests = {write_base(tmp_path / name, LAB_BASE, size_mb=2) for name in ("one", "two")}
    assert len(digests) == 1


def test_a_base_of_several_layers_has_other_files_in_each_and_the_size_in_all(
    tmp_path: Path,
) -> None:
    digest = write_base(tmp_path / "base", LAB_BASE, size_mb=4, layers=2)
    small = select_manifest(LayoutSource(LAB_BASE), None, PLATFORM).image
    large = select_manifest(LayoutSource(tmp_path / "base"), digest, PLATFORM).image
    added = large.layers[len(small.layers) :]
    assert len({layer.descriptor.digest for layer in added}) == 2
    assert 4_000_000 <= sum(layer.descriptor.size_bytes for layer in added) < 4_100_000
