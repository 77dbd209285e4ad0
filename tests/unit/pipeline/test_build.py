"""Building from the lock: the same bytes whatever happened to store and sources."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import pytest

from builder import pipeline
from builder.digest import Digest, digest_bytes
from builder.edges.files import read_manifest
from builder.edges.layout import LayoutSource
from builder.oci.errors import MissingLayoutError, NotALayoutError
from builder.pipeline_errors import OwnFileChangedError
from builder.progress import Silent
from tests.project import BASE, MODELS, REGISTRY, REGISTRY_TEXT, SITE, VENV, Project, package
from tests.unit.oci.archives import directory, file, symlink, tar_of
from tests.validate import validate_image

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from builder.lock import Lock


class Told(Silent):
    """A Progress that remembers its notes."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


def rebuilt(project: Project) -> list[str]:
    """The notes of a build from the lock; the image it gives is whole."""
    told = Told()
    built = pipeline.build(project.file, told, locked=True)
    project.tree(built)
    written = LayoutSource(project.folder / "written")
    assert validate_image(written, built.image.manifest.descriptor) == built.image
    return told.notes


def test_a_build_of_the_lock_reads_no_source(project: Project) -> None:
    project.lock()
    shutil.rmtree(project.folder / "images")

    built = project.build(locked=True)

    for own in project.read_lock().outputs.layers:
        assert project.store.is_sound(own.digest)
    assert project.store.read(built.image.manifest.descriptor.digest) == built.image.manifest.raw
    assert project.store.read(built.image.config.digest) == built.image.config.raw


def test_the_result_tells_all_names_of_the_image(project: Project) -> None:
    built = project.build()

    outputs = built.lock.outputs
    text = built.text()
    assert outputs.manifest_digest in text
    assert outputs.config_digest in text
    assert f"ours 1 with {outputs.new_bytes} bytes" in text
    assert json.loads(json.dumps(built.as_json())) == {
        "lock_digest": digest_bytes(project.lock_file.read_bytes()),
        "lock_written": True,
        "outputs": outputs.model_dump(mode="json"),
        "output": None,
        "checked": False,
        "pushed": None,
    }


def test_a_deleted_store_is_filled_again_aloud(project: Project) -> None:
    project.build()
    shutil.rmtree(project.folder / ".sparklock")

    assert rebuilt(project) == ["the store lacks inputs of the lock: reading the sources again"]
    assert rebuilt(project) == []


INPUTS: dict[str, Callable[[Lock], Digest]] = {
    "a picked file": lambda lock: lock.image.picks[0].digest,
    "an edited module": lambda lock: lock.image.tables[0].before,
    "the base's manifest": lambda lock: lock.image.base.manifest_digest,
    "the base's config": lambda lock: lock.image.base.config_digest,
}
OURS: dict[str, Callable[[Lock], Digest]] = {
    "an own file": lambda lock: lock.image.files[0].digest,
    "our layer": lambda lock: lock.outputs.layers[0].digest,
    "our config": lambda lock: lock.outputs.config_digest,
    "our manifest": lambda lock: lock.outputs.manifest_digest,
}


def damage(path: Path, how: str) -> None:
    path.chmod(0o644)
    data = path.read_bytes()
    path.write_bytes(data[:-1] if how == "cut" else data[:-1] + b"\xff")


@pytest.mark.parametrize("how", ["cut", "changed"])
@pytest.mark.parametrize("which", [*INPUTS, *OURS])
def test_the_store_mends_itself_when_it_has_damaged(project: Project, which: str, how: str) -> None:
    lock = project.build().lock
    path = project.store.path((INPUTS | OURS)[which](lock))
    damage(path, how)

    notes = rebuilt(project)

    assert bool(notes) == (which in INPUTS)
    assert rebuilt(project) == []


@pytest.mark.parametrize("loss", ["deleted", "damaged"])
def test_without_store_and_sources_the_source_is_asked_for(project: Project, loss: str) -> None:
    lock = project.build().lock
    path = project.store.path(lock.image.picks[0].digest)
    path.unlink() if loss == "deleted" else damage(path, "changed")
    shutil.rmtree(project.folder / "images" / "donor")

    with pytest.raises(MissingLayoutError) as caught:
        project.build(locked=True)
    assert "images/donor" in str(caught.value)


def test_an_own_file_that_changes_meanwhile_is_told(project: Project) -> None:
    loaded = read_manifest(project.file)
    project.write("files/template.jinja", "other")

    with pytest.raises(OwnFileChangedError) as caught:
        pipeline.store_own_files(loaded, project.store)
    assert caught.value.path == str(project.folder / "files" / "template.jinja")

    (project.folder / "files" / "template.jinja").unlink()
    with pytest.raises(OwnFileChangedError):
        pipeline.store_own_files(loaded, project.store)


