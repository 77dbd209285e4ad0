"""A run, written where the documentation shows one: no number there is typed in by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tests.bench.errors import NoPlaceForRunError, PartialRecordError

if TYPE_CHECKING:
    from pathlib import Path

    from tests.bench.report import BenchReport

PAGE: Final = "docs/speed.md"
BEGIN: Final = "<!-- a run, as `inv bench --record` writes it -->\n"
END: Final = "<!-- end of the run -->\n"


def recordable(root: Path, *, only: str) -> Path:
    """The page that runs are written to, before anything is measured.

    Raises PartialRecordError or NoPlaceForRunError.
    """
    if only:
        raise PartialRecordError
    page = root / PAGE
    _parts(page)
    return page


def record(page: Path, report: BenchReport) -> None:
    """Put the report in the place of the run that the page shows."""
    before, after = _parts(page)
    page.write_text(f"{before}{BEGIN}\n{report.markdown()}\n{END}{after}")


def _parts(page: Path) -> tuple[str, str]:
    """What stands before and after the run."""
    before, begin, rest = page.read_text().partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise NoPlaceForRunError(str(page), (BEGIN.strip(), END.strip()))
    return before, after
