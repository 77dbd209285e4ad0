from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from builder.errors import BuildError
from builder.graft.acceptance import ClosureError
from builder.graft.closure import ClosureInputs, OurFile, check_closure
from builder.graft.commands import Launch
from builder.graft.findings import (
    DonorEntry,
    DonorFile,
    Finding,
    LostModule,
    LostName,
    MissingClass,
    OpenImport,
    OtherFailure,
    UnknownArchitecture,
    UnreadableModule,
    WrongVersion,
)
from builder.graft.packages import find_package
from builder.graft.pick import Pick, pick
from builder.graft.tables import edit_table
from builder.image_section import Graft, Register
from builder.oci.model import Platform
from tests.unit.graft.images import SITE, MemoryImage, python_image

if TYPE_CHECKING:
    from builder.digest import Digest

VENV = "opt/venv/lib/python3.12/site-packages"
MODELS = "model_executor/models"
REGISTRY = f"{MODELS}/registry.py"
MAMBA = "model_executor/layers/mamba_utils.py"
ARCHITECTURE = "Qwen3_5ForConditionalGeneration"

BASE_REGISTRY = """\
_TEXT_GENERATION_MODELS = {
    "Qwen3NextForCausalLM": ("qwen3_next", "Qwen3NextForCausalLM"),
}

_MULTIMODAL_MODELS = {
    "Qwen3VLForConditionalGeneration": (
        "qwen3_vl",
        "Qwen3VLForConditionalGeneration",
    ),
}

_PREVIOUSLY_SUPPORTED_MODELS = {"MotifForCausalLM": "0.10.2"}

_VLLM_MODELS = {**_TEXT_GENERATION_MODELS, **_MULTIMODAL_MODELS}
"""
BASE = {
    REGISTRY: BASE_REGISTRY,
    f"{MODELS}/interfaces.py": "class SupportsPP: ...\nclass IsHybrid: ...\n",
    f"{MODELS}/qwen3_next.py": "from .interfaces import IsHybrid\nclass Next(IsHybrid): ...\n",
    f"{MODELS}/utils.py": "def maybe_prefix(): ...\n",
    MAMBA: "class MambaStateShapeCalculator: ...\n",
    "v1/worker/runner.py": (
        "from vllm.model_executor.models.interfaces import (\n    IsHybrid,\n    SupportsPP,\n)\n"
    ),
}
MODEL = f"""\
from torch import nn
from typing import TYPE_CHECKING

from vllm.model_executor.layers.mamba_utils import (
    MambaStateCopyFunc,
    MambaStateShapeCalculator,
)
from vllm.model_executor.models import utils

from .interfaces import IsHybrid
from .qwen3_next import *

if TYPE_CHECKING:
    from vllm.nowhere import Nothing

try:
    from vllm.fast import kernel
except ImportError:
    kernel = None


class {ARCHITECTURE}(nn.Module, IsHybrid): ...
"""
DONOR = {
    **BASE,
    REGISTRY: BASE_REGISTRY.replace(
        "_MULTIMODAL_MODELS = {\n",
        f'_MULTIMODAL_MODELS = {{\n    "{ARCHITECTURE}": ("qwen3_5", "{ARCHITECTURE}"),\n',
    ),
    f"{MODELS}/qwen3_5.py": MODEL,
    MAMBA: "class MambaStateShapeCalculator: ...\nMambaStateCopyFunc = object\n",
}
REGISTER = Register(
    package="vllm",
    file=REGISTRY,
    table="_MULTIMODAL_MODELS",
    entries={ARCHITECTURE: ("qwen3_5", ARCHITECTURE)},
)
PLACE = f"/{SITE}/vllm/{MODELS}"


