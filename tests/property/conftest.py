"""Hypothesis without its time limit per example: a busy machine is no failure."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("sparklock", deadline=None)
settings.load_profile("sparklock")
