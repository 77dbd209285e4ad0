"""The closure check of a real vLLM package: once from nothing, and once with nothing changed."""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from builder.edges.store import BlobStore
from builder.edges.verdicts import VerdictFolder
from builder.graft.closure import ClosureInputs, check_closure
from builder.graft.commands import Launch
from builder.graft.packages import find_package
from builder.graft.pick import pick
from builder.image_section import Graft
from builder.oci.model import Platform
from tests.bench.made_package import FILES as MADE_FILES
from tests.bench.made_package import write_package
from tests.bench.result import Limit, Result, Samples
from tests.real_vllm import Unpacked, unpacked

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from builder.digest import Digest
    from tests.bench.workplace import Workplace

ROUNDS: Final = 5
REAL_FILES: Final = (
    "model_executor/models/qwen3_5.py",
    "model_executor/models/qwen3_5_mtp.py",
    "transformers_utils/configs/qwen3_5.py",
    "transformers_utils/configs/qwen3_5_moe.py",
    "model_executor/layers/mamba/mamba_utils.py",
)
WITHOUT_WHEELS: Final = (
    "a made package of 2000 files; the real one is measured once `pytest "
    "tests/integration/test_real_vllm.py` has fetched it"
)


@dataclass(frozen=True, slots=True)
class Packages:
    """Two versions of a package, what is grafted from the newer, and a sentence on them."""

    old: Unpacked
    new: Unpacked
    version: str
    files: tuple[str, ...]
    what: str
    note: str


def measure(place: Workplace) -> Iterator[Result]:
    """Seconds of the check alone: both images are read already, their files are in a store."""
    packages = _packages(place.root, place.folder)
    store = BlobStore(place.folder / "closure" / "store")
    inputs = _inputs(packages, store)
    folder = place.folder / "closure" / "verdicts"
    check_closure(inputs, VerdictFolder(folder))  # so that the first round finds warm files too
    cold = Samples(tuple(_cold(inputs, folder) for _ in range(ROUNDS)))
    warm = Samples(tuple(_seconds(inputs, folder) for _ in range(ROUNDS)))
    for name, when, samples, limit in (
        ("closure-cold", "from nothing", cold, 5),
        ("closure-warm", "nothing changed", warm, 0.5),
    ):
        yield Result(
            name=name,
            what=f"closure check of {packages.what}, {when}",
            yardstick="",
            unit="s",
            ours=samples,
            limit=Limit("median", limit),
            note=packages.note,
        )


def _packages(root: Path, folder: Path) -> Packages:
    old, new = unpacked(root, "0.14.0"), unpacked(root, "0.17.0")
    if old is not None and new is not None:
        what = "vLLM 0.14.0 with five files of 0.17.0"
        return Packages(old, new, "0.14.0", REAL_FILES, what, "the released packages")
    made = folder / "closure" / "made"
    for version in ("1", "2"):
        write_package(made / version, newer=version == "2")
    what = "2000 files with five of a donor"
    return Packages(
        Unpacked(made / "1"), Unpacked(made / "2"), "1", MADE_FILES, what, WITHOUT_WHEELS
    )


def _inputs(packages: Packages, store: BlobStore) -> ClosureInputs:
    def keep(data: bytes) -> Digest:
        return store.put([data])

    base, donor = packages.old.image(keep), packages.new.image(keep)
    return ClosureInputs(
        base=base,
        read=store.read,
        launch=Launch((), "/", ("/usr/local/bin",), None, (), Platform("linux", "arm64")),
        vllm_version=packages.version,
        picks=pick(
            donor,
            Graft(donor="new", package="vllm", files=packages.files),
            find_package(base, "vllm", image="base"),
            place="bench",
        ),
        donors={"new": donor},
    )


def _cold(inputs: ClosureInputs, folder: Path) -> float:
    shutil.rmtree(folder)
    return _seconds(inputs, folder)


def _seconds(inputs: ClosureInputs, folder: Path) -> float:
    started = time.perf_counter()
    check_closure(inputs, VerdictFolder(folder))
    return time.perf_counter() - started