class Attempt:
    """A graft from one donor; every part can be changed before it is checked."""

    def __init__(self) -> None:
        self.base = python_image(BASE, version="0.14.0")
        self.base.file("usr/bin/python3", b"\x7fELF" + bytes(14) + b"\xb7\x00", 0o755)
        self.base.file("usr/local/bin/vllm", "#!/usr/bin/python3\n", 0o755)
        self.donor = python_image(DONOR, site=VENV, version="0.17.0")
        self.grafted = [f"{MODELS}/qwen3_5.py", MAMBA]
        self.registers: tuple[Register, ...] = (REGISTER,)
        self.own: tuple[OurFile, ...] = ()
        self.architectures: tuple[str, ...] = (ARCHITECTURE,)
        self.version = "0.14.0"

    def read(self, digest: Digest) -> bytes:
        return (self.base.blobs | self.donor.blobs)[digest]

    def tables(self) -> tuple[OurFile, ...]:
        edited: dict[str, bytes] = {}
        for register in self.registers:
            path = f"{SITE}/vllm/{register.file}"
            content = self.base.entries[path].content
            assert content is not None
            source = edited.get(path) or self.read(content)
            edit = edit_table(source, register.entries, table=register.table, place=path)
            edited[path] = edit.after
        return tuple(OurFile(path, 0o644, data) for path, data in edited.items())

    def inputs(self) -> ClosureInputs:
        root = find_package(self.base.tree, "vllm", image="base")
        picks: tuple[Pick, ...] = ()
        if self.grafted:
            graft = Graft(donor="qwen", package="vllm", files=tuple(self.grafted))
            picks = pick(self.donor.tree, graft, root, place="cluster.toml: image.graft[0]")
        return ClosureInputs(
            base=self.base.tree,
            read=self.read,
            launch=Launch((), "/", ("/usr/local/bin",), None, (), Platform("linux", "arm64")),
            vllm_version=self.version,
            picks=picks,
            tables=self.tables(),
            files=self.own,
            registers=self.registers,
            architectures=self.architectures,
            donors={"qwen": self.donor.tree},
        )

    def check(self) -> tuple[Finding, ...]:
        return check_closure(self.inputs())

    def text(self) -> str:
        return str(ClosureError(check_closure(self.inputs())))


def test_a_right_graft_gives_nothing() -> None:
    assert Attempt().check() == ()


def test_a_base_without_any_change_gives_nothing() -> None:
    attempt = Attempt()
    attempt.grafted, attempt.registers = [], ()
    attempt.architectures = ("Qwen3NextForCausalLM",)

    assert attempt.check() == ()


def test_a_name_that_the_base_lacks_is_reported_with_the_donor_file_that_has_it() -> None:
    attempt = Attempt()
    attempt.grafted = [f"{MODELS}/qwen3_5.py"]

    assert attempt.check() == (
        OpenImport(
            file=f"{SITE}/vllm/{MODELS}/qwen3_5.py",
            line=4,
            module="vllm.model_executor.layers.mamba_utils",
            symbol="MambaStateCopyFunc",
            closed_by=DonorFile("qwen", MAMBA, replaces=True),
            donor="qwen",
        ),
    )
    assert attempt.text() == (
        f"{PLACE}/qwen3_5.py:4: imports MambaStateCopyFunc of "
        "vllm.model_executor.layers.mamba_utils, which the assembled image does not have\n"
        "  expected: vllm.model_executor.layers.mamba_utils to define MambaStateCopyFunc\n"
        "  found:    a module without that name\n"
        f'  remedy:   add "{MAMBA}" to the [[image.graft]] files of donor qwen, '
        "in place of the base's own"
    )


def test_without_donors_the_finding_is_the_same_but_for_the_remedy() -> None:
    attempt = Attempt()
    attempt.grafted = [f"{MODELS}/qwen3_5.py"]

    (found,) = check_closure(replace(attempt.inputs(), donors={}))

    assert isinstance(found, OpenImport)
    assert found.closed_by is None
    assert "no donor has it" in found.message.remedy


@pytest.mark.parametrize(
    ("line", "module", "symbol", "closing"),
    [
        ("import vllm.offloader", "vllm.offloader", "", "offloader/__init__.py"),
        ("from vllm.offloader import load", "vllm.offloader", "", "offloader/__init__.py"),
        ("from vllm import offloader", "vllm", "offloader", "offloader/__init__.py"),
        ("from ...offloader.cpu import x", "vllm.offloader.cpu", "", "offloader/cpu.py"),
        ("def f():\n    import vllm.offloader.cpu", "vllm.offloader.cpu", "", "offloader/cpu.py"),
        ("from vllm import gone", "vllm", "gone", None),
        ("from ..... import gone", ".....", "", None),
    ],
)
def test_missing_modules_are_reported_however_they_are_imported(
    line: str, module: str, symbol: str, closing: str | None
) -> None:
    attempt = Attempt()
    attempt.donor.file(f"{VENV}/vllm/offloader/__init__.py").file(f"{VENV}/vllm/offloader/cpu.py")
    attempt.donor.file(f"{VENV}/vllm/{MODELS}/qwen3_5.py", f"{MODEL}\n{line}\n")

    (found,) = attempt.check()

    assert isinstance(found, OpenImport)
    assert (found.module, found.symbol) == (module, symbol)
    assert (found.closed_by.file if found.closed_by else None) == closing


