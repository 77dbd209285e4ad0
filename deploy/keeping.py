"""The verbs of what the nodes keep: the generations there are, and the way back to one of them.

They need the manifest, for the nodes, and no lock: what is on the nodes says all the rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from builder.edges.files import read_manifest
from deploy.apply import apply
from deploy.confirm import limits_of
from deploy.generations import history_of
from deploy.generations_reports import GenerationsReport, RollbackReport
from deploy.interrupts import Interrupts
from deploy.reaching import connected, guarded, require_answer
from deploy.rollback import plan_rollback
from deploy.together import together
from deploy.undo import Means

if TYPE_CHECKING:
    from pathlib import Path

    from builder.progress import Progress
    from deploy.generations import History
    from deploy.reaching import Nodes


def generations(file: Path) -> GenerationsReport:
    """Every generation that the nodes have, and which one is to serve; needs every node."""
    loaded = read_manifest(file)
    with connected(loaded) as nodes:
        return GenerationsReport(loaded.manifest.name, history(nodes))


def rollback(
    file: Path, number: int | None, progress: Progress, *, break_guard: bool = False
) -> RollbackReport:
    """Have an older generation serve again, and see it answer; None for the one before.

    Its containers are started as they are: nothing is built and nothing brought. If it does not
    answer, the pair that served before is started again, and DeployFailedError tells. Raises
    NoGenerationError, CannotReturnError and OtherModelError before anything is changed.
    """
    loaded = read_manifest(file)
    serve = loaded.manifest.serve
    with (
        Interrupts() as interrupts,
        connected(loaded) as nodes,
        guarded(nodes, "rollback", by_force=break_guard),
    ):
        progress.stage("look at the nodes")
        found = history(nodes)
        todo = plan_rollback(found, number)
        if todo.up_to_date:
            require_answer(todo, nodes, serve.completion_timeout_s)
        applied = apply(todo, Means(nodes, limits_of(serve), progress, interrupts))
    target = found.find(todo.generation)
    return RollbackReport(
        cluster=loaded.manifest.name,
        plan=todo,
        before=0 if found.current is None else found.current.number,
        lock_digest="" if target is None else target.lock_digest,
        answer=applied.answer,
    )


def history(nodes: Nodes) -> History:
    """The generations that the nodes tell of, all asked at once."""
    return history_of(together({name: node.containers for name, node in nodes.items()}))
