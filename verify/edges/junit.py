"""JUnit files of two pytest runs as one."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def add_suites(source: Path, *, into: Path, name: str) -> None:
    """Nothing; the suites of `source` are at the end of `into`, under a name of their own."""
    tree = ET.parse(into)  # noqa: S314 - pytest wrote both just now
    for suite in ET.parse(source).getroot().iter("testsuite"):  # noqa: S314
        suite.set("name", name)
        tree.getroot().append(suite)
    tree.write(into, encoding="utf-8", xml_declaration=True)
