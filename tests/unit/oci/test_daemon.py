"""An engine's own image as a source: what is asked of the engine, and what is made of its answers.

The engine is a stand-in; real ones are asked in tests/integration/sources.
"""

from __future__ import annotations

import gzip
import json
import lzma
import threading
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from builder.digest import Digest, digest_bytes, hex_of
from builder.edges.archive import ArchiveSource
from builder.edges.daemon_errors import (
    EngineArchiveError,
    EngineCallError,
    EngineImageDiffersError,
    EngineImageMissingError,
    EngineSaveError,
)
from builder.edges.store import BlobStore
from builder.oci import limits
from builder.oci.errors import (
    DiffIdMismatchError,
    DigestMismatchError,
    LayerError,
    MalformedLayerError,
    MissingBlobError,
    SizeMismatchError,
    TruncatedBlobError,
    UnsupportedCompressionError,
)
from builder.oci.image_errors import ConfigPlatformError
from builder.oci.limits import LayerTooLargeError
from builder.oci.model import OCI_LAYER_GZIP, Platform
from builder.oci.select import select_manifest
from builder.oci.whiteout import read_tree
from builder.progress import Silent
from deploy.node_errors import EngineStoppedError
from tests.fake_engine import ASKED, NAME, containerd_store, graph_driver
from tests.fakes import MemoryBlobs
from tests.unit.oci.archives import (
    Published,
    config_document,
    directory,
    file,
    hard_link,
    symlink,
    tar_of,
)
from tests.unit.oci.image_archives import layout_members, saved_members

if TYPE_CHECKING:
    import tarfile
    from collections.abc import Iterator
    from pathlib import Path

    from builder.edges.daemon import DaemonSource
    from builder.oci.select import Selected
    from builder.oci.tree import ImageTree
    from tests.fake_engine import FakeEngine

AMD64 = Platform("linux", "amd64")
ARM64 = Platform("linux", "arm64")
ABSENT = Digest("sha256:" + "0" * 64)
LOWER = tar_of(directory("a"), file("a/b.py", b"lower"), file("a/c", b"x" * 300_000, mode=0o755))
UPPER = tar_of(file("a/b.py", b"upper"), symlink("d", "a"), file("a/.wh.c"))


def python_files(path: str) -> bool:
    return path.endswith(".py")


@pytest.fixture
def published() -> Published:
    found = Published()
    found.image(LOWER, UPPER)
    return found


@pytest.fixture
def graph(tmp_path: Path, published: Published) -> Iterator[FakeEngine]:
    with graph_driver(tmp_path / "graph.sock", published) as engine:
        yield engine


@pytest.fixture(params=[graph_driver, containerd_store], ids=["graph-driver", "containerd-store"])
def engine(
    request: pytest.FixtureRequest, tmp_path: Path, published: Published
) -> Iterator[FakeEngine]:
    with request.param(tmp_path / "engine.sock", published) as found:
        yield found


def selected(source: DaemonSource) -> Selected:
    return select_manifest(source, None, AMD64)


def tree_of(source: DaemonSource, blobs: MemoryBlobs | None = None) -> ImageTree:
    layers = selected(source).image.layers
    return read_tree(source, layers, keep=python_files, blobs=blobs or MemoryBlobs())


def test_the_image_and_its_files_are_those_of_the_saved_archive(
    engine: FakeEngine, tmp_path: Path
) -> None:
    (tmp_path / "saved.tar").write_bytes(tar_of(*engine.members))
    archive = ArchiveSource(tmp_path / "saved.tar", spool=tmp_path)
    source = engine.source(tmp_path / "store", keep=python_files)
    blobs, saved = MemoryBlobs(), MemoryBlobs()

    found = select_manifest(archive, None, AMD64)
    assert selected(source) == found
    tree = read_tree(archive, found.image.layers, keep=python_files, blobs=saved)
    assert tree_of(source, blobs) == tree
    assert blobs.data == saved.data
    assert engine.saves == 1


def test_what_was_read_once_is_not_asked_for_again_not_even_if_it_is_there(
    engine: FakeEngine, tmp_path: Path
) -> None:
    first = tree_of(engine.source(tmp_path / "store", keep=python_files))
    asked = len(engine.asked)
    engine.gone = True

    again = engine.source(tmp_path / "store", Digest(engine.id), keep=python_files)

    assert tree_of(again) == first
    assert len(engine.asked) == asked


