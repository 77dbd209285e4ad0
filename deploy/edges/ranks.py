"""A rank's container as the engine describes it, as a value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from deploy.state import RankIdentity, RankState

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

OWN_LABELS: Final = "io.sparklock."

NEVER: Final = "0001-01-01T"
"""How the engine's time of what has not happened begins."""


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
    )


def _variable(env: Iterable[str], name: str) -> str:
    """The value of a variable of a container; empty if it has none."""
    pairs = (item.partition("=") for item in env)
    return next((value for key, _, value in pairs if key == name), "")
