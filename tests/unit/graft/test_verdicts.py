from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from builder.graft.closure import OurFile, check_closure
from builder.graft.grafted import broken_by_graft
from builder.graft.override_findings import DeadOverride
from builder.graft.records import UnknownRecordError, read_findings, write_findings
from builder.image_section import Register
from tests.unit.graft.attempts import grafted, inputs_of
from tests.unit.graft.images import SITE
from tests.unit.graft.test_closure import Attempt

if TYPE_CHECKING:
    from builder.digest import Digest
    from builder.graft.closure import ClosureInputs

BASE = {"net.py": "class Net: ...\n", "t.py": "T = {}\n", "new.py": ""}
DONOR = {
    "net.py": "class Net:\n    def build(self, a): ...\n",
    "t.py": 'T = {"New": 1}\n',
    "new.py": "from .net import Net\nclass New(Net):\n    def build(self, a): ...\n",
}


class MemoryVerdicts:
    """A builder.graft.verdicts.Verdicts in a dict."""

    def __init__(self, checker: str = "1") -> None:
        self.checker = checker
        self.data: dict[Digest, bytes] = {}

    def read(self, key: Digest) -> bytes | None:
        return self.data.get(key)

    def write(self, key: Digest, data: bytes) -> None:
        self.data[key] = data


class Counter:
    """The check of modules, counted."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        real = broken_by_graft

        def counted(*args: object) -> object:
            self.count += 1
            return real(*args)  # type: ignore[arg-type]

        monkeypatch.setattr("builder.graft.closure.broken_by_graft", counted)


@pytest.fixture
def inputs() -> ClosureInputs:
    return inputs_of(BASE, DONOR, ["new.py"])


@pytest.fixture
def checks(monkeypatch: pytest.MonkeyPatch) -> Counter:
    return Counter(monkeypatch)


def test_a_kept_verdict_says_the_same_and_parses_nothing(
    inputs: ClosureInputs, checks: Counter
) -> None:
    verdicts = MemoryVerdicts()
    first = check_closure(inputs, verdicts)

    assert [type(item).__name__ for item in first] == ["DeadOverride", "MissingEntries"]
    assert check_closure(inputs, verdicts) == first == check_closure(inputs)
    assert checks.count == 2  # the first, and the one without verdicts


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[:0],
        lambda data: data[:-1],
        lambda data: data + b" ",
        lambda data: data.partition(b"\n")[2],
        lambda data: data.partition(b"\n")[0] + b"\n[]",
        lambda data: data.replace(b"build", b"built"),
        lambda data: b"\xff" * len(data),
    ],
)
def test_a_damaged_verdict_never_silences_a_finding(inputs: ClosureInputs, damage: object) -> None:
    verdicts = MemoryVerdicts()
    first = check_closure(inputs, verdicts)
    ((key, data),) = verdicts.data.items()
    verdicts.data[key] = damage(data)  # type: ignore[operator]

    assert check_closure(inputs, verdicts) == first
    assert verdicts.data[key] == data


def test_places_may_hold_bytes_of_no_encoding(inputs: ClosureInputs) -> None:
    verdicts = MemoryVerdicts()
    register = Register(package="vllm", file="t.py", table="T", entries={"A": ("b", "C")})
    odd = replace(inputs, place="/\udcc3/cluster.toml: {}".format, registers=(register,))

    assert check_closure(odd, verdicts) == check_closure(odd, verdicts) == check_closure(odd)
    assert len(verdicts.data) == 1


def test_a_verdict_of_another_image_under_this_key_is_none(inputs: ClosureInputs) -> None:
    verdicts, others = MemoryVerdicts(), MemoryVerdicts()
    first = check_closure(inputs, verdicts)
    assert check_closure(inputs_of(DONOR, DONOR, ["new.py"]), others) == ()
    (key,) = verdicts.data
    (silent,) = others.data.values()
    verdicts.data[key] = silent

    assert check_closure(inputs, verdicts) == first


def test_another_checker_or_python_judges_anew(
    inputs: ClosureInputs, checks: Counter, monkeypatch: pytest.MonkeyPatch
) -> None:
    verdicts = MemoryVerdicts("1")
    check_closure(inputs, verdicts)
    verdicts.checker = "2"
    check_closure(inputs, verdicts)
    assert checks.count == 2
    monkeypatch.setattr(sys, "version", "3.99")
    check_closure(inputs, verdicts)
    assert checks.count == 3


@pytest.mark.parametrize(
    "change",
    [
        {"architectures": ("New",)},
        {"model_type": "new"},
        {"donors": {}},
        {"picks": ()},
        {"files": (OurFile(f"{SITE}/vllm/own.py", 0o644, b"import vllm.gone\n"),)},
        {"tables": (OurFile(f"{SITE}/vllm/t.py", 0o644, b'T = {"New": 1}\n'),)},
        {"place": "other.toml: {}".format, "registers": (
            Register(package="vllm", file="t.py", table="T", entries={"A": ("b", "C")}),)},
    ],
)  # fmt: skip
def test_whatever_decides_the_verdict_is_in_its_key(
    inputs: ClosureInputs, change: dict[str, object]
) -> None:
    verdicts = MemoryVerdicts()
    check_closure(inputs, verdicts)
    changed = replace(inputs, **change)  # type: ignore[arg-type]

    assert check_closure(changed, verdicts) == check_closure(changed)
    assert len(verdicts.data) == 2


def test_a_changed_module_of_base_or_donor_judges_anew() -> None:
    verdicts = MemoryVerdicts()
    for base, donor in (
        (BASE, DONOR),
        (BASE | {"net.py": DONOR["net.py"]}, DONOR),
        (BASE, DONOR | {"net.py": "class Net: ...\n"}),
        (BASE | {"more.py": ""}, DONOR),
    ):
        inputs = inputs_of(base, donor, ["new.py"])
        assert check_closure(inputs, verdicts) == grafted(base, donor, ["new.py"])
    assert len(verdicts.data) == 4


def test_every_finding_survives_being_written() -> None:
    attempt = Attempt()
    attempt.grafted = attempt.grafted[:1]
    attempt.registers = ()
    found = (*attempt.check(), *grafted(BASE, DONOR, ["new.py"]))

    assert len({type(item) for item in found}) == 4
    assert read_findings(write_findings(found)) == found


@pytest.mark.parametrize(
    "data",
    [
        b"", b"{}", b"[1]", b"null", b'[{"is": "Gone", "with": {}}]', b"[" * 100_000,
        b'[{"is": "DonorFile", "with": {"donor": "a"}}]', b'[{"a": 1}]', b"\xff",
    ],
)  # fmt: skip
def test_other_json_is_refused(data: bytes) -> None:
    with pytest.raises(UnknownRecordError):
        read_findings(data)


def test_a_kept_override_is_the_same_class_again(inputs: ClosureInputs) -> None:
    (found, _) = check_closure(inputs)

    (again,) = read_findings(write_findings([found]))
    assert isinstance(again, DeadOverride)
    assert again.message == found.message
