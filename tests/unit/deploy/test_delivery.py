from __future__ import annotations

from dataclasses import replace

import pytest

from builder.digest import Digest, digest_bytes
from builder.oci.model import OCI_LAYER_GZIP, OCI_LAYER_TAR, OCI_LAYER_ZSTD, Descriptor, Layer
from deploy.actions import LoadImage, PullBase, PullImage
from deploy.delivery import (
    UNASKED,
    Way,
    needed_bytes,
    present_layers,
    reads_zstd,
    retried_without,
    route,
    says_missing,
    tunnel_failed,
)
from deploy.plan import make_plan
from deploy.preflight import errors_of, preflight
from deploy.state import (
    EngineFacts,
    ImageFacts,
    ImageStore,
    RegistryAnswer,
    RegistryFacts,
    SupplyFacts,
)
from deploy.wanted import WantedBase, WantedImage
from tests.unit.deploy.clusters import empty, wanted

GRAPH, CONTAINERD = ImageStore.GRAPH_DRIVER, ImageStore.CONTAINERD
BASE, INDEX = digest_bytes(b"base"), digest_bytes(b"index")
FORBIDDEN = "sshd forbids it"


def layer(word: str, size_bytes: int, kind: str = OCI_LAYER_GZIP) -> Layer:
    blob = digest_bytes(f"{word} blob".encode())
    return Layer(Descriptor(kind, blob, size_bytes), digest_bytes(word.encode()))


ONE, TWO = layer("one", 100), layer("two", 20)
OURS = Layer(Descriptor(OCI_LAYER_TAR, digest_bytes(b"ours"), 3), digest_bytes(b"ours"))
IMAGE = WantedImage(
    reference="sparklock/pair:0123",
    manifest_digest=digest_bytes(b"manifest"),
    config_digest=digest_bytes(b"config"),
    layers=(ONE, TWO, OURS),
    base=WantedBase(frozenset((BASE, INDEX)), 2, f"registry.example/base@{BASE}"),
)


def blobs(*layers: Layer) -> frozenset[Digest]:
    return frozenset(item.descriptor.digest for item in layers)


def there(engine_id: str, *layers: Layer) -> ImageFacts:
    return ImageFacts(engine_id, (), tuple(item.diff_id for item in layers))


def supply(
    *present: Layer,
    tunnel: str = "",
    registry: RegistryAnswer | None = None,
    free_bytes: int | None = None,
) -> SupplyFacts:
    facts = None if registry is None else RegistryFacts(registry, "no such host")
    return SupplyFacts(blobs(*present), tunnel, facts, free_bytes)


FOUND, LOGIN, NONE = RegistryAnswer.FOUND, RegistryAnswer.LOGIN, RegistryAnswer.NONE


@pytest.mark.parametrize(
    ("facts", "way", "left_out", "size_bytes", "base_bytes"),
    [
        (supply(), Way.PULL, (), 123, 0),
        (supply(ONE, TWO), Way.PULL, (ONE, TWO), 3, 0),
        (supply(ONE), Way.PULL, (ONE,), 23, 0),
        (supply(registry=FOUND), Way.PULL, (ONE, TWO), 3, 120),
        (supply(registry=LOGIN), Way.PULL, (ONE, TWO), 3, 120),
        (supply(ONE, registry=FOUND), Way.PULL, (ONE, TWO), 3, 20),
        (supply(registry=NONE), Way.PULL, (), 123, 0),
        (supply(tunnel=FORBIDDEN), Way.WHOLE, (), 123, 0),
        (supply(ONE, TWO, tunnel=FORBIDDEN), Way.PARTIAL, (ONE, TWO), 3, 0),
        (supply(tunnel=FORBIDDEN, registry=FOUND), Way.PARTIAL, (ONE, TWO), 3, 120),
        (supply(tunnel=FORBIDDEN, registry=NONE), Way.WHOLE, (), 123, 0),
        (UNASKED, Way.PULL, (), 123, 0),
    ],
)
def test_the_way_follows_from_what_is_there_and_what_reaches_the_node(
    facts: SupplyFacts, way: Way, left_out: tuple[Layer, ...], size_bytes: int, base_bytes: int
) -> None:
    chosen = route(IMAGE, facts)
    assert chosen.way is way
    assert chosen.left_out == blobs(*left_out)
    assert (chosen.size_bytes, chosen.base_bytes) == (size_bytes, base_bytes)


