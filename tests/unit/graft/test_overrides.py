from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from builder.graft.acceptance import ClosureError
from builder.graft.findings import DonorFile
from builder.graft.override_findings import (
    BrokenCall,
    BrokenOverride,
    DeadOverride,
    LostMember,
    OnlyDeclared,
)
from tests.unit.graft.attempts import grafted
from tests.unit.graft.images import SITE

if TYPE_CHECKING:
    from builder.graft.findings import Finding

NEXT = """\
import torch
from .protocols import Served

class Net(torch.nn.Module):
    def __init__(self, config, prefix=""):
        self.width = config.width
        self.proj = self.build(config)

    def build(self, config): return config

    @property
    def kind(self): return "net"

    def sized(self, *, height, width): return height

    async def answer(self, x): return x

def helper(a, b=1, *, c=2): return a
"""
PROTOCOLS = """\
from typing import Protocol, TypeVar, Generic
T = TypeVar("T")

class Served(Protocol[T]):
    def served(self, name: str) -> str: return name
    def language(self) -> str: return "en"
"""
BASE = {"models/net.py": NEXT, "models/protocols.py": PROTOCOLS, "models/new.py": ""}


Override = DeadOverride | BrokenOverride | LostMember | BrokenCall | OnlyDeclared


def found(model: str, base: dict[str, str]) -> list[Override]:
    """The findings of models/new.py, grafted from a donor that is else like BASE."""
    return overrides(grafted(BASE | base, BASE | {"models/new.py": model}, ["models/new.py"]))


def overrides(findings: tuple[Finding, ...]) -> list[Override]:
    """The findings, none of which is of another kind."""
    kept = [item for item in findings if isinstance(item, Override)]
    assert len(kept) == len(findings)
    return kept


LAZY = """\
_LAZY = {"Net": "vllm.shapes.base"}

def __getattr__(name):
    if name in _LAZY:
        return load(_LAZY[name])
    raise AttributeError(name)
"""
NEW, NET = "vllm.models.new:New", "vllm.models.net:Net"
NARROWER = "has no parameter other, takes 1 positional arguments of 2"
MODEL = """\
from .net import Net, helper
from .protocols import Served
from . import net

class New(Net, Served[int]):
    def __init__(self, config):
        super().__init__(config, prefix="x")
        self.answering = self.sized(height=1, width=2)
    def build(self, config): return [config, self.width]
    @property
    def kind(self): return super().kind
    def sized(self, *, height, width): return super().sized(height=height, width=width)
    async def answer(self, x): return x
    def served(self, name): return name

def make(config):
    return helper(1, c=3), net.helper(1, 2), net.Net(config, prefix="y"), Net.kind
"""


def test_what_works_as_in_the_donor_is_silent() -> None:
    assert found(MODEL, {}) == []


@pytest.mark.parametrize(
    ("old", "new", "kind", "identity"),
    [
        (
            "self.build(config)\n\n    def build(self, config): return config\n",
            "None\n",
            DeadOverride,
            "override vllm.models.new:New.build of vllm.models.net:Net",
        ),
        (
            "def build(self, config)",
            "def build(self, config, other)",
            BrokenOverride,
            f"signature {NEW}.build of {NET}: {NARROWER}",
        ),
        (
            "    @property\n    def kind",
            "    def kind",
            BrokenOverride,
            f"signature {NEW}.kind of {NET}: is a property, not a method",
        ),
        (
            "async def answer",
            "def answer",
            BrokenOverride,
            "signature vllm.models.new:New.answer of vllm.models.net:Net: is async",
        ),
        (
            "self.width = config.width",
            "self.breadth = 1",
            LostMember,
            "member vllm.models.new:New.build self.width of vllm.models.net:Net",
        ),
        (
            'def __init__(self, config, prefix="")',
            "def __init__(self, config)",
            BrokenCall,
            "call vllm.models.new:New.__init__ of vllm.models.net:Net: has no parameter prefix",
        ),
        (
            "def helper(a, b=1, *, c=2)",
            "def helper(a, b=1)",
            BrokenCall,
            "call vllm.models.new:make of vllm.models.net:helper: has no parameter c",
        ),
        (
            "def helper(a, b=1, *, c=2)",
            "def helper(a, b=1, *, c=2, d)",
            BrokenCall,
            "call vllm.models.new:make of vllm.models.net:helper: requires d",
        ),
    ],
)
def test_what_the_image_has_otherwise_is_found(
    old: str, new: str, kind: type[object], identity: str
) -> None:
    assert NEXT.count(old) == 1
    findings = found(MODEL, {"models/net.py": NEXT.replace(old, new)})

    assert identity in [finding.identity for finding in findings if isinstance(finding, kind)]
    for finding in findings:
        assert finding.closed_by == DonorFile("new", "models/net.py", replaces=True)


