"""Causes of a failed start that a rank's end tells, when its log does not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from deploy.actions import size_text
from deploy.refusals import refusal
from deploy.verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from deploy.scene import RankScene, Scene
    from deploy.state import RankState

SIGKILL_EXIT: Final = 137

SIGNALS: Final[Mapping[int, tuple[str, str]]] = {
    132: ("used an instruction that the processor lacks", "take an image for this architecture"),
    134: ("aborted itself", "look for an assertion of a library in its log"),
    135: ("met a bus error, which a full /dev/shm gives", "raise shm_gib in [container]"),
    139: ("crashed with a segmentation fault", "compare driver, NCCL and image of all nodes"),
    143: ("was stopped by SIGTERM", "find out who stops containers on this node"),
}
"""What an exit code above 128 tells: the signal's number is added to it."""


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
    elif state.exit_code in SIGNALS:
        what, remedy = SIGNALS[state.exit_code]
        yield Verdict(f"{who} {what}", remedy, (f"exit code {state.exit_code}",), item.rank)
    elif item.first:
        yield Verdict(
            what=f"{who}, which ended first, for a reason that no rule knows",
            evidence=(f"exit code {state.exit_code}", *_last_words(item)),
            remedy="the cause is in its log, below",
            rank=item.rank,
        )


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
    words = [line for line in item.log if line.strip()]
    return tuple(f"its log: {line.strip()[:400]}" for line in words[-1:])
