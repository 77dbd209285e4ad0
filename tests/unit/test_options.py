from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from builder.options import (
    NotUtf8Error,
    OptionError,
    only_one,
    path_of,
    require_utf8,
    whole_number,
)

ROOT: Final = Path(__file__).parents[2]


def test_decimal_digits_are_a_number() -> None:
    assert whole_number("007", option="--tail", least=1) == 7


@pytest.mark.parametrize("text", ["", "x", "-5", "0", "1.5", "1e3", "٣", "1000000000", "9" * 5000])
def test_anything_else_names_the_option_and_what_it_takes(text: str) -> None:
    with pytest.raises(OptionError) as raised:
        whole_number(text, option="--tail", least=1)
    (message,) = raised.value.messages
    assert message.place == "--tail"
    assert message.expected == "a whole number from 1 to 999999999"
    assert repr(text) == message.found
    assert raised.value.exit_code == 2


def test_an_empty_text_is_no_path_and_no_option_left_out() -> None:
    assert path_of(None, option="--output") is None
    assert path_of("a b", option="--output") == Path("a b")
    with pytest.raises(OptionError, match="--output"):
        path_of("", option="--output")


def test_an_empty_text_counts_as_given() -> None:
    only_one({"--check": False, "--update": None, "--vendor": ""})
    with pytest.raises(OptionError, match="no --vendor beside --check"):
        only_one({"--check": True, "--update": None, "--vendor": ""})


def test_names_of_files_that_are_not_utf_8_are_refused() -> None:
    require_utf8("utf-8")
    with pytest.raises(NotUtf8Error, match="PYTHONUTF8=1") as caught:
        require_utf8("iso8859-1")
    assert caught.value.exit_code == 2


def test_a_command_says_that_names_of_files_are_not_utf_8() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "invoke", "--search-root", str(ROOT), "lock", "--check"],
        env={"LC_ALL": "C", "PYTHONUTF8": "0", "PATH": "/usr/bin"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 2
    assert "they are not UTF-8 in this process" in done.stderr
