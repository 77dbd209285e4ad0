"""The modules of one site folder of an image, by dotted name, and what they provide."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from builder.graft.imports import Import, ModuleName, imports_of
from builder.graft.names import Names, names_of
from builder.graft.parsed import Parsed
from builder.graft.syntax import SourceError
from builder.oci.tree import Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from builder.digest import Digest
    from builder.graft.packages import Read
    from builder.oci.tree import ImageTree

T = TypeVar("T")

_UNKNOWN = Names(bound=frozenset(), any_name=True)


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A module that the parser refuses: its tree path, the line (0 if unknown) and why."""

    path: str
    line: int
    reason: str


class Modules:
    """Modules below a site folder; source is read when it is first asked for, and kept.

    `parsed` can be shared between trees: what a text says is found once then.

    `unreadable` gathers what could not be parsed on the way; such a module is taken to provide
    every name, so that it is reported once and not for each of its names.
    """

    def __init__(
        self, tree: ImageTree, read: Read, site: str, parsed: Parsed | None = None
    ) -> None:
        self.site = site
        self.unreadable: dict[str, Unreadable] = {}
        self._tree = tree
        self._read = read
        self._parsed = parsed or Parsed()
        self._paths: dict[str, str | None] = {}
        self._sources: dict[str, bytes | None] = {}
        self._below: dict[str, list[str]] = {}
        self._compiled = _compiled(tree, site)

    def path(self, module: str) -> str | None:
        """The tree path of a module's file, or of the folder of a package without `__init__.py`.

        None if there is no such module. A package goes before a module, and a module before a
        compiled one, as for Python's own finder.
        """
        if module not in self._paths:
            self._paths[module] = self._path(module)
        return self._paths[module]

    def provides(self, module: str, name: str) -> bool:
        """Whether `from module import name` works: a name of the module, or a submodule."""
        return self._provides(module, name, frozenset())

    def names(self, module: str) -> Names:
        """The names of a module that exists; of a compiled one nothing is known."""
        path = self.path(module)
        assert path is not None, module
        return self.fact(names_of, path) or _UNKNOWN

    def imports(self, path: str) -> tuple[Import, ...]:
        """What the module at a tree path imports; nothing if it cannot be parsed."""
        return self.fact(imports_of, path) or ()

    def fact(self, of: Callable[[ast.Module, ModuleName], T], path: str) -> T | None:
        """What a function finds in the module at a tree path; None if it cannot be parsed.

        The function must depend on nothing else: it is called once for a text and a name.
        """
        name = ModuleName.of(path.removeprefix(self.site + "/"))
        if self._kind(path) is Kind.DIRECTORY:
            return of(ast.Module([], []), name)
        digest = self._digest(path)
        if digest is None:
            return None
        try:
            return self._parsed.fact(of, digest, name, self._read)
        except SourceError as error:
            self.unreadable[path] = Unreadable(path, error.line, error.reason)
            return None

    def tree(self, path: str) -> ast.Module | None:
        """The syntax tree of the module at a tree path; None if it cannot be parsed.

        An empty one for a folder; None also for compiled modules and contents that were not kept.
        """
        return self.fact(_whole, path)

    def has(self, path: str) -> bool:
        """Whether there is a file at a tree path."""
        return self._kind(path) is Kind.FILE

    def is_readable(self, path: str) -> bool:
        """Whether the module at a tree path has a text that can be parsed, as `tree` gives it."""
        return self.fact(_nothing, path) is not None

    def below(self, folder: str) -> list[str]:
        """The tree paths of all source modules below a folder, sorted."""
        if folder not in self._below:
            self._below[folder] = sorted(
                path
                for path in self._tree.entries
                if path.endswith(".py") and path.startswith(folder + "/")
            )
        return self._below[folder]

    def siblings(self, module: str) -> set[str]:
        """The last names of the modules beside a module, which need not exist itself."""
        folder = f"{self.site}/{module.replace('.', '/')}".rpartition("/")[0]
        beside = (path.removeprefix(folder + "/") for path in self.below(folder))
        return {path.partition("/")[0].removesuffix(".py") for path in beside} - {"__init__"}

    def source(self, path: str) -> bytes | None:
        """The bytes of the module at a tree path; None if they were not kept."""
        if path not in self._sources:
            content = self._digest(path)
            self._sources[path] = None if content is None else self._read(content)
        return self._sources[path]

    def mentioning(self, folder: str, words: Iterable[str]) -> Iterator[str]:
        """The tree paths below a folder of the source modules whose text has all of the words."""
        asked = [word.encode() for word in words]
        whole = [re.compile(rb"\b%b\b" % re.escape(word)) for word in asked]
        for path in self.below(folder):
            source = self.source(path) or b""
            if all(word in source for word in asked) and all(map(_searched(source), whole)):
                yield path

    def _path(self, module: str) -> str | None:
        if module.startswith("."):  # a relative import that leaves its top package
            return None
        stem = f"{self.site}/{module.replace('.', '/')}"
        for path in (f"{stem}/__init__.py", f"{stem}.py"):
            if self._kind(path) is Kind.FILE:
                return path
        return self._compiled.get(stem) or (stem if self._kind(stem) is Kind.DIRECTORY else None)

    def _digest(self, path: str) -> Digest | None:
        entry = self._tree.find(path) if path.endswith(".py") else None
        return None if entry is None else entry.content

    def _provides(self, module: str, name: str, seen: frozenset[str]) -> bool:
        if self.path(module) is None:
            return False
        names = self.names(module)
        return (
            name in names.bound
            or name in names.served
            or names.any_name
            or self.path(f"{module}.{name}") is not None
            or any(
                self._star_provides(star, name, seen | {module})
                for star in names.stars
                if star not in seen
            )
        )

    def _star_provides(self, module: str, name: str, seen: frozenset[str]) -> bool:
        """Whether `from module import *` brings the name; a module of elsewhere may bring any."""
        if self.path(module) is None:
            return self.path(module.partition(".")[0]) is None
        public = self.names(module).public
        if public is not None:
            return name in public
        return not name.startswith("_") and self._provides(module, name, seen)

    def _kind(self, path: str) -> Kind | None:
        entry = self._tree.find(path)
        return None if entry is None else entry.kind


def _whole(tree: ast.Module, _: ModuleName) -> ast.Module:
    return tree


def _searched(source: bytes) -> Callable[[re.Pattern[bytes]], bool]:
    return lambda pattern: pattern.search(source) is not None


def _nothing(_: ast.Module, __: ModuleName) -> bool:
    return True


def _compiled(tree: ImageTree, site: str) -> dict[str, str]:
    """Paths of compiled modules, `NAME.abi3.so` or `NAME.cpython-312-aarch64-linux-gnu.so`.

    The key is the path up to the name's end.
    """
    found: dict[str, str] = {}
    for path in sorted(tree.entries):
        if path.endswith(".so") and path.startswith(site + "/"):
            folder, _, file = path.rpartition("/")
            found[f"{folder}/{file.partition('.')[0]}"] = path
    return found
