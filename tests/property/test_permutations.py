"""The order in which a manifest lists things never changes the image, or its name."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Final

from hypothesis import given, settings
from hypothesis import strategies as st

from builder.asked import Wanted
from builder.digest import Digest, digest_bytes
from builder.lock import ModelFile
from builder.manifest import cluster_digest
from builder.progress import Silent
from builder.read.check import check_document
from builder.resolve import resolve
from tests.fakes import MemoryBlobs, MemorySource
from tests.project import BASE, BASE_CONFIG, EPOCH, MODELS, SITE, VENV, package
from tests.unit.oci.archives import Published, file, tar_of

if TYPE_CHECKING:
    from builder.image_section import Source
    from builder.lock import Lock

NAMES: Final = ("a.py", "b.py", "c.py")
TABLE: Final = '_MODELS = {"Old": ("old", "Old")}\n'
OWN: Final = {name: name.encode() * 100 for name in ("x", "y", "z")}


@functools.cache
def images() -> tuple[dict[str, MemorySource], dict[str, Digest]]:
    """A base with three more tables, two donors; and the digest of each."""
    tables = [file(f"{SITE}/{MODELS}/table_{name}", TABLE.encode()) for name in NAMES]
    found = {"base": Published(), "one": Published(), "two": Published()}
    pins = {"base": found["base"].image(tar_of(*BASE, *tables), config=BASE_CONFIG)}
    for donor in ("one", "two"):
        files = {f"{donor}_{name}": f"class {donor.title()}: ...\n" for name in NAMES}
        pins[donor] = found[donor].image(tar_of(*package(VENV, files)))
    sources = {name: published.source for name, published in found.items()}
    return sources, {name: image.manifest.descriptor.digest for name, image in pins.items()}


class MemorySources:
    """builder.resolve.Sources by the text after `oci:`."""

    def open(self, source: Source, *, place: str) -> MemorySource:
        assert place
        return images()[0][source.source.removeprefix("oci:")]


def document() -> dict[str, Any]:
    """A manifest with several of everything that has an order."""
    pins = images()[1]
    return {
        "schema": 1,
        "name": "many",
        "image": {
            "platform": "linux/amd64",
            "epoch": EPOCH,
            "base": {"source": "oci:base", "digest": pins["base"]},
            "donors": {
                name: {"source": f"oci:{name}", "digest": pins[name]} for name in ("one", "two")
            },
            "graft": [
                {
                    "donor": donor,
                    "package": "vllm",
                    "files": [f"model_executor/models/{donor}_{name}" for name in names],
                }
                for donor, names in (("one", NAMES), ("two", NAMES[:2]), ("two", NAMES[2:]))
            ],
            "register": [
                {
                    "package": "vllm",
                    "file": f"model_executor/models/table_{name}",
                    "table": "_MODELS",
                    "entries": {"One": ["one_a", "One"], "Two": ["two_c", "Two"]},
                }
                for name in NAMES
            ],
            "file": [{"source": name, "target": f"/apps/{name}"} for name in OWN],
            "config": {"env": {"A": "1", "B": "2"}},
        },
        "vllm": {"version": "1.0"},
        "model": {"repo": "org/name", "revision": "0" * 40, "path": "/srv/model"},
        "serve": {"tensor_parallel": 2, "node_script": "./run.sh"},
        "nodes": [
            {
                "name": name,
                "ssh": name,
                "fabric": {"address": f"198.18.0.{number}", "netdev": "eth1", "hcas": ["mlx5_0"]},
            }
            for number, name in enumerate(("n1", "n2"), 1)
        ],
    }


def locked(manifest: dict[str, Any]) -> Lock:
    checked = check_document(manifest)
    assert checked.manifest is not None, checked.problems
    assert not checked.problems
    blobs = MemoryBlobs()
    for data in OWN.values():
        blobs.put([data])
    own = {
        name: ModelFile(path=name, size_bytes=len(data), digest=digest_bytes(data))
        for name, data in OWN.items()
    }
    wanted = Wanted(
        manifest=checked.manifest,
        cluster_digest=cluster_digest(checked.manifest),
        place="cluster.toml: {}".format,
        own_files=own,
    )
    return resolve(wanted, MemorySources(), blobs, Silent())


@functools.cache
def reference() -> Lock:
    return locked(document())


@st.composite
def permuted(draw: st.DrawFn) -> dict[str, Any]:
    """The same manifest with every list and table of [image] in another order."""

    def turned(table: dict[str, Any]) -> dict[str, Any]:
        return dict(draw(st.permutations(list(table.items()))))

    manifest = document()
    image = turned(manifest["image"])
    for key in ("graft", "register", "file"):
        image[key] = [turned(item) for item in draw(st.permutations(image[key]))]
    for graft in image["graft"]:
        graft["files"] = draw(st.permutations(graft["files"]))
    for register in image["register"]:
        register["entries"] = turned(register["entries"])
    image["donors"] = turned(image["donors"])
    image["config"] = {"env": turned(image["config"]["env"])}
    return {**turned(manifest), "image": image}


@settings(max_examples=25)
@given(permuted())
def test_no_order_in_the_manifest_changes_the_image(manifest: dict[str, Any]) -> None:
    lock = locked(manifest)

    assert lock.image == reference().image
    assert lock.inputs_digest == reference().inputs_digest
    assert lock.outputs == reference().outputs


def test_the_image_of_the_reference_has_all_of_it() -> None:
    image = reference().image

    assert len(image.picks) == 6
    assert len(image.tables) == 3
    assert {entry.state for table in image.tables for entry in table.entries} == {"added"}
    assert len(image.files) == 3
