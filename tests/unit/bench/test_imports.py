"""Every task pays for what its module imports, so the slow packages wait until they are needed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.bench.listing import HEAVY
from tests.bench.measure import probe

ROOT = Path(__file__).resolve().parents[3]


def test_a_listing_of_tasks_imports_nothing_heavy() -> None:
    listing = probe("--list", cwd=ROOT)
    assert "invoke" in listing.modules
    assert not HEAVY & listing.modules


def test_asking_whether_a_lock_is_current_imports_nothing_that_makes_images() -> None:
    program = "import sys, builder.current, deploy.pipeline, verify.run; print(*sys.modules)"
    argv = [sys.executable, "-c", program]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=True)
    assert "builder.current" in done.stdout
    makers = {"builder.pipeline", "builder.assembly", "builder.hybrid", "builder.graft", "tomlkit"}
    assert not makers & set(done.stdout.split())


@pytest.mark.parametrize("module", ["builder.pipeline", "deploy.pipeline"])
def test_verbs_import_no_engine_and_no_registry_before_they_need_one(module: str) -> None:
    program = f"import sys, {module}; print({{'docker', 'requests', 'rich'}} & set(sys.modules))"
    argv = [sys.executable, "-c", program]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
