"""Rank 0's copy: asks every node how its rank stands, remembers, decides, starts the pair."""

from __future__ import annotations

import json
import os
import time
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from .deciding import decide, seen_in
from .facts import Memory, Report
from .journal import say_once
from .node import Here
from .wire import ClosedError, OtherSecretError, There

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .engine import Engine
    from .facts import Config
    from .node import Asked

ATTEMPTS: Final = 3


class Head:
    """Rank 0's copy: looks at all nodes, round after round, and starts the pair when it has to."""

    def __init__(self, config: Config, engine: Engine, secret: bytes) -> None:
        self._config, self._engine, self._secret = config, engine, secret
        self._file = Path(config.folder, "memory.json")
        self._down_rounds = 0
        self._not_before = 0.0
        self._memory = self._read()

    def run(self) -> None:
        """Never returns."""
        while True:
            self.round()
            time.sleep(self._config.poll_s)

    def round(self) -> None:
        """One look at all nodes, and what follows from it."""
        reports = self._reports()
        decision = decide(self._memory, reports, self._down_rounds)
        self._down_rounds = decision.down_rounds
        self._remember(decision.memory)
        if decision.said and not decision.start:
            say_once(self._config, decision.said)
        if decision.start and time.monotonic() >= self._not_before:
            self._start()

    def _open(self, rank: int) -> Asked:
        if rank == self._config.rank:
            return Here(self._config, self._engine)
        return There(self._config.peers[rank][1], self._config, self._secret)

    def _reports(self) -> list[Report]:
        return [self._report(rank, node) for rank, (node, _) in enumerate(self._config.peers)]

    def _report(self, rank: int, node: str) -> Report:
        try:
            asked = self._open(rank)
            try:
                return Report(**asked.ask("report"))
            finally:
                asked.close()
        except OtherSecretError as error:
            return Report(node, problem=str(error))
        except ClosedError:
            again = "`inv boot --install` if this lasts"
            return Report(node, problem=f"it has ended, or has another secret: {again}")
        except (OSError, TypeError):
            return Report(node, problem="its copy of this program does not answer")

    def _start(self) -> None:
        """One attempt, with every node's guard held; what fails is stopped on all nodes."""
        with ExitStack() as stack:
            nodes: list[Asked] = []
            try:
                for rank in range(len(self._config.peers)):
                    nodes.append(self._open(rank))
                    stack.callback(nodes[-1].close)
                    nodes[-1].ask("hold")
                again = decide(self._memory, [Report(**node.ask("report")) for node in nodes])
                if again.start and again.memory is not None:
                    say_once(self._config, again.said)
                    self._attempt(nodes, again.memory)
            except OSError as error:
                say_once(self._config, f"not started: {error}")

    def _attempt(self, nodes: Sequence[Asked], memory: Memory) -> None:
        reports = [Report(**node.ask("report")) for node in nodes]
        engines = seen_in(reports).engines
        number = memory.attempts + 1 if memory.tried == engines else 1
        self._remember(replace(memory, attempts=number, tried=engines))
        ids = [report.container for report in reports]
        failure = self._started(nodes, ids)
        seen = seen_in([Report(**node.ask("report")) for node in nodes])
        if not failure:
            self._remember(seen)
            say_once(self._config, f"generation {seen.generation} was started again on all nodes")
            return
        for node, container in zip(nodes, ids, strict=True):
            node.ask("stop", container)
        if number >= ATTEMPTS:
            self._remember(replace(seen, up=False))
            say_once(self._config, f"gave up after {number} attempts: {failure}")
            return
        pause_s = self._config.pauses_s[min(number, len(self._config.pauses_s)) - 1]
        self._not_before = time.monotonic() + pause_s
        say_once(self._config, f"attempt {number} failed, the next in {pause_s:g} s: {failure}")

    def _started(self, nodes: Sequence[Asked], ids: Sequence[str]) -> str:
        """Why the ranks did not start, or did not stay; empty if they run."""
        pairs = list(zip(nodes, ids, strict=True))
        try:
            for node, container in pairs:
                node.ask("stop", container)
            for node, container in (*pairs[1:], pairs[0]):
                node.ask("start", container)
        except OSError as error:
            return str(error)
        end = time.monotonic() + self._config.settle_s
        while True:
            time.sleep(min(self._config.poll_s, self._config.settle_s))
            for report in (Report(**node.ask("report")) for node in nodes):
                if not report.running:
                    return report.problem or f"the rank on {report.node} has ended"
            if time.monotonic() >= end:
                return ""

    def _read(self) -> Memory | None:
        try:
            return Memory(**json.loads(self._file.read_text()))
        except (OSError, ValueError, TypeError):
            return None

    def _remember(self, memory: Memory | None) -> None:
        if memory == self._memory and self._file.exists():
            return
        self._memory = memory
        new = self._file.with_suffix(".new")
        with new.open("w") as file:
            json.dump(None if memory is None else asdict(memory), file)
            file.flush()
            os.fsync(file.fileno())  # a power cut is what it is for
        new.replace(self._file)
