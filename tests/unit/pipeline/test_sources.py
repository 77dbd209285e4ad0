"""What is wrong with an image or does not fit is told once, with place and remedy."""

from __future__ import annotations

import re
import shutil
import tarfile
from typing import TYPE_CHECKING, Any

import pytest

from builder.digest import Digest, digest_bytes
from builder.errors import SparklockError
from builder.graft.acceptance import ClosureError
from builder.graft.errors import PackageNotFoundError, PickError
from builder.graft.table_errors import MissingModuleError
from builder.oci.errors import (
    DigestMismatchError,
    MissingBlobError,
    MissingLayoutError,
    SizeMismatchError,
    StorageError,
    TruncatedBlobError,
)
from builder.oci.image_errors import (
    ConfigPlatformError,
    DuplicateEntryError,
    EntryError,
    PinNotFoundError,
    TargetIsDirectoryError,
    TargetLoopError,
    UnusableTimeError,
)
from builder.read.errors import UnpinnedSourceError
from tests.project import BASE, BASE_CONFIG, DONOR, EPOCH, REGISTRY, SITE, VENV, Project
from tests.unit.oci.archives import Published, directory, file, special, symlink, tar_of
from tests.unit.oci.image_archives import saved_members

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

OTHER = digest_bytes(b"something else")
PIN = re.compile(r'digest = "(sha256:[0-9a-f]{64})"\n')
NO_EPOCH = (f"epoch = {EPOCH}\n", "")
OWN_FILE = '[[image.file]]\nsource = "files/template.jinja"\ntarget = "{}"\n\n[vllm]\n'


def pin(project: Project, name: str) -> Digest:
    return pin_after(project, f"oci:images/{name}")


def pin_after(project: Project, source: str) -> Digest:
    text = project.file.read_text()
    found = PIN.search(text, text.index(f'source = "{source}"'))
    assert found is not None
    return Digest(found[1])


def layer(project: Project, name: str = "base") -> Path:
    """The file of the one layer of an image: its biggest blob."""
    folder = project.blob(name, OTHER).parent
    return max(folder.iterdir(), key=lambda path: path.stat().st_size)


def config(project: Project) -> Path:
    folder = project.blob("base", OTHER).parent
    return next(path for path in folder.iterdir() if path.read_bytes().startswith(b'{"arch'))


def overwrite(path: Path, change: Callable[[bytes], bytes]) -> None:
    path.write_bytes(change(path.read_bytes()))


def without(members: tuple[Any, ...], name: str) -> list[Any]:
    return [member for member in members if member[0].name != name]