def test_a_finding_names_file_line_symbol_and_what_would_close_it() -> None:
    other = NEXT.replace(
        "self.build(config)\n\n    def build(self, config): return config\n", "0\n"
    )

    (finding,) = grafted(
        BASE | {"models/net.py": other}, BASE | {"models/new.py": MODEL}, ["models/new.py"]
    )

    assert str(ClosureError((finding,))) == (
        f"/{SITE}/vllm/models/new.py:9: New.build overrides what the assembled image's "
        "vllm.models.net:Net does not have, so it is never called\n"
        "  expected: vllm.models.net:Net to have build, as in donor new\n"
        "  found:    a class without it\n"
        '  remedy:   add "models/net.py" to the [[image.graft]] files of donor new, in place of '
        "the base's own, or change the base class or the override by [[image.patch]]\n"
        "            or accept it as it is, with a reason:\n"
        "            [[image.accept]]\n"
        '            finding = "override vllm.models.new:New.build of vllm.models.net:Net"\n'
        '            reason = ""'
    )


def test_what_the_donor_implements_and_the_image_only_declares_is_found() -> None:
    bare = PROTOCOLS.replace('str: return "en"', "str: ...")

    (finding,) = found(MODEL, {"models/protocols.py": bare})

    assert isinstance(finding, OnlyDeclared)
    assert (finding.member, finding.base) == ("language", "vllm.models.protocols:Served")
    assert "only declares" in finding.message.what


def test_a_declaration_that_the_images_own_classes_do_without_is_no_demand() -> None:
    bare = PROTOCOLS.replace('str: return "en"', "str: ...")
    own = "from .protocols import Served\nclass Own(Served): ...\n"

    assert found(MODEL, {"models/protocols.py": bare, "models/own.py": own}) == []


def test_a_signature_that_the_images_own_classes_break_too_is_no_demand() -> None:
    loose = PROTOCOLS.replace("def served(self, name: str)", "def served(self, *, extra=0)")
    own = "from .protocols import Served\nclass Own(Served):\n    def served(self, name): ...\n"

    (finding,) = found(MODEL, {"models/protocols.py": loose})
    assert isinstance(finding, BrokenOverride)
    assert finding.reasons == ("has no parameter extra", "requires name")
    assert found(MODEL, {"models/protocols.py": loose, "models/own.py": own}) == []


@pytest.mark.parametrize(
    ("package", "line"),
    [
        ("from .base import Net", "from vllm.shapes import Net"),
        ("from vllm.shapes.base import *", "from vllm.shapes import Net"),
        ("from . import base\nNet = base.Net", "from vllm.shapes import Net as Net"),
        ("from .base import Net as Other", "import vllm.shapes as s\nNet = s.Other"),
        ("", "from vllm.shapes.base import Net"),
        ("", "import vllm.shapes.base\nNet = vllm.shapes.base.Net"),
        ("try:\n    from .fast import Net\nexcept ImportError:\n    from .base import Net",
         "from vllm.shapes import Net"),
        (LAZY, "from vllm.shapes import Net"),
    ],
)  # fmt: skip
def test_a_base_class_is_followed_however_it_is_named(package: str, line: str) -> None:
    model = f"{line}\nclass Mid(Net): ...\nclass New(Mid):\n    def made(self): ...\n"
    donor = {
        "shapes/__init__.py": package,
        "shapes/base.py": "class Root:\n    def made(self): ...\nclass Net(Root): ...\n",
        "new.py": model,
    }
    base = donor | {"shapes/base.py": "class Root: ...\nclass Net(Root): ...\n"}

    (finding,) = grafted(base, donor, ["new.py"])

    assert isinstance(finding, DeadOverride)
    assert finding.base == "vllm.shapes.base:Root"


