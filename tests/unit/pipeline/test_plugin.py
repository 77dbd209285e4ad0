"""A plugin in an image: found and called as vLLM does it, and refused where it could not work."""

from __future__ import annotations

import base64
import csv
import hashlib
import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from builder.errors import BuildError, LockError
from builder.graft.acceptance import ClosureError
from builder.graft.plugin_errors import PluginInstalledError, PluginTargetTakenError
from builder.pipeline_errors import StaleLockError
from tests.project import BASE, SITE, Project, changed_paths, rewritten
from tests.unit.oci.archives import file, tar_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from builder.reports import Built

VLLM = '''
"""A stand-in for vLLM's registry: what of it plugins see."""

class _Lazy:
    def __init__(self, module_name, class_name):
        self.module_name, self.class_name = module_name, class_name

    def load_model_cls(self):
        import importlib

        return getattr(importlib.import_module(self.module_name), self.class_name)

class _ModelRegistry:
    def __init__(self):
        self.models = {"Old": _Lazy("vllm.model_executor.models.old", "Old")}

    def get_supported_archs(self):
        return self.models.keys()

    def register_model(self, model_arch, model_cls):
        if not isinstance(model_arch, str):
            raise TypeError(model_arch)
        if isinstance(model_cls, str):
            parts = model_cls.split(":")
            if len(parts) != 2:
                raise ValueError("Expected a string in the format `<module>:<class>`")
            model_cls = _Lazy(*parts)
        self.models[model_arch] = model_cls

ModelRegistry = _ModelRegistry()
'''
PLUGIN = """\
[[image.plugin]]
source = "plugin"
register = { New = "our_models.new:New", Newer = "vllm.model_executor.models.new:New" }

[[image.file]]
"""
MEMBERS = [member for member in BASE if member[0].name != f"{SITE}/vllm/__init__.py"]
MEMBERS += [file(f"{SITE}/vllm/__init__.py", VLLM.encode())]


@pytest.fixture
def plugged(project: Project) -> Project:
    """The project with a plugin in place of its register."""
    text = project.file.read_text()
    start, end = text.index("[[image.register]]"), text.index("[[image.file]]")
    project.file.write_text(text[:start] + text[end:])
    project.base(tar_of(*MEMBERS))
    project.write("plugin/our_models/__init__.py", "")
    project.write("plugin/our_models/new.py", "class New: ...\n")
    project.write("plugin/our_models/__pycache__/new.cpython-311.pyc", "compiled here")
    return project.edit("[[image.file]]\n", PLUGIN)


def site_of(project: Project, built: Built, folder: Path) -> Path:
    """The image's site folder, written to disk."""
    tree = project.tree(built)
    for path, entry in tree.entries.items():
        if path.startswith(f"{SITE}/") and entry.content is not None:
            target = folder / path.removeprefix(f"{SITE}/")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(project.store.read(entry.content))
    return folder


ASK = """
import json, sys
sys.path.insert(0, sys.argv[1])
from importlib.metadata import distribution, entry_points

(found,) = entry_points(group="vllm.general_plugins")
registers = found.load()
before = sorted(sys.modules)
registers()
registers()
from vllm import ModelRegistry

lazy = not [name for name in sys.modules if name.startswith("our_models")]
loaded = {name: str(ModelRegistry.models[name].load_model_cls()) for name in ModelRegistry.models}
dist = distribution("sparklock-plugin")
print(json.dumps({
    "entry": [found.name, found.value, found.dist.name],
    "lazy": lazy,
    "loaded": loaded,
    "version": dist.version,
    "installer": dist.read_text("INSTALLER"),
    "files": {str(f): [f.hash and f.hash.value, f.size, f.locate().is_file()] for f in dist.files},
}))
"""


def asked(site: Path) -> dict[str, Any]:
    """What Python's own metadata and a registry of vLLM's shape make of a site folder."""
    ran = subprocess.run(
        [sys.executable, "-I", "-B", "-c", ASK, str(site)],
        capture_output=True,
        check=True,
        text=True,
    )
    found: dict[str, Any] = json.loads(ran.stdout)
    return found