def test_the_output_is_the_whole_image(project: Project, tmp_path: Path) -> None:
    built = project.build(output=tmp_path / "out")

    source = LayoutSource(tmp_path / "out")
    (root,) = source.roots()
    assert root == built.image.manifest.descriptor
    assert validate_image(source, root) == built.image
    assert f"{tmp_path / 'out'} (OCI layout)" in built.text()


def test_the_output_can_be_the_base_of_another_project(project: Project) -> None:
    built = project.build(output=project.folder / "images" / "hybrid")
    pinned = built.lock.image.base.manifest_digest
    project.edit("oci:images/base", "oci:images/hybrid")
    project.edit(pinned, built.lock.outputs.manifest_digest)

    again = project.build()

    assert {entry.state for entry in again.lock.image.tables[0].entries} == {"present"}
    assert len(again.image.layers) == 3


def test_something_else_is_not_overwritten_by_the_output(project: Project) -> None:
    with pytest.raises(NotALayoutError) as caught:
        project.build(output=project.folder / "model")
    assert "name another folder" in str(caught.value)
    assert (project.folder / "model" / "config.json").exists()


# --- what the image holds -----------------------------------------------------------------------


def test_grafts_edits_and_own_files_are_in_the_image(project: Project) -> None:
    built = project.build()

    assert project.content(built, f"/{SITE}/{MODELS}/new.py") == b"class New: ...\n"
    assert project.content(built, "/apps/template.jinja") == b"{{ messages }}\n"
    assert b'"New": ("new", "New"),\n}\n\n_MORE' in project.content(built, f"/{REGISTRY}")
    assert project.content(built, f"/{SITE}/{MODELS}/old.py") == b"class Old: ...\n"
    assert not [path for path in project.tree(built).entries if path.endswith(".pyc")]


SECOND = """\
[[image.register]]
package = "vllm"
file = "model_executor/models/registry.py"
table = "{}"
entries = {{ {} = ["new", "New"] }}

[[image.file]]
"""


@pytest.mark.parametrize(("table", "name"), [("_MORE", "New"), ("_MODELS", "Newest")])
def test_two_registers_in_one_file_follow_each_other(
    project: Project, table: str, name: str
) -> None:
    project.edit("[[image.file]]\n", SECOND.format(table, name))

    lock = project.lock().lock
    built = project.build(locked=True)

    first, second = lock.image.tables
    assert first.after == second.before
    assert digest_bytes(project.content(built, f"/{REGISTRY}")) == second.after
    assert project.content(built, f"/{REGISTRY}").count(b'("new", "New")') == 2
    assert rebuilt(project) == []


def test_registers_of_two_tables_give_one_image_in_either_order(project: Project) -> None:
    project.edit("[[image.file]]\n", SECOND.format("_MORE", "New"))
    before = project.lock().lock
    project.edit('table = "_MODELS"', 'table = "_"').edit('table = "_MORE"', 'table = "_MODELS"')
    project.edit('table = "_"', 'table = "_MORE"')

    after = project.lock().lock

    assert after.image.tables != before.image.tables
    assert (after.inputs_digest, after.outputs) == (before.inputs_digest, before.outputs)


def test_a_grafted_module_can_be_registered_in(project: Project) -> None:
    graft = 'files = ["model_executor/models/new.py", "model_executor/models/registry.py"]'
    project.edit('files = ["model_executor/models/new.py"]', graft)
    project.edit('New = ["new", "New"]', 'Newer = ["new", "New"]')

    built = project.build()
    text = project.content(built, f"/{REGISTRY}").decode()

    assert text == '_MODELS = {"New": ("new", "New"), "Newer": ("new", "New")}\n'
    assert built.lock.outputs.layers[0].entries == 14
    assert rebuilt(project) == []


def test_a_grafted_module_that_has_the_entry_is_grafted_as_it_is(project: Project) -> None:
    graft = 'files = ["model_executor/models/new.py", "model_executor/models/registry.py"]'
    project.edit('files = ["model_executor/models/new.py"]', graft)

    built = project.build()

    assert project.content(built, f"/{REGISTRY}") == b'_MODELS = {"New": ("new", "New")}\n'
    assert built.lock.image.tables[0].entries[0].state == "present"


PRESENT = REGISTRY_TEXT.replace("_MODELS = {\n", '_MODELS = {\n    "New": ("old", "Old"),\n')


def knows_new(project: Project) -> None:
    """Make a base that has the entry already."""
    others = [member for member in BASE if member[0].name != REGISTRY]
    project.base(tar_of(*others, file(REGISTRY, PRESENT.encode())))
    project.edit('New = ["new", "New"]', 'New = ["old", "Old"]')


def cut(project: Project, start: str, end: str) -> None:
    text = project.file.read_text()
    project.file.write_text(text[: text.index(start)] + text[text.index(end) :])


