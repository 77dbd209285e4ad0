"""Readers of text: an image's documents, lockfile.json, cluster.toml, Docker's config.json."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final
from unittest.mock import patch

from builder.digest import Digest, digest_bytes
from builder.edges.files import read_manifest
from builder.edges.layout import require_marker, roots_in
from builder.edges.registry.docker_config import credentials_for
from builder.errors import SparklockError
from builder.image_section import ConfigChanges
from builder.lockfile import lock_text, parse_lock
from builder.oci.assemble import Assembly, assemble, epoch_of
from builder.oci.model import OCI_MANIFEST, Descriptor, Platform
from builder.oci.select import parse_config, parse_index, select_manifest
from tests.fuzz.target import Target, told
from tests.unit.oci.archives import Published, config_document, tar_of

ROOT: Final = Path(__file__).resolve().parents[2]
PLATFORM: Final = Platform("linux", "amd64")
_JSON: Final = (
    *(b'"', b"{", b"}", b"[", b"]", b":", b",", b"null", b"true", b"-1", b"1e999", b"NaN", b"0.5"),
    *(b"\xef\xbb\xbf", b'"\\ud800"', b"\\u0000", b"9" * 40),
)


def _published() -> Published:
    published = Published()
    published.image(tar_of())
    return published


def read_image(data: bytes) -> None:
    """Fails where a manifest, index or config, split at the first zero byte, is taken wrongly.

    The manifest is made to name the config of the other part, so that both are read.
    """
    first, zero, second = data.partition(b"\0")
    for reader in (parse_index, parse_config):
        with suppress(SparklockError):
            reader(first, place="fuzz")
    for checker in (require_marker, roots_in):
        with suppress(SparklockError):
            checker(first, place="fuzz")
    published = _published()
    manifest = first
    if zero:
        config = published.source.add(second)
        manifest = first.replace(b"@config@", config.encode())
    published.source.tops = [
        Descriptor(OCI_MANIFEST, published.source.add(manifest), len(manifest))
    ]
    try:
        image = select_manifest(published.source, None, PLATFORM).image
        made = assemble(
            Assembly(
                base=image,
                epoch=epoch_of(image.config, place="fuzz"),
                entries=(),
                whiteouts=("a",),
                changes=ConfigChanges(entrypoint=("/run",), env={"A": "b"}),
                inputs=digest_bytes(b""),
            )
        )
    except SparklockError as error:
        told(error, exit_code=4)
        return
    assert digest_bytes(made.image.config.raw) == made.image.config.digest
    again = parse_config(made.image.config.raw, place="fuzz")
    assert again.diff_ids == tuple(layer.diff_id for layer in made.image.layers)


def image_seeds() -> list[bytes]:
    """Manifests with their configs, and an index."""
    published = _published()
    (top,) = published.source.tops
    manifest = published.source.blobs[top.digest]
    config = Digest(json.loads(manifest)["config"]["digest"])
    raw = published.source.blobs[config]
    pair = manifest.replace(config.encode(), b"@config@") + b"\0" + raw
    index = published.source.blobs[published.index((top, "linux/amd64"), (top, None)).digest]
    odd = config_document(history=None, config=None, created=None)
    return [pair, index, manifest, raw, json.dumps(odd).encode()]


def read_lock(data: bytes) -> None:
    """Fails unless the text is refused, or the very text that its lock has."""
    try:
        lock = parse_lock(data, place="lockfile.json")
    except SparklockError as error:
        told(error, exit_code=3)
    else:
        assert lock_text(lock) == data


def lock_seeds() -> list[bytes]:
    """Locks of every kind of content."""
    return [(ROOT / "tests/unit/lock/sample.json").read_bytes()]


def lock_repaired(data: bytes) -> bytes:
    """Canonical text again where the changed text is JSON: only then the models see it."""
    try:
        document: Any = json.loads(data)
        return json.dumps(document, indent=2).encode()
    except (ValueError, RecursionError):
        return data


_FOLDER: Final = TemporaryDirectory(prefix="sparklock-fuzz-")


def read_toml(data: bytes) -> None:
    """Fails unless the text is a manifest or ends in a manifest's errors."""
    path = Path(_FOLDER.name, "cluster.toml")
    path.write_bytes(data)
    try:
        read_manifest(path)
    except SparklockError as error:
        told(error, exit_code=2)


def toml_seeds() -> list[bytes]:
    """The committed manifests."""
    paths = [ROOT / "cluster.toml", *sorted((ROOT / "examples").glob("*/cluster.toml"))]
    return [path.read_bytes() for path in paths]


def read_docker_config(data: bytes) -> None:
    """Fails unless the file gives credentials, none, or an error that keeps its secrets."""
    path = Path(_FOLDER.name, "config.json")
    path.write_bytes(data)
    with patch.dict(os.environ, {"DOCKER_CONFIG": _FOLDER.name, "PATH": _FOLDER.name}):
        for host in ("registry.example:5000", "docker.io"):
            try:
                found = credentials_for(host)
            except SparklockError as error:
                told(error, exit_code=4)
            else:
                assert found is None or (found.basic.isascii() and "word" not in repr(found))


def docker_config_seeds() -> list[bytes]:
    """Files as `docker login` writes them."""
    return [
        b'{"auths":{"registry.example:5000":{"auth":"dXNlcjpwYXNzd29yZA=="}}}',
        b'{"auths":{"https://index.docker.io/v1/":{"username":"u","password":"word"}}}',
        b'{"credsStore":"desktop","credHelpers":{"registry.example:5000":"x"}}',
        b'{"auths":{"registry.example:5000":{"identitytoken":"t"}},"HttpHeaders":{}}',
    ]


IMAGE: Final = Target(
    read_image, image_seeds, words=(*_JSON, b"@config@", b"mediaType", b"manifests", b"platform")
)
LOCK: Final = Target(read_lock, lock_seeds, lock_repaired, _JSON, max_bytes=2**15)
MANIFEST: Final = Target(
    read_toml,
    toml_seeds,
    words=(b"[[", b"]]", b'"""', b"'''", b"=", b"[", b"]", b"{", b"}", b"nodes", b"\\u0000", b"\r"),
    max_bytes=2**14,
)
DOCKER_CONFIG: Final = Target(
    read_docker_config, docker_config_seeds, words=(*_JSON, b"auths", b"auth", b"credsStore")
)