def test_an_image_without_a_pin_is_known_by_its_id(engine: FakeEngine, tmp_path: Path) -> None:
    tree_of(engine.source(tmp_path / "store", keep=python_files))
    tree_of(engine.source(tmp_path / "store", keep=python_files))
    assert engine.saves == 1


@pytest.mark.parametrize("damage", ["blob", "record", "everything"])
def test_what_is_known_and_damaged_is_read_again(
    engine: FakeEngine, tmp_path: Path, damage: str
) -> None:
    store = tmp_path / "store"
    before = tree_of(engine.source(store, keep=python_files))
    records = sorted((store / "engine-images").iterdir())
    blobs = sorted(path for path in (store / "sha256").rglob("*") if path.is_file())
    for path in {"blob": blobs[:1], "record": records, "everything": [*blobs, *records]}[damage]:
        path.chmod(0o644)
        path.write_bytes(b"{}")

    assert tree_of(engine.source(store, Digest(engine.id), keep=python_files)) == before
    assert engine.saves == 2


def test_the_id_is_told_without_reading_the_image(engine: FakeEngine, tmp_path: Path) -> None:
    assert engine.source(tmp_path / "store").image_id() == engine.id
    assert engine.saves == 0


def test_a_pin_that_is_not_the_id_is_refused_before_anything_is_read(
    graph: FakeEngine, tmp_path: Path
) -> None:
    with pytest.raises(EngineImageDiffersError) as caught:
        graph.source(tmp_path / "store", ABSENT).roots()

    assert graph.saves == 0
    (message,) = caught.value.messages
    assert message.place == ASKED
    assert (message.expected, message.found) == (ABSENT, graph.id)
    assert message.remedy.endswith(f'digest = "{graph.id}"')


def test_containerds_store_can_be_pinned_by_the_config_too(
    tmp_path: Path, published: Published
) -> None:
    with containerd_store(tmp_path / "engine.sock", published) as engine:
        config = selected(engine.source(tmp_path / "store")).image.config.digest

        found = engine.source(tmp_path / "other", config).roots()

        assert found == tuple(published.source.tops)
        with pytest.raises(EngineImageDiffersError) as caught:
            engine.source(tmp_path / "third", ABSENT).roots()
        assert config in caught.value.found


@pytest.mark.parametrize("platform", ["linux/amd64", "linux/arm64"])
def test_a_manifest_below_an_index_is_chosen_by_platform_or_pin(
    tmp_path: Path, platform: str
) -> None:
    published = Published()
    images = {}
    for name in ("linux/amd64", "linux/arm64"):
        images[name] = published.image(LOWER, architecture=name.partition("/")[2])
    manifests = {name: image.manifest.descriptor for name, image in images.items()}
    published.source.tops = [published.index(*((item, name) for name, item in manifests.items()))]
    wanted = images[platform]
    with containerd_store(tmp_path / "engine.sock", published) as engine:
        source = engine.source(tmp_path / "store")
        found = select_manifest(source, None, Platform.parse(platform))
        assert (found.index_digest, found.image) == (engine.id, wanted)

        pinned = engine.source(tmp_path / "store", wanted.manifest.descriptor.digest)
        found = select_manifest(pinned, None, Platform.parse(platform))
        assert (found.index_digest, found.image) == (None, wanted)
        assert engine.saves == 1


def test_the_pinned_image_is_read_even_if_its_name_is_anothers_now(
    engine: FakeEngine, tmp_path: Path
) -> None:
    engine.names = []
    assert selected(engine.source(tmp_path / "store", Digest(engine.id))).image.layers


@pytest.mark.parametrize(
    ("name", "names", "remedy"),
    [
        ("team/base", ["team/base:v1", "team/base:v2"], '"docker:team/base:v1"'),
        ("h:5000/base:v9", ["h:5000/base:v1"], '"docker:h:5000/base:v1"'),
        ("other", [], "docker build -t other"),
    ],
)
def test_a_missing_image_is_told_with_the_tags_there_are(
    graph: FakeEngine, tmp_path: Path, name: str, names: list[str], remedy: str
) -> None:
    graph.names = names

    with pytest.raises(EngineImageMissingError) as caught:
        graph.source(tmp_path / "store", name=name).roots()

    assert caught.value.exit_code == 4
    assert caught.value.tags == tuple(names)
    assert remedy in caught.value.messages[0].remedy


