"""An engine pulls what `inv build --push` put into a registry, under the lock's digests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from builder import pipeline
from builder.progress import Silent
from tests.debian_registry import debian_registry
from tests.project import Project

if TYPE_CHECKING:
    from pathlib import Path

    from deploy.edges.engine import Engine


def test_an_engine_pulls_it_by_digest_and_has_the_locks_digests(
    engine: Engine, tmp_path: Path
) -> None:
    project = Project(tmp_path / "project")
    with debian_registry(tmp_path / "registry") as registry:
        name = f"{registry.host}/team/hybrid"
        built = pipeline.build(project.file, Silent(), push=f"{name}:v1")
        outputs = built.lock.outputs

        engine.pull(name, outputs.manifest_digest, lambda: False)

        found = engine.image(f"{name}@{outputs.manifest_digest}")
    assert found is not None
    assert found.engine_id == outputs.config_digest
    assert list(found.diff_ids) == [layer.diff_id for layer in built.image.layers]
