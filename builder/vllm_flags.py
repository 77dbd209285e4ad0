"""Which of vLLM's options a release has, where that decides what its ranks are given."""

from __future__ import annotations

import re
from typing import Final

_RELEASE: Final = re.compile(r"(\d+)\.(\d+)(?:\.\d+)*(?P<before>\.?(?:a|b|rc|dev)\d+)?")
_TIMEOUT_SINCE: Final = (0, 18)


def has_distributed_timeout(version: str) -> bool:
    """Whether a version, such as `0.18.1+cu130`, has --distributed-timeout-seconds.

    It came with 0.18 (read in the released packages); a build from before that release may lack it.
    """
    found = _RELEASE.match(version)
    if found is None:
        return False
    release = int(found[1]), int(found[2])
    return release > _TIMEOUT_SINCE or (release == _TIMEOUT_SINCE and not found["before"])