def test_the_choice_says_what_it_came_from() -> None:
    assert route(IMAGE, supply()).reason == "not on the node"
    said = route(IMAGE, supply(ONE, tunnel=FORBIDDEN, registry=NONE)).reason
    assert "1 of its 3 layers" in said
    assert FORBIDDEN in said
    assert "no such host" in said


@pytest.mark.parametrize(
    ("found", "present"),
    [
        ((), ()),
        ((there("a", ONE, TWO),), (ONE, TWO)),
        ((there("a", ONE), there("b", ONE, TWO, layer("other", 1))), (ONE, TWO)),
        ((there("a", TWO, ONE),), ()),
        ((there("a", layer("other", 1), ONE, TWO),), ()),
        ((there("a", ONE, layer("other", 1), OURS),), (ONE,)),
        ((there("a", ONE, TWO, OURS, layer("more", 1)),), (ONE, TWO, OURS)),
    ],
)
def test_a_graph_driver_has_the_layers_whose_chain_it_has(
    found: tuple[ImageFacts, ...], present: tuple[Layer, ...]
) -> None:
    assert present_layers(IMAGE, GRAPH, found, {}) == blobs(*present)


@pytest.mark.parametrize(
    ("found", "present"),
    [
        (there(BASE, ONE, TWO), (ONE, TWO)),
        (there(INDEX, ONE, TWO), (ONE, TWO)),
        (there(INDEX, layer("of another platform", 1)), ()),
        # The same files under another compression: the chain is there, and the blobs are not.
        (there(digest_bytes(b"recompressed"), ONE, TWO), ()),
    ],
)
def test_the_containerd_store_has_the_blobs_of_manifests_that_are_known(
    found: ImageFacts, present: tuple[Layer, ...]
) -> None:
    assert present_layers(IMAGE, CONTAINERD, (found,), {}) == blobs(*present)


def test_a_manifest_that_was_built_here_tells_its_blobs() -> None:
    earlier = digest_bytes(b"earlier manifest")
    found = (there(earlier, ONE, TWO, layer("ours before", 1)),)
    known: dict[str, frozenset[Digest]] = {earlier: blobs(ONE, TWO, layer("ours before", 1))}
    assert present_layers(IMAGE, CONTAINERD, found, known) == blobs(ONE, TWO)


@pytest.mark.parametrize(
    ("detail", "contacted", "failed"),
    [
        ("anything at all", False, True),
        ('Get "http://127.0.0.1:5/v2/": EOF', True, True),
        ("read tcp 127.0.0.1:1->127.0.0.1:2: read: connection reset by peer", True, True),
        ("filesystem layer verification failed for digest sha256:1", True, False),
        ("write /var/lib/docker/tmp/x: no space left on device", True, False),
    ],
)
def test_another_way_is_tried_when_the_tunnel_failed_and_not_when_the_image_did(
    detail: str, *, contacted: bool, failed: bool
) -> None:
    assert tunnel_failed(detail, contacted=contacted) is failed


def missing(item: Layer) -> tuple[str, str]:
    """How a graph driver and a containerd store name a blob that is nowhere."""
    digest = item.descriptor.digest
    return (
        f"open /var/lib/docker/tmp/docker-import-1/blobs/{digest.replace(':', '/')}: no such file",
        f"failed to get reader: content digest {digest}: not found",
    )


@pytest.mark.parametrize("detail", missing(TWO))
def test_a_blob_that_was_missing_is_added_and_after_that_everything(detail: str) -> None:
    assert says_missing(detail)
    left_out = blobs(ONE, TWO)
    assert retried_without(left_out, detail, first=True) == blobs(ONE)
    assert retried_without(left_out, detail, first=False) == frozenset()
    assert retried_without(left_out, "content digest: not found", first=True) == frozenset()
    assert retried_without(blobs(ONE), detail, first=True) == frozenset()
    assert retried_without(frozenset(), detail, first=True) is None


