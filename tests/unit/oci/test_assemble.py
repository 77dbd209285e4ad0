from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from builder.digest import JsonValue, digest_bytes
from builder.image_section import ConfigChanges
from builder.labels import INPUTS
from builder.oci.assemble import (
    MAX_LAYERS,
    AssembledImage,
    Assembly,
    assemble,
    epoch_of,
)
from builder.oci.image_errors import (
    DiffIdClashError,
    DuplicateEntryError,
    MissingParentError,
    TooManyLayersError,
    UncanonicalConfigError,
    UnusableTimeError,
)
from builder.oci.model import (
    DOCKER_LAYER_GZIP,
    OCI_LAYER_GZIP,
    OCI_LAYER_TAR,
    OCI_MANIFEST,
    Descriptor,
    Image,
    Layer,
)
from builder.oci.select import image_of, parse_config, parse_manifest
from builder.oci.tar import file_entry, write_tar
from tests.unit.oci.archives import (
    Published,
    file,
    tar_of,
)

EPOCH = 1767225600
INPUTS_DIGEST = digest_bytes(b"inputs")
ADDED = file_entry("added", b"data", mode=0o644, mtime=EPOCH)


def base(**config: JsonValue) -> Image:
    return Published().image(tar_of(file("a")), tar_of(file("b")), **config)


def assembled(image: Image | None = None, **changes: Any) -> AssembledImage:  # noqa: ANN401 - fields of Assembly
    assembly = Assembly(
        base=base() if image is None else image,
        epoch=EPOCH,
        entries=(ADDED,),
        whiteouts=(),
        changes=ConfigChanges(),
        inputs=INPUTS_DIGEST,
    )
    return assemble(replace(assembly, **changes))


def config_of(image: AssembledImage) -> dict[str, Any]:
    document = json.loads(image.image.config.raw)
    assert isinstance(document, dict)
    return document


def test_the_images_own_documents_read_back_as_the_image() -> None:
    image = assembled().image

    manifest = parse_manifest(image.manifest.raw, place="test")
    config = parse_config(image.config.raw, place="test")
    assert image_of(manifest, config, place="test") == image


def test_our_layer_lies_on_the_bases_and_is_what_write_tar_makes() -> None:
    image = base()
    result = assembled(image)
    (own,) = result.own

    data = b"".join(write_tar(own.entries))
    assert own.layer == Layer(
        Descriptor(OCI_LAYER_TAR, digest_bytes(data), len(data)), digest_bytes(data)
    )
    assert result.image.layers == (*image.layers, own.layer)


def test_documents_are_canonical() -> None:
    image = assembled().image

    for raw in (image.manifest.raw, image.config.raw):
        assert raw == json.dumps(json.loads(raw), sort_keys=True, separators=(",", ":")).encode()


def test_base_layers_keep_their_bytes_under_the_oci_name_of_their_type() -> None:
    image = base()
    docker = tuple(
        Layer(replace(layer.descriptor, media_type=DOCKER_LAYER_GZIP), layer.diff_id)
        for layer in image.layers
    )
    result = assembled(replace(image, layers=docker)).image

    document = json.loads(result.manifest.raw)
    assert document["mediaType"] == OCI_MANIFEST
    assert [layer["mediaType"] for layer in document["layers"]] == [
        OCI_LAYER_GZIP,
        OCI_LAYER_GZIP,
        OCI_LAYER_TAR,
    ]
    assert [layer["digest"] for layer in document["layers"]][:2] == [
        layer.descriptor.digest for layer in docker
    ]


def test_nothing_to_add_makes_no_layer() -> None:
    image = base()
    result = assembled(image, entries=())

    assert result.own == ()
    assert result.image.layers == image.layers
    assert config_of(result)["history"] == image.config.document["history"]


def test_input_order_changes_nothing() -> None:
    entries = (ADDED, file_entry("b", b"", mode=0o644, mtime=EPOCH))

    assert assembled(entries=entries) == assembled(entries=entries[::-1])
    assert assembled(whiteouts=("x", "y")) == assembled(whiteouts=("y", "x"))


def test_unknown_keys_of_the_config_stay_and_those_of_dockers_own_build_go() -> None:
    image = base(
        docker_version="20.10",
        container="abc",
        container_config={"Cmd": []},
        author="someone",
        variant="v1",
        config={"Healthcheck": {"Test": ["NONE"]}, "Shell": None},
    )
    document = config_of(assembled(image))

    assert not {"docker_version", "container", "container_config"} & set(document)
    assert (document["author"], document["variant"]) == ("someone", "v1")
    assert document["config"]["Healthcheck"] == {"Test": ["NONE"]}
    assert document["config"]["Shell"] is None


