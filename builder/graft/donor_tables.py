"""What a donor's tables and code say of the grafted names, and the assembled image's do not."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from builder.graft.donors import REGISTRY
from builder.graft.findings import DonorFile
from builder.graft.imports import ModuleName
from builder.graft.mentions import Mentions, mentions_of
from builder.graft.table_findings import MissingEntries, Place, UnnamedInCode

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from builder.graft.donors import Donors
    from builder.graft.mentions import Entry
    from builder.graft.modules import Modules
    from builder.graft.packages import PackageRoot

_NOTHING: Final = Mentions((), {})
"""What a file says that is not there."""

_ARCHITECTURE: Final = re.compile(r"(.+?)(?:ForCausalLM|ForConditionalGeneration|LMHeadModel)$")
_HUMP: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


@dataclass(frozen=True, slots=True)
class Grafted:
    """A package in the base, in the assembled image and in one donor.

    `added` maps the tree path of each module that we add to the donor it comes from. `told` are
    architectures whose registration is judged elsewhere.
    """

    root: PackageRoot
    base: Modules
    image: Modules
    added: Mapping[str, str]
    donor: str
    there: PackageRoot
    theirs: Modules
    told: frozenset[str] = frozenset()

    def files(self) -> dict[str, str]:
        """The modules that come from this donor: path in the package to tree path."""
        return {
            path.removeprefix(self.root.path + "/"): path
            for path, donor in self.added.items()
            if donor == self.donor
        }


def missing_in_tables(  # noqa: PLR0913 - the trees, and what is known of them
    root: PackageRoot,
    base: Modules,
    image: Modules,
    added: Mapping[str, str],
    donors: Donors,
    *,
    told: frozenset[str] = frozenset(),
) -> Iterator[MissingEntries | UnnamedInCode]:
    """What each donor registers for the grafted files, and the assembled image does not.

    All tables and all code of the package count, not the registry alone. `told` are
    architectures whose registration is judged elsewhere.
    """
    for donor in sorted(set(added.values())):
        opened = donors.open(donor, root.package)
        if opened is not None:
            grafted = Grafted(root, base, image, added, donor, *opened, told)
            yield from _missing(grafted, grafted_names(grafted))


def grafted_names(grafted: Grafted) -> frozenset[str]:
    """The names by which tables know what is grafted.

    Modules, classes and model types that the base does not have; and the model type that the name
    of an architecture suggests, unless the base knows it.
    """
    names: set[str] = set()
    for path in grafted.files().values():
        found = grafted.image.fact(_names_in, path) or frozenset()
        if grafted.base.has(path):
            found -= grafted.base.fact(_names_in, path) or frozenset()
        else:
            module = ModuleName.of(path.removeprefix(grafted.root.site + "/")).dotted
            names |= {module, *_stem(module, found)}
        names |= found
    suggested = {_suggested(name) for name in names} - {""}
    return frozenset(names | {name for name in suggested if not _is_known(grafted, name)})


def _stem(module: str, classes: frozenset[str]) -> set[str]:
    """The last part of a module's name, if a class of it is named alike: foo_mtp, FooMTP.

    Others, such as `serving` or `utils`, mean many things.
    """
    stem = module.rpartition(".")[2]
    plain = stem.replace("_", "").lower()
    alike = any(name.replace("_", "").lower().startswith(plain) for name in classes)
    return {stem} if alike and plain else set()


def _names_in(tree: ast.Module, _: ModuleName) -> frozenset[str]:
    """The classes of a module, and the model types that they state."""
    names: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            names.add(node.name)
            names.update(_model_types(node))
    return frozenset(names)


def _model_types(node: ast.ClassDef) -> Iterator[str]:
    for statement in node.body:
        match statement:
            case (
                ast.Assign(targets=[ast.Name(id="model_type")], value=ast.Constant(value=str(text)))
                | ast.AnnAssign(
                    target=ast.Name(id="model_type"), value=ast.Constant(value=str(text))
                )
            ) if text:
                yield text
            case _:
                pass


def _suggested(name: str) -> str:
    """The model type that an architecture's name suggests: FooMoeForCausalLM, foo_moe."""
    match = _ARCHITECTURE.fullmatch(name)
    return _HUMP.sub("_", match[1]).lower() if match else ""


