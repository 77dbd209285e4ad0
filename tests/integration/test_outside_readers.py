"""Tools of others read our images: skopeo copies them unchanged, umoci unpacks the same tree."""

from __future__ import annotations

import gzip
import os
import shutil
import stat
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from builder.digest import digest_bytes
from builder.edges.layout import LayoutSource, write_layout
from builder.edges.store import BlobStore
from builder.image_section import ConfigChanges
from builder.oci.assemble import Assembly, assemble
from builder.oci.model import OCI_LAYER_GZIP, Platform
from builder.oci.placement import parent_dirs, resolve_destination, stale_pyc
from builder.oci.select import select_manifest
from builder.oci.tar import file_entry, write_tar
from builder.oci.tree import ImageTree, Kind
from builder.oci.whiteout import read_tree
from tests.unit.oci.archives import Published, config_document, directory, file, symlink, tar_of
from tests.validate import validate_image

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from builder.oci.model import Image

EPOCH = 1767225600
AMD64 = Platform("linux", "amd64")


@dataclass(frozen=True)
class Built:
    """A hybrid image on disk, made as `inv build` makes one."""

    folder: Path
    image: Image
    tree: ImageTree


def base_layer() -> bytes:
    """Much of what went wrong elsewhere: usr-merge, a sticky folder, a private home."""
    tmp, _ = directory("tmp")
    home, _ = directory("home/user")
    tmp.mode, home.mode, home.uid, home.gid = 0o1777, 0o700, 1000, 1000
    return tar_of(
        directory("./"),
        (tmp, b""),
        directory("home"),
        (home, b""),
        directory("usr"),
        directory("usr/lib"),
        symlink("lib", "usr/lib"),
        file("usr/lib/module.py", b"old = 1\n"),
        directory("usr/lib/__pycache__"),
        file("usr/lib/__pycache__/module.cpython-312.pyc", b"old"),
        file("run", b"#!/bin/sh\n", mode=0o755),
    )


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    folder = tmp_path_factory.mktemp("built")
    store = BlobStore(folder / "store")
    published = Published()
    plain = base_layer()
    stored = gzip.compress(plain[:2000]) + gzip.compress(plain[2000:])
    manifest = published.manifest(
        config_document(digest_bytes(plain)), published.add_layer(stored, OCI_LAYER_GZIP)
    )
    published.source.tops = [manifest]
    base = select_manifest(published.source, None, AMD64).image
    tree = read_tree(published.source, base.layers, keep=lambda _: False, blobs=store)

    paths = ["/lib/module.py", "/tmp/x", "/home/user/y", f"/opt/{'n' * 150}/z"]  # noqa: S108 - paths in an image
    targets = [resolve_destination(tree, path) for path in paths]
    hidden = stale_pyc(tree, targets)
    files = [file_entry(path, path.encode(), mode=0o644, mtime=EPOCH) for path in targets]
    assembled = assemble(
        Assembly(
            base=base,
            epoch=EPOCH,
            entries=(*parent_dirs(tree, [*targets, *hidden], epoch=EPOCH), *files),
            whiteouts=hidden,
            changes=ConfigChanges(entrypoint=("/run",)),
            inputs=digest_bytes(b"inputs"),
        )
    )
    for own in assembled.own:
        store.put(write_tar(own.entries), expected=own.layer.descriptor.digest)
    store.put([stored])
    write_layout(folder / "image", assembled.image, store.open_blob, name="latest")
    source = LayoutSource(folder / "image")
    image = validate_image(source, assembled.image.manifest.descriptor)
    final = read_tree(source, image.layers, keep=lambda _: True, blobs=store)
    return Built(folder / "image", image, final)


def run(argv: Sequence[str]) -> None:
    if shutil.which(argv[0]) is None:
        pytest.skip(f"{argv[0]} is not installed: apt-get install {argv[0]}")
    subprocess.run(argv, check=True, capture_output=True, text=True)


def test_skopeo_copies_the_image_with_every_digest(built: Built, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    run(
        [
            *("skopeo", "--insecure-policy", "copy", "--preserve-digests"),
            *(f"oci:{built.folder}:latest", f"oci:{copy}:latest"),
        ]
    )

    (root,) = LayoutSource(copy).roots()
    assert root == built.image.manifest.descriptor
    assert validate_image(LayoutSource(copy), root) == built.image


def test_umoci_unpacks_the_tree_that_we_say_the_image_has(built: Built, tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("owners need root")
    run(["umoci", "unpack", "--image", f"{built.folder}:latest", str(tmp_path / "bundle")])

    rootfs = tmp_path / "bundle" / "rootfs"
    paths = {str(path.relative_to(rootfs)) for path in rootfs.rglob("*")}
    assert paths == set(built.tree.entries) - {""}
    for name in sorted(paths):
        check_entry(rootfs / name, built.tree, name)


def check_entry(path: Path, tree: ImageTree, name: str) -> None:
    entry, found = tree.entries[name], path.lstat()
    assert (found.st_uid, found.st_gid, int(found.st_mtime)) == (entry.uid, entry.gid, entry.mtime)
    if entry.kind is Kind.SYMLINK:
        assert str(path.readlink()) == entry.link
        return
    assert stat.S_IMODE(found.st_mode) == entry.mode
    assert path.is_dir() == (entry.kind is Kind.DIRECTORY)
    if entry.kind is Kind.FILE:
        assert digest_bytes(path.read_bytes()) == entry.content
