"""Processes are recognised by number, start time and boot."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from deploy.lab.processes import ProcessRecord, running_module

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "60"]) as process:
        yield process
        process.kill()


def test_a_killed_process_is_not_alive_even_before_its_parent_has_waited(
    sleeper: subprocess.Popen[bytes],
) -> None:
    record = ProcessRecord.of(sleeper.pid)
    assert record.alive
    assert record.kill(timeout_s=5)
    assert not record.alive
    assert sleeper.wait() == -9


@pytest.mark.parametrize("change", [{"start_ticks": 1}, {"boot_id": "an earlier boot"}])
def test_a_process_that_only_has_the_number_is_spared(
    sleeper: subprocess.Popen[bytes], change: dict[str, int | str]
) -> None:
    record = replace(ProcessRecord.of(sleeper.pid), **change)  # type: ignore[arg-type]  # by field
    assert not record.alive
    assert record.kill(timeout_s=5)
    assert sleeper.poll() is None


def test_killing_what_has_gone_is_done_at_once(sleeper: subprocess.Popen[bytes]) -> None:
    record = ProcessRecord.of(sleeper.pid)
    sleeper.kill()
    sleeper.wait()
    assert record.kill(timeout_s=5)


def test_a_record_survives_its_file(sleeper: subprocess.Popen[bytes], tmp_path: Path) -> None:
    record = ProcessRecord.of(sleeper.pid)
    record.write(tmp_path / "record.json")
    assert ProcessRecord.read(tmp_path / "record.json") == record


@pytest.mark.parametrize("text", ["", "{", "[]", '{"pid": 1}'])
def test_a_damaged_record_counts_as_none(tmp_path: Path, text: str) -> None:
    path = tmp_path / "record.json"
    path.write_text(text)
    assert ProcessRecord.read(path) is None


def test_a_process_is_found_by_its_module_and_a_path_in_the_folder(tmp_path: Path) -> None:
    inside, beside = tmp_path / "lab" / "nodes", tmp_path / "lab-2"
    (tmp_path / "waits.py").write_text("import sys; print(flush=True); sys.stdin.read()\n")
    started = [
        subprocess.Popen(
            [sys.executable, "-m", "waits", str(path)],
            cwd=tmp_path,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        for path in (inside, beside)
    ]
    try:
        for process in started:
            assert process.stdout is not None
            process.stdout.readline()
        found = running_module("waits", tmp_path / "lab")
        assert [record.pid for record in found] == [started[0].pid]
    finally:
        for process in started:
            process.communicate()
