"""An image with edits of every kind, unpacked by umoci: what Python finds in it and imports."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from builder.edges.layout import write_layout
from tests.project import BASE, MODELS, SITE, Project
from tests.unit.oci.archives import file, tar_of
from tests.unit.pipeline.test_edits import diff_of
from tests.unit.pipeline.test_plugin import VLLM, asked

if TYPE_CHECKING:
    from pathlib import Path

CONFIGS = """\
class Lazy(dict): ...


class AHook: ...


CONFIGS: dict[str, str] = Lazy(
    old="OldConfig",  # the first
)
HOOKS = {"Old": AHook}
NAMES = ["old"]
"""
EDITS = """\
[[image.patch]]
diff = "patches/configs.diff"
package = "vllm"

[[image.register]]
package = "vllm"
file = "configs.py"
table = "CONFIGS"
entries = { new = "NewConfig", "new-er" = "NewConfig" }

[[image.register]]
package = "vllm"
file = "configs.py"
table = "HOOKS"
entries = { New = { name = "BHook" } }

[[image.register]]
package = "vllm"
file = "configs.py"
table = "NAMES"
entries = ["new", "old"]

[[image.plugin]]
source = "plugin"
register = { New = "our_models.new:New", Newer = "vllm.model_executor.models.new:New" }

[[image.file]]
"""
DIFF = (
    diff_of(
        "vllm/configs.py", "class AHook: ...\n", "class AHook: ...\n\n\nclass BHook: ...\n", start=4
    )
    + diff_of(f"{MODELS}/old.py", "class Old: ...\n", "class Old:\n    size = 2\n")
    + diff_of("vllm/added.py", "", "ADDED = 1\n")
    + diff_of("vllm/gone.py", "GONE = 1\n", "")
)
READ = """
import json, sys
sys.path.insert(0, sys.argv[1])
import importlib.util
from vllm import added, configs
from vllm.model_executor.models import old

print(json.dumps([
    configs.CONFIGS, {k: v.__name__ for k, v in configs.HOOKS.items()}, configs.NAMES,
    old.Old.size, added.ADDED, importlib.util.find_spec("vllm.gone") is None,
]))
"""


def test_python_imports_the_edits_from_the_unpacked_image(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("owners need root")
    if shutil.which("umoci") is None:
        pytest.skip("umoci is not installed: apt-get install umoci")
    project = Project(tmp_path / "project")
    others = [member for member in BASE if member[0].name != f"{SITE}/vllm/__init__.py"]
    project.base(
        tar_of(
            *others,
            file(f"{SITE}/vllm/__init__.py", VLLM.encode()),
            file(f"{SITE}/vllm/configs.py", CONFIGS.encode()),
            file(f"{SITE}/vllm/gone.py", b"GONE = 1\n"),
            file(f"{SITE}/vllm/__pycache__/gone.cpython-312.pyc", b"old code"),
            file(f"{SITE}/vllm/__pycache__/configs.cpython-312.pyc", b"old code"),
        )
    )
    project.write("patches/configs.diff", DIFF)
    project.write("plugin/our_models/new.py", "class New: ...\n")
    project.edit("[[image.file]]\n", EDITS)
    built = project.build()
    assert project.build(locked=True).image == built.image
    write_layout(tmp_path / "image", built.image, built.open_blob, name="latest")

    unpack = ["umoci", "unpack", "--image", f"{tmp_path}/image:latest", str(tmp_path / "bundle")]
    subprocess.run(unpack, check=True, capture_output=True, text=True)

    site = tmp_path / "bundle" / "rootfs" / SITE
    assert [path.name for path in site.rglob("*.pyc")] == []
    ran = subprocess.run(
        [sys.executable, "-I", "-B", "-c", READ, str(site)],
        check=True,
        capture_output=True,
        text=True,
    )
    assert json.loads(ran.stdout) == [
        {"old": "OldConfig", "new": "NewConfig", "new-er": "NewConfig"},
        {"Old": "AHook", "New": "BHook"},
        ["old", "new"],
        2,
        1,
        True,
    ]
    assert asked(site)["loaded"]["New"] == "<class 'our_models.new.New'>"
