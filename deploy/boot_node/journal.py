"""What the program says: to the journal, and the last of it into a file for `inv boot`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .facts import Config


def say(text: str) -> None:
    """A line in the journal."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def say_once(config: Config, text: str) -> None:
    """A line in the journal, and beside this file for `inv boot`, if it is not the last one."""
    file = Path(config.folder, "said")
    if not file.exists() or file.read_text() != text:
        say(text)
        file.write_text(text)
