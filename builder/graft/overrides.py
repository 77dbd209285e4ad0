"""What worked in one tree and fails in another: overrides and inherited members.

The first tree is the reference, so that only what differs is a finding: for a grafted file the
donor it comes from, for the base's own file the base as it was.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from builder.graft.broken_uses import broken_uses
from builder.graft.classes import Form
from builder.graft.override_findings import BrokenOverride, DeadOverride, OnlyDeclared
from builder.graft.signatures import narrowings
from builder.graft.subject import is_mangled, may_have, named
from builder.graft.symbols import Origin

if TYPE_CHECKING:
    from collections.abc import Iterator

    from builder.graft.classes import Member
    from builder.graft.findings import Finding
    from builder.graft.override_findings import Where
    from builder.graft.subject import Subject
    from builder.graft.symbols import Lineage

_NOT_POLYMORPHIC: Final = frozenset(
    {"__init__", "__new__", "__post_init__", "__init_subclass__", "__slots__", "__doc__"}
    | {"__module__", "__qualname__", "__annotations__"}
)
_DECLARING: Final = frozenset({"Protocol", "ABC", "typing.Protocol", "abc.ABC"})


def broken(subject: Subject) -> Iterator[Finding]:
    """The findings of one module: class by class its overrides and what it inherits, then uses."""
    known = subject.before.definitions(subject.module).classes
    told: set[tuple[Origin, str]] = set()
    for name in subject.after.definitions(subject.module).classes:
        if name in known:
            yield from _overrides(subject, name)
            yield from _only_declared(subject, name, told)
    yield from broken_uses(subject)


def _overrides(subject: Subject, name: str) -> Iterator[Finding]:
    origin = Origin("class", subject.module, name)
    before, after = subject.before.lineage(origin), subject.after.lineage(origin)
    for member, ours in after.classes[0][1].members.items():
        if member in _NOT_POLYMORPHIC or is_mangled(member):
            continue
        where = subject.at(ours.line, f"{name}.{member}")
        then, now = before.provider(member, after=1), after.provider(member, after=1)
        if now is not None:
            yield from _narrower(subject, where, ours, then, now)
        elif then is not None and not may_have(member, before, after):
            yield from _dead(subject, where, member, then[0])


def _narrower(
    subject: Subject,
    where: Where,
    ours: Member,
    then: tuple[Origin, Member] | None,
    now: tuple[Origin, Member],
) -> Iterator[BrokenOverride]:
    """The finding for an override that callers of the image's base class can break."""
    base, theirs = now
    member = where.symbol.rpartition(".")[2]
    reasons = _conflicts(ours, theirs) - (_conflicts(ours, then[1]) if then else frozenset())
    for _, other in _siblings(subject, base, member) if reasons else ():
        reasons -= _conflicts(other, theirs)  # the image's own do so: its callers can't mind
        if not reasons:
            break
    if reasons:
        yield BrokenOverride(
            where,
            member,
            named(base),
            _shown(ours),
            _shown(theirs),
            tuple(sorted(reasons)),
            subject.closing(base),
        )


def _dead(subject: Subject, where: Where, member: str, base: Origin) -> Iterator[DeadOverride]:
    """The finding for an override of nothing, unless the image's own subclasses have it too."""
    if next(_siblings(subject, base, member), None) is None:
        others = tuple(sorted(set(_differing(subject, base)) - {member}))
        yield DeadOverride(where, member, named(base), others, subject.closing(base))


def _only_declared(
    subject: Subject, name: str, told: set[tuple[Origin, str]]
) -> Iterator[OnlyDeclared]:
    """The methods that a class inherits ready in the reference, and bare in the image."""
    origin = Origin("class", subject.module, name)
    before, after = subject.before.lineage(origin), subject.after.lineage(origin)
    own = after.classes[0][1]
    for member in {name: None for _, base in after.classes[1:] for name in base.members}:
        then, now = before.provider(member), after.provider(member)
        assert now is not None, member
        base, theirs = now
        if not theirs.bare or theirs.form is Form.VALUE or (base, member) in told:
            continue
        if then is None or then[1].bare or then[1].form is Form.VALUE:
            continue
        told.add((base, member))
        if not _is_left_out(subject, base, member):
            where = subject.at(own.line, name)
            yield OnlyDeclared(where, member, named(base), subject.closing(base))


def _is_left_out(subject: Subject, base: Origin, member: str) -> bool:
    """Whether a class of the image derives from the base and does without the bare member too."""
    for lineage in _derived(subject, base, (base.name.rpartition(".")[2],)):
        found = lineage.provider(member)
        is_declaration = bool(_DECLARING & {*lineage.classes[0][1].bases})
        if found is not None and found[0] == base and not is_declaration:
            return True
    return False


def _siblings(subject: Subject, base: Origin, member: str) -> Iterator[tuple[Origin, Member]]:
    """The image's own overrides of a member of a base class, or of what would be one."""
    for lineage in _derived(subject, base, (base.name.rpartition(".")[2], member)):
        origin, found = lineage.classes[0]
        if member in found.members:
            yield origin, found.members[member]


def _derived(subject: Subject, base: Origin, words: tuple[str, ...]) -> Iterator[Lineage]:
    """The lineages of the image's own classes that derive from a base class.

    None when one of those is judged: then their base class is what changed.
    """
    for module in subject.mentioning(words) if subject.where.donor else ():
        for name in subject.after.definitions(module).classes:
            lineage = subject.after.lineage(Origin("class", module, name))
            if any(origin == base for origin, _ in lineage.classes[1:]):
                yield lineage


def _differing(subject: Subject, base: Origin) -> Iterator[str]:
    """The members in which a class of the reference differs from the image's of the same name."""
    theirs = subject.before.definitions(base.module).classes[base.name].members
    found = subject.after.definitions(base.module).classes.get(base.name)
    ours = {} if found is None else found.members
    for name, member in theirs.items():
        other = ours.get(name)
        if other is None or other.as_used != member.as_used:
            yield name


def _conflicts(ours: Member, theirs: Member) -> frozenset[str]:
    """Why callers of one member could fail at another in its place."""
    found = set[str]()
    if theirs.form is Form.VALUE or ours.form is Form.VALUE:
        return frozenset()  # a value may well be called, or be a property
    kinds = {Form.STATIC_METHOD, Form.CLASS_METHOD}
    if ours.form is not theirs.form and not {ours.form, theirs.form} <= kinds:
        found.add(f"is {ours.form.value}, not {theirs.form.value}")
    elif ours.signature and theirs.signature and not ours.decorators | theirs.decorators:
        found |= narrowings(ours.signature, theirs.signature)
    if ours.is_async is not theirs.is_async:
        found.add("is async" if ours.is_async else "is not async")
    return frozenset(found)


def _shown(member: Member) -> str:
    text = member.signature.text() if member.signature else member.form.value
    return f"async {text}" if member.is_async else text
