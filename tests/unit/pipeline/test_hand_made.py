"""A lock that was changed by hand, and is canonical nevertheless, is told from the right one."""

from __future__ import annotations

import json
import re
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from builder.digest import digest_bytes
from builder.errors import BuildError, LockError
from builder.lock_errors import LockInvalidError
from builder.pipeline_errors import OutputsDifferError, StaleLockError
from tests.project import MODELS, REGISTRY, SITE, Project, changed_paths, rewritten

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from builder.digest import JsonValue

OTHER = digest_bytes(b"something else")


HAND_MADE: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "the name": (lambda lock: lock.update(name="other"), "name"),
    "a node's address": (
        lambda lock: lock["nodes"][1].update(fabric="198.18.0.9"),
        "nodes[b].fabric",
    ),
    "the order of nodes": (lambda lock: lock["nodes"].reverse(), "nodes (order)"),
    "the architecture": (
        lambda lock: lock["model"].update(architectures=["Old"]),
        "model.architectures",
    ),
    "the size of a model file": (
        lambda lock: lock["model"]["files"][0].update(size_bytes=1),
        "model.files[config.json].size_bytes",
    ),
    "the version": (lambda lock: lock["image"].update(vllm_version="2"), "image.vllm_version"),
    "the epoch": (lambda lock: lock["image"].update(epoch=1), "image.epoch"),
    "the platform": (lambda lock: lock["image"].update(platform="a/b"), "image.platform"),
    "the user": (lambda lock: lock["image"]["changes"].update(user="me"), "image.changes.user"),
    "the base's source": (
        lambda lock: lock["image"]["base"].update(asked="oci:other"),
        "image.base.asked",
    ),
    "the base's pin": (
        lambda lock: lock["image"]["base"].update(manifest_digest=OTHER),
        "image.base.manifest_digest",
    ),
    "a donor's pin": (
        lambda lock: lock["image"]["donors"][0].update(manifest_digest=OTHER),
        "image.donors[tiny].manifest_digest",
    ),
    "a donor's name": (
        lambda lock: lock["image"]["donors"][0].update(name="other"),
        "image.donors[other].name",
    ),
}


@pytest.mark.parametrize(("change", "path"), HAND_MADE.values(), ids=HAND_MADE)
def test_checking_finds_a_hand_made_change_of(
    project: Project, change: Callable[[dict[str, Any]], object], path: str
) -> None:
    project.lock()
    rewritten(project, change)

    with pytest.raises(StaleLockError) as caught:
        project.check()
    assert path in changed_paths(caught.value)


RESOLVED: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "the manifest's digest": (
        lambda lock: lock["outputs"].update(manifest_digest=OTHER),
        "outputs.manifest_digest",
    ),
    "the digest of the inputs": (lambda lock: lock.update(inputs_digest=OTHER), "inputs_digest"),
    "a directory's mode": (
        lambda lock: lock["image"]["base"]["dirs"][0].update(mode="0777"),
        "outputs.config_digest",
    ),
    "a target": (
        lambda lock: lock["image"]["files"][0].update(target="/usr/template.jinja"),
        "outputs.config_digest",
    ),
    "a layer of the base": (
        lambda lock: lock["image"]["base"]["layers"][0].update(diff_id=OTHER),
        "image.base.layers[0].diff_id",
    ),
    "the entrypoint": (lambda lock: lock["image"].update(entrypoint=[]), "image.entrypoint"),
    "the working directory": (lambda lock: lock["image"].update(workdir="/"), "image.workdir"),
    "the size of a picked file": (
        lambda lock: lock["image"]["picks"][0].update(size_bytes=1),
        f"image.picks[/{SITE}/{MODELS}/new.py].size_bytes",
    ),
    "an edited module": (
        lambda lock: lock["image"]["tables"][0].update(after=OTHER),
        f"image.tables[/{REGISTRY}].after",
    ),
    "an entry of a table": (
        lambda lock: lock["image"]["tables"][0]["entries"][0].update(key="Newest"),
        f"image.tables[/{REGISTRY}].after",
    ),
    "a picked file that no store has": (
        lambda lock: lock["image"]["picks"][0].update(digest=OTHER),
        f"image.picks[/{SITE}/{MODELS}/new.py].digest",
    ),
}


