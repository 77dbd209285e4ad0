"""Memory does not grow with the base: a vLLM image has twenty gigabytes."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.project import BASE, Project
from tests.repository import ROOT
from tests.unit.oci.archives import file, tar_of

if TYPE_CHECKING:
    from pathlib import Path

MIB = 2**20
PROBE = """
import pathlib, re, sys
from builder import pipeline
from builder.progress import Silent
folder = pathlib.Path(sys.argv[2])
if sys.argv[1] == "lock":
    pipeline.lock(folder / "cluster.toml", Silent())
else:
    pipeline.build(folder / "cluster.toml", Silent(), locked=True, output=folder / "out")
status = pathlib.Path("/proc/self/status").read_text()
print(re.search(r"VmHWM:\\s*(\\d+) kB", status)[1])
"""
"""Not ru_maxrss: a process inherits the one of the process that started it."""


def peak_bytes(verb: str, project: Project) -> int:
    return 1024 * int(
        subprocess.run(
            [sys.executable, "-c", PROBE, verb, str(project.folder)],
            cwd=ROOT,
            check=True,
            capture_output=True,
            text=True,
        ).stdout
    )


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")
def test_a_base_of_forty_times_the_size_takes_no_more_memory(tmp_path: Path) -> None:
    peaks = []
    for size in (1, 40):
        project = Project(tmp_path / str(size))
        content = bytes(range(256)) * 4096 * size
        project.base(tar_of(*BASE, *(file(f"opt/{name}.so", content) for name in "abcde")))
        peaks.append({verb: peak_bytes(verb, project) for verb in ("lock", "build")})

    small, large = peaks
    for verb in ("lock", "build"):
        assert large[verb] - small[verb] < 8 * MIB, f"{verb}: {small[verb]} and {large[verb]}"
