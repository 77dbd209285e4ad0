"""The closure check on the released vLLM: Qwen3.5 of 0.17.0 grafted onto 0.14.0.

The wheels are downloaded the first time, about 900 MB, and only their sources stay.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import pytest

from builder.digest import digest_bytes
from builder.graft.acceptance import Acceptable, unaccepted
from builder.graft.closure import ClosureInputs, OurFile, check_closure
from builder.graft.command_findings import MissingCommand
from builder.graft.commands import Launch
from builder.graft.findings import LostName, OpenImport
from builder.graft.override_findings import BrokenCall, DeadOverride, LostMember
from builder.graft.packages import find_package
from builder.graft.pick import pick
from builder.graft.table_findings import MissingEntries, UnnamedInCode
from builder.graft.tables import edit_table
from builder.image_section import Accept, Graft, Register
from builder.oci.model import Platform
from tests.real_vllm import SITE, unpack

if TYPE_CHECKING:
    from collections.abc import Iterable

    from builder.digest import Digest
    from builder.graft.findings import Finding
    from builder.oci.tree import ImageTree

pytestmark = pytest.mark.slow

MODELS: Final = "model_executor/models"
FOUR: Final = (
    f"{MODELS}/qwen3_5.py",
    f"{MODELS}/qwen3_5_mtp.py",
    "transformers_utils/configs/qwen3_5.py",
    "transformers_utils/configs/qwen3_5_moe.py",
)
MAMBA: Final = "model_executor/layers/mamba/mamba_utils.py"
FIVE: Final = (*FOUR, MAMBA)
RELATED: Final = tuple(
    f"{MODELS}/{name}.py" for name in ("qwen3_next", "qwen3_vl", "qwen2_moe", "interfaces", "utils")
)


@dataclass(frozen=True, slots=True)
class Wheels:
    """Both versions as images, and their files."""

    old: ImageTree
    new: ImageTree
    blobs: dict[Digest, bytes]

    def inputs(
        self, files: Iterable[str], registers: tuple[Register, ...] = (), *, same: bool = False
    ) -> ClosureInputs:
        """Files of 0.17.0 on 0.14.0, or with `same` on 0.17.0 itself."""
        base = self.new if same else self.old
        root = find_package(base, "vllm", image="base")
        graft = Graft(donor="new", package="vllm", files=tuple(files))
        edited: dict[str, bytes] = {}
        for register in registers:
            path = root.file(register.file)
            content = base.entries[path].content
            assert content is not None
            before = edited.get(path) or self.blobs[content]
            edit = edit_table(before, register.entries, table=register.table, place=path)
            edited[path] = edit.after
        return ClosureInputs(
            base=base,
            read=self.blobs.__getitem__,
            launch=Launch((), "/", ("/usr/local/bin",), None, (), Platform("linux", "arm64")),
            vllm_version="0.17.0" if same else "0.14.0",
            picks=pick(self.new, graft, root, place="cluster.toml: image.graft[0]"),
            tables=tuple(OurFile(path, 0o644, data) for path, data in edited.items()),
            registers=registers,
            donors={"new": self.new},
        )

    def found(
        self, files: Iterable[str], registers: tuple[Register, ...] = (), *, same: bool = False
    ) -> list[Finding]:
        """The findings; the console script is left out, which pip writes and no wheel has."""
        found = check_closure(self.inputs(files, registers, same=same))
        return [item for item in found if not isinstance(item, MissingCommand)]


@pytest.fixture(scope="module")
def wheels(request: pytest.FixtureRequest) -> Wheels:
    reporter = request.config.pluginmanager.get_plugin("terminalreporter")
    assert reporter is not None
    blobs: dict[Digest, bytes] = {}

    def keep(data: bytes) -> Digest:
        digest = digest_bytes(data)
        blobs[digest] = data
        return digest

    old, new = (
        unpack(request.config.rootpath, version, reporter.write_line).image(keep)
        for version in ("0.14.0", "0.17.0")
    )
    return Wheels(old, new, blobs)


def accepted(found: Iterable[Finding]) -> list[str]:
    """The names of the findings that can be accepted."""
    return [item.identity for item in found if isinstance(item, Acceptable)]


def opened(found: Iterable[Finding]) -> set[tuple[str, str]]:
    return {(item.module, item.symbol) for item in found if isinstance(item, OpenImport)}


def test_four_files_miss_two_names_of_the_mamba_utilities(wheels: Wheels) -> None:
    module = "vllm.model_executor.layers.mamba.mamba_utils"

    found = wheels.found(FOUR)

    assert opened(found) == {
        (module, "MambaStateCopyFunc"),
        (module, "MambaStateCopyFuncCalculator"),
    }
    for item in found:
        if isinstance(item, OpenImport):
            assert item.closed_by is not None
            assert item.closed_by.file == MAMBA


def test_judgements_have_names_of_their_own_and_can_be_accepted(wheels: Wheels) -> None:
    found = wheels.found((*FIVE, *RELATED))
    names = accepted(found)
    entries = [Accept(finding=name, reason="seen") for name in names]

    assert len(set(names)) == len(names)
    assert {type(item) for item in unaccepted(found, entries, str)} == {OpenImport}
    assert len(accepted(five := wheels.found(FIVE))) == len(five) > 0


def test_five_files_close_the_imports_and_what_is_wrong_still_is_told(wheels: Wheels) -> None:
    found = wheels.found(FIVE)

    assert not [item for item in found if isinstance(item, OpenImport | LostName)]
    assert {(item.where.symbol, item.base) for item in found if isinstance(item, DeadOverride)} == {
        (
            "Qwen3_5GatedDeltaNet.create_qkvz_proj",
            "vllm.model_executor.models.qwen3_next:Qwen3NextGatedDeltaNet",
        ),
        (
            "Qwen3_5ForConditionalGeneration.get_mamba_state_copy_func",
            "vllm.model_executor.models.interfaces:IsHybrid",
        ),
    }
    assert {item.used for item in found if isinstance(item, LostMember)} == {
        "self._mark_tower_model",
        "self._mark_language_model",
    }


def test_every_table_that_the_donor_changed_is_told_with_its_entries(wheels: Wheels) -> None:
    found = wheels.found(FIVE)
    tables = {
        (item.place.file, item.table): {entry.key or entry.value for entry in item.entries}
        for item in found
        if isinstance(item, MissingEntries)
    }

    assert tables == {
        (f"{MODELS}/registry.py", "_MULTIMODAL_MODELS"): {
            "Qwen3_5ForConditionalGeneration",
            "Qwen3_5MoeForConditionalGeneration",
        },
        (f"{MODELS}/registry.py", "_SPECULATIVE_DECODING_MODELS"): {"Qwen3_5MTP", "Qwen3_5MoeMTP"},
        (f"{MODELS}/config.py", "MODELS_CONFIG_MAP"): {
            "Qwen3_5ForConditionalGeneration",
            "Qwen3_5MoeForConditionalGeneration",
        },
        ("config/speculative.py", "MTPModelTypes"): {"'qwen3_5_mtp'"},
        ("transformers_utils/config.py", "_CONFIG_REGISTRY"): {"qwen3_5", "qwen3_5_moe"},
        ("transformers_utils/configs/__init__.py", "_CLASS_TO_MODULE"): {
            "Qwen3_5Config",
            "Qwen3_5TextConfig",
            "Qwen3_5MoeConfig",
            "Qwen3_5MoeTextConfig",
        },
        ("transformers_utils/model_arch_config_convertor.py", "MODEL_ARCH_CONFIG_CONVERTORS"): {
            "qwen3_5_mtp"
        },
    }
    assert {
        (item.place.file, item.function) for item in found if isinstance(item, UnnamedInCode)
    } == {
        ("config/speculative.py", "SpeculativeConfig.hf_config_override"),
        ("v1/spec_decode/eagle.py", "SpecDecodeBaseProposer.load_model"),
    }


def test_the_remedies_are_edits_that_close_what_they_are_for(wheels: Wheels) -> None:
    before = [item for item in wheels.found(FIVE) if isinstance(item, MissingEntries)]
    closable = [item for item in before if item.can_register]
    assert len(closable) == 4

    registers = tuple(as_register(item) for item in closable)
    after = [item for item in wheels.found(FIVE, registers) if isinstance(item, MissingEntries)]

    assert after == [item for item in before if not item.can_register]


def test_related_files_open_eight_names_of_seven_modules(wheels: Wheels) -> None:
    """One of them 0.14.0 imports under TYPE_CHECKING alone, so at run time it is not there."""
    mamba = "vllm.model_executor.layers.mamba.mamba_utils"

    found = [item for item in wheels.found((*FOUR, *RELATED)) if isinstance(item, OpenImport)]

    assert opened(found) == {
        (mamba, "MambaStateCopyFunc"),
        (mamba, "MambaStateCopyFuncCalculator"),
        ("vllm.utils.collection_utils", "common_prefix"),
        ("vllm.model_executor.layers.attention", "Attention"),
        ("vllm.model_executor.models.vision", "is_vit_use_data_parallel"),
        ("vllm.model_executor.model_loader.reload", ""),
        ("vllm.model_executor.offloader", ""),
        ("vllm.multimodal.processing", "BaseDummyInputsBuilder"),
    }
    assert len(found) == 12


def test_calls_that_the_replaced_files_break_in_the_base_are_told(wheels: Wheels) -> None:
    found = wheels.found((*FIVE, *RELATED))

    (call,) = [item for item in found if isinstance(item, BrokenCall) and not item.where.donor]
    assert call.where.file == f"{SITE}/vllm/{MODELS}/qwen3_vl_moe.py"
    assert call.reasons == ("has no parameter multimodal_config",)


@pytest.mark.parametrize("files", [FOUR, (*FIVE, *RELATED)])
def test_the_same_files_onto_their_own_version_are_silent(
    wheels: Wheels, files: tuple[str, ...]
) -> None:
    assert wheels.found(files, same=True) == []


@pytest.mark.parametrize(
    "file",
    [
        f"{MODELS}/musicflamingo.py",
        f"{MODELS}/deepencoder2.py",
        "entrypoints/openai/models/protocol.py",
    ],
)
def test_a_neighbour_that_fits_is_silent_once_it_is_registered(wheels: Wheels, file: str) -> None:
    files = (file,)
    tables = wheels.found(files)
    assert all(isinstance(item, MissingEntries) for item in tables)

    registers = tuple(as_register(item) for item in tables if isinstance(item, MissingEntries))
    assert wheels.found(files, registers) == []


def as_register(finding: MissingEntries) -> Register:
    """The edit that a finding's remedy writes out."""
    text = finding.message.remedy.removeprefix("add\n")
    assert finding.can_register, text
    (document,) = tomllib.loads(text)["image"]["register"]
    entries = {
        key: tuple(value) if isinstance(value, list) else value
        for key, value in document.pop("entries").items()
    }
    return Register(**document, entries=entries)


def test_without_donors_nothing_is_compared(wheels: Wheels) -> None:
    found = check_closure(replace(wheels.inputs(FIVE), donors={}))

    assert [item for item in found if not isinstance(item, MissingCommand)] == []
