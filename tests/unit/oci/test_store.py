from __future__ import annotations

import os
import resource
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from builder.digest import Digest, digest_bytes, hex_of
from builder.edges.store import BlobStore
from builder.oci.errors import DamagedBlobError, DigestMismatchError, StorageError
from builder.oci.limits import BlobTooLargeError
from builder.oci.model import OCI_LAYER_TAR, Descriptor

ROOT = Path(__file__).parents[3]
DEADLINE_S = 20


def files(root: Path) -> list[Path]:
    return sorted(path for path in root.rglob("*") if path.is_file())


def test_a_blob_stands_at_its_digest_read_only(tmp_path: Path) -> None:
    store = BlobStore(tmp_path)
    digest = store.put([b"abc"])

    name = hex_of(digest)
    assert store.path(digest) == tmp_path / "sha256" / name[:2] / name
    assert files(tmp_path) == [store.path(digest)]
    assert stat.S_IMODE(store.path(digest).stat().st_mode) == 0o444


def test_a_store_that_is_not_there_yet_has_nothing(tmp_path: Path) -> None:
    assert not BlobStore(tmp_path / "new").has(digest_bytes(b""))
    assert not (tmp_path / "new").exists()


def test_git_leaves_what_sparklock_keeps_alone_unless_someone_said_otherwise(
    tmp_path: Path,
) -> None:
    ignore = tmp_path / ".sparklock" / ".gitignore"
    BlobStore(ignore.parent / "store").put([b"blob"])
    assert ignore.read_text() == "*\n"

    ignore.write_text("# ours\n")
    BlobStore(ignore.parent / "other").put([b"blob"])
    assert ignore.read_text() == "# ours\n"

    BlobStore(tmp_path / "elsewhere" / "store").put([b"blob"])
    assert not (tmp_path / "elsewhere" / ".gitignore").exists()


def test_a_changed_blob_is_never_given_out(tmp_path: Path) -> None:
    store = BlobStore(tmp_path)
    digest = store.put([b"abc"])
    store.path(digest).chmod(0o644)
    store.path(digest).write_bytes(b"abd")

    with pytest.raises(DamagedBlobError) as caught:
        store.read(digest)
    assert f"rm -f {store.path(digest)}" in str(caught.value)
    with pytest.raises(DamagedBlobError):
        list(store.chunks(digest))


def test_a_cut_blob_is_mended_by_putting_it_again(tmp_path: Path) -> None:
    store = BlobStore(tmp_path)
    digest = store.put([b"abc"])
    store.path(digest).chmod(0o644)
    store.path(digest).write_bytes(b"")

    store.put([b"abc"])

    assert store.read(digest) == b"abc"


def test_refused_bytes_leave_no_file(tmp_path: Path) -> None:
    with pytest.raises(DigestMismatchError):
        BlobStore(tmp_path).put([b"abc"], expected=digest_bytes(b"x"))

    assert files(tmp_path) == []


def test_a_store_opens_blobs_as_a_source_does(tmp_path: Path) -> None:
    store = BlobStore(tmp_path)
    digest = store.put([b"abc"])

    with store.open_blob(Descriptor(OCI_LAYER_TAR, digest, 3)) as chunks:
        assert b"".join(chunks) == b"abc"


def test_a_place_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")

    with pytest.raises(StorageError) as caught:
        BlobStore(tmp_path / "file").put([b"abc"])
    assert "cannot make a temporary file" in str(caught.value)


@pytest.mark.parametrize("chunk_bytes", [200, 2**20])
def test_a_disk_that_takes_no_more_is_told_and_nothing_is_kept(
    tmp_path: Path, chunk_bytes: int
) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (chunk_bytes, hard))
    try:
        with pytest.raises(StorageError) as caught:
            BlobStore(tmp_path).put([bytes(chunk_bytes)] * 2)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    assert "File too large" in caught.value.reason
    assert files(tmp_path) == []


WRITER = """
import sys, pathlib
from builder.edges.store import BlobStore
store = BlobStore(pathlib.Path(sys.argv[1]))
print(store.put(b"%d" % (index % 7) * 65536 for index in range(int(sys.argv[2]))))
"""


def writer(store: Path, chunks: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, str(store), str(chunks)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


def test_a_killed_writer_leaves_no_blob(tmp_path: Path) -> None:
    with writer(tmp_path, 10**9) as process:
        deadline = time.monotonic() + DEADLINE_S
        while not any(path.stat().st_size for path in files(tmp_path)):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)

    assert not (tmp_path / "sha256").exists()
    assert BlobStore(tmp_path).put([b"abc"])


def test_two_writers_of_one_blob_at_once_both_succeed(tmp_path: Path) -> None:
    writers = [writer(tmp_path, 200) for _ in range(2)]
    outputs = {process.communicate(timeout=DEADLINE_S)[0].strip() for process in writers}

    (digest,) = outputs
    assert [process.returncode for process in writers] == [0, 0]
    assert files(tmp_path) == [BlobStore(tmp_path).path(Digest(digest))]
    assert len(BlobStore(tmp_path).read(Digest(digest))) == 200 * 65536


def test_a_blob_that_is_too_large_is_not_read_into_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("builder.edges.store.MAX_READ_BYTES", 100)
    store = BlobStore(tmp_path)
    fitting, large = store.put([bytes(100)]), store.put([bytes(101)])

    assert store.read(fitting) == bytes(100)
    with pytest.raises(BlobTooLargeError) as caught:
        store.read(large)
    assert (caught.value.digest, caught.value.limit_bytes) == (large, 100)
    assert b"".join(store.chunks(large)) == bytes(101)
