"""`inv build --push` into a real registry: what is mounted, what is sent, and what it is then."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from builder import pipeline
from builder.edges.registry.errors import AccessDeniedError
from builder.edges.registry.push import RegistryTarget
from builder.edges.registry.source import RegistrySource
from builder.edges.store import BlobStore
from builder.oci.model import Platform
from builder.oci.reference import ImageReference
from builder.options import OptionError
from builder.progress import Silent
from tests.debian_registry import debian_registry
from tests.guarded_registry import guarded_registry
from tests.integration.sources.conftest import lab_image
from tests.repository import ROOT, inv
from tests.validate import validate_image

if TYPE_CHECKING:
    from pathlib import Path

    from builder.edges.registry.push import Pushed
    from builder.reports import Built
    from tests.debian_registry import DebianRegistry
    from tests.integration.sources.conftest import LabProject

AMD64 = Platform("linux", "amd64")
ALL = {"pull", "push"}


def based_on(project: LabProject, registry: DebianRegistry, repository: str) -> LabProject:
    """The default, its base in the registry."""
    source, image = lab_image("base", AMD64)
    registry.push(image, source.open_blob, repository=repository)
    project.change("oci:examples/lab/images/base", f"{registry.host}/{repository}:v1")
    return with_donor(project)


def with_donor(project: LabProject) -> LabProject:
    target = project.folder / "examples/lab/images"
    target.mkdir(exist_ok=True)
    (target / "donor").symlink_to(ROOT / "examples/lab/images/donor")
    return project


def push(project: LabProject, name: str) -> Built:
    return pipeline.build(project.file, Silent(), push=name)


def done(built: Built) -> Pushed:
    assert built.pushed is not None
    return built.pushed


def test_the_base_is_mounted_and_the_image_is_the_locked_one(
    project: LabProject, registry: DebianRegistry
) -> None:
    based_on(project, registry, "vendor/mounted")

    built = push(project, f"{registry.host}/team/hybrid:v1")

    base, own = built.lock.image.base.layers, built.lock.outputs.layers
    assert done(built).blobs == {"present": 0, "mounted": len(base), "sent": len(own) + 1}
    assert done(built).digest == built.lock.outputs.manifest_digest
    ours = sum(layer.size_bytes for layer in own)
    documents = len(built.image.config.raw) + len(built.image.manifest.raw)
    assert done(built).sent_bytes == ours + documents
    source = registry.opened("team/hybrid:v1")
    (root,) = source.roots()
    assert validate_image(source, root) == built.image

    again = done(push(project, f"{registry.host}/team/hybrid:v1"))
    assert (again.sent_bytes, again.blobs["present"]) == (0, len(base) + len(own) + 1)


def test_a_base_of_another_registry_is_passed_on_without_a_copy_here(
    project: LabProject, registry: DebianRegistry, tmp_path: Path
) -> None:
    with debian_registry(tmp_path / "other") as other:
        based_on(project, other, "vendor/elsewhere")
        project.lock()
        store = BlobStore(project.folder / pipeline.STORE)
        base = [layer.digest for layer in lab_image("base", AMD64)[1].manifest.layers]
        for digest in base:
            store.path(digest).unlink()

        built = push(project, f"{registry.host}/team/streamed:v1")

        assert done(built).blobs["mounted"] == 0
        assert not any(store.has(digest) for digest in base)
    source = registry.opened("team/streamed:v1")
    assert validate_image(source, source.roots()[0]) == built.image


def test_without_a_tag_it_is_the_one_that_nodes_have(
    project: LabProject, registry: DebianRegistry
) -> None:
    based_on(project, registry, "vendor/untagged")

    built = push(project, f"{registry.host}/team/untagged")

    digest = built.lock.outputs.manifest_digest
    assert done(built).name.endswith(f"/team/untagged:{digest[7:19]}")
    assert registry.opened(f"team/untagged:{digest[7:19]}").roots()[0].digest == digest


def test_as_a_script_calls_it(project: LabProject, registry: DebianRegistry) -> None:
    based_on(project, registry, "vendor/scripted")
    name = f"{registry.host}/team/scripted:v1"

    result = inv(ROOT, "build", "--push", name, "--json", "--file", str(project.file), cwd=ROOT)

    assert (result.returncode, result.stderr) == (0, "")
    told = json.loads(result.stdout)["pushed"]
    assert told["name"] == name
    assert told["blobs"]["mounted"] > 0


@pytest.mark.parametrize(
    "name",
    ["team/image", "host.example/a@sha256:" + "0" * 64, "https://host.example/a", "host.example"],
)
def test_a_name_that_is_no_repository_is_refused_before_any_work(
    project: LabProject, name: str
) -> None:
    with pytest.raises(OptionError) as caught:
        push(project, name)
    assert "HOST/NAME" in str(caught.value)


# --- TLS and tokens ----------------------------------------------------------------------------


def test_tls_and_tokens_a_mount_needs_the_right_to_read_its_source(
    project: LabProject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rights = {
        "vendor": {"vendor/base": ALL},
        "both": {"team/hybrid": ALL, "vendor/base": {"pull"}},
        "reader": {"vendor/base": {"pull"}, "team/hybrid": {"pull"}},
        "writer": {"team/other": ALL},
    }
    config = tmp_path / "docker"
    monkeypatch.setenv("DOCKER_CONFIG", str(config))
    with guarded_registry(tmp_path / "guarded", rights) as guarded:
        base = f"{guarded.host}/vendor/base:v1"
        source, image = lab_image("base", AMD64)
        guarded.log_in(config, "vendor")
        vendor = RegistryTarget(ImageReference.parse(base))  # skopeo does not know the name
        vendor.push(image, source.open_blob, "v1", Silent())

        guarded.log_in(config, "both")
        project.change("oci:examples/lab/images/base", base)
        with_donor(project)
        guarded.asked.clear()
        built = push(project, f"{guarded.host}/team/hybrid:v1")
        assert done(built).blobs["mounted"] == len(image.layers)
        wanted = {"repository:team/hybrid:pull,push", "repository:vendor/base:pull"}
        assert wanted <= set(guarded.asked[-1]), "one token for both"
        name = f"{guarded.host}/team/hybrid:v1"
        found = RegistrySource(ImageReference.parse(name), name)
        assert validate_image(found, found.roots()[0]) == built.image

        guarded.log_in(config, "reader")
        with pytest.raises(AccessDeniedError) as caught:
            push(project, f"{guarded.host}/team/hybrid:v2")
        assert "the right to push for reader" in str(caught.value)

        guarded.log_in(config, "writer")  # who may not read the base: it comes out of the store
        built = push(project, f"{guarded.host}/team/other:v1")
        assert done(built).blobs["mounted"] == 0
        assert done(built).blobs["sent"] == len(built.image.layers) + 1