def test_python_finds_the_entry_point_and_its_function_registers(
    plugged: Project, tmp_path: Path
) -> None:
    built = plugged.build()
    (plugin,) = built.lock.image.plugins

    found = asked(site_of(plugged, built, tmp_path / "site"))

    assert found["entry"] == ["sparklock-plugin", "sparklock_plugin:register", "sparklock-plugin"]
    assert found["lazy"]
    assert found["loaded"] == {
        "Old": "<class 'vllm.model_executor.models.old.Old'>",
        "New": "<class 'our_models.new.New'>",
        "Newer": "<class 'vllm.model_executor.models.new.New'>",
    }
    assert found["version"] == plugin.version
    assert found["installer"] == "sparklock\n"


def test_the_record_names_every_file_of_the_distribution_with_its_hash(
    plugged: Project, tmp_path: Path
) -> None:
    built = plugged.build()
    (plugin,) = built.lock.image.plugins
    site = site_of(plugged, built, tmp_path / "site")
    info = f"sparklock_plugin-{plugin.version}.dist-info"

    rows = list(csv.reader((site / info / "RECORD").read_text().splitlines()))

    written = {item.target.removeprefix(f"/{SITE}/") for item in plugin.written}
    assert {path for path, _, _ in rows} == written
    for path, hashed, size in rows:
        if path != f"{info}/RECORD":
            data = (site / path).read_bytes()
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=")
            assert (hashed, size) == (f"sha256={digest.decode()}", str(len(data)))
    found = asked(site)
    assert {path: exists for path, (_, _, exists) in found["files"].items()} == dict.fromkeys(
        written, True
    )


def test_the_plugin_counts_as_registration_and_the_image_is_locked(plugged: Project) -> None:
    lock = plugged.lock().lock

    assert lock.model.architectures == ("New",)
    assert lock.image.tables == ()
    (plugin,) = lock.image.plugins
    assert [entry.key for entry in plugin.entries] == ["New", "Newer"]
    assert [item.source for item in plugin.files] == [
        "plugin/our_models/__init__.py",
        "plugin/our_models/new.py",
    ]
    assert plugged.build(locked=True).lock == lock
    assert plugged.check().lacking is None


def test_the_version_is_of_the_content(plugged: Project) -> None:
    (first,) = plugged.lock().lock.image.plugins
    plugged.write("plugin/our_models/new.py", "class New:\n    size = 1\n")
    (second,) = plugged.lock().lock.image.plugins
    plugged.write("plugin/our_models/new.py", "class New: ...\n")
    (third,) = plugged.lock().lock.image.plugins

    assert first == third
    assert first.version != second.version


@pytest.mark.parametrize("change", ["changed", "new", "gone"])
def test_a_module_that_changed_came_or_went_makes_the_lock_stale(
    plugged: Project, change: str
) -> None:
    plugged.write("plugin/our_models/more.py", "")
    plugged.lock()
    name = {"changed": "new.py", "new": "newest.py", "gone": "more.py"}[change]
    path = plugged.folder / "plugin/our_models" / name
    path.unlink() if change == "gone" else path.write_text("class New: ...  # changed\n")

    with pytest.raises(StaleLockError) as caught:
        plugged.check()
    assert changed_paths(caught.value) == [f"plugin/our_models/{name}"]


def test_byte_code_made_here_changes_nothing(plugged: Project) -> None:
    lock = plugged.lock().lock
    plugged.write("plugin/our_models/__pycache__/new.cpython-313.pyc", "compiled later")

    assert plugged.check().lock == lock
    assert not [item for item in lock.image.plugins[0].written if "__pycache__" in item.target]


