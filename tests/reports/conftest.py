"""The pair that reported faults are injected into, and the table of what caught them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.integration.conftest import lab, lab_root
from tests.integration.verify.conftest import _locked, pair
from tests.reports.caught import CAUGHT, table

if TYPE_CHECKING:
    import pytest

__all__ = ["_locked", "lab", "lab_root", "pair"]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if CAUGHT:
        terminalreporter.section("publicly reported faults, and the stage that caught each")
        terminalreporter.write_line(table(CAUGHT))