def test_a_donor_without_the_package_is_passed_over() -> None:
    attempt = Attempt()
    attempt.grafted = [f"{MODELS}/qwen3_5.py"]
    inputs = attempt.inputs()

    (found,) = check_closure(
        replace(inputs, donors={"a": MemoryImage().tree, "z": attempt.donor.tree})
    )

    assert isinstance(found, OpenImport)
    assert found.closed_by == DonorFile("z", MAMBA, replaces=True)


def test_the_donor_of_the_grafted_file_is_asked_before_the_others() -> None:
    attempt = Attempt()
    attempt.grafted = [f"{MODELS}/qwen3_5.py"]
    trees = {"another": attempt.donor.tree, "qwen": attempt.donor.tree}

    (found,) = check_closure(replace(attempt.inputs(), donors=trees))

    assert isinstance(found, OpenImport)
    assert found.closed_by == DonorFile("qwen", MAMBA, replaces=True)


def test_a_compiled_module_of_a_donor_is_not_offered() -> None:
    attempt = Attempt()
    attempt.donor.file(f"{VENV}/vllm/_fast.abi3.so")
    attempt.donor.file(f"{VENV}/vllm/{MODELS}/qwen3_5.py", f"{MODEL}\nimport vllm._fast\n")

    (found,) = attempt.check()

    assert isinstance(found, OpenImport)
    assert found.closed_by is None


def test_our_own_modules_are_checked_too_and_may_close_an_import() -> None:
    attempt = Attempt()
    attempt.grafted = [f"{MODELS}/qwen3_5.py"]
    target = f"{SITE}/vllm/{MAMBA}"
    text = b"from vllm.absent import x\nMambaStateCopyFunc = MambaStateShapeCalculator = 1\n"
    attempt.own = (OurFile(target, 0o644, text),)

    (found,) = attempt.check()

    assert isinstance(found, OpenImport)
    assert (found.file, found.module) == (target, "vllm.absent")


def test_a_replaced_file_may_not_lack_what_the_base_imports_from_it() -> None:
    attempt = Attempt()
    attempt.donor.file(f"{VENV}/vllm/{MODELS}/interfaces.py", "class IsHybrid: ...\n")
    attempt.grafted.append(f"{MODELS}/interfaces.py")

    assert attempt.check() == (
        LostName(
            file=f"{SITE}/vllm/v1/worker/runner.py",
            line=1,
            module="vllm.model_executor.models.interfaces",
            symbol="SupportsPP",
            importer="vllm.v1.worker.runner",
            replaced=f"{SITE}/vllm/{MODELS}/interfaces.py",
            donor="qwen",
            closed_by=DonorFile("qwen", "v1/worker/runner.py", replaces=True),
        ),
    )


@pytest.mark.parametrize(
    ("text", "module", "symbol"),
    [
        ("from vllm.v1.gone import X\n", "vllm.v1.gone", ""),
        ("import vllm.v1.gone\n", "vllm.v1.gone", ""),
        ("from . import gone\n", "vllm.v1", "gone"),
    ],
)
def test_an_import_of_what_a_diff_deletes_is_reported_at_its_file(
    text: str, module: str, symbol: str
) -> None:
    attempt = bare(text)
    assert check_closure(attempt.inputs()) == ()

    gone = f"{SITE}/vllm/v1/gone.py"
    assert check_closure(replace(attempt.inputs(), removed=(gone,))) == (
        LostModule(f"{SITE}/vllm/v1/user.py", 1, module, symbol, "vllm.v1.user", gone),
    )


def test_a_deleted_module_that_nothing_needs_is_no_loss() -> None:
    attempt = bare("try:\n    from .gone import X\nexcept ImportError:\n    X = None\n")

    assert check_closure(replace(attempt.inputs(), removed=(f"{SITE}/vllm/v1/gone.py",))) == ()


def test_a_name_of_a_package_whose_init_is_deleted_is_lost() -> None:
    attempt = bare("from vllm.v1.pack import X\n")
    attempt.base.file(f"{SITE}/vllm/v1/pack/__init__.py", "X = 1\n")
    attempt.base.file(f"{SITE}/vllm/v1/pack/inner.py", "")
    gone = f"{SITE}/vllm/v1/pack/__init__.py"

    assert check_closure(replace(attempt.inputs(), removed=(gone,))) == (
        LostModule(f"{SITE}/vllm/v1/user.py", 1, "vllm.v1.pack", "X", "vllm.v1.user", gone),
    )


