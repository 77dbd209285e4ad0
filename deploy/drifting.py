"""What a person has changed of what runs, as one verb; its rules are imported for it alone."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from deploy.drift import compare, compared, current
from deploy.drift_reports import DriftReport
from deploy.reaching import reached, wanted_by
from deploy.together import each, failure_of

if TYPE_CHECKING:
    from pathlib import Path


def drift(file: Path) -> DriftReport:
    """What runs, compared with lock and manifest to the last setting; nothing is changed.

    A node that cannot be asked is told in the report, unless no node can be.
    """
    loaded, wanted = wanted_by(file)
    with reached(loaded) as (nodes, unreached):
        tasks = {name: partial(node.witness, wanted) for name, node in nodes.items()}
        views, unobserved = each(tasks)
    return DriftReport(
        cluster=wanted.manifest.name,
        generation=current(views),
        nodes=tuple(views),
        compared=compared(wanted, views),
        differences=compare(wanted, views),
        failure=failure_of((*unreached, *unobserved)),
    )
