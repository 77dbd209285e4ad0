"""A small project in a folder: a manifest, base and donor as OCI layouts, own files, a model.

The base knows `Old`, the donor `New`; grafting one module and registering `New` makes the hybrid.
"""

from __future__ import annotations

import json
import shutil
import tarfile
from typing import TYPE_CHECKING, Any, Final

from builder import pipeline
from builder.edges.files import read_lock, write_lock
from builder.edges.layout import LayoutSource, write_layout
from builder.edges.store import BlobStore
from builder.lock import Lock
from builder.oci.whiteout import read_tree
from builder.progress import Silent
from tests.unit.oci.archives import Published, directory, file, symlink, tar_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from builder.digest import Digest, JsonValue
    from builder.oci.tree import ImageTree
    from builder.pipeline_errors import OutputsDifferError, StaleLockError
    from builder.reports import Built, LockReport

SITE: Final = "usr/local/lib/python3.12/dist-packages"
VENV: Final = "opt/venv/lib/python3.12/site-packages"
MODELS: Final = "vllm/model_executor/models"
REGISTRY: Final = f"{SITE}/{MODELS}/registry.py"
EPOCH: Final = 1767225600

MANIFEST: Final = f"""\
schema = 1
name = "small"

[image]
platform = "linux/amd64"
epoch = {EPOCH}

[image.base]
source = "oci:images/base"
digest = "@base@"

[image.donors.tiny]
source = "oci:images/donor"
digest = "@donor@"

[[image.graft]]
donor = "tiny"
package = "vllm"
files = ["model_executor/models/new.py"]

[[image.register]]
package = "vllm"
file = "model_executor/models/registry.py"
table = "_MODELS"
entries = {{ New = ["new", "New"] }}

[[image.file]]
source = "files/template.jinja"
target = "/apps/template.jinja"

[vllm]
version = "1.0"

[model]
files = "model"
path = "/srv/models/new"

[serve]
tensor_parallel = 2
node_script = "./run.sh"
args = {{ max-model-len = 256 }}

[[nodes]]
name = "a"
ssh = "a"
fabric = {{ address = "198.18.0.1", netdev = "eth1", hcas = ["mlx5_0"] }}

[[nodes]]
name = "b"
ssh = "b"
fabric = {{ address = "198.18.0.2", netdev = "eth1", hcas = ["mlx5_0"] }}
"""

ELF: Final = b"\x7fELF\x02\x01\x01" + bytes(11) + (62).to_bytes(2, "little") + bytes(44)

Member = tuple[tarfile.TarInfo, bytes]


def package(site: str, files: dict[str, str], *, version: str = "1.0") -> list[Member]:
    """The members of an installed vllm; `files` are relative to the models' folder."""
    return [
        file(f"{site}/vllm/__init__.py"),
        file(f"{site}/vllm/model_executor/__init__.py"),
        file(f"{site}/{MODELS}/__init__.py"),
        *(file(f"{site}/{MODELS}/{name}", text.encode()) for name, text in files.items()),
        file(f"{site}/vllm-{version}.dist-info/METADATA", f"Version: {version}\n".encode()),
    ]


REGISTRY_TEXT: Final = (
    '_MODELS = {\n    "Old": ("old", "Old"),\n}\n\n_MORE = {\n    "Old": ("old", "Old"),\n}\n'
)
BASE: Final = (
    directory("usr"),
    directory("usr/bin"),
    symlink("bin", "usr/bin"),
    symlink("lib", "usr/lib"),
    file("usr/bin/sh", ELF, mode=0o755),
    file("usr/local/bin/vllm", b"#!/bin/sh\n", mode=0o755),
    file("apps/run.sh", b'#!/bin/sh\nexec "$@"\n', mode=0o755),
    *package(SITE, {"registry.py": REGISTRY_TEXT, "old.py": "class Old: ...\n"}),
    file(f"{SITE}/{MODELS}/__pycache__/registry.cpython-312.pyc", b"old code"),
)
BASE_CONFIG: Final[dict[str, JsonValue]] = {
    "Entrypoint": ["/apps/run.sh"],
    "WorkingDir": "/apps",
    "Env": ["PATH=/usr/local/bin:/usr/bin"],
}
DONOR: Final = tuple(
    package(
        VENV,
        {
            "registry.py": '_MODELS = {"New": ("new", "New")}\n',
            "new.py": "class New: ...\n",
            "newer.py": "class Newer: ...\n",
        },
        version="2.0",
    )
)


