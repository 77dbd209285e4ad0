"""Verification as one call: manifest path in, report out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from builder.current import check_lock
from builder.edges.files import read_lock, read_manifest, ssh_config_of
from builder.lockfile import lock_digest
from verify.edges.process import Ended, run_pytest
from verify.errors import BrokenRunError, NodesNotReadyError, NothingSelectedError
from verify.events import Told
from verify.report import Outcome, Report
from verify.user import user_results

if TYPE_CHECKING:
    from pathlib import Path

    from builder.digest import Digest
    from builder.errors import Message
    from builder.lock import Lock
    from builder.progress import Progress
    from builder.read.loaded import LoadedManifest
    from verify.report import CheckResult

_RAN = (0, 1)
"""pytest's statuses for a run that came to its end, with and without failures."""

_NOTHING_TO_RUN = (4, 5)
"""pytest's statuses for a selection it cannot read, and for one that leaves nothing."""


def run_checks(
    manifest_path: Path,
    *,
    progress: Progress,
    only: str | None = None,
    junit_path: Path | None = None,
    against: Path | None = None,
) -> Report:
    """The report of every check on every node of a manifest, whatever the outcome.

    The caller prints `report.text(...)`, then calls `report.require_passed()` for exit code 6.
    `only` is a pytest -k expression over check ids: `fabric`, `image or model`, `spark-a`,
    `fabric.port_is_active`. `junit_path` gets pytest's own JUnit file. `against` is a lock to
    compare with instead of the one beside the manifest: it need not belong to the manifest, and a
    pair that was not deployed from it fails.

    Raises ManifestError or LockError if cluster.toml and its lockfile.json cannot be used,
    NodeError if a node or its engine cannot be reached (nothing is reported then), and
    ChecksFailedError if nothing was selected or pytest itself broke.
    """
    loaded, lock = _inputs(manifest_path, against)
    digest = lock_digest(lock)
    ssh_config_of(loaded)  # one error about the file, instead of one from every node's ssh
    told = Told()
    listener = _Listener(told, progress)
    progress.stage("reach the nodes")
    ended = run_pytest(
        manifest_path, only=only, junit_path=junit_path, hear=listener.hear, against=against
    )
    if told.unready:
        raise NodesNotReadyError(told.unready)
    theirs = user_results(manifest_path, listener.take, only, junit_path, against)
    try:
        require_whole(told, ended, only, digest)
    except NothingSelectedError:
        if not theirs:
            raise
    return Report(
        cluster=loaded.manifest.name,
        lock_digest=digest,
        nodes=tuple(node.name for node in loaded.manifest.nodes),
        checks=(*told.ended(), *theirs),
        only=only,
    )


def _inputs(manifest_path: Path, against: Path | None) -> tuple[LoadedManifest, Lock]:
    if against is not None:
        return read_manifest(manifest_path), read_lock(against)
    current = check_lock(manifest_path)
    return current.loaded, current.lock


class _Listener:
    """Takes events, and tells progress when a group begins and of every new cause of trouble."""

    def __init__(self, told: Told, progress: Progress) -> None:
        self._told = told
        self._progress = progress
        self._group = ""
        self._causes: set[Message] = set()

    def hear(self, line: str) -> None:
        result = self._told.hear(line)
        if result is not None:
            self.take(result)

    def take(self, result: CheckResult) -> None:
        if result.group != self._group:
            self._group = result.group
            self._progress.stage(f"check {result.group}")
        if not self._causes.issuperset(result.messages):
            self._causes.update(result.messages)
            self._progress.note(f"{result.outcome.value}: {result.check.id}")


def require_whole(told: Told, ended: Ended, only: str | None, lock_digest: Digest) -> None:
    """Nothing, if the run is one that a report can be made of."""
    if only and ended.exit_status in _NOTHING_TO_RUN:
        raise NothingSelectedError(only)
    if ended.exit_status not in _RAN:
        what = "the checks did not come to their end"
        raise BrokenRunError(what, ended.exit_status, ended.output)
    if not told.checks:
        raise NothingSelectedError(only)
    if told.lock_digest != lock_digest:
        what = "lockfile.json was changed while the checks began"
        raise BrokenRunError(what, ended.exit_status, ended.output)
    _require_agreement(told, ended)


def _require_agreement(told: Told, ended: Ended) -> None:
    """Nothing, if what was told agrees with pytest's own count of failures."""
    bad = any(item.outcome in (Outcome.FAILED, Outcome.ERROR) for item in told.ended())
    if ended.exit_status == 1 and not bad:
        what = "pytest saw a failure that no check told of"
        raise BrokenRunError(what, ended.exit_status, ended.output)