def test_an_image_of_another_platform_is_refused_before_it_is_read(
    graph: FakeEngine, tmp_path: Path
) -> None:
    graph.architecture = "arm64"
    with pytest.raises(ConfigPlatformError) as caught:
        graph.source(tmp_path / "store", platform=AMD64).roots()
    assert (caught.value.wanted, caught.value.found) == ("linux/amd64", "linux/arm64")
    assert graph.saves == 0


@pytest.mark.parametrize("in_order", [True, False])
@pytest.mark.parametrize("share", [0.0, 0.2, 0.5, 0.9])
def test_a_save_that_ends_early_is_told_and_nothing_is_known_afterwards(
    engine: FakeEngine,
    tmp_path: Path,
    share: float,
    in_order: bool,  # noqa: FBT001 - both cases
) -> None:
    engine.cut_bytes = int(share * len(tar_of(*engine.members)))
    engine.in_order = in_order

    with pytest.raises(EngineSaveError) as caught:
        engine.source(tmp_path / "store").roots()

    assert caught.value.exit_code == 4
    assert not (tmp_path / "store" / "engine-images").exists()
    assert list((tmp_path / "store").glob("tmp/*")) == []
    engine.cut_bytes = None
    assert engine.source(tmp_path / "store").roots()


def test_an_engine_that_dies_while_it_saves_is_the_connections_to_explain(
    engine: FakeEngine, tmp_path: Path
) -> None:
    engine.cut_bytes, engine.dies = 100_000, True
    with pytest.raises(EngineStoppedError) as caught:
        engine.source(tmp_path / "store").roots()
    assert caught.value.exit_code == 5


def test_an_image_that_changes_between_inspecting_and_saving_is_refused(
    engine: FakeEngine, tmp_path: Path
) -> None:
    other = Published()
    other.image(UPPER)
    members_of = layout_members if engine.in_containerd else saved_members
    engine.members = members_of(other)

    with pytest.raises(EngineArchiveError) as caught:
        engine.source(tmp_path / "store").roots()

    assert caught.value.expected == engine.id
    assert not (tmp_path / "store" / "engine-images").exists()


def test_a_refusal_is_told_in_the_engines_words(engine: FakeEngine, tmp_path: Path) -> None:
    engine.refusal = (500, "the disk is on fire")
    with pytest.raises(EngineCallError) as caught:
        engine.source(tmp_path / "store").roots()
    assert caught.value.messages[0].found == "the disk is on fire"
    assert f"inspect image {NAME}" in caught.value.messages[0].what


def test_an_interrupt_leaves_nothing_half_done(engine: FakeEngine, tmp_path: Path) -> None:
    class Interrupted(Silent):
        def advance(self, what: str, done_bytes: int, total_bytes: int) -> None:
            assert what
            if done_bytes > total_bytes // 2:
                raise KeyboardInterrupt

    source = engine.source(tmp_path / "store", progress=Interrupted(), keep=python_files)
    with pytest.raises(KeyboardInterrupt):
        source.roots()
    assert list((tmp_path / "store").glob("tmp/*")) == []
    assert not (tmp_path / "store" / "engine-images").exists()


def test_a_layer_that_is_no_archive_is_named_by_its_own_digest(tmp_path: Path) -> None:
    broken = LOWER[:700] + b"no header" + LOWER[709:]
    published = Published()
    published.image(broken)
    with graph_driver(tmp_path / "engine.sock", published) as engine:
        with pytest.raises(MalformedLayerError) as caught:
            engine.source(tmp_path / "store").roots()
        assert caught.value.digest == digest_bytes(broken)


@pytest.mark.parametrize(
    ("stored", "error"),
    [
        (gzip.compress(bytes(500_000)), LayerTooLargeError),
        (gzip.compress(LOWER)[:-9], MalformedLayerError),
        (lzma.compress(LOWER), UnsupportedCompressionError),
    ],
)
def test_a_layer_that_cannot_be_unpacked_is_named_by_its_own_digest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stored: bytes, error: type[LayerError]
) -> None:
    monkeypatch.setattr(limits, "FREE_PLAIN_BYTES", 400_000)
    published = Published()
    layer = published.add_layer(stored, OCI_LAYER_GZIP)
    published.source.tops = [published.manifest(config_document(digest_bytes(LOWER)), layer)]
    with containerd_store(tmp_path / "engine.sock", published) as engine:
        with pytest.raises(error) as caught:
            engine.source(tmp_path / "store").roots()
        assert caught.value.digest == layer.digest


