from __future__ import annotations

import json
from typing import Any

import pytest

from builder.digest import Digest, canonical_json, digest_bytes
from builder.oci.errors import MissingBlobError
from builder.oci.image_errors import (
    AmbiguousRootError,
    ConfigPlatformError,
    ForeignLayerError,
    LayerCountError,
    MalformedDocumentError,
    PinNotFoundError,
    PlatformNotFoundError,
    TooManyLayersError,
    UnsupportedMediaTypeError,
)
from builder.oci.limits import MAX_IMAGE_LAYERS
from builder.oci.model import (
    DOCKER_CONFIG,
    DOCKER_INDEX,
    DOCKER_LAYER_GZIP,
    DOCKER_MANIFEST,
    OCI_CONFIG,
    OCI_LAYER_TAR,
    OCI_LAYER_ZSTD,
    OCI_MANIFEST,
    Descriptor,
    Platform,
)
from builder.oci.select import parse_config, parse_index, parse_manifest, select_manifest
from tests.unit.oci.archives import Published, config_document

AMD64 = Platform("linux", "amd64")
ARM64 = Platform("linux", "arm64")
LAYER = b"layer"
DIFF_ID = digest_bytes(LAYER)


def manifest(published: Published, **changes: str) -> Descriptor:
    return published.manifest(config_document(DIFF_ID, **changes), published.add_layer(LAYER))


def multi_platform() -> tuple[Published, dict[str, Descriptor]]:
    """An index as a build tool pushes it: two platforms, each with an attestation."""
    published = Published()
    images = {
        "linux/amd64": manifest(published),
        "linux/arm64/v8": manifest(published, architecture="arm64", variant="v8"),
    }
    attestation = manifest(published, os="unknown", architecture="unknown")
    index = published.index(
        *((image, platform) for platform, image in images.items()),
        (attestation, "unknown/unknown"),
        (attestation, "unknown/unknown"),
    )
    published.source.tops = [index]
    return published, images | {"index": index}


def test_a_single_image_needs_no_pin() -> None:
    published = Published()
    image = published.image(LAYER)

    selected = select_manifest(published.source, None, AMD64)

    assert selected.image == image
    assert selected.index_digest is None


@pytest.mark.parametrize("pinned", [True, False])
def test_of_an_index_the_platforms_image_is_chosen_and_attestations_are_not(
    pinned: bool,  # noqa: FBT001 - a parameter of the table above
) -> None:
    published, found = multi_platform()

    pin = found["index"].digest if pinned else None
    selected = select_manifest(published.source, pin, ARM64)

    assert selected.index_digest == found["index"].digest
    assert selected.image.manifest.descriptor == found["linux/arm64/v8"]
    assert selected.image.layers[0].diff_id == DIFF_ID


def test_the_pin_may_be_one_platforms_manifest_inside_an_index() -> None:
    published, found = multi_platform()

    selected = select_manifest(published.source, found["linux/arm64/v8"].digest, ARM64)

    assert selected.index_digest is None
    assert selected.image.manifest.descriptor == found["linux/arm64/v8"]


def test_a_pinned_manifest_of_another_platform_is_refused() -> None:
    published, found = multi_platform()

    with pytest.raises(ConfigPlatformError) as caught:
        select_manifest(published.source, found["linux/amd64"].digest, ARM64)
    assert (caught.value.wanted, caught.value.found) == ("linux/arm64", "linux/amd64")


def test_an_index_that_lies_about_the_platform_is_caught_by_the_config() -> None:
    published = Published()
    index = published.index((manifest(published), "linux/arm64"))

    with pytest.raises(ConfigPlatformError):
        select_manifest(published.source, index.digest, ARM64)


def test_a_missing_platform_is_named_with_those_there_are() -> None:
    published, found = multi_platform()

    with pytest.raises(PlatformNotFoundError) as caught:
        select_manifest(published.source, found["index"].digest, Platform("linux", "riscv64"))
    assert caught.value.found == ("linux/amd64", "linux/arm64/v8")
    assert "linux/riscv64" in str(caught.value)


