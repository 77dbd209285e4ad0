"""Page cache in the way of vLLM's start: when dropping it pays, and what came of it.

On GB10 the GPU's memory is the machine's. vLLM's check at its start compares the share it asks for
with what is *free*, and files that were read once, the model's above all, are cached in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final

from deploy.actions import size_text

if TYPE_CHECKING:
    from builder.manifest import ClusterManifest

MEMINFO: Final = "/proc/meminfo"
DROP: Final = "/proc/sys/vm/drop_caches"
ALWAYS: Final = 0
"""The share that is never free."""

PROGRAM: Final = """
field() {
  while read -r name value _; do
    if [ "$name" = "$1:" ]; then echo "$value"; return; fi
  done <"$meminfo"
}
share=$1 meminfo=$2 drop=$3
total=$(field MemTotal) before=$(field MemFree)
if [ "$share" -gt 0 ] && [ "$before" -ge $((total / 1000 * share)) ]; then
  echo "enough $before $before"
  exit 0
fi
timeout 60 sync
if { echo 1 >"$drop"; } 2>/dev/null || echo 1 | sudo -n tee "$drop" >/dev/null 2>&1; then
  echo "dropped $before $(field MemFree)"
else
  echo "denied $before $before"
fi
"""
"""POSIX sh; $1 is the share of memory in thousandths, or ALWAYS, $2 MEMINFO, $3 DROP.

It prints what it did, and what was free before and after in kB. What is dirty after 60 s of `sync`
stays cached.
"""


class Did(Enum):
    """What was done about the page cache."""

    ENOUGH = "enough"
    DROPPED = "dropped"
    DENIED = "denied"


@dataclass(frozen=True, slots=True)
class Room:
    """What came of making room, and what was free before and after, in bytes."""

    did: Did
    before: int
    after: int

    @property
    def text(self) -> str:
        """What is told of it; empty when there was nothing to do."""
        match self.did:
            case Did.DROPPED:
                freed = max(0, self.after - self.before)
                return (
                    f"dropped the page cache, which freed {size_text(freed)}: "
                    f"{size_text(self.after)} are free"
                )
            case Did.DENIED:
                return (
                    "the page cache could not be dropped, since the ssh user is not root and has "
                    f"no sudo for it: {size_text(self.before)} are free "
                    f"(on the node: sync; echo 1 | sudo tee {DROP})"
                )
            case Did.ENOUGH:
                return ""


def share_to_free(manifest: ClusterManifest, utilization: float) -> int | None:
    """The share of memory, in thousandths, that has to be free at a start; None for no matter.

    `utilization` is the share that vLLM asks for.
    """
    asked = manifest.container.drop_page_cache
    if asked:
        return ALWAYS
    if asked is False or manifest.container.gpus != "all":
        return None
    return max(1, min(1000, round(utilization * 1000)))


def room_of(told: str) -> Room | None:
    """What PROGRAM printed; None if that is nothing it prints."""
    words = told.split()
    names = {did.value: did for did in Did}
    if len(words) != 3 or words[0] not in names or not all(w.isdecimal() for w in words[1:]):  # noqa: PLR2004 - the words PROGRAM prints
        return None
    before, after = (int(word) * 1024 for word in words[1:])
    return Room(names[words[0]], before, after)
