"""The inputs of a lock by name, as `inv pin` and `inv lock --update` are told them."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from builder.errors import Message, SparklockError

if TYPE_CHECKING:
    from builder.image_section import Source
    from builder.manifest import ClusterManifest
    from builder.read.lines import Loc

BASE: Final = "base"
MODEL: Final = "model"
DONORS: Final = "donors."


@dataclass(eq=False)
class UnknownInputError(SparklockError):
    """The manifest has no input of a name."""

    exit_code: ClassVar[int] = 2

    place: str
    name: str
    known: tuple[str, ...]

    @property
    def messages(self) -> tuple[Message, ...]:
        """One message with the name that was probably meant."""
        near = difflib.get_close_matches(self.name, self.known, n=1, cutoff=0.5)
        return (
            Message(
                place=self.place,
                what=f"there is no input {self.name}",
                expected=f"one of {', '.join(self.known)}",
                found=self.name,
                remedy=f"did you mean {near[0]}?" if near else "name one of these",
            ),
        )


def sources_of(manifest: ClusterManifest) -> dict[str, Source]:
    """Where each input comes from: `base`, then `donors.NAME` by name."""
    donors = manifest.image.donors.items()
    return {BASE: manifest.image.base} | {f"{DONORS}{name}": one for name, one in sorted(donors)}


def input_named(text: str, manifest: ClusterManifest, *, place: str) -> str:
    """The input that is meant by `base`, `donors.NAME`, `donor:NAME` or `model`.

    Raises UnknownInputError, also for the model when it is one of own files.
    """
    known = [*sources_of(manifest), *([MODEL] if manifest.model.repo else [])]
    name = text.replace("donor:", DONORS, 1) if text.startswith("donor:") else text
    if name not in known:
        raise UnknownInputError(place, text, tuple(known))
    return name


def loc_of_input(name: str) -> Loc:
    """Where the manifest has the input's table."""
    if name == MODEL:
        return (MODEL,)
    kind, _, donor = name.partition(".")
    return ("image", kind, donor) if donor else ("image", kind)
