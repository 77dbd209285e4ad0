"""What the process that runs the checks tells the one that wants the report: a line of JSON each.

First `collected`, with every check that will run; then `result` for each of them; `unready` if the
nodes cannot be checked. What was collected and has no result did not run, whatever pytest says.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from builder.errors import Message
from verify.report import Check, CheckResult, result_from_json, result_of_missing

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from builder.digest import JsonValue


def collected(lock_digest: str, checks: Iterable[Check]) -> str:
    """The line that names the checks, and the lock they were made from."""
    return _line("collected", lock_digest=lock_digest, checks=[asdict(check) for check in checks])


def result(item: CheckResult) -> str:
    """The line that tells how one check ended."""
    return _line("result", result=item.as_json())


def unready(messages: Iterable[Message]) -> str:
    """The line that tells why the nodes cannot be checked."""
    return _line("unready", messages=[message.as_json() for message in messages])


def _line(event: str, **value: JsonValue) -> str:
    return json.dumps({"event": event, **value}) + "\n"


@dataclass(slots=True)
class Told:
    """What was told so far."""

    lock_digest: str = ""
    checks: dict[str, Check] = field(default_factory=dict)
    results: dict[str, CheckResult] = field(default_factory=dict)
    unready: tuple[Message, ...] = ()

    def hear(self, line: str) -> CheckResult | None:
        """Take one line; the result in it, if it holds one."""
        value: Mapping[str, Any] = json.loads(line)
        if value["event"] == "collected":
            self.lock_digest = value["lock_digest"]
            self.checks = {item["id"]: Check(**item) for item in value["checks"]}
        elif value["event"] == "unready":
            self.unready = tuple(Message(**message) for message in value["messages"])
        else:
            check = self.checks[value["result"]["id"]]
            self.results[check.id] = result_from_json(check, value["result"])
            return self.results[check.id]
        return None

    def ended(self) -> tuple[CheckResult, ...]:
        """A result of every collected check, in the order they were collected."""
        return tuple(
            self.results.get(name) or result_of_missing(check)
            for name, check in self.checks.items()
        )
