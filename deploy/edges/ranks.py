"""A rank's container as the engine describes it, as a value."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from deploy.logscan import sortable
from deploy.state import RankIdentity, RankState

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

OWN_LABELS: Final = "io.sparklock."

NEVER: Final = "0001-01-01T"
"""How the engine's time of what has not happened begins."""

NOTED_LATE_S: Final = 3
"""What an engine may take to note that a process has started, in seconds."""


def rank_state(found: Mapping[str, Any]) -> RankState:
    """The state of a container, from what the engine says when it is inspected."""
    config, state = found["Config"], found["State"]
    own = {key: str(value) for key, value in (config.get("Labels") or {}).items()}
    started_at = str(state.get("StartedAt") or "")
    return RankState(
        running=bool(state["Running"]),
        exit_code=int(state["ExitCode"]),
        finished_at=str(state["FinishedAt"]),
        out_of_memory=bool(state.get("OOMKilled")),
        identity=RankIdentity(
            id=str(found["Id"]),
            image_id=str(found["Image"]),
            labels=tuple(sorted((k, own[k]) for k in own if k.startswith(OWN_LABELS))),
            started_at="" if started_at.startswith(NEVER) else started_at,
        ),
        command=tuple(config.get("Cmd") or ()),
        paused=bool(state.get("Paused")),
        restarts=int(found.get("RestartCount") or 0),
        error=str(state.get("Error") or ""),
        host_ip=_variable(config.get("Env") or (), "VLLM_HOST_IP"),
        log_from=_log_from(started_at, str(state["FinishedAt"]), running=bool(state["Running"])),
    )


def _log_from(started_at: str, finished_at: str, *, running: bool) -> str:
    """The time that the lines of a container's newest start are later than; empty for all lines.

    A process writes before the engine notes that it has started. So the time that counts is the
    end before that start; once the container has ended again, the engine has forgotten it.
    """
    if finished_at.startswith(NEVER) or started_at.startswith(NEVER):
        return ""
    if running and sortable(finished_at) < sortable(started_at):
        return finished_at
    seconds = datetime.fromisoformat(started_at[: len("2026-01-01T00:00:00")])
    return (seconds - timedelta(seconds=NOTED_LATE_S)).isoformat() + "Z"


def _variable(env: Iterable[str], name: str) -> str:
    """The value of a variable of a container; empty if it has none."""
    pairs = (item.partition("=") for item in env)
    return next((value for key, _, value in pairs if key == name), "")
