from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.standin import Server, Starter, make_hybrid

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="session")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The hybrid's packages as a folder for PYTHONPATH."""
    return make_hybrid(tmp_path_factory.mktemp("hybrid") / "packages")


@pytest.fixture
def starter(package: Path, tmp_path: Path) -> Iterator[Starter]:
    """Servers of one test; whatever happens, none survives it."""
    starter = Starter(package, tmp_path)
    yield starter
    starter.end()


@pytest.fixture(scope="module")
def pair(package: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Two nodes that serve with two ranks, for tests that break nothing."""
    starter = Starter(package, tmp_path_factory.mktemp("pair"))
    template = package / "template.jinja"
    template.write_text(
        "<|begin|>{% for message in messages %}<|{{ message['role'] }}|>{{ message.content }}"
        "<|end|>{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}\n"
    )
    yield starter.serve(
        "--chat-template", str(template), "--max-model-len", "256", ranks=2, nodes=2
    )
    starter.end()
