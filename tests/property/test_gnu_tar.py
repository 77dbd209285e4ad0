"""What GNU tar unpacks of an archive of others is what our reader says it holds."""

from __future__ import annotations

import os
import shutil
import subprocess
import tarfile
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzz.stacks import Member, layers_of, sane
from tests.listings import listing_below, listing_of
from tests.unit.oci.archives import Published, tar_of

LAYERS = st.binary(max_size=90).map(lambda data: sane(layers_of(data, wild=False))[0])
PREFIXES = st.sampled_from(["", "./", "long-" * 30 + "/", "ä" * 60 + "/"])


def marks_nothing(member: Member) -> bool:
    return ".wh." not in member[0].name


@pytest.mark.skipif(shutil.which("tar") is None, reason="GNU tar is not installed")
@pytest.mark.skipif(os.geteuid() != 0, reason="owners need root")
@settings(max_examples=40)
@given(LAYERS, PREFIXES, st.sampled_from([tarfile.PAX_FORMAT, tarfile.GNU_FORMAT]))
def test_gnu_tar_unpacks_what_we_read(layer: list[Member], prefix: str, format_: int) -> None:
    members = [item for item in layer if marks_nothing(item)]
    for info, _ in members:
        info.name = prefix + info.name
        if info.islnk():
            info.linkname = prefix + info.linkname
    if "-" in prefix or "ä" in prefix:
        above = tarfile.TarInfo(prefix)
        above.type, above.mode, above.mtime = tarfile.DIRTYPE, 0o755, 7
        members.insert(0, (above, b""))
    data, published = tar_of(*members, format=format_), Published()
    with TemporaryDirectory() as folder:
        subprocess.run(
            ["tar", "-x", "-p", "--numeric-owner", "--delay-directory-restore", "-C", folder],
            input=data,
            check=True,
            capture_output=True,
            env={**os.environ, "LC_ALL": "C"},
        )
        found = listing_below(Path(folder))
    assert found == listing_of(published, published.image(data))
