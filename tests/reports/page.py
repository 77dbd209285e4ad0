"""docs/known-faults.md, made from the tables: `python -m tests.reports.page` writes it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.reports.known import ELSEWHERE, NOT_SHOWN
from tests.reports.rows import ROWS

if TYPE_CHECKING:
    from collections.abc import Iterable

PAGE: Final = Path(__file__).resolve().parents[2] / "docs" / "known-faults.md"

_HEAD: Final = """# Which publicly reported faults are caught, and when?

Each is somebody else's report about vLLM on two nodes. Made by `python -m tests.reports.page` from the tables in `tests/reports`.

## Injected into a real pair in the lab

`inv test --faults` makes each of these on two lab nodes and runs the stages in order: manifest, build, preflight (`inv doctor`,
and before every deploy), start, verify. The first to tell must be the one named here. The lab's vllm and RDMA devices are stand-ins.
"""
_ELSEWHERE: Final = """
## Tried by other tests

In the lab where the test lies in `tests/integration`; from observed or recorded facts where it lies in `tests/unit`.
"""
_NOT_SHOWN: Final = """
## Not shown by a lab
"""


def page() -> str:
    """The page's text."""
    rows = [(row.fault, row.reports, row.stage) for row in ROWS]
    elsewhere = [(*row[:3], f"`{row[3].partition('::')[0]}`") for row in ELSEWHERE]
    return "\n".join(
        [
            *(_HEAD, *_table(("fault", "reports", "caught by"), rows)),
            *(_ELSEWHERE, *_table(("fault", "reports", "caught by", "test"), elsewhere)),
            *(_NOT_SHOWN, *_table(("fault", "reports", "why"), NOT_SHOWN), ""),
        ]
    )


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> list[str]:
    return [f"| {' | '.join(row)} |" for row in (head, ("---",) * len(head), *rows)]


if __name__ == "__main__":
    PAGE.write_text(page())
