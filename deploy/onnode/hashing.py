"""SHA-256 of files, as many at once as there are processors.

Asked: a list of paths. Told: one object per file, {"path", "sha256"} or {"path", "error"}.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor

BUFFER_BYTES = 2**20


def sha256(path: str) -> str:
    """A file's hash as hex digits; OSError."""
    found = hashlib.sha256()
    buffer = memoryview(bytearray(BUFFER_BYTES))
    with open(path, "rb", buffering=0) as file:  # noqa: PTH123 - a path of any bytes
        while True:
            size = file.readinto(buffer)
            if not size:
                return found.hexdigest()
            found.update(buffer[:size])


def _answer(path: str) -> dict[str, str]:
    try:
        return {"path": path, "sha256": sha256(path)}
    except OSError as error:
        return {"path": path, "error": error.strerror or str(error)}


def main() -> None:
    """Read the paths, tell their hashes in the same order."""
    paths = json.loads(sys.stdin.buffer.readline())
    workers = len(os.sched_getaffinity(0))
    with ThreadPoolExecutor(workers) as pool:
        for answer in pool.map(_answer, paths):
            sys.stdout.write(json.dumps(answer) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