@pytest.mark.parametrize(("change", "path"), RESOLVED.values(), ids=RESOLVED)
def test_building_finds_a_hand_made_change_of(
    project: Project, change: Callable[[dict[str, Any]], object], path: str
) -> None:
    project.lock()
    rewritten(project, change)

    with pytest.raises(OutputsDifferError) as caught:
        project.build(locked=True)
    assert path in changed_paths(caught.value)
    assert caught.value.exit_code == 3
    for message in caught.value.messages:
        assert message.place == str(project.lock_file)
        assert "(locked)" in message.expected
        assert message.found
        assert message.remedy


STORED = {name: case for name, case in RESOLVED.items() if "no store" not in name}


@pytest.mark.parametrize(("change", "path"), STORED.values(), ids=STORED)
def test_checking_finds_without_a_source_a_hand_made_change_of(
    project: Project, change: Callable[[dict[str, Any]], object], path: str
) -> None:
    project.lock()
    rewritten(project, change)
    project.remove("images")

    with pytest.raises(OutputsDifferError) as caught:
        project.check()
    assert path in changed_paths(caught.value)


def test_checking_without_a_store_still_finds_what_the_lock_says_twice(project: Project) -> None:
    project.lock()
    project.remove(".sparklock").remove("images")
    rewritten(project, lambda lock: lock["image"]["picks"][0].update(digest=OTHER))

    with pytest.raises(OutputsDifferError) as caught:
        project.check()
    assert changed_paths(caught.value) == ["inputs_digest"]


@pytest.mark.parametrize(
    ("change", "place"),
    [
        (
            lambda lock: lock["image"]["tables"][0].update(table='_T[""]'),
            "image.tables[0].table",
        ),
        (
            lambda lock: lock["image"]["files"][0].update(source="../secret"),
            "image.files[0].source",
        ),
        (
            lambda lock: lock["image"]["picks"][0].update(donor="../other"),
            "image.picks[0].donor",
        ),
    ],
    ids=["a table", "a file of ours", "a donor"],
)
def test_what_no_manifest_can_say_no_lock_can(
    project: Project, change: Callable[[dict[str, Any]], object], place: str
) -> None:
    project.lock()
    document = json.loads(project.lock_file.read_text())
    change(document)
    project.lock_file.write_text(json.dumps(document))

    with pytest.raises(LockInvalidError, match=re.escape(place)):
        project.build(locked=True)


PROVENANCE = {
    ("image", "donors", "config_digest"),
    ("image", "picks", "donor"),
    ("image", "picks", "source"),
    ("image", "picks", "layer"),
}
"""Where bytes came from; only resolving anew tells."""

Place = tuple[str | int, ...]


def values(value: JsonValue, place: Place = ()) -> Iterator[tuple[Place, JsonValue]]:
    """Every single value of a JSON document, with its place."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from values(item, (*place, key))
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from values(item, (*place, number))
    else:
        yield place, value


def other(value: JsonValue) -> JsonValue:
    """Another value of the same kind, as valid as the first."""
    if isinstance(value, int):
        return value + 1
    assert isinstance(value, str)
    if value in ("added", "present"):
        return {"added": "present", "present": "added"}[value]
    if value.startswith("sha256:"):
        return digest_bytes(value.encode())
    return "0700" if re.fullmatch("[0-7]{4}", value) else f"{value}x"


def keys(place: Place) -> tuple[str, ...]:
    """The place without positions in lists."""
    return tuple(part for part in place if isinstance(part, str))


def test_no_value_of_the_lock_can_be_changed_by_hand_and_built(project: Project) -> None:
    lock = project.build().lock
    text = project.lock_file.read_bytes()
    places = {keys(place): place for place, value in values(lock.model_dump(mode="json")) if value}
    del places["lock_version",]
    built = set()
    for name, place in places.items():
        project.lock_file.write_bytes(text)
        rewritten(project, partial(set_other, place))
        try:
            project.build(locked=True)
        except (LockError, BuildError):
            continue
        built.add(name)

    assert len(places) > 50
    assert built == PROVENANCE


def set_other(place: Place, document: dict[str, Any]) -> None:
    *above, last = place
    inner: Any = document
    for part in above:
        inner = inner[part]
    inner[last] = other(inner[last])