def test_the_class_of_the_checkpoint_that_a_diff_deletes_is_missing() -> None:
    attempt = bare("")
    attempt.architectures = ("Qwen3NextForCausalLM",)
    attempt.base.file(f"{SITE}/vllm/{MODELS}/qwen3_next.py", "class Qwen3NextForCausalLM: ...\n")
    assert check_closure(attempt.inputs()) == ()

    gone = f"{SITE}/vllm/{MODELS}/qwen3_next.py"
    (finding,) = check_closure(replace(attempt.inputs(), removed=(gone,)))
    assert isinstance(finding, MissingClass)
    assert finding.module == "vllm.model_executor.models.qwen3_next"


def test_a_file_of_ours_in_the_place_of_a_deleted_one_is_there() -> None:
    attempt = bare("from .gone import X\n")
    gone = f"{SITE}/vllm/v1/gone.py"
    attempt.own = (OurFile(gone, 0o644, b"from .nowhere import Y\nX = 1\n"),)

    (finding,) = check_closure(replace(attempt.inputs(), removed=(gone,)))
    assert isinstance(finding, OpenImport)
    assert (finding.file, finding.module) == (gone, "vllm.v1.nowhere")


def test_a_package_for_which_a_diff_is_made_is_judged() -> None:
    attempt = bare("")
    for name in ("__init__.py", "a.py"):
        attempt.base.file(f"{SITE}/other/{name}", "")
    attempt.own = (OurFile(f"{SITE}/other/a.py", 0o644, b"from .nowhere import X\n"),)
    assert check_closure(attempt.inputs()) == ()

    (finding,) = check_closure(replace(attempt.inputs(), patched=("other",)))
    assert isinstance(finding, OpenImport)


def bare(user: str) -> Attempt:
    """A base without a graft, in which one module of the base says this and another can go."""
    attempt = Attempt()
    attempt.grafted, attempt.registers, attempt.architectures = [], (), ()
    attempt.base.file(f"{SITE}/vllm/v1/__init__.py", "")
    attempt.base.file(f"{SITE}/vllm/v1/gone.py", "X = 1\n")
    attempt.base.file(f"{SITE}/vllm/v1/user.py", user)
    return attempt


def test_a_lost_name_that_only_an_optional_import_wants_is_no_loss() -> None:
    attempt = Attempt()
    attempt.donor.file(f"{VENV}/vllm/{MODELS}/interfaces.py", "class IsHybrid: ...\n")
    attempt.grafted.append(f"{MODELS}/interfaces.py")
    runner = "try:\n    from vllm.model_executor.models.interfaces import SupportsPP\n"
    attempt.base.file(f"{SITE}/vllm/v1/worker/runner.py", runner + "except ImportError:\n    ...\n")

    assert attempt.check() == ()


def test_a_grafted_file_that_cannot_be_parsed_is_reported() -> None:
    attempt = Attempt()
    attempt.donor.file(f"{VENV}/vllm/{MAMBA}", "match x:\n  case\n")

    assert attempt.check() == (UnreadableModule(f"{SITE}/vllm/{MAMBA}", 2, "invalid syntax"),)


def register(module: str, name: str) -> Register:
    return REGISTER.model_copy(update={"entries": {ARCHITECTURE: (module, name)}})


def test_a_registered_module_that_is_missing_is_reported_with_near_names() -> None:
    attempt = Attempt()
    attempt.registers = (register("qwen35", ARCHITECTURE),)
    attempt.architectures = ()

    assert attempt.check() == (
        MissingClass(
            place=f"cluster.toml: image.register[0].entries.{ARCHITECTURE}",
            key=ARCHITECTURE,
            module="vllm.model_executor.models.qwen35",
            symbol=ARCHITECTURE,
            has_module=False,
            near=("qwen3_5", "qwen3_next"),
            closed_by=None,
        ),
    )


def test_a_registered_class_that_is_missing_is_reported_with_near_names() -> None:
    attempt = Attempt()
    attempt.registers = (register("qwen3_5", "Qwen3_5ForCausalLM"),)

    found = attempt.check()

    assert all(isinstance(item, MissingClass) for item in found)
    assert (
        "the module has no Qwen3_5ForCausalLM; near names: Qwen3_5ForConditional" in attempt.text()
    )


