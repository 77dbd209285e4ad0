"""Programs of ours beside a terminal or a supervisor that signals our whole process group."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
STORM = """
import os, signal, threading
from deploy.edges.programs import answer

signal.signal(signal.SIGTERM, lambda *_: None)
statuses = set()
ended = threading.Event()

def work():
    statuses.update(answer(["true"]).returncode for _ in range(150))
    ended.set()

threading.Thread(target=work).start()
while not ended.is_set():
    os.killpg(0, signal.SIGTERM)
print(sorted(statuses))
"""


def test_no_program_is_hit_by_a_signal_of_our_group_not_even_while_it_starts() -> None:
    """Before it has its own session it is of our group: every sixth one died of it."""
    done = subprocess.run(
        [sys.executable, "-c", STORM],
        cwd=ROOT,
        capture_output=True,
        text=True,
        start_new_session=True,
        check=False,
    )
    assert done.stdout == "[0]\n", done.stderr
