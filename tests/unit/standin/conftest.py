from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING

import pytest

from tests.standin import make_hybrid

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import ModuleType


@pytest.fixture(scope="session")
def standin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], ModuleType]]:
    """Imports a module of the hybrid's vllm by its name; they are forgotten at the end."""
    folder = str(make_hybrid(tmp_path_factory.mktemp("hybrid") / "packages"))
    sys.path.insert(0, folder)
    yield import_module
    sys.path.remove(folder)
    for name in [name for name in sys.modules if name.split(".")[0] == "vllm"]:
        del sys.modules[name]