def test_a_class_that_a_module_only_imports_is_registered_well() -> None:
    attempt = Attempt()
    attempt.registers = (register("qwen3_5", "IsHybrid"),)

    assert attempt.check() == ()


def test_a_dotted_module_is_absolute() -> None:
    attempt = Attempt()
    attempt.registers = (register("vllm.model_executor.models.qwen3_5", ARCHITECTURE),)

    assert attempt.check() == ()


def test_a_forgotten_graft_is_named_by_the_registration() -> None:
    attempt = Attempt()
    attempt.grafted, attempt.architectures = [], ()

    (found,) = attempt.check()

    assert isinstance(found, MissingClass)
    assert found.closed_by == DonorFile("qwen", f"{MODELS}/qwen3_5.py", replaces=False)


def test_an_unregistered_architecture_is_reported_with_the_donors_own_registration() -> None:
    attempt = Attempt()
    attempt.registers = ()

    assert attempt.check() == (
        UnknownArchitecture(
            architecture=ARCHITECTURE,
            registry=f"{SITE}/vllm/{REGISTRY}",
            package="vllm",
            file=REGISTRY,
            near=("Qwen3VLForConditionalGeneration",),
            known_by=DonorEntry("qwen", "_MULTIMODAL_MODELS", ("qwen3_5", ARCHITECTURE)),
        ),
    )
    assert f'entries = {{ {ARCHITECTURE} = ["qwen3_5", "{ARCHITECTURE}"] }}' in attempt.text()


def test_an_architecture_that_no_donor_knows_says_so() -> None:
    attempt = Attempt()
    attempt.architectures = ("Other",)

    assert "no donor of this manifest registers it" in attempt.text()


def test_a_model_that_is_only_listed_as_formerly_supported_is_not_registered() -> None:
    attempt = Attempt()
    attempt.architectures = ("MotifForCausalLM",)

    assert isinstance(attempt.check()[0], UnknownArchitecture)


def test_a_grafted_registry_may_not_register_what_is_not_there() -> None:
    attempt = Attempt()
    attempt.grafted, attempt.registers = [REGISTRY], ()

    (found,) = attempt.check()

    assert isinstance(found, MissingClass)
    assert found.place == f"/{SITE}/vllm/{REGISTRY}"


def test_the_bases_own_entries_are_not_judged() -> None:
    attempt = Attempt()
    attempt.architectures = ("Qwen3VLForConditionalGeneration",)  # there is no qwen3_vl.py here

    assert attempt.check() == ()


def test_another_version_is_reported_with_both() -> None:
    attempt = Attempt()
    attempt.version = "0.17.0"

    assert attempt.check() == (
        WrongVersion("cluster.toml: vllm.version", "vllm", "0.17.0", "0.14.0"),
    )


def test_metadata_that_cannot_be_read_does_not_hide_other_findings() -> None:
    attempt = Attempt()
    del attempt.base.entries[f"{SITE}/vllm-0.14.0.dist-info/METADATA"]
    del attempt.base.entries["usr/local/bin/vllm"]

    first, second = attempt.check()

    assert isinstance(first, OtherFailure)
    assert "console script" in second.message.place


def test_all_findings_come_at_once_in_a_fixed_order() -> None:
    attempt = Attempt()
    attempt.grafted = [f"{MODELS}/qwen3_5.py"]
    attempt.registers = (register("qwen3_5", "Absent"),)
    attempt.architectures = ("Other",)
    attempt.version = "1"
    del attempt.base.entries["usr/bin/python3"]

    kinds = [type(finding).__name__ for finding in attempt.check()]

    assert kinds == [
        "WrongVersion",
        "OpenImport",
        "MissingClass",
        "UnknownArchitecture",
        "MissingInterpreter",
    ]


def test_places_in_the_manifest_are_the_callers() -> None:
    attempt = Attempt()
    attempt.version = "1"
    inputs = replace(attempt.inputs(), place="cluster.toml:3: {}".format)

    assert check_closure(inputs)[0].message.place == "cluster.toml:3: vllm.version"


def test_an_image_without_vllm_is_refused() -> None:
    attempt = Attempt()
    inputs = replace(attempt.inputs(), base=MemoryImage().tree, picks=(), registers=())

    with pytest.raises(BuildError, match="the package vllm was not found"):
        check_closure(inputs)
