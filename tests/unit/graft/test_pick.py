from __future__ import annotations

import pytest

from builder.digest import digest_bytes
from builder.graft.errors import PickError
from builder.graft.packages import PackageRoot
from builder.graft.pick import Pick, pick
from builder.image_section import Graft
from tests.unit.graft.images import LAYER, SITE, MemoryImage, python_image

VENV = "opt/venv/lib/python3.12/site-packages"
MODEL = "model_executor/models/qwen3_5.py"
BASE = PackageRoot("vllm", f"{SITE}/vllm")
PLACE = "cluster.toml: image.graft[0]"


def graft(*files: str) -> Graft:
    return Graft(donor="qwen", package="vllm", files=files)


def donor() -> MemoryImage:
    return python_image({MODEL: "class A: ...\n"}, site=VENV)


def test_a_file_goes_from_the_donors_package_to_the_same_place_in_the_bases() -> None:
    assert pick(donor().tree, graft(MODEL), BASE, place=PLACE) == (
        Pick(
            donor="qwen",
            package="vllm",
            source=f"{VENV}/vllm/{MODEL}",
            target=f"{SITE}/vllm/{MODEL}",
            layer=LAYER,
            size_bytes=13,
            mode=0o644,
            content=digest_bytes(b"class A: ...\n"),
        ),
    )


@pytest.mark.parametrize(
    ("mode", "normal"), [(0o600, 0o644), (0o664, 0o644), (0o700, 0o755), (0o4755, 0o755)]
)
def test_modes_become_one_of_two(mode: int, normal: int) -> None:
    image = donor().file(f"{VENV}/vllm/{MODEL}", "x = 1\n", mode)

    assert pick(image.tree, graft(MODEL), BASE, place=PLACE)[0].mode == normal


def test_every_bad_file_is_reported_at_once_with_its_place() -> None:
    image = donor().device(f"{VENV}/vllm/null.py")
    image.link(f"{VENV}/vllm/alias.py", MODEL).link(f"{VENV}/vllm/models", "model_executor/models")
    image.link(f"{VENV}/vllm/ring.py", "ring.py").file(f"{VENV}/vllm/a.pyc")
    bad = ["null.py", "alias.py", "models/qwen3_5.py", "ring.py", "a.pyc", "model_executor"]

    with pytest.raises(PickError) as caught:
        pick(image.tree, graft(MODEL, *bad), BASE, place=PLACE)

    assert [item.place for item in caught.value.bad] == [
        f"{PLACE}.files[{index}]" for index in range(1, 7)
    ]
    whats = [item.fault.what for item in caught.value.bad]
    assert "not a regular file" in whats[0]
    assert all("is a symlink, or below one" in what for what in whats[1:4])
    assert "compiled bytecode" in whats[4]
    assert caught.value.bad[5].fault.found == "directory"


def test_a_missing_file_is_reported_with_the_donor_and_near_names() -> None:
    with pytest.raises(PickError) as caught:
        pick(donor().tree, graft("model_executor/models/qwen35.py"), BASE, place=PLACE)

    (message,) = caught.value.messages
    assert message.what.startswith("donor qwen: there is no model_executor/models/qwen35.py")
    assert message.found == f"near names: {MODEL}"


def test_a_file_of_the_same_name_elsewhere_in_the_package_is_the_nearest() -> None:
    with pytest.raises(PickError) as caught:
        pick(donor().tree, graft("models/qwen3_5.py"), BASE, place=PLACE)

    assert caught.value.messages[0].found == f"near names: {MODEL}"
