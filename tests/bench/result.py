"""What a benchmark gives back: two sides measured side by side, and what is claimed of them."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from builder.digest import JsonValue

Unit = Literal["s", "MiB", "bytes", "modules"]


@dataclass(frozen=True, slots=True)
class Samples:
    """What one side took in each round, in the order of the rounds; at least one."""

    values: tuple[float, ...]

    @property
    def median(self) -> float:
        """The middle value; with an even number, the mean of the two in the middle."""
        return statistics.median(self.values)

    def as_json(self) -> dict[str, JsonValue]:
        """Median and all values, as text, since a float has no one spelling."""
        return {"median": f"{self.median:.6g}", "values": [f"{v:.6g}" for v in self.values]}


@dataclass(frozen=True, slots=True)
class Limit:
    """The claim: the most that the ratio, our own median, or that less the yardstick's may be."""

    of: Literal["ratio", "median", "difference"]
    at_most: float


@dataclass(frozen=True, slots=True)
class Result:
    """One comparison; `theirs` is None when there is no yardstick, `limit` when nothing is claimed.

    Less is better in every unit. `note` tells what a reader needs beside the numbers.
    """

    name: str
    what: str
    yardstick: str
    unit: Unit
    ours: Samples
    theirs: Samples | None = None
    limit: Limit | None = None
    note: str = ""

    @property
    def ratio(self) -> float | None:
        """Our median over the yardstick's; None without a yardstick, or when it is 0."""
        if self.theirs is None or self.theirs.median == 0:
            return None
        return self.ours.median / self.theirs.median

    @property
    def difference(self) -> float | None:
        """Our median less the yardstick's; None without a yardstick."""
        return None if self.theirs is None else self.ours.median - self.theirs.median

    @property
    def met(self) -> bool | None:
        """Whether the claim holds; None when nothing is claimed. A ratio that is none fails."""
        if self.limit is None:
            return None
        value = {"median": self.ours.median, "ratio": self.ratio, "difference": self.difference}[
            self.limit.of
        ]
        return value is not None and value <= self.limit.at_most

    @property
    def repetitions(self) -> int:
        """How often each side was measured."""
        return len(self.ours.values)

    def headline(self) -> str:
        """The outcome as one line."""
        ratio = "" if self.ratio is None else f", ratio {self.ratio:.3g}"
        return f"{self.name}: {_number(self.ours.median)} {self.unit}{ratio}; {self._verdict()}"

    def text(self) -> str:
        """The comparison as lines of plain text."""
        lines = [f"{self.name}: {self.what}", f"  ours       {_side(self.ours, self.unit)}"]
        if self.theirs is not None:
            lines.append(f"  yardstick  {_side(self.theirs, self.unit)}  {self.yardstick}")
        if self.ratio is not None:
            lines.append(f"  ratio      {self.ratio:.3g}")
        rounds = "1 round" if self.repetitions == 1 else f"{self.repetitions} rounds"
        lines.append(f"  claim      {self._verdict()} ({rounds})")
        if self.note:
            lines.append(f"  note       {self.note}")
        return "\n".join(lines)

    def row(self) -> str:
        """The comparison as a row of a Markdown table: name, ours, yardstick, ratio, verdict."""
        cells = (
            f"`{self.name}`",
            _side(self.ours, self.unit),
            "" if self.theirs is None else _side(self.theirs, self.unit),
            "" if self.ratio is None else f"{self.ratio:.3g}",
            {True: "met", False: "**not met**", None: ""}[self.met],
        )
        return f"| {' | '.join(cells)} |"

    def _verdict(self) -> str:
        if self.limit is None:
            return "none"
        unit = "" if self.limit.of == "ratio" else f" {self.unit}"
        verdict = "met" if self.met else "NOT MET"
        return f"{self.limit.of} at most {self.limit.at_most:.3g}{unit}: {verdict}"

    def as_json(self) -> dict[str, JsonValue]:
        """The comparison as a JSON object; numbers that are measured are texts."""
        limit: JsonValue = None
        if self.limit is not None:
            limit = {"of": self.limit.of, "at_most": f"{self.limit.at_most:.3g}"}
        return {
            "name": self.name,
            "what": self.what,
            "unit": self.unit,
            "ours": self.ours.as_json(),
            "yardstick": None
            if self.theirs is None
            else {"what": self.yardstick, **self.theirs.as_json()},
            "ratio": None if self.ratio is None else f"{self.ratio:.3g}",
            "limit": limit,
            "met": self.met,
            "repetitions": self.repetitions,
            "note": self.note,
        }


def _side(samples: Samples, unit: Unit) -> str:
    """A median, with its spread if there is one."""
    low, high = min(samples.values), max(samples.values)
    spread = f" ({_number(low)} to {_number(high)})" if low < high else ""
    return f"{_number(samples.median)} {unit}{spread}"


def _number(value: float) -> str:
    return f"{value:.3g}" if value < 1000 else f"{value:.0f}"