BROKEN: dict[str, tuple[Callable[[Project], object], type[SparklockError], list[str]]] = {
    "a pin that the base does not have": (
        lambda p: p.edit(pin(p, "base"), OTHER),
        PinNotFoundError,
        ["images/base", f"expected: {OTHER}", "found:    sha256:"],
    ),
    "other bytes of the base's manifest": (
        lambda p: overwrite(p.blob("base", pin(p, "base")), lambda data: data + b" "),
        DigestMismatchError,
        ["images/base: sha256:", "expected: sha256:", "found:    sha256:"],
    ),
    "a missing config": (lambda p: config(p).unlink(), MissingBlobError, ["images/base"]),
    "a missing layer": (
        lambda p: layer(p).unlink(),
        MissingBlobError,
        ["images/base", "a blob is missing", f"expected: {digest_bytes(tar_of(*BASE))}"],
    ),
    "a missing layer of the donor": (
        lambda p: layer(p, "donor").unlink(),
        MissingBlobError,
        ["images/donor", f"expected: {digest_bytes(tar_of(*DONOR))}"],
    ),
    "a cut layer": (
        lambda p: overwrite(layer(p), lambda data: data[:5000]),
        TruncatedBlobError,
        ["images/base", "found:    5000 bytes"],
    ),
    "a layer with more bytes": (
        lambda p: overwrite(layer(p), lambda data: data + bytes(512)),
        SizeMismatchError,
        ["images/base", "expected: "],
    ),
    "a layer with other bytes": (
        lambda p: overwrite(layer(p), lambda data: data.replace(b"class Old", b"class OLD")),
        DigestMismatchError,
        ["images/base", f"expected: {digest_bytes(tar_of(*BASE))}", "found:    sha256:"],
    ),
    "another platform": (
        lambda p: p.edit("linux/amd64", "linux/arm64"),
        ConfigPlatformError,
        ["images/base", "expected: linux/arm64", "found:    linux/amd64", "correct `platform`"],
    ),
    "a folder that is no layout": (
        lambda p: p.edit("oci:images/base", "oci:model"),
        MissingLayoutError,
        ["model", "expected: the file oci-layout", "skopeo copy"],
    ),
    "no folder": (
        lambda p: shutil.rmtree(p.folder / "images" / "donor"),
        MissingLayoutError,
        ["images/donor", "no such file"],
    ),
    "a file that the donor does not have": (
        lambda p: p.edit("models/new.py", "models/mew.py"),
        PickError,
        ["cluster.toml:", "image.graft[0].files[0]", f"/{VENV}/vllm", "models/new.py"],
    ),
    "a package that the donor does not have": (
        lambda p: p.donor(tar_of(file("etc/motd"))),
        PackageNotFoundError,
        ["donor tiny", "vllm/__init__.py"],
    ),
    "another version": (
        lambda p: p.edit('version = "1.0"', 'version = "1.1"'),
        ClosureError,
        ["cluster.toml:", "vllm.version", "1.1", "1.0"],
    ),
    "a base without a time": (
        lambda p: p.base(tar_of(*BASE), created=None).edit(*NO_EPOCH),
        UnusableTimeError,
        ["cluster.toml:", "image.base", "found:    none", "`epoch = SECONDS` under [image]"],
    ),
    "a base of the year one": (
        lambda p: p.base(tar_of(*BASE), created="0001-01-01T00:00:00Z").edit(*NO_EPOCH),
        UnusableTimeError,
        ["found:    '0001-01-01T00:00:00Z'"],
    ),
    "a module that the base does not have": (
        lambda p: p.edit("models/registry.py", "models/registrar.py"),
        MissingModuleError,
        ["cluster.toml:", "image.register[0]", "models/registrar.py", "nothing of that name"],
    ),
    "a module that is a link out of the package": (
        lambda p: p.base(
            tar_of(
                *without(BASE, REGISTRY),
                symlink(REGISTRY, "/opt/registry.py"),
                file("opt/registry.py", b"_MODELS = {}\n"),
            )
        ),
        MissingModuleError,
        ["a regular file /opt/registry.py", "a file outside of the package"],
    ),
    "a module that is a pipe": (
        lambda p: p.base(tar_of(*without(BASE, REGISTRY), special(REGISTRY, tarfile.FIFOTYPE))),
        MissingModuleError,
        [f"a regular file /{REGISTRY}", "found:    a device or pipe"],
    ),
    "a module that is a link to itself": (
        lambda p: p.base(tar_of(*without(BASE, REGISTRY), symlink(REGISTRY, "registry.py"))),
        TargetLoopError,
        [f"/{REGISTRY}"],
    ),
    "a module that is a folder": (
        lambda p: p.base(tar_of(*without(BASE, REGISTRY), directory(REGISTRY))),
        TargetIsDirectoryError,
        [f"/{REGISTRY}"],
    ),
    "an own file in the place of a folder": (
        lambda p: p.edit("/apps/template.jinja", "/bin"),
        TargetIsDirectoryError,
        ["image path /bin"],
    ),
    "two names of one place": (
        lambda p: p.edit("/apps/template.jinja", "/bin/x").edit(
            "[vllm]\n", OWN_FILE.format("/usr/bin/x")
        ),
        DuplicateEntryError,
        ["image path /usr/bin/x"],
    ),
    "a store that is a file": (
        lambda p: p.write(".sparklock/store", ""),
        StorageError,
        [".sparklock/store"],
    ),
}


