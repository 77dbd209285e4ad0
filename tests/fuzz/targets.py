"""Every reader that can be fuzzed, by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tests.fuzz.documents import DOCKER_CONFIG, IMAGE, LOCK, MANIFEST
from tests.fuzz.stacks import STACK
from tests.fuzz.tars import TAR

if TYPE_CHECKING:
    from tests.fuzz.target import Target

TARGETS: Final[dict[str, Target]] = {
    "tar": TAR,
    "stack": STACK,
    "image": IMAGE,
    "lock": LOCK,
    "manifest": MANIFEST,
    "docker-config": DOCKER_CONFIG,
}