def test_two_images_of_the_platform_are_an_error() -> None:
    published = Published()
    one, other = manifest(published), manifest(published, created="2020-01-01T00:00:00Z")
    index = published.index((one, "linux/amd64"), (other, "linux/amd64/v1"))

    with pytest.raises(PlatformNotFoundError) as caught:
        select_manifest(published.source, index.digest, AMD64)
    assert caught.value.matches == 2


def test_one_image_listed_twice_is_one_image() -> None:
    published = Published()
    image = manifest(published)
    index = published.index((image, "linux/amd64"), (image, "linux/amd64"))

    assert select_manifest(published.source, index.digest, AMD64).image.manifest.descriptor == image


@pytest.mark.parametrize(
    ("stated", "wanted", "fits"),
    [
        ("linux/arm64", "linux/arm64/v8", True),
        ("linux/arm64/v8", "linux/arm64", True),
        ("linux/arm64/v9", "linux/arm64", False),
        ("linux/amd64/v3", "linux/amd64", False),
        ("linux/amd64/v3", "linux/amd64/v3", True),
        ("windows/amd64", "linux/amd64", False),
    ],
)
def test_an_absent_variant_means_the_usual_one(
    stated: str,
    wanted: str,
    fits: bool,  # noqa: FBT001 - a parameter of the table above
) -> None:
    published = Published()
    platform = Platform.parse(stated)
    image = manifest(
        published,
        os=platform.os,
        architecture=platform.architecture,
        **({"variant": platform.variant} if platform.variant else {}),
    )
    index = published.index((image, stated))
    if fits:
        selected = select_manifest(published.source, index.digest, Platform.parse(wanted))
        assert selected.image.manifest.descriptor == image
    else:
        with pytest.raises(PlatformNotFoundError):
            select_manifest(published.source, index.digest, Platform.parse(wanted))


def test_the_only_manifest_of_an_index_may_state_no_platform() -> None:
    published = Published()
    image = manifest(published)
    index = published.index((image, None))

    assert select_manifest(published.source, index.digest, AMD64).image.manifest.descriptor == image


def test_an_empty_index_is_no_image() -> None:
    published = Published()
    index = published.index()

    with pytest.raises(PlatformNotFoundError) as caught:
        select_manifest(published.source, index.digest, AMD64)
    assert "no platform at all" in str(caught.value)


def test_several_roots_need_a_pin() -> None:
    published, found = multi_platform()
    published.source.tops = [found["index"], found["linux/amd64"]]

    with pytest.raises(AmbiguousRootError) as caught:
        select_manifest(published.source, None, AMD64)
    assert set(caught.value.offered) == {found["index"].digest, found["linux/amd64"].digest}


def test_a_pin_that_the_source_has_not_is_named_with_what_it_has() -> None:
    published, found = multi_platform()
    pin = Digest("sha256:" + "0" * 64)

    with pytest.raises(PinNotFoundError) as caught:
        select_manifest(published.source, pin, AMD64)
    assert caught.value.offered == (found["index"].digest,)


def test_a_root_whose_bytes_are_gone_is_a_missing_blob() -> None:
    published, found = multi_platform()
    del published.source.blobs[found["index"].digest]

    with pytest.raises(MissingBlobError):
        select_manifest(published.source, found["index"].digest, AMD64)


def test_docker_types_are_read_too() -> None:
    published = Published()
    config = published.add_json(config_document(DIFF_ID), DOCKER_CONFIG)
    image = published.add_json(
        {
            "schemaVersion": 2,
            "mediaType": DOCKER_MANIFEST,
            "config": config.as_json(),
            "layers": [published.add_layer(LAYER, DOCKER_LAYER_GZIP).as_json()],
        },
        DOCKER_MANIFEST,
    )
    platform = {"os": "linux", "architecture": "amd64"}
    listed = published.add_json(
        {
            "schemaVersion": 2,
            "mediaType": DOCKER_INDEX,
            "manifests": [image.as_json() | {"platform": platform}],
        },
        DOCKER_INDEX,
    )

    selected = select_manifest(published.source, listed.digest, AMD64)

    assert selected.image.manifest.descriptor == image
    assert selected.image.layers[0].descriptor.media_type == DOCKER_LAYER_GZIP


