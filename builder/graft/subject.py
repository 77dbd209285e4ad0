"""A module to judge against a reference, and what both judgements of it share."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from builder.graft.findings import DonorFile
    from builder.graft.override_findings import Where
    from builder.graft.symbols import Lineage, Origin, Symbols

_NO_MEMBERS: Final = frozenset(
    {"typing.Protocol", "typing.Generic", "typing_extensions.Protocol", "abc.ABC", "object"}
)
_OF_TORCH_MODULE: Final = frozenset(
    {"forward", "extra_repr", "train", "eval", "to", "apply", "state_dict", "load_state_dict"}
    | {"parameters", "named_parameters", "buffers", "modules", "children", "training", "half"}
    | {"float", "cuda", "cpu", "get_submodule", "get_parameter", "zero_grad", "requires_grad_"}
)
"""Names that torch.nn.Module answers to or calls by itself, so that a class may do without."""


@dataclass(frozen=True, slots=True)
class Subject:
    """A module to judge, and the two trees: `before` is the reference, `after` the image.

    `where` has the module's file; line and symbol are filled in. `mentioning` gives the modules of
    the image, as the base has them, whose text has all of some words. `closing` gives the donor's
    file that would close a finding about something of the image.
    """

    where: Where
    before: Symbols
    after: Symbols
    mentioning: Callable[[tuple[str, ...]], Iterable[str]]
    closing: Callable[[Origin], DonorFile | None]

    @property
    def module(self) -> str:
        """The module's dotted name."""
        return self.where.module

    def at(self, line: int, symbol: str) -> Where:
        """A place in the module."""
        return replace(self.where, line=line, symbol=symbol)


def may_have(member: str, before: Lineage, after: Lineage) -> bool:
    """Whether the image's class may have a member though no text here names it."""
    if after.open_ended or not after.outside <= before.outside:
        return True
    return bool(after.outside - _NO_MEMBERS) and member in _OF_TORCH_MODULE


def named(origin: Origin) -> str:
    """A class or function as findings name it: `module:name`, or the module alone."""
    return f"{origin.module}:{origin.name}" if origin.module else origin.name


def is_mangled(name: str) -> bool:
    """Whether a name is private to the class that writes it."""
    return name.startswith("__") and not name.endswith("__")
