"""Property tests have no deadline per example: a busy machine is no failure of the code."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("sparklock", deadline=None)
settings.load_profile("sparklock")