def test_stale_byte_code_of_a_module_is_hidden(plugged: Project) -> None:
    stale = f"{SITE}/__pycache__/sparklock_plugin.cpython-312.pyc"
    plugged.base(tar_of(*MEMBERS, file(stale, b"old code")))

    assert f"/{stale}" in plugged.lock().lock.image.whiteouts


@pytest.mark.parametrize(
    "change",
    [
        lambda plugin: plugin.update(version="1"),
        lambda plugin: plugin.update(name="other"),
        lambda plugin: plugin["entries"][0].update(value="our_models:Other"),
        lambda plugin: plugin["entries"].pop(),
        lambda plugin: plugin["made"].pop(),
        lambda plugin: plugin["made"][0].update(digest="sha256:" + "0" * 64),
        lambda plugin: plugin["made"][0].update(target="/x"),
        lambda plugin: plugin["files"].pop(),
        lambda plugin: plugin["files"][0].update(size_bytes=7),
        lambda plugin: plugin["files"][1].update(target=f"/{SITE}/our_models/other.py"),
        lambda plugin: plugin.update(folder="/usr"),
    ],
)
def test_no_value_of_a_plugin_can_be_changed_by_hand_and_built(
    plugged: Project, change: Callable[[dict[str, Any]], object]
) -> None:
    plugged.build()
    rewritten(plugged, lambda lock: change(lock["image"]["plugins"][0]))

    with pytest.raises((LockError, BuildError)):
        plugged.build(locked=True)


# --- what is refused ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ("our_models.new:New", "our_models.new:Now", "the module has no Now; near names: New"),
        ("our_models.new:New", "our_models.now:New", "no module our_models.now; near names: new"),
        ("our_models.new:New", "models:New", "no module models; near names: our_models"),
        ("models.new:New", "models.old:New", "the module has no New"),
    ],
)
def test_a_class_that_is_not_there_is_found(
    plugged: Project, old: str, new: str, found: str
) -> None:
    text = plugged.file.read_text()
    place = text.rindex(old)
    plugged.file.write_text(text[:place] + new + text[place + len(old) :])

    with pytest.raises(ClosureError) as caught:
        plugged.lock()
    (message,) = caught.value.messages
    assert message.place.startswith(f"{plugged.file}:")
    assert "image.plugin[0].register." in message.place
    assert message.found.startswith(found)


def test_an_import_of_the_plugin_that_vllm_does_not_have_is_found(plugged: Project) -> None:
    plugged.write("plugin/our_models/new.py", "from vllm.nothing import X\nclass New: ...\n")

    with pytest.raises(ClosureError) as caught:
        plugged.lock()
    assert f"/{SITE}/our_models/new.py:1" in str(caught.value)


@pytest.mark.parametrize(
    "text",
    ["from .base import Base", "from our_models import base", "import our_models.base"],
)
def test_an_import_of_a_module_of_its_own_that_is_not_there_is_found(
    plugged: Project, text: str
) -> None:
    plugged.write("plugin/our_models/new.py", f"{text}\nclass New: ...\n")
    with pytest.raises(ClosureError, match=r"imports .*base.* which the assembled image does not"):
        plugged.lock()

    plugged.write("plugin/our_models/base.py", "class Base: ...\n")
    plugged.lock()


def test_a_module_that_is_no_python_is_found(plugged: Project) -> None:
    plugged.write("plugin/our_models/new.py", "class New(:\n")

    with pytest.raises(ClosureError) as caught:
        plugged.lock()
    assert f"/{SITE}/our_models/new.py:1" in str(caught.value)


def test_a_plugin_that_vllm_loads_by_its_list_is_fine(plugged: Project) -> None:
    allowed = '[image.config]\nenv = { VLLM_PLUGINS = "other,sparklock-plugin" }\n\n[vllm]'
    plugged.edit("[vllm]", allowed).lock()


@pytest.mark.parametrize("allowed", ["", "other", "sparklock_plugin"])
def test_a_plugin_that_vllm_would_not_load_is_found(plugged: Project, allowed: str) -> None:
    plugged.edit("[vllm]", f'[image.config]\nenv = {{ VLLM_PLUGINS = "{allowed}" }}\n\n[vllm]')

    with pytest.raises(ClosureError) as caught:
        plugged.lock()
    assert "vLLM will not load this plugin" in str(caught.value)


