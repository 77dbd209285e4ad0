"""Verification as one call: manifest path in, report out."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from builder.progress import Progress
    from verify.report import Report


def run_checks(
    manifest_path: Path,
    *,
    progress: Progress,
    only: str | None = None,
    junit_path: Path | None = None,
    json_path: Path | None = None,
) -> Report:
    """The report of every check on every node of a manifest, whatever the outcome.

    The caller prints `report.text(...)`, then calls `report.require_passed()` for exit code 6.
    `only` is a pytest -k expression over check ids: `fabric`, `image or model`, `spark-a`,
    `fabric.port_is_active`. `junit_path` and `json_path` are written in every case but an error.

    Raises ManifestError or LockError if cluster.toml and its lockfile.json cannot be used,
    NodeError if a node or its engine cannot be reached (nothing is reported then), and
    ChecksFailedError if nothing was selected or pytest itself broke.
    """
    raise NotImplementedError