def test_an_entry_that_the_base_has_changes_nothing(project: Project) -> None:
    knows_new(project)

    built = project.build()

    (table,) = built.lock.image.tables
    assert [entry.state for entry in table.entries] == ["present"]
    assert table.before == table.after
    assert built.lock.image.whiteouts == ()
    assert project.tree(built).entries[REGISTRY].layer == built.image.layers[0].descriptor.digest
    cut(project, "[[image.register]]", "[[image.file]]")
    assert project.lock().lock.outputs == built.lock.outputs


def test_nothing_left_to_add_makes_no_layer(project: Project) -> None:
    knows_new(project)
    cut(project, "[image.donors.tiny]", "[[image.register]]")
    cut(project, "[[image.file]]", "[vllm]")

    built = project.build()

    assert built.lock.outputs.layers == ()
    assert built.lock.outputs.new_bytes == 0
    assert [layer.descriptor.digest for layer in built.image.layers] == [
        layer.digest for layer in built.lock.image.base.layers
    ]
    assert "ours 0 with 0 bytes" in built.text()
    assert rebuilt(project) == []


def test_files_go_through_the_bases_linked_folders(project: Project) -> None:
    share, _ = directory("usr/share")
    share.mode, share.uid, share.gid, share.mtime = 0o1777, 12, 34, 56
    site = SITE.replace("usr/local/lib", "usr/share/lib")
    project.base(
        tar_of(
            *(member for member in BASE if not member[0].name.startswith("usr/local/lib")),
            (share, b""),
            symlink("usr/local/lib", "../share/lib"),
            *package(site, {"registry.py": REGISTRY_TEXT, "old.py": "class Old: ...\n"}),
        )
    )
    project.edit("/apps/template.jinja", "/usr/local/lib/template.jinja")

    built = project.build()

    tree = project.tree(built)
    assert tree.entries["usr/local/lib"].link == "../share/lib"
    assert built.lock.image.files[0].target == "/usr/share/lib/template.jinja"
    assert built.lock.image.picks[0].target == f"/{site}/{MODELS}/new.py"
    entry = tree.entries["usr/share"]
    assert (entry.mode, entry.uid, entry.gid, entry.mtime) == (0o1777, 12, 34, 56)
    assert project.content(built, f"/{SITE}/{MODELS}/new.py") == b"class New: ...\n"


def test_an_edited_module_is_readable_whatever_its_owner_kept_to_himself(project: Project) -> None:
    private, data = file(REGISTRY, REGISTRY_TEXT.encode(), mode=0o2600)
    private.uid = 1000
    others = [member for member in BASE if member[0].name != REGISTRY]
    project.base(tar_of(*others, (private, data)))

    entry = project.tree(project.build()).entries[REGISTRY]

    assert (entry.mode, entry.uid) == (0o644, 0)


def test_a_history_that_does_not_add_up_is_told(project: Project) -> None:
    project.base(tar_of(*BASE), history=[{"created_by": "a"}, {"created_by": "b"}])

    built = project.build()

    assert built.notes == ("history dropped: the base states 2 layers and has 1",)
    assert "  note      history dropped" in built.text()


def test_a_base_of_many_layers_keeps_them_all(project: Project) -> None:
    extra = [tar_of(file(f"etc/{number}", b"x" * number)) for number in range(20)]
    project.base(tar_of(*BASE), *extra)

    built = project.build()

    assert len(built.image.layers) == 22
    assert project.content(built, "/etc/7") == b"x" * 7


def test_the_epoch_comes_from_the_base_unless_stated(project: Project) -> None:
    stated = project.lock().lock
    project.edit("epoch = 1767225600\n", "")

    own = project.lock().lock

    assert (stated.image.epoch, own.image.epoch) == (1767225600, 1764547200)
    assert own.outputs.config_digest != stated.outputs.config_digest
    assert not project.check().written


def test_changes_of_the_configuration_are_in_the_lock_and_in_the_image(project: Project) -> None:
    changes = 'entrypoint = ["/bin/sh"]\nenv = { A = "1" }\nworkdir = "/apps"'
    project.edit("[vllm]\n", f"[image.config]\n{changes}\n\n[vllm]\n")

    built = project.build()

    assert built.lock.image.entrypoint == ("/bin/sh",)
    container = built.image.config.container
    assert container["Entrypoint"] == ["/bin/sh"]
    assert container["Env"] == ["PATH=/usr/local/bin:/usr/bin", "A=1"]
    assert container["Labels"] == {"io.sparklock.inputs": built.lock.inputs_digest}


def test_the_donors_own_package_stays_out(project: Project) -> None:
    tree = project.tree(project.build())

    assert not [path for path in tree.entries if path.startswith(VENV.partition("/")[0])]
    assert f"{SITE}/{MODELS}/newer.py" not in tree.entries
