"""Which stage of the tool catches a fault first, and the table of all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from builder import pipeline as builder
from builder.errors import BuildError, ManifestError, NodeError
from builder.progress import Silent
from deploy.doctor import doctor
from deploy.preflight.finding import Level

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.integration.verify.conftest import Pair

NOTHING = "nothing"
_TOLD = (Level.ERROR, Level.WARNING)


@dataclass(frozen=True, slots=True)
class Caught:
    """The first stage that told of a fault, and all that it said; NOTHING if none did."""

    fault: str
    stage: str
    said: str


CAUGHT: list[Caught] = []
"""Of this test run, in the order of the table."""


def first_to_catch(fault: str, pair: Pair) -> Caught:
    """The stages in the order in which a user meets them, until one tells of the fault.

    A deploy is tried only where the manifest was changed: it would mend a pair that is not as
    locked, and it is the running pair that then is to be judged.
    """
    before = (pair.manifest_path.parent / "lockfile.json").read_bytes()
    try:
        builder.lock(pair.manifest_path, Silent())
    except ManifestError as error:
        return Caught(fault, "manifest", str(error))
    except BuildError as error:
        return Caught(fault, "build", str(error))
    findings = [item for item in doctor(pair.manifest_path).findings if item.level in _TOLD]
    if findings:
        return Caught(fault, "preflight", "\n".join(item.message.text() for item in findings))
    if (pair.manifest_path.parent / "lockfile.json").read_bytes() != before:
        try:
            pair.deploy()
        except NodeError as error:
            return Caught(fault, "start", str(error))
    report = pair.verify()
    said = "\n".join(message.text() for message in report.failures)
    return Caught(fault, NOTHING if report.passed else "verify", said)


def table(rows: Sequence[Caught]) -> str:
    """A line per fault: the fault, the stage, and the first thing that it said."""
    lines = [("fault", "caught by", "says")]
    lines += [(row.fault, row.stage, (row.said.splitlines() or [""])[0][:90]) for row in rows]
    widths = [max(len(line[column]) for line in lines) for column in range(2)]
    return "\n".join(
        f"{fault:<{widths[0]}}  {stage:<{widths[1]}}  {said}".rstrip()
        for fault, stage, said in lines
    )
