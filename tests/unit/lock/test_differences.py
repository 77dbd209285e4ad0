"""What differs between two locks, and what makes a lock stale."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from builder.differences import Difference, differences, staleness, told
from builder.digest import Digest, digest_bytes
from builder.lock import Lock, ModelFile
from builder.manifest import ClusterManifest, cluster_digest
from builder.read.loaded import LoadedManifest

if TYPE_CHECKING:
    from collections.abc import Callable

    from builder.digest import JsonValue


def document(lock: Lock) -> dict[str, Any]:
    return json.loads(lock.model_dump_json())  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("change", "path", "before", "after"),
    [
        (lambda d: d.update(name="trio"), "name", "pair", "trio"),
        (
            lambda d: d["image"]["picks"][0].update(size_bytes=6),
            "image.picks[/b/tiny.py].size_bytes",
            "5",
            "6",
        ),
        (
            lambda d: d["image"]["base"]["layers"][1].update(size_bytes=11),
            "image.base.layers[1].size_bytes",
            "10",
            "11",
        ),
        (
            lambda d: d["image"]["tables"][1].update(table="_MORE"),
            "image.tables[/b/registry.py #2].table",
            "_OTHER",
            "_MORE",
        ),
        (lambda d: d["image"].update(entrypoint=[]), "image.entrypoint", '["/entry.sh"]', "[]"),
        (lambda d: d["image"]["changes"].update(cmd=[]), "image.changes.cmd", "null", "[]"),
        (lambda d: d["image"]["changes"].update(user="null"), "image.changes.user", "null", "null"),
        (lambda d: d["image"]["changes"]["env"].update(B="x"), "image.changes.env.B", None, "x"),
        (lambda d: d["model"].update(repo="a/b"), "model.repo", "null", "a/b"),
        (
            lambda d: d["nodes"][1].update(fabric="10.0.0.1"),
            "nodes[spark-b].fabric",
            "null",
            "10.0.0.1",
        ),
    ],
)
def test_one_changed_fact_is_one_difference(
    lock: Lock,
    change: Callable[[dict[str, Any]], object],
    path: str,
    before: str | None,
    after: str | None,
) -> None:
    changed = document(lock)
    change(changed)
    assert differences(document(lock), changed) == (Difference(path, before, after),)


def test_equal_locks_have_no_difference(lock: Lock) -> None:
    assert differences(document(lock), document(lock)) == ()


def test_one_more_file_is_told_as_its_facts_and_moves_no_other(lock: Lock) -> None:
    changed = document(lock)
    changed["model"]["files"].insert(0, {"path": "a", "size_bytes": 1, "digest": "sha256:x"})
    assert differences(document(lock), changed) == (
        Difference("model.files[a].path", None, "a"),
        Difference("model.files[a].size_bytes", None, "1"),
        Difference("model.files[a].digest", None, "sha256:x"),
    )


def test_an_item_that_came_or_went_is_told_on_one_line_with_all_that_is_in_it(lock: Lock) -> None:
    changed = document(lock)
    table = changed["image"]["tables"][0]
    entry = {"key": "K", "value": "v", "state": "added"}
    table["entries"].append(entry)  # one more in a table that was there is the entry alone
    changed["image"]["tables"].append(table | {"target": "/b/x].y.py", "entries": [entry]})
    changed["name"] = "trio"
    changes = differences(document(lock), changed)
    back = differences(changed, document(lock))

    entries = f"image.tables[{table['target']}].entries[K]"
    assert set(told(changes)) == {
        "name: pair -> trio",
        f"{entries}: new",
        "image.tables[/b/x].y.py]: new",
    }
    assert set(told(back)) == {
        "name: trio -> pair",
        f"{entries}: gone",
        "image.tables[/b/x].y.py]: gone",
    }


def test_a_fact_of_a_kept_item_is_told_with_its_values(lock: Lock) -> None:
    changed = document(lock)
    changed["image"]["picks"][0].update(size_bytes=6)
    assert told(differences(document(lock), changed)) == (
        "image.picks[/b/tiny.py].size_bytes: 5 -> 6",
    )


def test_an_equal_layer_less_is_a_difference(lock: Lock) -> None:
    """Layers may be equal in every field; none may hide behind the other."""
    changed = document(lock)
    del changed["image"]["base"]["layers"][1]
    paths = [difference.path for difference in differences(document(lock), changed)]
    assert paths[0] == "image.base.layers[1].digest"
    assert len(paths) == 4


def test_differences_come_in_the_locks_order(lock: Lock) -> None:
    changed = document(lock)
    changed["outputs"]["new_bytes"] = 1
    changed["image"]["workdir"] = "/"
    changed["name"] = "trio"
    paths = [difference.path for difference in differences(document(lock), changed)]
    assert paths == ["name", "image.workdir", "outputs.new_bytes"]


@pytest.mark.parametrize(
    ("difference", "text"),
    [
        (Difference("a.b", "1", "2"), "a.b: 1 -> 2"),
        (Difference("a.b", None, "2"), "a.b: new: 2"),
        (Difference("a.b", "1", None), "a.b: gone: 1"),
    ],
)
def test_a_difference_is_one_line(difference: Difference, text: str) -> None:
    assert difference.text() == text
    assert list(difference.as_json()) == ["path", "before", "after"]


# --- staleness ---------------------------------------------------------------------------------


MANIFEST = {
    "schema": 1,
    "name": "pair",
    "image": {"platform": "linux/arm64", "base": {"source": "oci:images/base"}},
    "vllm": {"version": "0.17.1"},
    "model": {"files": "model", "path": "/srv/models/tiny"},
    "serve": {"tensor_parallel": 1},
    "nodes": [{"name": "spark-a", "ssh": "spark-a"}],
}
CONFIG = ModelFile(path="config.json", size_bytes=3, digest=Digest("sha256:" + "d" * 64))
WEIGHTS = ModelFile(path="sub/b.bin", size_bytes=9, digest=Digest("sha256:" + "e" * 64))
CHAT = ModelFile(path="node/chat.jinja", size_bytes=5, digest=Digest("sha256:" + "c" * 64))
DIFF = ModelFile(path="patches/a.diff", size_bytes=5, digest=Digest("sha256:" + "4" * 64))
MODULE = ModelFile(path="plugin/tiny.py", size_bytes=5, digest=Digest("sha256:" + "c" * 64))
NEW = digest_bytes(b"new")


def loaded(
    *model_files: ModelFile,
    own: tuple[ModelFile, ...] = (CHAT, DIFF, MODULE),
    **changes: JsonValue,
) -> LoadedManifest:
    return LoadedManifest(
        manifest=ClusterManifest.model_validate_json(json.dumps(MANIFEST | changes)),
        path=Path("cluster.toml"),
        lines={(): 1},
        own_files={file.path: file for file in own},
        model_files=model_files,
        data=b"",
    )


@pytest.fixture
def current(lock: Lock) -> Lock:
    """The sample lock as it belongs to the manifest here."""
    digest = loaded().cluster_digest
    return lock.model_copy(update={"cluster_digest": digest})


def test_a_lock_of_just_these_inputs_is_not_stale(current: Lock) -> None:
    assert staleness(current, loaded(CONFIG, WEIGHTS)) == ()


def test_a_changed_manifest_makes_a_lock_stale(current: Lock) -> None:
    other = loaded(CONFIG, WEIGHTS, name="trio")
    assert staleness(current, other) == (
        Difference("the manifest", current.cluster_digest, cluster_digest(other.manifest)),
    )


def test_changed_new_and_missing_files_make_a_lock_stale_and_are_named(current: Lock) -> None:
    own = (CHAT.model_copy(update={"digest": NEW}), DIFF.model_copy(update={"digest": NEW}))
    changed = WEIGHTS.model_copy(update={"digest": NEW})
    extra = CONFIG.model_copy(update={"path": "extra.json"})
    more = MODULE.model_copy(update={"path": "plugin/more.py"})
    assert staleness(current, loaded(changed, extra, own=(*own, more))) == (
        Difference("node/chat.jinja", CHAT.digest, NEW),
        Difference("patches/a.diff", DIFF.digest, NEW),
        Difference("plugin/more.py", None, MODULE.digest),
        Difference("plugin/tiny.py", MODULE.digest, None),
        Difference("model/config.json", CONFIG.digest, None),
        Difference("model/extra.json", None, CONFIG.digest),
        Difference("model/sub/b.bin", WEIGHTS.digest, NEW),
    )


def test_an_own_file_that_the_manifest_no_longer_names_is_told_as_a_changed_manifest(
    current: Lock,
) -> None:
    other = loaded(CONFIG, WEIGHTS, own=(), name="trio")
    assert [difference.path for difference in staleness(current, other)] == ["the manifest"]


def test_the_files_of_a_model_from_the_hub_are_not_looked_for_here(current: Lock) -> None:
    model = {"repo": "a/b", "revision": "a" * 40, "path": "/srv/models/tiny"}
    assert [difference.path for difference in staleness(current, loaded(model=model))] == [
        "the manifest"
    ]
