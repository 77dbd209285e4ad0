"""The runc of machines that may not raise resource limits."""

from __future__ import annotations

from pathlib import Path

import pytest

from deploy.lab.runtime import own_hard_limits, process_file, within

UNLIMITED = 2**64 - 1
MEMLOCK = {"type": "RLIMIT_MEMLOCK", "hard": UNLIMITED, "soft": UNLIMITED}
FILES = {"type": "RLIMIT_NOFILE", "hard": 1024, "soft": 512}


def test_a_limit_above_the_allowed_one_comes_down_and_one_below_stays() -> None:
    allowed = {"RLIMIT_MEMLOCK": 8192, "RLIMIT_NOFILE": 20000}
    assert within([MEMLOCK, FILES], allowed) == [MEMLOCK | {"hard": 8192, "soft": 8192}, FILES]


def test_what_is_unlimited_may_be_asked_for_without_limit() -> None:
    assert within([MEMLOCK], {"RLIMIT_MEMLOCK": UNLIMITED}) == [MEMLOCK]


def test_every_limit_that_docker_knows_has_a_value_here() -> None:
    assert {"RLIMIT_MEMLOCK", "RLIMIT_NOFILE", "RLIMIT_NPROC"} <= own_hard_limits().keys()
    assert min(own_hard_limits().values()) >= 0


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        ("--root /r --log /l create --bundle /b --pid-file /p id", (Path("/b/config.json"), True)),
        ("--root /r exec --process /tmp/x --detach id", (Path("/tmp/x"), False)),  # noqa: S108
        ("--root /r state id", (None, False)),
        ("--version", (None, False)),
    ],
)
def test_the_process_is_found_where_containerds_shim_puts_it(
    argv: str, expected: tuple[Path | None, bool]
) -> None:
    assert process_file(argv.split()) == expected