def test_layers_and_diff_ids_must_be_as_many() -> None:
    published = Published()
    image = published.manifest(config_document(DIFF_ID, DIFF_ID), published.add_layer(LAYER))

    with pytest.raises(LayerCountError) as caught:
        select_manifest(published.source, image.digest, AMD64)
    assert (caught.value.layers, caught.value.diff_ids) == (1, 2)


def parsed(document: dict[str, Any]) -> object:
    return parse_manifest(json.dumps(document).encode(), place="test")


def manifest_document(**changes: object) -> dict[str, Any]:
    config = Descriptor(OCI_CONFIG, DIFF_ID, 1).as_json()
    layers = [Descriptor(OCI_LAYER_TAR, DIFF_ID, 1).as_json()]
    document = {"schemaVersion": 2, "mediaType": OCI_MANIFEST, "config": config, "layers": layers}
    return document | changes


@pytest.mark.parametrize(
    "media_type",
    [
        "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip",
        "application/vnd.oci.image.layer.nondistributable.v1.tar+gzip",
    ],
)
def test_foreign_layers_are_refused(media_type: str) -> None:
    with pytest.raises(ForeignLayerError) as caught:
        parsed(manifest_document(layers=[Descriptor(media_type, DIFF_ID, 1).as_json()]))

    assert "layers[0]" in str(caught.value)


@pytest.mark.parametrize(
    "changes",
    [
        {"mediaType": "application/vnd.oci.artifact.manifest.v1+json"},
        {"config": Descriptor("application/vnd.oci.empty.v1+json", DIFF_ID, 2).as_json()},
        {"layers": [Descriptor("application/vnd.in-toto+json", DIFF_ID, 1).as_json()]},
    ],
)
def test_what_is_no_container_image_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(UnsupportedMediaTypeError):
        parsed(manifest_document(**changes))


def test_zstd_layers_are_accepted_in_a_manifest() -> None:
    layer = Descriptor(OCI_LAYER_ZSTD, DIFF_ID, 1)
    raw = json.dumps(manifest_document(layers=[layer.as_json()])).encode()

    assert parse_manifest(raw, place="test").layers == (layer,)


def test_a_manifest_without_media_type_is_ocis() -> None:
    document = manifest_document()
    del document["mediaType"]
    raw = json.dumps(document).encode()

    assert parse_manifest(raw, place="test").descriptor == Descriptor(
        OCI_MANIFEST, digest_bytes(raw), len(raw)
    )


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"schemaVersion": 1}, "schemaVersion"),
        ({"layers": None}, "layers"),
        ({"config": {"mediaType": OCI_CONFIG, "digest": "md5:abc", "size": 1}}, "config.digest"),
        ({"config": {"mediaType": OCI_CONFIG, "digest": DIFF_ID, "size": -1}}, "config.size"),
        ({"config": {"mediaType": OCI_CONFIG, "digest": DIFF_ID, "size": "1"}}, "config.size"),
        ({"layers": [{"digest": DIFF_ID}]}, "layers.0.mediaType"),
    ],
)
def test_every_problem_of_a_manifest_is_named(changes: dict[str, Any], problem: str) -> None:
    with pytest.raises(MalformedDocumentError) as caught:
        parsed(manifest_document(**changes))

    assert any(problem in line for line in caught.value.problems)
    assert "test" in str(caught.value)


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff\xfe{}",
        b"[" * 100_000,
        b'{"a": 1' + b"1" * 5000 + b"}",
        "\ufeff{}".encode(),
        "{}".encode("utf-16"),
    ],
)
def test_bytes_that_are_no_json_object_are_refused(raw: bytes) -> None:
    for parse in (parse_index, parse_manifest, parse_config):
        with pytest.raises(MalformedDocumentError):
            parse(raw, place="test")