@pytest.mark.parametrize("where", ["[container]", "[[nodes]]"])
def test_the_environment_of_containers_counts_too(plugged: Project, where: str) -> None:
    text = plugged.file.read_text()
    env = 'env = { VLLM_PLUGINS = "other" }\n'
    text = (
        f"{text}{env}"
        if where == "[[nodes]]"
        else text.replace("[[nodes]]", f"{where}\n{env}\n[[nodes]]", 1)
    )
    plugged.file.write_text(text)

    with pytest.raises(ClosureError) as caught:
        plugged.lock()
    assert "VLLM_PLUGINS = 'other'" in str(caught.value)


@pytest.mark.parametrize(
    "name",
    [
        "vllm/extra.py",
        "vllm.py",
        "sparklock_plugin.py",
        "sparklock_plugin/x.py",
        "our_models.py",
        "vllm-1.0.dist-info/x",
        "json/x.py",
        "json.py",
    ],
)
def test_a_module_whose_name_is_taken_is_refused(plugged: Project, name: str) -> None:
    plugged.write(f"plugin/{name}", "")

    with pytest.raises(PluginTargetTakenError) as caught:
        plugged.lock()
    assert caught.value.module.partition(".")[0] == name.partition("/")[0].partition(".")[0]


def test_a_distribution_that_the_base_has_is_refused(plugged: Project) -> None:
    info = f"{SITE}/Sparklock.Plugin-3.dist-info/METADATA"
    plugged.base(tar_of(*MEMBERS, file(info, b"Name: Sparklock.Plugin\n")))

    with pytest.raises(PluginInstalledError) as caught:
        plugged.lock()
    assert caught.value.path == f"{SITE}/Sparklock.Plugin-3.dist-info"


@pytest.mark.parametrize("name", ["json", "our-models"])
def test_a_plugin_whose_own_module_would_not_be_found_is_refused(
    plugged: Project, name: str
) -> None:
    plugged.edit("[[image.plugin]]\n", f'[[image.plugin]]\nname = "{name}"\n')

    with pytest.raises(PluginTargetTakenError):
        plugged.lock()


def test_a_base_s_compiled_module_has_its_name(plugged: Project) -> None:
    path = f"{SITE}/our_models.cpython-312-x86_64-linux-gnu.so"
    plugged.base(tar_of(*MEMBERS, file(path, b"code")))

    with pytest.raises(PluginTargetTakenError) as caught:
        plugged.lock()
    assert caught.value.found == f"/{path} of the base"


def test_two_plugins_cannot_bring_one_module(plugged: Project) -> None:
    plugged.write("other/our_models/__init__.py", "class A: ...\n")
    second = (
        '[[image.plugin]]\nname = "others"\nsource = "other"\nregister = { A = "our_models:A" }\n'
    )
    plugged.edit("[[image.file]]\n", f"{second}\n[[image.file]]\n")

    with pytest.raises(PluginTargetTakenError) as caught:
        plugged.lock()
    assert caught.value.found == "the plugin sparklock-plugin"


def test_a_plugin_without_modules_of_its_own_registers_grafted_ones(plugged: Project) -> None:
    plugged.edit('source = "plugin"\n', "")
    plugged.edit('New = "our_models.new:New", Newer', "New")

    built = plugged.build()

    (plugin,) = built.lock.image.plugins
    assert plugin.files == ()
    assert plugged.build(locked=True).lock == built.lock


def test_a_base_whose_vllm_has_no_registry_is_found(plugged: Project) -> None:
    plugged.base(tar_of(*BASE))

    with pytest.raises(ClosureError) as caught:
        plugged.lock()
    assert "imports ModelRegistry of vllm, which the assembled image does not have" in str(
        caught.value
    )