@pytest.mark.parametrize(
    "beside",
    [
        *(b'{"layers":7}', b'{"layers":["x"]}', b"[1]", b"{}", b"{no json"),
        b'{"layers":[{"digest":"%s","size":"many"}]}',
    ],
)
def test_a_layer_of_other_bytes_than_its_name_is_told_whatever_documents_are_beside_it(
    tmp_path: Path, published: Published, beside: bytes
) -> None:
    path = f"blobs/sha256/{hex_of(digest_bytes(LOWER))}"
    beside = beside.replace(b"%s", digest_bytes(LOWER).encode())
    with containerd_store(tmp_path / "engine.sock", published) as engine:
        members = [
            file(path, tar_of(file("other"))) if info.name == path else (info, data)
            for info, data in engine.members
        ]
        engine.members = [file(f"blobs/sha256/{hex_of(digest_bytes(beside))}", beside), *members]
        with pytest.raises((DigestMismatchError, TruncatedBlobError), match=digest_bytes(LOWER)):
            engine.source(tmp_path / "store").roots()


def test_layers_in_another_order_than_the_config_lists_are_refused(
    tmp_path: Path, published: Published
) -> None:
    with graph_driver(tmp_path / "engine.sock", published) as engine:
        engine.members = saved_members(published, layers=[UPPER, LOWER])
        with pytest.raises(DiffIdMismatchError) as caught:
            engine.source(tmp_path / "store").roots()
        assert (caught.value.expected, caught.value.found) == (
            digest_bytes(LOWER),
            digest_bytes(UPPER),
        )


@pytest.mark.parametrize(
    ("size_change", "error"), [(0, DiffIdMismatchError), (1, SizeMismatchError)]
)
def test_a_manifest_that_is_not_of_its_layers_is_refused(
    tmp_path: Path, size_change: int, error: type[Exception]
) -> None:
    published = Published()
    stored = published.add_layer(LOWER)
    named = replace(stored, size_bytes=stored.size_bytes + size_change)
    diff_id = stored.digest if size_change else ABSENT
    published.source.tops = [published.manifest(config_document(diff_id), named)]
    with containerd_store(tmp_path / "engine.sock", published) as engine:
        source = engine.source(tmp_path / "store")
        with pytest.raises(error):
            tree_of(source)


def test_the_same_layer_twice_is_a_link_in_the_archive(tmp_path: Path) -> None:
    published = Published()
    image = published.image(LOWER, UPPER, LOWER)
    with graph_driver(tmp_path / "engine.sock", published) as engine:
        engine.members = saved_by_docker_20(published)
        found = selected(engine.source(tmp_path / "store", Digest(engine.id)))
        assert found.image == image


def saved_by_docker_20(published: Published) -> list[tuple[tarfile.TarInfo, bytes]]:
    """As saved_members, in folders named by an ID, a layer that was there before as a link."""
    (listed,) = saved_members(published)[-1:]
    config = saved_members(published)[-2]
    layers = published.source.blobs
    (top,) = published.source.tops
    names, members = [], []
    seen: dict[str, str] = {}
    manifest = json.loads(layers[top.digest])
    for number, layer in enumerate(manifest["layers"]):
        name = f"{number:064x}/layer.tar"
        names.append(name)
        members.append(file(f"{number:064x}/VERSION", b"1.0"))
        if layer["digest"] in seen:
            members.append(symlink(name, f"../{seen[layer['digest']]}"))
        else:
            members.append(file(name, layers[layer["digest"]]))
            seen[layer["digest"]] = name
    document = json.loads(listed[1])
    document[0]["Layers"] = names
    return [*members, config, file("manifest.json", json.dumps(document).encode())]


def test_files_that_were_not_kept_are_read_when_they_are_wanted(
    engine: FakeEngine, tmp_path: Path
) -> None:
    blobs, direct = MemoryBlobs(), MemoryBlobs()
    source = engine.source(tmp_path / "store")
    tree = tree_of(source, blobs)

    (tmp_path / "saved.tar").write_bytes(tar_of(*engine.members))
    archive = ArchiveSource(tmp_path / "saved.tar", spool=tmp_path)
    layers = selected(source).image.layers
    assert tree == read_tree(archive, layers, keep=python_files, blobs=direct)
    assert blobs.data == direct.data
    assert sorted(direct.data.values()) == [b"lower", b"upper"]