def test_a_full_disk_is_not_a_missing_blob() -> None:
    assert not says_missing("write /var/lib/docker/tmp/x: no space left on device")


def test_a_plan_has_the_way_of_each_node_with_its_bytes_and_why() -> None:
    goal = wanted()
    goal = replace(goal, image=replace(IMAGE, reference=goal.image.reference))
    first, second = empty(goal)
    states = empty(goal)
    states[first] = replace(states[first], supply=supply(registry=LOGIN))
    states[second] = replace(states[second], supply=supply(ONE, TWO, tunnel=FORBIDDEN))
    plan = make_plan(goal, states)
    kinds = (PullBase, PullImage, LoadImage)
    base, pull, load = (action for action in plan.actions if isinstance(action, kinds))
    assert isinstance(base, PullBase)
    assert (base.node, base.size_bytes, base.with_login) == (first, 120, True)
    assert isinstance(pull, PullImage)
    assert (pull.node, pull.size_bytes) == (first, 3)
    assert isinstance(load, LoadImage)
    assert (load.node, load.size_bytes, load.whole) == (second, 3, False)
    text = plan.text()
    assert f"pull base registry.example/base@{BASE[:19]}: 120 B" in text
    assert "wants a login" in text
    assert "as a partial archive: 3 B" in text
    assert "(not on the node, which has 2 of its 3 layers; " in text
    assert FORBIDDEN in text


def test_the_base_has_a_name_in_its_registry_and_none_in_a_folder() -> None:
    assert wanted().image.base.reference is None


@pytest.mark.parametrize(
    ("store", "facts", "needed"),
    [
        (GRAPH, supply(), 123),
        (GRAPH, supply(tunnel=FORBIDDEN), 246),
        (GRAPH, supply(tunnel=FORBIDDEN, registry=FOUND), 126),
        (CONTAINERD, supply(), 246),
        (CONTAINERD, supply(ONE, TWO), 6),
    ],
)
def test_what_space_is_needed_depends_on_way_and_store(
    store: ImageStore, facts: SupplyFacts, needed: int
) -> None:
    assert needed_bytes(route(IMAGE, facts), store) == needed


def test_too_little_space_is_told_before_anything_is_changed() -> None:
    goal = replace(wanted(), image=IMAGE)
    states = empty(goal)
    name = next(iter(states))
    states[name] = replace(states[name], supply=supply(tunnel=FORBIDDEN, free_bytes=245))
    (found,) = errors_of(preflight(goal, states))
    assert found.place == f"node {name}"
    assert (found.expected, found.found) == ("at least 246 B", "245 B")
    states[name] = replace(states[name], supply=supply(tunnel=FORBIDDEN, free_bytes=246))
    assert errors_of(preflight(goal, states)) == ()


def test_layers_of_zstd_are_refused_for_an_engine_that_cannot_read_them() -> None:
    zstd = replace(IMAGE, layers=(layer("one", 100, OCI_LAYER_ZSTD), TWO, OURS))
    goal = replace(wanted(), image=zstd)
    states = empty(goal)
    name = next(iter(states))
    old = EngineFacts("20.10.24", GRAPH, goal.manifest.image.platform)
    states[name] = replace(states[name], supply=supply(), engine=old)
    (found,) = errors_of(preflight(goal, states))
    assert found.found == "Docker 20.10.24"
    assert "zstd" in found.what
    states[name] = replace(states[name], engine=replace(old, version="23.0.1"))
    assert errors_of(preflight(goal, states)) == ()


@pytest.mark.parametrize(
    ("version", "reads"),
    [("20.10.24", False), ("22.9", False), ("23.0.0", True), ("28.3.3", True), ("dev", True)],
)
def test_zstd_is_read_from_docker_23_on(version: str, *, reads: bool) -> None:
    assert reads_zstd(EngineFacts(version, GRAPH, "linux/arm64")) is reads
