"""What the texts of modules say, each parsed once however many trees have the same text."""

from __future__ import annotations

import ast
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final, TypeVar

from builder.graft.syntax import TOO_DEEP, SourceError, parse_source

if TYPE_CHECKING:
    from collections.abc import Callable

    from builder.digest import Digest
    from builder.graft.imports import ModuleName
    from builder.graft.packages import Read

T = TypeVar("T")

KEPT_TREES: Final = 24
"""Syntax trees that stay in memory; each takes some thirty times the size of its source."""


class Parsed:
    """Facts of sources by their digest; they stay, while of syntax trees only the last ones do."""

    def __init__(self) -> None:
        self._trees: OrderedDict[Digest, ast.Module] = OrderedDict()
        self._refused: dict[Digest, SourceError] = {}
        self._facts: dict[tuple[object, Digest, ModuleName], Any] = {}

    def fact(
        self,
        of: Callable[[ast.Module, ModuleName], T],
        digest: Digest,
        name: ModuleName,
        read: Read,
    ) -> T:
        """What a function finds in a source, as the module of a name; SourceError if it is none."""
        if digest in self._refused:
            raise self._refused[digest]
        key = (of, digest, name)
        if key not in self._facts:
            try:
                made = of(self._tree(digest, read), name)
            except RecursionError as error:
                self._refused[digest] = SourceError(TOO_DEEP)
                raise self._refused[digest] from error
            if isinstance(made, ast.AST):
                return made
            self._facts[key] = made
        found: T = self._facts[key]
        return found

    def _tree(self, digest: Digest, read: Read) -> ast.Module:
        if digest not in self._trees:
            self._trees[digest] = self._parse(digest, read(digest))
            if len(self._trees) > KEPT_TREES:
                self._trees.popitem(last=False)
        self._trees.move_to_end(digest)
        return self._trees[digest]

    def _parse(self, digest: Digest, source: bytes) -> ast.Module:
        try:
            return parse_source(source)
        except SourceError as error:
            self._refused[digest] = error
            raise
