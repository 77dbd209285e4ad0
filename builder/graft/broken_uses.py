"""Attributes and calls that worked in the reference tree and fail in the image."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from builder.graft.classes import Form
from builder.graft.override_findings import BrokenCall, LostMember
from builder.graft.signatures import refusals
from builder.graft.subject import is_mangled, may_have, named
from builder.graft.symbols import Lineage, Origin
from builder.graft.uses import uses_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from builder.graft.classes import Member
    from builder.graft.findings import Finding
    from builder.graft.subject import Subject
    from builder.graft.symbols import Symbols
    from builder.graft.uses import Use

_NO_LINEAGE = Lineage((), frozenset())


@dataclass(frozen=True, slots=True)
class _Meaning:
    """What a use means in one tree.

    `holder` is the class or module that has it, or was asked for it. Without `is_there` nothing
    that a text names has it; `lineage` is that of the class then. `member` is what a call meets,
    if that is known.
    """

    holder: Origin
    is_there: bool
    member: Member | None = None
    lineage: Lineage = _NO_LINEAGE


def broken_uses(subject: Subject) -> Iterator[Finding]:
    """One finding per class or function and what it lacks, at the first line that needs it."""
    path = subject.after.modules.path(subject.module)
    told: set[tuple[str, str, str]] = set()
    for use in (path and subject.after.modules.fact(uses_of, path)) or ():
        found = _broken(subject, use)
        if found is not None and (key := (use.owner, use.function, found.identity)) not in told:
            told.add(key)
            yield found


def _broken(subject: Subject, use: Use) -> LostMember | BrokenCall | None:
    then = _meaning(subject.before, subject.module, use)
    if then is None or not then.is_there:
        return None
    now = _meaning(subject.after, subject.module, use)
    if now is None:
        return None
    where = subject.at(use.line, ".".join(part for part in (use.owner, use.function) if part))
    used = {"self": "self.", "super": "super().", "name": ""}[use.via] + use.name
    if not now.is_there:
        last = use.name.rpartition(".")[2]
        if may_have(last, then.lineage, now.lineage):
            return None
        return LostMember(where, used, named(then.holder), subject.closing(then.holder))
    reasons = _refused(use, then, now)
    if not reasons or now.member is None:
        return None
    signature = now.member.signature
    return BrokenCall(
        where,
        used,
        named(now.holder),
        signature.text() if signature else now.member.form.value,
        tuple(sorted(reasons)),
        subject.closing(now.holder),
    )


def _refused(use: Use, then: _Meaning, now: _Meaning) -> frozenset[str]:
    """Why what the image has refuses the use; empty if the reference's refuses it as well."""
    old, new = then.member, now.member
    if use.call is None or old is None or new is None or old == new:
        return frozenset()
    if new.form is Form.PROPERTY and old.form is not Form.PROPERTY:
        return frozenset({"is a property"})
    if old.signature is None or new.signature is None or old.decorators != new.decorators:
        return frozenset()
    found = refusals(new.signature, use.call) - refusals(old.signature, use.call)
    if old.is_async is not new.is_async:
        found |= {"is async" if new.is_async else "is not async"}
    return found


def _meaning(symbols: Symbols, module: str, use: Use) -> _Meaning | None:
    """What a use means in a tree; None if no text there can tell."""
    if use.via == "name":
        return _named(symbols, module, use.name)
    if use.owner not in symbols.definitions(module).classes or is_mangled(use.name):
        return None
    origin = Origin("class", module, use.owner)
    lineage = symbols.lineage(origin)
    found = lineage.provider(use.name, after=1 if use.via == "super" else 0)
    if found is not None:
        return _Meaning(found[0], is_there=True, member=found[1], lineage=lineage)
    if use.via == "self" and (stored := lineage.stores(use.name)) is not None:
        return _Meaning(stored, is_there=True, lineage=lineage)
    return _Meaning(origin, is_there=False, lineage=lineage)


def _named(symbols: Symbols, module: str, name: str) -> _Meaning | None:
    if symbols.find(module, name.partition(".")[0]) is None:
        return None  # a builtin, or an import that is open: that is told elsewhere
    found = symbols.find(module, name)
    if found is None:
        return _Meaning(_holder(symbols, module, name), is_there=False)
    match found.kind:
        case "outside":
            return None
        case "function":
            return _Meaning(found, is_there=True, member=symbols.function(found))
        case "class":
            lineage = symbols.lineage(found)
            made = lineage.provider("__init__")
            own = lineage.provider("__new__") or any(c.decorators for _, c in lineage.classes)
            member = made[1] if made is not None and not own else None
            return _Meaning(found, is_there=True, member=member, lineage=lineage)
        case _:
            return _attribute(symbols, found)


def _holder(symbols: Symbols, module: str, name: str) -> Origin:
    """The longest part of a dotted name that leads somewhere."""
    stem = name.rpartition(".")[0]
    while (found := symbols.find(module, stem)) is None:
        stem = stem.rpartition(".")[0]
    return found


def _attribute(symbols: Symbols, found: Origin) -> _Meaning:
    """What `Class.attribute` means; any other value of a module is there, and that is all."""
    classes = symbols.definitions(found.module).classes
    parts = found.name.split(".")
    for cut in range(len(parts) - 1, 0, -1):
        name = ".".join(parts[:cut])
        if name in classes:
            origin = Origin("class", found.module, name)
            lineage = symbols.lineage(origin)
            has = lineage.provider(parts[cut])
            if has is None:
                return _Meaning(origin, is_there=parts[cut].startswith("__"), lineage=lineage)
            plain = len(parts) > cut + 1 or has[1].form is Form.METHOD
            return _Meaning(has[0], is_there=True, member=None if plain else has[1])
    return _Meaning(found, is_there=True)
