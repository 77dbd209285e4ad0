"""The page cache before a start. The program runs here, on files that stand in for the kernel's."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING, cast

import pytest

from deploy.edges.page_cache import make_room
from deploy.edges.ssh import Completed
from deploy.node_errors import RemoteCommandError
from deploy.page_cache import ALWAYS, PROGRAM, Did, Room, room_of, share_to_free
from tests.unit.deploy.clusters import document, manifest_of

if TYPE_CHECKING:
    from pathlib import Path

    from builder.manifest import ClusterManifest
    from deploy.edges.ssh import NodeConnection

SUDO = """#!/bin/sh
printf '%s\n' "$*" >>"$SUDO_LOG"
{then}
"""


def manifest(**container: object) -> ClusterManifest:
    parsed = document()
    parsed["container"] |= container
    return manifest_of(parsed)


def test_it_pays_where_the_gpu_s_memory_is_the_machine_s_or_when_asked_for() -> None:
    assert share_to_free(manifest(), 0.8) == 800
    assert share_to_free(manifest(), 7) == 1000
    assert share_to_free(manifest(gpus="none"), 0.8) is None
    assert share_to_free(manifest(gpus="none", drop_page_cache=True), 0.8) == ALWAYS
    assert share_to_free(manifest(drop_page_cache=False), 0.8) is None


def run(tmp_path: Path, share: int, drop: str, sudo: str | None = None) -> str:
    """What the program prints with 1000000 kB in all and 400000 kB free."""
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemTotal:  1000000 kB\nMemFree:    400000 kB\nCached: 300000 kB\n")
    tools = tmp_path / "tools"
    tools.mkdir()
    for name, text in {"sync": "#!/bin/sh\n", "sudo": sudo}.items():
        if text is not None:
            (tools / name).write_text(text)
            (tools / name).chmod(0o755)
    env = {"PATH": f"{tools}:{os.defpath}", "SUDO_LOG": str(tmp_path / "asked")}
    argv = ["sh", "-c", PROGRAM, "sh", str(share), str(meminfo), drop]
    return subprocess.run(argv, check=True, capture_output=True, text=True, env=env).stdout


def test_nothing_is_dropped_while_enough_is_free(tmp_path: Path) -> None:
    drop = tmp_path / "drop_caches"
    drop.touch()
    assert run(tmp_path, 400, str(drop)) == "enough 400000 400000\n"
    assert drop.read_text() == ""


@pytest.mark.parametrize("share", [401, ALWAYS])
def test_clean_pages_are_dropped_when_too_little_is_free_or_always(
    share: int, tmp_path: Path
) -> None:
    drop = tmp_path / "drop_caches"
    drop.touch()
    assert run(tmp_path, share, str(drop)) == "dropped 400000 400000\n"
    assert drop.read_text() == "1\n"


def test_who_is_not_root_asks_sudo_without_a_password(tmp_path: Path) -> None:
    forbidden = tmp_path / "folder"  # a file that cannot be written, for root too
    forbidden.mkdir()
    told = run(tmp_path, 900, str(forbidden), SUDO.format(then="exit 0"))
    assert told.startswith("dropped 400000")
    assert (tmp_path / "asked").read_text() == f"-n tee {forbidden}\n"


@pytest.mark.parametrize("sudo", [SUDO.format(then="exit 1"), "#!/bin/sh\nexit 127\n"])
def test_no_right_to_it_is_no_failure(tmp_path: Path, sudo: str) -> None:
    forbidden = tmp_path / "folder"
    forbidden.mkdir()
    assert run(tmp_path, 900, str(forbidden), sudo) == "denied 400000 400000\n"


def test_what_is_told_names_what_it_freed_or_how_to_do_it() -> None:
    assert room_of("enough 5 5\n") == Room(Did.ENOUGH, 5120, 5120)
    assert Room(Did.ENOUGH, 1, 1).text == ""
    freed = Room(Did.DROPPED, 12 * 10**9, 40 * 10**9).text
    assert freed == "dropped the page cache, which freed 28.0 GB: 40.0 GB are free"
    assert "sync; echo 1 | sudo tee /proc/sys/vm/drop_caches" in Room(Did.DENIED, 1, 1).text
    for told in ("", "dropped", "dropped x 1", "other 1 1"):
        assert room_of(told) is None


class Connection:
    """A node that says one thing."""

    def __init__(self, told: str | RemoteCommandError) -> None:
        self.told = told
        self.asked: list[tuple[str, ...]] = []

    def run(self, argv: tuple[str, ...], timeout_s: float) -> Completed:
        del timeout_s
        self.asked.append(argv)
        if isinstance(self.told, RemoteCommandError):
            raise self.told
        return Completed(argv, 0, self.told.encode(), "")


def told(connection: Connection, of: ClusterManifest) -> str:
    return make_room(cast("NodeConnection", connection), of)


def test_a_start_goes_on_whatever_comes_of_it() -> None:
    hung = RemoteCommandError("a", ["sh"], None, "")
    assert told(Connection(hung), manifest()).startswith("the page cache was not dropped: sh took")
    assert told(Connection("who knows"), manifest()) != ""
    assert told(Connection("enough 5 5"), manifest()) == ""


def test_a_node_without_gpus_is_asked_nothing() -> None:
    connection = Connection("")
    assert told(connection, manifest(gpus="none")) == ""
    assert connection.asked == []