def test_a_wider_wish_costs_one_save_and_stores_no_layer(
    engine: FakeEngine, tmp_path: Path
) -> None:
    selected(engine.source(tmp_path / "store", keep=lambda path: path == "a/c"))
    for _ in range(2):
        blobs = MemoryBlobs()
        source = engine.source(tmp_path / "store", Digest(engine.id), keep=python_files)
        tree_of(source, blobs)
        assert sorted(blobs.data.values()) == [b"lower", b"upper"]
    assert engine.saves == 2
    assert not any(BlobStore(tmp_path / "store").has(digest_bytes(x)) for x in (LOWER, UPPER))


def test_hard_links_in_several_layers_cost_one_more_save(tmp_path: Path) -> None:
    published = Published()
    published.image(
        *(
            tar_of(file(f"cache/{name}", name.encode()), hard_link(f"{name}.py", f"cache/{name}"))
            for name in ("a", "b", "c")
        )
    )
    with graph_driver(tmp_path / "engine.sock", published) as engine:
        for _ in range(3):
            blobs = MemoryBlobs()
            tree_of(engine.source(tmp_path / "store", keep=python_files), blobs)
            assert sorted(blobs.data.values()) == [b"a", b"b", b"c"]
        assert engine.saves == 2


def test_a_hard_link_to_a_file_that_was_not_kept_is_followed(tmp_path: Path) -> None:
    published = Published()
    published.image(tar_of(file("cache/x", b"text"), hard_link("a.py", "cache/x")))
    with graph_driver(tmp_path / "engine.sock", published) as engine:
        blobs = MemoryBlobs()
        for _ in range(2):
            entry = tree_of(engine.source(tmp_path / "store", keep=python_files), blobs).get("a.py")
            assert entry is not None
            assert entry.content is not None
            assert blobs.read(entry.content) == b"text"
        assert engine.saves == 2


def test_a_layer_is_brought_into_the_store_alone(engine: FakeEngine, tmp_path: Path) -> None:
    source = engine.source(tmp_path / "store")
    lower, upper = (layer.descriptor for layer in selected(source).image.layers)

    with source.open_blob(upper) as chunks:
        assert b"".join(chunks) == UPPER

    store = BlobStore(tmp_path / "store")
    assert (store.has(upper.digest), store.has(lower.digest)) == (True, False)
    assert engine.saves == 2


def test_an_image_that_is_sent_whole_is_saved_once(engine: FakeEngine, tmp_path: Path) -> None:
    selected(engine.source(tmp_path / "store"))
    source = engine.source(tmp_path / "store", Digest(engine.id), whole=True)
    layers = [layer.descriptor for layer in selected(source).image.layers]
    found: dict[Digest, bytes] = {}

    def fetch(number: int) -> None:
        with source.open_blob(layers[number]) as chunks:
            found[layers[number].digest] = b"".join(chunks)

    threads = [threading.Thread(target=fetch, args=(number % 2,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert found == {layers[0].digest: LOWER, layers[1].digest: UPPER}
    assert engine.saves == 2


def test_a_layer_that_the_engine_has_no_more_is_told(engine: FakeEngine, tmp_path: Path) -> None:
    source = engine.source(tmp_path / "store", Digest(engine.id))
    (layer, _) = selected(source).image.layers
    gone, engine.id = engine.id, ABSENT

    with pytest.raises(EngineImageDiffersError) as caught, source.open_blob(layer.descriptor):
        pass
    assert (caught.value.pin, caught.value.found) == (gone, (ABSENT,))


def test_a_blob_of_another_image_is_missing(engine: FakeEngine, tmp_path: Path) -> None:
    source = engine.source(tmp_path / "store")
    selected(source)
    with pytest.raises(MissingBlobError):
        source.document(ABSENT, media_type="any")


def test_what_the_config_says_of_its_platform_counts_in_the_end(
    graph: FakeEngine, tmp_path: Path
) -> None:
    graph.architecture = "arm64"
    with pytest.raises(ConfigPlatformError):
        select_manifest(graph.source(tmp_path / "store", platform=ARM64), None, ARM64)