def test_the_time_is_the_epoch() -> None:
    document = config_of(assembled())

    assert document["created"] == "2026-01-01T00:00:00Z"
    assert document["history"][-1]["created"] == "2026-01-01T00:00:00Z"


def test_what_is_unset_stays_the_bases() -> None:
    image = base(config={"Entrypoint": ["/run"], "Cmd": ["x"], "Env": ["A=1"], "User": "u"})

    assert config_of(assembled(image))["config"] == {
        "Entrypoint": ["/run"],
        "Cmd": ["x"],
        "Env": ["A=1"],
        "User": "u",
        "Labels": {INPUTS: INPUTS_DIGEST},
    }


def test_what_is_set_replaces_the_bases() -> None:
    image = base(config={"Entrypoint": ["/run"], "Cmd": ["x"], "Labels": {"a": "b"}})
    changes = ConfigChanges(entrypoint=(), cmd=("y",), workdir="/w", user="1:2")

    assert config_of(assembled(image, changes=changes))["config"] == {
        "Entrypoint": [],
        "Cmd": ["y"],
        "WorkingDir": "/w",
        "User": "1:2",
        "Labels": {"a": "b", INPUTS: INPUTS_DIGEST},
    }


def test_variables_change_in_place_and_new_ones_follow_by_name() -> None:
    image = base(config={"Env": ["Z=1", "A=2", "Z=3", "ODD"]})
    changes = ConfigChanges(env={"Z": "9", "N": "x=y", "B": ""})

    assert config_of(assembled(image, changes=changes))["config"]["Env"] == [
        "Z=9",
        "A=2",
        "ODD",
        "B=",
        "N=x=y",
    ]


def test_history_grows_by_one_entry_for_our_layer() -> None:
    history: list[JsonValue] = [
        {"created_by": "a"},
        {"created_by": "env", "empty_layer": True},
        {"comment": "b"},
    ]
    result = assembled(base(history=history))

    assert config_of(result)["history"][:3] == history
    assert len(config_of(result)["history"]) == 4
    assert result.notes == ()


@pytest.mark.parametrize("history", [None, [], [{"created_by": "one of two"}], [{}, {}, {}]])
def test_history_that_does_not_add_up_is_dropped_and_told(history: list[JsonValue] | None) -> None:
    result = assembled(base(history=history))

    assert "history" not in config_of(result)
    assert "history dropped" in result.notes[0]


def test_the_layers_are_counted() -> None:
    image = base()
    (first, _) = image.layers
    full = replace(image, layers=(first,) * MAX_LAYERS)

    with pytest.raises(TooManyLayersError) as caught:
        assembled(full)
    assert caught.value.layers == MAX_LAYERS + 1
    assert assembled(full, entries=()).image.layers == full.layers


def test_our_layer_must_not_be_one_of_the_bases_under_another_digest() -> None:
    data = b"".join(write_tar([ADDED]))
    image = base()
    stored = replace(image.layers[0].descriptor, media_type=OCI_LAYER_GZIP)
    clash = replace(image, layers=(Layer(stored, digest_bytes(data)), image.layers[1]))

    with pytest.raises(DiffIdClashError):
        assembled(clash)


@pytest.mark.parametrize("value", [1.5, [{"a": 1e300}]])
def test_a_base_config_with_floats_is_refused(value: Any) -> None:  # noqa: ANN401 - a JSON value
    image = base()
    odd = parse_config(
        json.dumps(dict(image.config.document) | {"odd": value}).encode(), place="test"
    )

    with pytest.raises(UncanonicalConfigError):
        assembled(replace(image, config=odd))


def test_one_path_twice_is_refused() -> None:
    with pytest.raises(DuplicateEntryError):
        assembled(whiteouts=("added",))


def test_a_whiteout_needs_its_directory_too() -> None:
    with pytest.raises(MissingParentError):
        assembled(whiteouts=("usr/lib/x",))


@pytest.mark.parametrize(
    ("created", "epoch"),
    [
        ("2026-01-01T00:00:00Z", EPOCH),
        ("2026-01-01T00:00:00.123456789Z", EPOCH),
        ("2026-01-01T02:00:00+02:00", EPOCH),
        ("1970-01-01T00:00:00Z", 0),
    ],
)
def test_the_epoch_of_a_base_is_its_created(created: str, epoch: int) -> None:
    assert epoch_of(base(created=created).config, place="test") == epoch


@pytest.mark.parametrize(
    "created", [None, "", "yesterday", "2026-13-01T00:00:00Z", "0001-01-01T00:00:00Z", "2026-01-01"]
)
def test_a_base_without_a_usable_time_asks_for_an_epoch(created: str | None) -> None:
    with pytest.raises(UnusableTimeError) as caught:
        epoch_of(base(created=created).config, place="test")
    assert "epoch" in str(caught.value)
