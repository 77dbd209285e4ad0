from __future__ import annotations

import pytest

from builder.graft.findings import Finding, NotInstalled
from builder.graft.installed import Installed
from tests.unit.graft.images import SITE, MemoryImage
from tests.unit.graft.test_closure import MAMBA, MODEL, MODELS, PLACE, VENV, Attempt

OTHER_SITE = "usr/lib/python3/dist-packages"


def attempt(statement: str, *, donor: tuple[str, ...], image: tuple[str, ...] = ()) -> Attempt:
    """A graft that closes, but for the statement at the end of its file."""
    made = Attempt()
    made.donor.file(f"{VENV}/vllm/{MODELS}/qwen3_5.py", f"{MODEL}{statement}\n")
    for path in donor:
        made.donor.file(f"{VENV}/{path}")
    for path in image:
        made.base.file(path)
    return made


def found(statement: str, *, donor: tuple[str, ...], image: tuple[str, ...] = ()) -> list[Finding]:
    return list(attempt(statement, donor=donor, image=image).check())


@pytest.mark.parametrize(
    ("statement", "module", "donor", "image", "has_top"),
    [
        ("import einops", "einops", ("einops/__init__.py",), (), False),
        ("from einops import rearrange", "einops", ("einops/__init__.py",), (), False),
        ("def f():\n    import einops", "einops", ("einops.py",), (), False),
        ("import fast", "fast", ("fast.cpython-312-aarch64-linux-gnu.so",), (), False),
        (
            "from transformers.models.qwen3_5 import Config",
            "transformers.models.qwen3_5",
            ("transformers/models/qwen3_5/__init__.py",),
            (f"{SITE}/transformers/models/qwen3/__init__.py",),
            True,
        ),
    ],
)
def test_a_module_that_only_the_donor_has_installed_is_missing(
    statement: str, module: str, donor: tuple[str, ...], image: tuple[str, ...], *, has_top: bool
) -> None:
    (finding,) = found(statement, donor=donor, image=image)

    line = MODEL.count("\n") + statement.count("\n") + 1
    importer = "vllm.model_executor.models.qwen3_5"
    assert finding == NotInstalled(
        f"{SITE}/vllm/{MODELS}/qwen3_5.py", line, module, importer, "qwen", has_top
    )


@pytest.mark.parametrize(
    "image",
    [
        f"{SITE}/einops/__init__.py",
        f"{SITE}/einops.py",
        f"{SITE}/einops/core/text.py",
        f"{SITE}/einops.abi3.so",
        f"{OTHER_SITE}/einops/__init__.py",
        f"{OTHER_SITE}/__editable__.einops-0.8.1.pth",
        f"{OTHER_SITE}/Einops.egg-link",
    ],
)
def test_one_that_the_image_has_anywhere_is_there(image: str) -> None:
    assert found("import einops", donor=("einops/__init__.py",), image=(image,)) == []


@pytest.mark.parametrize(
    ("statement", "donor"),
    [
        ("import nowhere", ()),
        ("import json", ("json/__init__.py",)),
        ("try:\n    import einops\nexcept ImportError:\n    pass", ("einops/__init__.py",)),
        ("if TYPE_CHECKING:\n    import einops", ("einops/__init__.py",)),
    ],
)
def test_what_the_donor_does_not_tell_is_not_told(statement: str, donor: tuple[str, ...]) -> None:
    assert found(statement, donor=donor) == []


def test_a_module_is_told_once_for_a_file_and_for_each_file() -> None:
    made = attempt("import einops\nimport einops", donor=("einops/__init__.py",))
    made.donor.file(f"{VENV}/vllm/{MAMBA}", "import einops\nMambaStateCopyFunc = object\n"
                    "class MambaStateShapeCalculator: ...\n")  # fmt: skip

    files = [finding.file for finding in made.check() if isinstance(finding, NotInstalled)]

    assert files == [f"{SITE}/vllm/{MAMBA}", f"{SITE}/vllm/{MODELS}/qwen3_5.py"]


def test_the_message_tells_the_import_and_the_donor() -> None:
    text = attempt("import einops", donor=("einops/__init__.py",)).text()

    assert f"{PLACE}/qwen3_5.py" in text
    assert "imports einops, which only donor qwen has installed" in text
    assert "no einops at all" in text


def test_a_link_to_a_site_folder_brings_its_modules() -> None:
    image = MemoryImage({"opt/lib/site-packages/einops/__init__.py": ""})
    image.link("usr/lib/python3/dist-packages", "/opt/lib/site-packages")

    assert Installed(image.tree).has("einops")
