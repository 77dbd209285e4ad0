"""Which findings can be accepted, under which names, and what becomes of the others."""

from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING, get_args

import pytest

from builder.errors import Message
from builder.graft import findings, override_findings, table_findings
from builder.graft.acceptance import Acceptable, StaleAcceptance, offered, unaccepted
from builder.graft.closure import check_closure
from builder.graft.command_findings import MissingCommand
from builder.graft.findings import (
    DonorFile,
    LostModule,
    LostName,
    MissingClass,
    NotInstalled,
    OpenImport,
    OtherFailure,
    UnknownArchitecture,
    UnknownModelType,
    UnreadableModule,
    WrongVersion,
)
from builder.graft.mentions import Entry
from builder.graft.override_findings import (
    BrokenCall,
    BrokenOverride,
    DeadOverride,
    LostMember,
    OnlyDeclared,
    Where,
)
from builder.graft.plugin_findings import PluginNotLoaded
from builder.graft.table_findings import MissingEntries, Place, UnnamedInCode
from builder.identities import KINDS, Kind, identity, kind_of
from builder.image_section import Accept
from tests.unit.graft.attempts import grafted, inputs_of
from tests.unit.graft.test_verdicts import BASE, DONOR, MemoryVerdicts

if TYPE_CHECKING:
    from builder.graft.findings import Finding

WHERE = Where("lib/vllm/m.py", 3, "vllm.m", "New.f", "d")
FILE = DonorFile("d", "t.py", replaces=True)
PLACE = Place("lib/vllm/t.py", "vllm", "t.py", "d", is_there=True)


def entry(key: str | None, value: str) -> Entry:
    return Entry('T["a"]', key, value, 3, frozenset(), frozenset(), "")


JUDGED: dict[str, Acceptable] = {
    "override vllm.m:New.f of vllm.b:B": DeadOverride(WHERE, "f", "vllm.b:B", (), None),
    "signature vllm.m:New.f of vllm.b:B: has no *args, requires x": BrokenOverride(
        WHERE, "f", "vllm.b:B", "(x)", "()", ("has no *args", "requires x"), None
    ),
    "member vllm.m:New.f self.x of vllm.b:B": LostMember(WHERE, "self.x", "vllm.b:B", None),
    "call vllm.m:New.f of vllm.b:g: requires x": BrokenCall(
        WHERE, "g", "vllm.b:g", "(x)", ("requires x",), None
    ),
    "inherited vllm.m:New.f g of vllm.b:B": OnlyDeclared(WHERE, "g", "vllm.b:B", None),
    "table vllm/t.py T[\"a\"] of k\\n\\u202e, 'v'": MissingEntries(
        PLACE,
        'T["a"]',
        3,
        (entry("k\n\u202e", "1"), entry(None, "'v'")),
        unbound=(),
        can_register=False,
        closed_by=FILE,
    ),
    "code vllm/t.py f of a, b": UnnamedInCode(PLACE, "f", 3, ("a", "b"), FILE),
    "code vllm/t.py of \\udcc3": UnnamedInCode(PLACE, "", 3, ("\udcc3",), FILE),
    "lost vllm.m:helper in vllm.user": LostName(
        "u.py", 3, "vllm.m", "helper", "vllm.user", "m.py", "d", None
    ),
    "installed einops in vllm.m": NotInstalled("m.py", 3, "einops", "vllm.m", "d", has_top=False),
    "lost vllm.m in vllm.user": LostModule("u.py", 3, "vllm.m", "", "vllm.user", "m.py"),
    "lost vllm.m:X in vllm.user": LostModule("u.py", 3, "vllm.m", "X", "vllm.user", "m.py"),
    "model_type foo": UnknownModelType("foo", ("c.py",), "vllm", "c.py", (), None),
}
"""One of every kind, by the name under which it can be accepted."""

OFFER = "\nor accept it as it is, with a reason:\n"

FACTS: list[Finding] = [
    OpenImport("a.py", 3, "vllm.b", "X", None, ""),
    UnreadableModule("a.py", 3, "invalid syntax"),
    MissingClass("p", "K", "vllm.b", "X", has_module=True, near=(), closed_by=None),
    UnknownArchitecture("X", "r.py", "vllm", "r.py", (), None),
    WrongVersion("p", "vllm", "1", "2"),
    PluginNotLoaded("p", "plugin", "other"),
    OtherFailure(Message("p", "what", "do")),
    MissingCommand("p", "./run.sh", "/run.sh", "/", (), ()),
]


def accepts(*names: str) -> tuple[Accept, ...]:
    return tuple(Accept(finding=name, reason="why") for name in names)