class Project:
    """The project, locked and built by the pipeline's own functions.

    Every part can be changed before or between them.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.file = folder / "cluster.toml"
        self.lock_file = folder / "lockfile.json"
        self.store = BlobStore(folder / ".sparklock" / "store")
        self.write("cluster.toml", MANIFEST)
        self.write("files/template.jinja", "{{ messages }}\n")
        self.write("model/config.json", json.dumps({"architectures": ["New"]}))
        self.write("model/weights.bin", "weights")
        self.base(tar_of(*BASE))
        self.donor(tar_of(*DONOR))

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def remove(self, name: str) -> Project:
        """Remove a folder with everything in it."""
        shutil.rmtree(self.folder / name)
        return self

    def edit(self, old: str, new: str) -> Project:
        """Replace a text that the manifest has exactly once."""
        text = self.file.read_text()
        assert text.count(old) == 1, f"{text.count(old)} times {old!r}"
        self.file.write_text(text.replace(old, new))
        return self

    def base(self, *tars: bytes, **config: JsonValue) -> Project:
        """Make the base of these layers, and pin it in the manifest."""
        return self._image("base", *tars, **({"config": BASE_CONFIG} | config))

    def donor(self, *tars: bytes, **config: JsonValue) -> Project:
        """As `base`, for the donor."""
        return self._image("donor", *tars, **config)

    def _image(self, name: str, *tars: bytes, **config: JsonValue) -> Project:
        published = Published()
        image = published.image(*tars, **config)
        layout = self.folder / "images" / name
        source = LayoutSource(layout)
        old = source.roots()[0].digest if layout.exists() else f"@{name}@"
        write_layout(layout, image, published.source.open_blob)
        return self.edit(old, image.manifest.descriptor.digest)

    def lock(self) -> LockReport:
        return pipeline.lock(self.file, Silent())

    def check(self) -> LockReport:
        return pipeline.check_lock(self.file)

    def build(
        self, *, locked: bool = False, output: Path | None = None, check: bool = False
    ) -> Built:
        return pipeline.build(self.file, Silent(), locked=locked, output=output, check=check)

    def read_lock(self) -> Lock:
        return read_lock(self.lock_file)

    def blob(self, name: str, digest: Digest) -> Path:
        """The file of a blob of the layout `base` or `donor`."""
        return LayoutSource(self.folder / "images" / name).path(digest)

    def tree(self, built: Built) -> ImageTree:
        """What a container of the built image sees; all files' bytes are in the store."""
        layout = self.folder / "written"
        write_layout(layout, built.image, built.open_blob)
        source = LayoutSource(layout)
        return read_tree(source, built.image.layers, keep=lambda _: True, blobs=self.store)

    def content(self, built: Built, path: str) -> bytes:
        """The bytes that a container reads at a path, links followed."""
        entry = self.tree(built).find(path)
        assert entry is not None
        assert entry.content is not None
        return self.store.read(entry.content)


def rewritten(project: Project, change: Callable[[Any], object]) -> None:
    """Change a value of the lock as by hand; the file is canonical nevertheless."""
    document = json.loads(project.lock_file.read_text())
    change(document)
    write_lock(project.lock_file, Lock.model_validate_json(json.dumps(document)))


def changed_paths(error: StaleLockError | OutputsDifferError) -> list[str]:
    """The paths of the differences that an error tells."""
    return [change.path for change in error.changes]
