"""Runs invoke in this process and tells at its end how large it was and what it had imported.

`python -m tests.bench.probe FILE INVOKE_ARGUMENTS...` writes JSON to FILE. The peak is VmHWM of the
process itself: what wait4 gives of a child holds its parent's size too, from before exec.
"""

from __future__ import annotations

import atexit
import json
import runpy
import sys
from pathlib import Path


def tell(file: Path) -> None:
    """Write what this process is like now."""
    modules = sorted(sys.modules)
    status = Path("/proc/self/status").read_text()
    peak_kib = next(int(line.split()[1]) for line in status.splitlines() if "VmHWM:" in line)
    file.write_text(json.dumps({"peak_kib": peak_kib, "modules": modules}))


if __name__ == "__main__":
    atexit.register(tell, Path(sys.argv.pop(1)).absolute())
    runpy.run_module("invoke", run_name="__main__", alter_sys=True)
