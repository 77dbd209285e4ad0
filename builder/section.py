"""A table of cluster.toml: what all its models have in common."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """A table of cluster.toml: immutable, and every unknown key is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)
