"""Causes of a failed start that a rank's end tells, when its log does not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from deploy.actions import size_text
from deploy.refusals import ENTRYPOINT, refusal
from deploy.verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from deploy.scene import RankScene, Scene
    from deploy.state import RankState

SIGKILL_EXIT: Final = 137

CODES: Final[Mapping[int, tuple[str, str]]] = {
    126: ("found its program not executable", ENTRYPOINT),
    127: ("did not find its program", ENTRYPOINT),
    132: ("used an instruction that the processor lacks", "take an image for this architecture"),
    134: ("aborted itself", "look for an assertion of a library in its log"),
    135: ("met a bus error, which a full /dev/shm gives", "raise shm_gib in [container]"),
    139: ("crashed with a segmentation fault", "compare driver, NCCL and image of all nodes"),
    143: ("was stopped by SIGTERM", "find out who stops containers on this node"),
}
"""What exit codes tell: those of shells, and above 128 the number of a signal added to it."""


def ended(scene: Scene) -> Iterator[Verdict]:
    """Verdicts on the ranks that do not run, the first to end before others."""
    ranks = sorted(scene.ranks, key=lambda item: (not item.first, item.rank))
    # Of one that cannot be asked nothing else is known, and the others end because of it.
    for item in ranks:
        if item.state is None:
            yield _unasked(item)
    for item in ranks:
        if item.state is not None and not item.state.running:
            yield from _of_rank(item, item.state)


def _unasked(item: RankScene) -> Verdict:
    return Verdict(
        what=f"rank {item.rank} on {item.node} is gone, or its node is",
        evidence=(f"asked for {item.container}: {item.fault}",),
        remedy="see that the node is up and that nobody removes its containers, then: inv deploy",
        rank=item.rank,
    )


def _of_rank(item: RankScene, state: RankState) -> Iterator[Verdict]:
    who = f"rank {item.rank} on {item.node}"
    known = refusal(state.error)
    if known is not None:
        what, remedy = known
        evidence = (f"its engine: {state.error}",)
        yield Verdict(f"{who} was not started: {what}", remedy, evidence, item.rank)
    elif not state.identity.started_at:
        evidence = (f"its engine: {state.error or 'it was created and never started'}",)
        remedy = "see the engine's log on the node: journalctl -u docker"
        yield Verdict(f"{who} was never started", remedy, evidence, item.rank)
    elif state.out_of_memory or state.exit_code == SIGKILL_EXIT:
        yield _killed(item, state)
    elif state.exit_code in CODES:
        what, remedy = CODES[state.exit_code]
        yield Verdict(f"{who} {what}", remedy, _last_words(item), item.rank)


def ended_untold(scene: Scene) -> Iterator[Verdict]:
    """Verdicts on ranks that ended for a reason that no rule knows, the first to end before others.

    Which of two nodes' ranks ended first their clocks cannot tell, so only what was seen counts.
    """
    ranks = sorted(scene.ranks, key=lambda item: (not item.first, item.rank))
    gone = [item for item in ranks if item.state is not None and not item.state.running]
    if not gone:
        return
    evidence = tuple(line for item in gone for line in _last_words(item))
    if gone[0].first:
        what = f"rank {gone[0].rank} on {gone[0].node}, which ended first: why, no rule knows"
        yield Verdict(what, "the cause is in its log, below", evidence, gone[0].rank, known=False)
    else:
        what = "all ranks ended between two looks, and no rule knows why"
        yield Verdict(what, "the cause is in their logs, below", evidence, known=False)


def _killed(item: RankScene, state: RankState) -> Verdict:
    kernel = item.kernel
    evidence = [f"exit code {state.exit_code}"]
    if kernel.available_bytes is not None:
        evidence.append(f"memory available by now: {size_text(kernel.available_bytes)}")
    who = f"rank {item.rank} on {item.node}"
    if state.out_of_memory:
        return Verdict(
            what=f"{who} was killed because the node ran out of memory",
            evidence=(*evidence, "its engine: OOMKilled"),
            remedy="lower gpu-memory-utilization in [serve.args], or end what else uses memory: "
            "on GB10 the GPU's memory is the node's",
            rank=item.rank,
        )
    return Verdict(
        what=f"{who} was killed from outside: by a person, or by the kernel out of memory",
        evidence=(*evidence, "its engine saw no lack of memory in the container itself"),
        remedy="dmesg on the node tells of `Out of memory: Killed process`; if it does, lower "
        "gpu-memory-utilization in [serve.args]",
        rank=item.rank,
    )


def _last_words(item: RankScene) -> tuple[str, ...]:
    code = "" if item.state is None else f"exit code {item.state.exit_code}"
    words = [line for line in item.log if line.strip()]
    return (
        f"{item.place}: {code}",
        *(f"{item.place}: {line.strip()[:400]}" for line in words[-1:]),
    )
