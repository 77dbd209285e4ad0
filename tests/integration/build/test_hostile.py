"""`inv` on what others made to do harm: one error, little memory, nothing beside the store.

The command runs with an address space of its own limit, so that what wants all memory dies of it;
the deadline is there for what would never end.
"""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
import tarfile
from typing import TYPE_CHECKING, Any, Final

import pytest

from builder.digest import Digest, Hasher, digest_bytes, hex_of
from builder.errors import LockError
from builder.oci.limits import MAX_ENTRIES
from builder.oci.model import (
    OCI_INDEX,
    OCI_LAYER_GZIP,
    OCI_LAYER_TAR,
    OCI_LAYER_ZSTD,
    OCI_MANIFEST,
)
from tests.project import BASE, BASE_CONFIG, REGISTRY, Project
from tests.repository import ROOT, files
from tests.unit.oci.archives import Published, config_document, file, tar_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from builder.oci.model import Descriptor

MIB: Final = 2**20
ADDRESS_SPACE: Final = 1024 * MIB
"""Python, its libraries and the stacks of its threads have about 300 MiB of this."""

DEADLINE_S: Final = 300
LIMITED: Final = (
    "import os, resource, sys; size = int(sys.argv[1]);"
    "resource.setrlimit(resource.RLIMIT_AS, (size, size));"
    "os.execv(sys.executable, [sys.executable, '-m', 'invoke', *sys.argv[2:]])"
)
ZEROS_BYTES: Final = 10 * 2**30
NOBODYS: Final = Digest("sha256:" + "0" * 64)


def inv(project: Project, *args: str) -> dict[str, Any]:
    """What `inv ARGS --json` prints, and its exit code as `code`."""
    argv = ("--search-root", str(ROOT), *args, "--file", str(project.file), "--json")
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(ADDRESS_SPACE), *argv],
        cwd=project.folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=DEADLINE_S,
    )
    assert "Traceback" not in done.stderr, done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    return {**told, "code": done.returncode}


def refused(project: Project, error: str, code: int) -> None:
    """Fails unless the command ends in the one error and leaves everything but the store alone.

    It is `inv lock`, which writes a lock anew that cannot be read, or else the one that reads it.
    """
    before = outside(project)
    told = inv(project, *(("build", "--locked") if code == LockError.exit_code else ("lock",)))

    assert (told.get("error"), told["code"]) == (error, code), told
    assert all(message["remedy"] for message in told["messages"])
    assert outside(project) == before
    require_sound_store(project)


def outside(project: Project) -> dict[str, int]:
    """Every file around the project but the store's, by its size."""
    return {
        str(path): path.lstat().st_size
        for path in project.folder.parent.rglob("*")
        if ".sparklock" not in path.parts
    }


def require_sound_store(project: Project) -> None:
    store = project.folder / ".sparklock" / "store"
    for name, data in files(store).items():
        assert name.startswith("sha256/"), name
        assert name.endswith(hex_of(digest_bytes(data))), name


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path / "around" / "project")


def put_layout(project: Project, published: Published) -> None:
    """Make the base's layout of what was published, unchecked, and pin its top."""
    layout = project.folder / "images" / "base"
    old = json.loads((layout / "index.json").read_bytes())["manifests"][0]["digest"]
    for digest, data in published.source.blobs.items():
        (layout / "blobs" / "sha256" / hex_of(digest)).write_bytes(data)
    (top,) = published.source.tops
    document = {"schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": [top.as_json()]}
    (layout / "index.json").write_bytes(json.dumps(document).encode())
    project.edit(old, top.digest)


def base_of(project: Project, *stored: tuple[bytes, str, Digest]) -> None:
    """A base of these layers: stored bytes, media type, and the diff_id that the config states."""
    published = Published()
    layers = [published.add_layer(data, media_type) for data, media_type, _ in stored]
    config = config_document(*(diff_id for *_, diff_id in stored), config=BASE_CONFIG)
    published.source.tops = [published.manifest(config, *layers)]
    put_layout(project, published)


def zeros_header() -> bytes:
    info = tarfile.TarInfo("zeros")
    info.size = ZEROS_BYTES
    return info.tobuf(tarfile.GNU_FORMAT)


