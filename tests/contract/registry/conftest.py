from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.fake_registry import FakeRegistry, serving
from tests.unit.oci.archives import Published, file, tar_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from builder.oci.model import Image


@pytest.fixture(autouse=True)
def nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for Docker's config.json, empty; and no variable that changes how requests go."""
    folder = tmp_path / "docker"
    folder.mkdir()
    monkeypatch.setenv("DOCKER_CONFIG", str(folder))
    for name in ("SPARKLOCK_OFFLINE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)
    return folder


@pytest.fixture
def published() -> Published:
    return Published()


@pytest.fixture
def image(published: Published) -> Image:
    return published.image(tar_of(file("a", b"x" * 3_000_000)))


@pytest.fixture
def registry(published: Published, image: Image) -> Iterator[FakeRegistry]:
    """A registry whose tag is the image."""
    assert published.source.tops == [image.manifest.descriptor]
    with serving(published.source) as found:
        yield found