@pytest.mark.parametrize(("change", "kind", "words"), BROKEN.values(), ids=BROKEN)
def test_one_error_tells_of(
    project: Project,
    change: Callable[[Project], object],
    kind: type[SparklockError],
    words: list[str],
) -> None:
    change(project)

    with pytest.raises(SparklockError) as caught:
        project.build()

    assert type(caught.value) is kind
    assert caught.value.exit_code == 4
    (message,) = caught.value.messages
    for word in words:
        assert word in message.text()
    assert message.remedy
    assert message.expected or message.found or issubclass(kind, EntryError)
    assert not project.lock_file.exists()


def test_an_image_without_a_pin_is_offered_the_one_it_has(project: Project) -> None:
    pins = [pin(project, "base"), pin(project, "donor")]
    project.file.write_text(PIN.sub("", project.file.read_text()))

    with pytest.raises(UnpinnedSourceError) as caught:
        project.lock()

    assert caught.value.exit_code == 2
    base, donor = caught.value.messages
    assert "image.base" in base.place
    assert "image.donors.tiny" in donor.place
    assert [message.remedy.split('"')[1] for message in (base, donor)] == pins
    for name, message in (("base", base), ("donor", donor)):
        added = message.remedy.partition("add: ")[2]
        project.edit(f'"oci:images/{name}"', f'"oci:images/{name}"\n{added}')
    assert project.lock().written


def test_a_base_can_move_into_an_archive(project: Project) -> None:
    published = Published()
    published.image(tar_of(*BASE), config=BASE_CONFIG)
    (project.folder / "base.tar").write_bytes(tar_of(*saved_members(published)))
    before = project.lock().lock
    project.edit("oci:images/base", "archive:base.tar")
    project.edit(f'digest = "{pin_after(project, "archive:base.tar")}"\n', "")

    with pytest.raises(UnpinnedSourceError) as caught:
        project.lock()
    added = caught.value.messages[0].remedy.partition("add: ")[2]
    project.edit('"archive:base.tar"', f'"archive:base.tar"\n{added}')

    after = project.lock().lock
    assert after.image.base.asked == "archive:base.tar"
    assert after.outputs == before.outputs


def test_pins_are_looked_at_before_any_layer_is_read(project: Project) -> None:
    layer(project).unlink()
    shutil.rmtree(project.folder / "images" / "donor")

    with pytest.raises(MissingLayoutError):
        project.lock()


def test_everything_that_does_not_close_is_told_at_once(project: Project) -> None:
    project.edit('version = "1.0"', 'version = "1.1"')
    project.edit("./run.sh", "./start.sh")
    project.edit('["new", "New"]', '["new", "Mew"]')

    with pytest.raises(ClosureError) as caught:
        project.lock()

    text = str(caught.value)
    assert "vllm.version" in text
    assert "start.sh" in text
    assert "Mew" in text
    assert all(message.remedy for message in caught.value.messages)


@pytest.mark.parametrize("path", [f"/{REGISTRY}", f"/{SITE}/vllm/model_executor/models/new.py"])
def test_an_own_file_does_not_silently_win_over_an_edit_or_a_graft(
    project: Project, path: str
) -> None:
    project.write(
        "files/template.jinja",
        '_MODELS = {"New": ("new", "New")}\nclass New: ...\nclass Old: ...\n',
    )
    project.edit("/apps/template.jinja", path)

    with pytest.raises(DuplicateEntryError) as caught:
        project.lock()
    assert f"image path {path}" in str(caught.value)


def test_an_own_file_in_the_place_of_a_grafted_and_edited_module_is_refused(
    project: Project,
) -> None:
    text = '_MODELS = {"New": ("new", "New"), "Old": ("old", "Old")}\n'
    project.edit("models/new.py", 'models/new.py", "model_executor/models/registry.py')
    project.write("files/template.jinja", text)
    project.edit("/apps/template.jinja", f"/{REGISTRY}")

    with pytest.raises(DuplicateEntryError):
        project.lock()
