"""The facts of a start that failed or hangs -> its probable cause, with evidence and remedy.

Rules go from the most telling to the least: a cause that a rank logged itself, how a rank ended,
what the kernels show of ranks that all wait, what a rank logged when another had already failed.
The first that fits is the verdict. When none does, it says so: nothing is made up.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from deploy.ended import ended, ended_untold
from deploy.logged import CAUSES, CONSEQUENCES, logged
from deploy.verdict import Verdict
from deploy.waiting_ranks import waiting

if TYPE_CHECKING:
    from collections.abc import Iterator

    from deploy.scene import Scene

__all__ = ["Verdict", "diagnose"]


def diagnose(scene: Scene) -> Verdict:
    """The probable cause of a start that failed or was not done in time."""
    verdicts = chain(
        logged(scene, CAUSES),
        ended(scene),
        waiting(scene),
        logged(scene, CONSEQUENCES),
        ended_untold(scene),
    )
    return next(verdicts, None) or Verdict(
        what="no known cause fits what the nodes show",
        evidence=tuple(_last_lines(scene)),
        remedy="read the ranks' facts and last lines below; inv logs has more of them",
        known=False,
    )


def _last_lines(scene: Scene) -> Iterator[str]:
    yield f"stage reached: {scene.stage.value}"
    for item in scene.ranks:
        last = next((line for line in reversed(item.log) if line.strip()), "(its log is empty)")
        yield f"{item.place}: {'runs' if item.alive else 'does not run'}; {last}"