def left(found: tuple[Finding, ...], *names: str, with_donors: bool = True) -> list[Finding]:
    """What is left of the findings when these names are accepted."""
    place = "cluster.toml: {}".format
    return [*unaccepted(found, accepts(*names), place, with_donors=with_donors)]


def test_every_kind_is_told_of() -> None:
    assert {type(item) for item in JUDGED.values()} == set(get_args(Acceptable))
    assert {kind_of(name) for name in JUDGED} == set(KINDS)
    named = {
        item
        for module in (findings, override_findings, table_findings)
        for item in vars(module).values()
        if isinstance(item, type) and isinstance(vars(item).get("identity"), property)
    }
    assert named == set(get_args(Acceptable))


@pytest.mark.parametrize(("name", "finding"), JUDGED.items(), ids=map(kind_of, JUDGED))
def test_the_lines_that_are_written_out_accept_the_finding(name: str, finding: Acceptable) -> None:
    message = offered(finding)
    lines = message.remedy.partition(OFFER)[2].replace('reason = ""', 'reason = "why"')
    document = tomllib.loads(lines)
    (written,) = document["image"]["accept"]

    assert finding.identity == name
    assert Accept.model_validate(written) == accepts(name)[0]
    assert left((finding,)) == [finding]
    assert left((finding,), written["finding"]) == []
    assert message.remedy.startswith(f"{finding.message.remedy}{OFFER}")


@pytest.mark.parametrize("finding", FACTS, ids=lambda item: type(item).__name__)
def test_what_is_no_judgement_offers_no_acceptance(finding: Finding) -> None:
    assert offered(finding) == finding.message
    assert left((finding,), *JUDGED) == [finding]
    assert left((*JUDGED.values(), finding), *JUDGED) == [finding]


def test_an_acceptance_of_nothing_is_told_behind_the_findings() -> None:
    dead = JUDGED["override vllm.m:New.f of vllm.b:B"]
    other, near = "model_type bar", "override vllm.m:New.g of vllm.b:B"

    assert left((dead,), "model_type foo", near) == [
        dead,
        StaleAcceptance("cluster.toml: image.accept[0]", "model_type foo", ""),
        StaleAcceptance("cluster.toml: image.accept[1]", near, "override vllm.m:New.f of vllm.b:B"),
    ]
    (stale,) = left((), other)
    assert stale.message.text() == (
        "cluster.toml: image.accept[0]: this accepts a finding that there is not\n"
        "  expected: a finding of the closure check\n"
        "  found:    none named model_type bar\n"
        "  remedy:   remove this [[image.accept]]: what it accepted is no more"
    )


def test_without_donors_only_what_needs_none_is_missed() -> None:
    missed = left((), *JUDGED, with_donors=False)

    assert [item.finding for item in missed if isinstance(item, StaleAcceptance)] == [
        name for name in JUDGED if kind_of(name) in {"lost", "model_type"}
    ]


def test_one_acceptance_is_for_all_findings_of_its_name_and_for_no_other() -> None:
    first, second, other = (
        BrokenCall(Where("m.py", line, "m", "f", "d"), "g", "m:g", "(x)", (reason,), None)
        for line, reason in ((3, "requires x"), (9, "requires x"), (3, "requires y"))
    )

    assert left((first, second, other), first.identity) == [other]


def test_names_do_not_move_with_lines_and_what_is_around() -> None:
    moved = {name: f"# one\n# two\n{text}" for name, text in DONOR.items()}
    before = grafted(BASE, DONOR, ["new.py"])
    after = grafted(BASE, moved, ["new.py"])

    assert before != after
    names = [item.identity for item in before if isinstance(item, Acceptable)]
    assert names == ["override vllm.new:New.build of vllm.net:Net", "table vllm/t.py T of New"]
    assert left(after, *names) == []


def test_a_kept_verdict_knows_nothing_of_what_is_accepted() -> None:
    verdicts, inputs = MemoryVerdicts(), inputs_of(BASE, DONOR, ["new.py"])
    first = check_closure(inputs, verdicts)
    names = [item.identity for item in first if isinstance(item, Acceptable)]

    assert left(check_closure(inputs, verdicts), *names) == []
    assert left(check_closure(inputs, verdicts)) == [*first]
    assert len(verdicts.data) == 1


def test_an_identity_is_one_line_of_what_can_be_seen() -> None:
    assert identity(Kind.CODE, "é 文", "a\nb\t\x7f\u202e\xa0") == (
        "code é 文 a\\nb\\t\\x7f\\u202e\\xa0"
    )