def test_one_document_cannot_be_manifest_and_index_at_once() -> None:
    published = Published()
    both = published.add_json(manifest_document(manifests=[]), OCI_MANIFEST)

    with pytest.raises(MalformedDocumentError) as caught:
        select_manifest(published.source, both.digest, AMD64)
    assert "manifest and index" in caught.value.problems[0]


def test_a_pinned_config_is_no_image() -> None:
    published = Published()
    image = published.image(LAYER)

    with pytest.raises(MalformedDocumentError):
        select_manifest(published.source, image.config.digest, AMD64)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"rootfs": {}}, "rootfs.diff_ids"),
        ({"rootfs": {"diff_ids": ["x"]}}, "rootfs.diff_ids.0"),
        ({"architecture": 7}, "architecture"),
        ({"config": {"Env": "A=1"}}, "config.Env"),
        ({"config": {"Entrypoint": [1]}}, "config.Entrypoint.0"),
        ({"history": [{"empty_layer": "no"}]}, "history.0.empty_layer"),
        ({"author": "\ud800"}, "half of a surrogate pair"),
        ({"Architecture": "arm64"}, "'architecture'"),
        ({"config": {"entrypoint": ["/other"]}}, "'Entrypoint'"),
        ({"hi\u017ftory": []}, "'history'"),
        ({"rootfs": {"Diff_IDs": []}}, "'diff_ids'"),
        ({"deep": [[[1]]] * 2 + [json.loads("[" * 63 + "]" * 63)]}, "nested more than 64 deep"),
    ],
)
def test_every_problem_of_a_config_is_named(changes: dict[str, Any], problem: str) -> None:
    raw = json.dumps(config_document(DIFF_ID) | changes).encode()

    with pytest.raises(MalformedDocumentError) as caught:
        parse_config(raw, place="test")
    assert any(problem in line for line in caught.value.problems)


@pytest.mark.parametrize(
    "text",
    [
        '"architecture":"arm64","architecture":"amd64"',
        '"architecture":"amd64","x":NaN',
        '"architecture":"amd64","x":[{"y":1,"y":1}]',
        '"architecture":"amd64","x":99999999999999999999999',
    ],
)
def test_what_two_readers_take_differently_is_refused(text: str) -> None:
    raw = b'{"os":"linux","rootfs":{"diff_ids":[]},%s}' % text.encode()

    with pytest.raises(MalformedDocumentError) as caught:
        parse_config(raw, place="test")
    assert caught.value.problems[0].startswith("not JSON, line 1: ")


def test_more_layers_than_any_engine_runs_are_refused_before_one_is_read() -> None:
    published = Published()
    layer = published.add_layer(LAYER)
    count = MAX_IMAGE_LAYERS + 1
    top = published.manifest(config_document(*[DIFF_ID] * count), *[layer] * count)
    published.source.tops = [top]

    with pytest.raises(TooManyLayersError) as caught:
        select_manifest(published.source, None, AMD64)
    assert (caught.value.layers, caught.value.limit) == (count, MAX_IMAGE_LAYERS)
    assert not published.source.opened


def test_a_config_keeps_its_raw_bytes_and_every_key() -> None:
    raw = b' {"os":"linux", "architecture":"amd64","rootfs":{"diff_ids":[]}, "x": {"y":[null]}}\n'
    config = parse_config(raw, place="test")

    assert config.raw == raw
    assert config.digest == digest_bytes(raw)
    assert config.document["x"] == {"y": [None]}
    assert (config.container, config.diff_ids, config.platform) == ({}, (), AMD64)


def test_an_index_keeps_its_order_and_platforms() -> None:
    published, found = multi_platform()
    raw = published.source.blobs[found["index"].digest]

    index = parse_index(raw, place="test")

    assert [entry.platform.text for entry in index.entries if entry.platform] == [
        "linux/amd64",
        "linux/arm64/v8",
        "unknown/unknown",
        "unknown/unknown",
    ]
    assert index.descriptor == found["index"]


def test_an_index_of_another_type_is_refused() -> None:
    raw = canonical_json({"schemaVersion": 2, "mediaType": OCI_MANIFEST, "manifests": []})

    with pytest.raises(UnsupportedMediaTypeError):
        parse_index(raw, place="test")