def gzip_bomb() -> bytes:
    piece = gzip.compress(bytes(64 * MIB))
    return gzip.compress(zeros_header()) + piece * (ZEROS_BYTES // (64 * MIB))


def zstd_bomb() -> bytes:
    """Raw and run-length blocks, by RFC 8878: 4 bytes become 128 KiB."""
    size = 128 * 1024

    def block(kind: int, length: int, data: bytes, *, last: bool) -> bytes:
        return (last | kind << 1 | length << 3).to_bytes(3, "little") + data

    header = zeros_header()
    runs = ZEROS_BYTES // size
    frame = b"\x28\xb5\x2f\xfd" + bytes([0, 0x38])  # window of 128 KiB
    frame += block(0, len(header), header, last=False)
    return frame + block(1, size, b"\0", last=False) * (runs - 1) + block(1, size, b"\0", last=True)


def window_bomb() -> bytes:
    """A frame that asks for a window of two gigabytes."""
    return b"\x28\xb5\x2f\xfd" + bytes([0, 21 << 3]) + b"\x0d\0\0" + b"\0" + bytes(40)


def huge_manifest(project: Project) -> None:
    published = Published()
    image = published.image(tar_of(*BASE), config=BASE_CONFIG)
    raw = image.manifest.raw[:-1] + b',"x":[' + b"[]," * (100 * MIB // 3) + b"[]]}"
    published.source.tops = [descriptor(published, raw)]
    put_layout(project, published)


def huge_index(project: Project) -> None:
    path = project.folder / "images" / "base" / "index.json"
    text = path.read_bytes()
    path.write_bytes(text[:-1] + b',"x":"' + b"x" * 100 * MIB + b'"}')
    digest = json.loads(text)["manifests"][0]["digest"]
    project.edit(f'digest = "{digest}"', "")


def descriptor(published: Published, raw: bytes) -> Descriptor:
    return published.add_layer(raw, OCI_MANIFEST)


def dense_manifest(project: Project) -> None:
    """As large as a manifest may be, of what takes the most memory: 2 bytes for each list."""
    published = Published()
    image = published.image(tar_of(*BASE), config=BASE_CONFIG)
    start, end = image.manifest.raw[:-1] + b',"x":[', b"[]]}"
    count = (8 * MIB - len(start) - len(end)) // 3
    published.source.tops = [descriptor(published, start + b"[]," * count + end)]
    put_layout(project, published)
    project.edit('platform = "linux/amd64"', 'platform = "linux/arm64"')


def deep_config(project: Project) -> None:
    published = Published()
    layer = published.add_layer(tar_of(*BASE))
    config = json.dumps(config_document(layer.digest, config=BASE_CONFIG)).encode()
    raw = config[:-1] + b',"x":' + b"[" * 900 + b"]" * 900 + b"}"
    described = published.add_layer(raw, "application/vnd.oci.image.config.v1+json").as_json()
    manifest = {
        "schemaVersion": 2,
        "mediaType": OCI_MANIFEST,
        "config": described,
        "layers": [layer.as_json()],
    }
    published.source.tops = [descriptor(published, json.dumps(manifest).encode())]
    put_layout(project, published)


def many_layers(project: Project) -> None:
    """About as many as a manifest holds, each a bomb."""
    published = Published()
    layer = published.add_layer(gzip_bomb(), OCI_LAYER_GZIP)
    count = 20_000
    top = published.manifest(config_document(*[NOBODYS] * count), *[layer] * count)
    published.source.tops = [top]
    put_layout(project, published)


def huge_table(project: Project, mib: int) -> None:
    """A table's module that is all zeros, in a layer of its own."""
    info = tarfile.TarInfo(REGISTRY)
    info.size = mib * MIB
    start, zeros, end = info.tobuf(tarfile.GNU_FORMAT), bytes(MIB), bytes(1024)
    stored = gzip.compress(start) + gzip.compress(zeros) * mib + gzip.compress(end)
    hasher = Hasher()
    for chunk in (start, *[zeros] * mib, end):
        hasher.update(chunk)
    below = tar_of(*BASE)
    base_of(
        project,
        (below, OCI_LAYER_TAR, digest_bytes(below)),
        (stored, OCI_LAYER_GZIP, hasher.digest()),
    )


HOSTILE: Final[dict[str, tuple[Callable[[Project], object], str, int]]] = {
    "a path that climbs": (
        lambda p: p.base(tar_of(*BASE), tar_of(file("../../../evil", b"x"))),
        "UnsafePathError",
        4,
    ),
    "10 GiB of zeros in gzip": (
        lambda p: base_of(p, (gzip_bomb(), OCI_LAYER_GZIP, NOBODYS)),
        "LayerTooLargeError",
        4,
    ),
    "10 GiB of zeros in zstd": (
        lambda p: base_of(p, (zstd_bomb(), OCI_LAYER_ZSTD, NOBODYS)),
        "LayerTooLargeError",
        4,
    ),
    "a zstd window of 2 GiB": (
        lambda p: base_of(p, (window_bomb(), OCI_LAYER_ZSTD, NOBODYS)),
        "MalformedLayerError",
        4,
    ),
    "a table of 300 MiB": (lambda p: huge_table(p, 300), "BlobTooLargeError", 4),
    "a table of 3 MiB": (lambda p: huge_table(p, 3), "ModuleUnreadableError", 4),
    "a manifest of 100 MB": (huge_manifest, "MalformedDocumentError", 4),
    "an index of 100 MB": (huge_index, "MalformedDocumentError", 4),
    "a manifest of 8 MiB": (dense_manifest, "ConfigPlatformError", 4),
    "a config 900 levels deep": (deep_config, "MalformedDocumentError", 4),
    "twenty thousand bombs": (many_layers, "TooManyLayersError", 4),
    "a lock of 100 MB": (
        lambda p: p.lock_file.write_bytes(b'{"a":[' + b"[]," * (100 * MIB // 3) + b"[]]}"),
        "LockUnreadableError",
        3,
    ),
    "a manifest of ours of 100 MB": (
        lambda p: p.file.write_bytes(p.file.read_bytes() + b"# comment\n" * (10 * MIB)),
        "ManifestUnreadableError",
        2,
    ),
}


SLOW: Final = (
    *("a manifest of 8 MiB", "twenty thousand bombs", "10 GiB of zeros in gzip"),
    *("a zstd window of 2 GiB", "a table of 3 MiB", "an index of 100 MB"),
)


@pytest.mark.parametrize(
    ("change", "error", "code"),
    [
        pytest.param(*case, id=name, marks=[pytest.mark.slow] if name in SLOW else [])
        for name, case in HOSTILE.items()
    ],
)
def test_ends_in_one_error_in_little_memory_and_leaves_nothing_outside_the_store(
    project: Project, change: Callable[[Project], object], error: str, code: int
) -> None:
    change(project)
    refused(project, error, code)


def empty_files(count: int) -> bytes:
    """An archive without its end: files in folders that nobody states."""
    block = tarfile.TarInfo("x").tobuf(tarfile.USTAR_FORMAT)
    rest = sum(block[100:]) - sum(block[148:156]) + 8 * ord(" ")
    headers = []
    for number in range(count):
        name = b"opt/%d/file-%d" % (number % 500, number)
        head = name.ljust(100, b"\0") + block[100:148]
        headers.append(head + b"%06o\0 " % (sum(name) + rest) + block[156:])
    return b"".join(headers)


@pytest.mark.slow
def test_a_base_of_two_hundred_thousand_entries_is_locked(project: Project) -> None:
    project.base(empty_files(200_000) + tar_of(*BASE))

    assert inv(project, "lock")["code"] == 0
    require_sound_store(project)


@pytest.mark.slow
def test_a_base_of_a_million_entries_is_refused(project: Project) -> None:
    plain = empty_files(MAX_ENTRIES - 400)
    stored = gzip.compress(plain + bytes(1024), 1)
    base_of(project, (stored, OCI_LAYER_GZIP, digest_bytes(plain + bytes(1024))))

    refused(project, "TooManyEntriesError", 4)
