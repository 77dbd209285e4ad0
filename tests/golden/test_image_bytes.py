"""The bytes of layers and images, pinned: digests in locks out there depend on every one of them.

A change here is a new LAYER_FORMAT or CONFIG_FORMAT. To print the digests after such a change:
`python -m tests.golden.test_image_bytes`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from builder.digest import Digest, canonical_json, digest_bytes
from builder.image_section import ConfigChanges
from builder.oci.assemble import Assembly, assemble
from builder.oci.formats import CONFIG_FORMAT, LAYER_FORMAT
from builder.oci.model import DOCKER_LAYER_GZIP, OCI_CONFIG, OCI_MANIFEST, Descriptor
from builder.oci.select import image_of, parse_config, parse_manifest
from builder.oci.tar import TarEntry, TarKind, file_entry, ordered, write_tar

ROOT = Path(__file__).parents[2]
EPOCH = 1767225600

DIGESTS: Final = {
    "layer format 1": "sha256:dc5fdf515cdeaef39f658e5b6a51e73a9f80d1db438858f2437bad27816ef38c",
    "config format 1": "sha256:844deae9b5d700fd566de4503355c147359a0fb408f3040b658cdd027a20f893",
    "manifest": "sha256:b8d548a55c4a45ecd33c7082320d5298b0f98f0f22931929bd6e60df9d053588",
}

LONG = "d" * 99
ENTRIES: Final = (
    TarEntry("tmp", TarKind.DIRECTORY, 0o1777, 1700000000),
    TarEntry("usr", TarKind.DIRECTORY, 0o755, 1, uid=1000, gid=2**21 - 1),
    TarEntry("usr/old.py", TarKind.WHITEOUT, 0o644, EPOCH),
    TarEntry("usr/lib", TarKind.SYMLINK, 0o777, EPOCH, link="../lib"),
    TarEntry("usr/far", TarKind.SYMLINK, 0o777, EPOCH, link="t/" * 60),
    file_entry("usr/empty", b"", mode=0o644, mtime=EPOCH),
    file_entry("usr/run", b"#!/bin/sh\n" * 100, mode=0o755, mtime=2**33 - 1),
    file_entry("usr/caf\u00e9", b"\r\n", mode=0o644, mtime=0),
    file_entry("usr/raw\udcff", b"\0", mode=0o644, mtime=0),
    TarEntry(LONG, TarKind.DIRECTORY, 0o755, EPOCH),
    file_entry(f"{LONG}/{'p' * 100}", b"prefix", mode=0o644, mtime=EPOCH),
    file_entry(f"{LONG}/{'x' * 101}", b"pax", mode=0o644, mtime=EPOCH),
)


def digests() -> dict[str, Digest]:
    """What this code makes of the fixed tree and the fixed base."""
    diff_id = digest_bytes(b"a layer that nobody opens")
    raw_config = canonical_json(
        {
            "os": "linux",
            "architecture": "arm64",
            "docker_version": "20.10",
            "config": {"Env": ["B=1", "A=2"], "Entrypoint": ["/run"], "Caf\u00e9": None},
            "rootfs": {"type": "layers", "diff_ids": [diff_id]},
            "history": [{"created_by": "x"}, {"empty_layer": True}],
        }
    )
    raw_manifest = canonical_json(
        {
            "schemaVersion": 2,
            "mediaType": OCI_MANIFEST,
            "config": Descriptor(OCI_CONFIG, digest_bytes(raw_config), len(raw_config)).as_json(),
            "layers": [Descriptor(DOCKER_LAYER_GZIP, digest_bytes(b"stored"), 6).as_json()],
        }
    )
    base = image_of(
        parse_manifest(raw_manifest, place="golden"),
        parse_config(raw_config, place="golden"),
        place="golden",
    )
    changes = ConfigChanges(entrypoint=(), env={"A": "3", "C": "\u00e9"}, workdir="/w")
    image = assemble(Assembly(base, EPOCH, ENTRIES, (), changes, digest_bytes(b"inputs"))).image
    return {
        f"layer format {LAYER_FORMAT}": digest_bytes(b"".join(write_tar(ordered(ENTRIES)))),
        f"config format {CONFIG_FORMAT}": image.config.digest,
        "manifest": image.manifest.descriptor.digest,
    }


def test_the_bytes_are_those_that_locks_out_there_name() -> None:
    assert digests() == DIGESTS


@pytest.mark.parametrize(
    "environment",
    [
        {"TZ": "Pacific/Kiritimati", "LC_ALL": "C", "PYTHONHASHSEED": "1"},
        {"TZ": "America/Adak", "LC_ALL": "tr_TR.UTF-8", "PYTHONHASHSEED": "2", "PYTHONUTF8": "0"},
    ],
)
def test_no_time_zone_locale_umask_or_hash_seed_changes_them(environment: dict[str, str]) -> None:
    printed = subprocess.run(
        [sys.executable, "-m", "tests.golden.test_image_bytes"],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], **environment},
        umask=0o077,
        capture_output=True,
        check=True,
        text=True,
    ).stdout

    assert printed.splitlines() == [
        f'    "{name}": "{digest}",' for name, digest in DIGESTS.items()
    ]


if __name__ == "__main__":
    for name, digest in digests().items():
        sys.stdout.write(f'    "{name}": "{digest}",\n')
