from __future__ import annotations

from dataclasses import replace

import pytest

from builder.graft.closure import check_closure
from builder.graft.findings import DonorValue, Finding, UnknownModelType
from builder.graft.packages import keep_for
from tests.unit.graft.attempts import inputs_of
from tests.unit.graft.images import SITE, MemoryImage

CONFIG = "transformers_utils/config.py"
AUTO = "site-packages/transformers/models/auto/configuration_auto.py"
VLLM = '_CONFIG_REGISTRY: dict[str, type] = LazyConfigDict(\n    old="OldConfig",\n)\n'
TRANSFORMERS = 'CONFIG_MAPPING_NAMES = OrderedDict([("llama", "LlamaConfig"), ("old2", "X")])\n'


def found(
    model_type: str, *, auto: str | None = TRANSFORMERS, base: str | None = VLLM, donor: str = VLLM
) -> tuple[Finding, ...]:
    inputs = inputs_of({CONFIG: base} if base is not None else {}, {CONFIG: donor}, [])
    images = dict(inputs.base.entries)
    blobs = {}
    if auto is not None:
        extra = MemoryImage({f"usr/{AUTO}": auto})
        images |= extra.entries
        blobs = extra.blobs
    read = inputs.read
    return check_closure(
        replace(
            inputs,
            base=replace(inputs.base, entries=images),
            read=lambda digest: blobs[digest] if digest in blobs else read(digest),
            model_type=model_type,
        )
    )


@pytest.mark.parametrize("model_type", ["", "old", "llama", "old2"])
def test_a_model_type_of_either_table_is_known(model_type: str) -> None:
    assert found(model_type) == ()


def test_one_that_no_table_has_is_told_with_what_was_looked_at() -> None:
    donor = VLLM.replace("old=", 'foo_moe="FooConfig", old=')

    (finding,) = found("foo_moe", donor=donor)

    assert isinstance(finding, UnknownModelType)
    assert finding.known_by == DonorValue("new", "_CONFIG_REGISTRY", '"FooConfig"')
    assert finding.message.text() == (
        f"/{SITE}/vllm/{CONFIG}: the checkpoint's model_type foo_moe has no configuration class, "
        "so config.json cannot be loaded\n"
        "  expected: foo_moe as a key of vLLM's table or of that of transformers\n"
        f"  found:    in neither: looked at /{SITE}/vllm/{CONFIG}, /usr/{AUTO}\n"
        "  remedy:   [[image.graft]] the file of that class from donor new, and add as it has it\n"
        "            [[image.register]]\n"
        '            package = "vllm"\n'
        f'            file = "{CONFIG}"\n'
        '            table = "_CONFIG_REGISTRY"\n'
        '            entries = { "foo_moe" = "FooConfig" }'
    )


def test_without_a_donor_that_has_it_the_remedy_is_another_base() -> None:
    (finding,) = found("lama")

    assert isinstance(finding, UnknownModelType)
    assert finding.near == ("llama",)
    assert "use a base whose transformers knows it" in finding.message.remedy


def test_without_transformers_vllms_table_decides() -> None:
    assert found("old", auto=None) == ()
    (finding,) = found("llama", auto=None)
    assert isinstance(finding, UnknownModelType)
    assert finding.looked_at == (f"{SITE}/vllm/{CONFIG}",)


def test_without_vllms_table_or_with_one_that_cannot_be_read_nothing_is_told() -> None:
    assert found("foo", base=None) == ()
    assert found("foo", auto=None, base="def get_config(model): ...\nKEYS = {'a': 1}\n") == ()
    assert found("foo", auto="def (") == ()


@pytest.mark.parametrize("file", ["configuration_auto.py", "auto_mappings.py"])
def test_the_table_of_transformers_is_kept_by_the_reader_of_layers(file: str) -> None:
    keep = keep_for(["vllm"])

    assert keep(f"opt/src/transformers/models/auto/{file}")
    assert not keep(f"{SITE}/transformers/models/auto/modeling_auto.py")