@pytest.mark.parametrize(
    "image",
    [
        "from torch import Other\nclass Net(Other): ...\n",
        "class Net:\n    def __getattr__(self, name): ...\n",
        "class Net:\n    def __init__(self, names):\n        for n in names: setattr(self, n, 1)\n",
        "class Net:\n    def __init__(self): self.__dict__.update(build=1)\n",
        "from .own import *\nclass Net(Mixin): ...\n",
        "class Mixin:\n    def build(self): ...\nclass Net(Mixin): ...\n",
        "class Net:\n    def __init__(self): self.build = None\n",
    ],
)
def test_what_may_be_there_after_all_is_not_told(image: str) -> None:
    donor = {
        "net.py": "class Net:\n    def build(self): ...\n",
        "own.py": "",
        "new.py": "from .net import Net\nclass New(Net):\n    def other(self): self.build()\n",
    }
    own = "class Mixin:\n    def build(self): ...\n"

    assert grafted(donor | {"net.py": image, "own.py": own}, donor, ["new.py"]) == ()


def test_uses_under_a_test_or_a_handler_may_fail() -> None:
    donor = {
        "net.py": "class Net:\n    size = 1\n    def build(self, x): ...\ndef go(x): ...\n",
        "new.py": (
            "from . import net\n"
            "class New(net.Net):\n"
            "    def a(self):\n"
            '        if hasattr(self, "build"):\n'
            "            self.build(1)\n"
            "    def b(self, net):\n"
            "        return net.go(1)\n"
            "    def c(self):\n"
            "        try:\n"
            "            return net.go(1), self.size\n"
            "        except (TypeError, AttributeError):\n"
            "            return None\n"
        ),
    }

    assert grafted(donor | {"net.py": "class Net: ...\n"}, donor, ["new.py"]) == ()


def test_overloads_and_setters_are_not_the_signature() -> None:
    donor = {
        "net.py": "class Net:\n    def get(self, key, other=None): ...\n    size = 1\n",
        "new.py": (
            "from typing import overload\nfrom .net import Net\n"
            "class New(Net):\n"
            "    @overload\n    def get(self, key: int): ...\n"
            "    @overload\n    def get(self, key: str, other: int): ...\n"
            "    def get(self, key, other=None): ...\n"
            "    @property\n    def size(self): return 1\n"
            "    @size.setter\n    def size(self, value): ...\n"
        ),
    }

    base = donor | {"net.py": "class Net:\n    def get(self, key, other): ...\n    size = 1\n"}
    assert grafted(base, donor, ["new.py"]) == ()


def test_the_bases_own_files_that_a_graft_breaks_are_found() -> None:
    donor = {
        "net.py": "class Net:\n    def build(self, a): ...\ndef go(x): ...\n",
        "user.py": "from .net import Net, go\nclass User(Net):\n    def build(self, a): go(a)\n",
    }
    base = {
        "net.py": "class Net:\n    def build(self): ...\n    def a(self): ...\ndef go(): ...\n",
        "user.py": "from .net import Net, go\nclass User(Net):\n    def build(self): go(self.a)\n"
        "    def other(self): go()\n",
    }

    kinds = {type(item): item for item in overrides(grafted(base, donor, ["net.py"]))}

    assert set(kinds) == {BrokenOverride, LostMember, BrokenCall}
    for item in kinds.values():
        assert item.where.donor == ""
        assert item.closed_by == DonorFile("new", "user.py", replaces=True)
    assert grafted(base, donor, ["net.py", "user.py"]) == ()