def _is_known(grafted: Grafted, name: str) -> bool:
    """Whether the base's package speaks of a model type."""
    quoted = f'"{name}"'.encode()
    return any(
        quoted in (grafted.base.source(path) or b"")
        for path in grafted.base.below(grafted.root.path)
    )


def _missing(grafted: Grafted, names: frozenset[str]) -> Iterator[MissingEntries | UnnamedInCode]:
    ours = grafted.files()
    stems = _shortest(names)
    for path in grafted.theirs.below(grafted.there.path):
        file = path.removeprefix(grafted.there.path + "/")
        source = grafted.theirs.source(path) or b""
        if file not in ours and any(stem in source for stem in stems):
            yield from _of_file(grafted, file, names)


def _shortest(names: frozenset[str]) -> list[bytes]:
    """Texts of which each name contains one."""
    found: list[str] = []
    for name in sorted(names, key=lambda name: (len(name), name)):
        if not any(other in name for other in found):
            found.append(name)
    return [name.encode() for name in found]


def _of_file(
    grafted: Grafted, file: str, names: frozenset[str]
) -> Iterator[MissingEntries | UnnamedInCode]:
    here = grafted.root.file(file)
    theirs = grafted.theirs.fact(mentions_of, grafted.there.file(file))
    is_there = grafted.image.has(here)
    ours = grafted.image.fact(mentions_of, here) if is_there else _NOTHING
    if theirs is None or ours is None:  # one of them cannot be read, which is told elsewhere
        return
    place = Place(here, grafted.root.package, file, grafted.donor, is_there)
    lacking: dict[str, list[Entry]] = {}
    for entry in theirs.entries:
        if file == REGISTRY and entry.key in grafted.told:
            continue
        if entry.words & names and not _has(grafted, ours, entry):
            lacking.setdefault(entry.table, []).append(entry)
    for entries in lacking.values():
        yield _entries_finding(grafted, place, tuple(entries))
    yield from _code(place, theirs, ours, names)


def _entries_finding(grafted: Grafted, place: Place, entries: tuple[Entry, ...]) -> MissingEntries:
    bare = {name for entry in entries for name in entry.names}
    bound = grafted.image.names(_module(place, grafted)) if place.is_there else None
    unbound = {name for name in bare if bound is None or name.partition(".")[0] not in bound.bound}
    writable = all(entry.toml for entry in entries) and place.is_there and not unbound
    closed_by = DonorFile(place.donor, place.file, place.is_there)
    first = entries[0]
    return MissingEntries(
        place, first.table, first.line, entries, tuple(sorted(unbound)), writable, closed_by
    )


def _module(place: Place, grafted: Grafted) -> str:
    return ModuleName.of(place.path.removeprefix(grafted.root.site + "/")).dotted


def _has(grafted: Grafted, ours: Mentions, entry: Entry) -> bool:
    """Whether the image has an entry: in the same file, or in a table of that name elsewhere."""
    if any(_is_same(entry, other) for other in ours.entries):
        return True
    if any(other.table == entry.table for other in ours.entries):
        return False
    name = entry.table.partition("[")[0].rpartition(".")[2]
    for path in grafted.image.mentioning(grafted.root.path, (name,)):
        found = grafted.image.fact(mentions_of, path) or _NOTHING
        if any(_is_same(entry, other) for other in found.entries if other.table == entry.table):
            return True
    return False


def _is_same(entry: Entry, other: Entry) -> bool:
    """Whether two entries stand for the same; a key is enough, for its value can be chosen."""
    if entry.key is None:
        return other.key is None and other.value == entry.value
    return other.key == entry.key


def _code(
    place: Place, theirs: Mentions, ours: Mentions, names: frozenset[str]
) -> Iterator[UnnamedInCode]:
    """The findings about a file's code, function by function."""
    known = {text for texts in ours.code.values() for text in texts}
    known |= {word for entry in ours.entries for word in entry.words}
    for function, texts in theirs.code.items():
        words = sorted(text for text in texts if text in names and text not in known)
        if words:
            line = min(texts[word] for word in words)
            closed_by = DonorFile(place.donor, place.file, place.is_there)
            yield UnnamedInCode(place, function, line, tuple(words), closed_by)
