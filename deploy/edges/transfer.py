"""Files to a node, whole or not at all: one tar stream, checked there, then renamed."""

from __future__ import annotations

import io
import tarfile
import tempfile
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Final

from builder.digest import Digest, Hasher
from deploy import errors, node_errors
from deploy.edges.programs_on_node import NOT_FOUND, asking, facts_in, started

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from deploy.edges.ssh import NodeConnection

HASH_S: Final = 7200
"""The limit of hashing a whole model: 125 GB take a minute or two from a Spark's own disk."""

PARALLEL: Final = 4
CHUNK_BYTES: Final = 2**20
PART: Final = ".part"


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A file of ours, and the name it gets in the folder on the node."""

    source: Path
    name: str
    size_bytes: int
    digest: Digest


@dataclass(frozen=True, slots=True)
class Watch:
    """How to tell of a transfer and when to stop it; `told` gets all bytes sent so far."""

    told: Callable[[int], None]
    stopped: Callable[[], bool]


def put_files(
    connection: NodeConnection, folder: str, files: Sequence[Outgoing], watch: Watch
) -> None:
    """Put files into a folder of the node that exists; a name appears when its bytes are right.

    Raises ModelFileChangedError when a source is not the file it should be, TransferDamagedError
    when other bytes arrive, DeployInterruptedError when `watch` says stop.
    """
    _stream(connection, folder, files, watch)
    found = hashes(connection, [f"{folder}/{file.name}{PART}" for file in files])
    for file in files:
        arrived = found.get(f"{folder}/{file.name}{PART}")
        if arrived != file.digest:
            what = f"{file.source.name}: sent {file.digest}, arrived {arrived}"
            raise node_errors.TransferDamagedError(connection.node, found=what)
    paths = (f"{folder}/{file.name}" for file in files)
    each_pair(connection, "mv", ((f"{path}{PART}", path) for path in paths))


def hashes(connection: NodeConnection, paths: Sequence[str]) -> dict[str, Digest]:
    """The sha256 digest of every file, by path; RemoteCommandError if one cannot be read.

    The node's python3 hashes them, as many at once as it has processors: it is as quick as openssl,
    and 4 to 9 times as quick as a sha256sum that does not use the processor's own instructions.
    """
    if not paths:
        return {}
    arguments, text = started("hashing")
    argv = ("python3", "-I", *arguments)
    done = connection.run(
        argv, stdin=text + asking(list(paths)), timeout_s=HASH_S, ok=(0, NOT_FOUND)
    )
    if done.status == NOT_FOUND:
        return _hashes_without_python(connection, paths)
    found = {}
    for facts in facts_in(done.stdout.splitlines()):
        if "sha256" not in facts:
            said = f"{facts['path']}: {facts['error']}"
            raise node_errors.RemoteCommandError(connection.node, ("sha256",), 1, said)
        found[str(facts["path"])] = Digest(f"sha256:{facts['sha256']}")
    return found


def _hashes_without_python(connection: NodeConnection, paths: Sequence[str]) -> dict[str, Digest]:
    argv = ("xargs", "-0", "-n", "1", "-P", str(PARALLEL), "sha256sum", "-z", "--")
    done = connection.run(argv, stdin=_listed(paths), timeout_s=HASH_S)
    lines = done.stdout.decode(errors="surrogateescape").split("\0")[:-1]
    return {line[66:]: Digest(f"sha256:{line[:64]}") for line in lines}


def each_pair(connection: NodeConnection, program: str, pairs: Iterable[tuple[str, str]]) -> None:
    """Run `ln` or `mv` for every pair of a path and its target, replacing the target."""
    paths = [path for pair in pairs for path in pair]
    if paths:
        argv = ("xargs", "-0", "-n", "2", program, "-f", "-T", "--")
        connection.run(argv, stdin=_listed(paths))


def make_folders(connection: NodeConnection, paths: Iterable[str]) -> None:
    """Make every folder that is not there, with its parents."""
    folders = sorted(set(paths))
    if folders:
        connection.run(("xargs", "-0", "mkdir", "-p", "--"), stdin=_listed(folders))


def _listed(paths: Iterable[str]) -> bytes:
    return "".join(f"{path}\0" for path in paths).encode(errors="surrogateescape")


def _stream(
    connection: NodeConnection, folder: str, files: Sequence[Outgoing], watch: Watch
) -> None:
    argv = ("tar", "--extract", "--file=-", "--no-same-owner", f"--directory={folder}")
    with tempfile.TemporaryFile() as stderr, connection.start(argv, stderr) as remote:
        assert isinstance(remote.stdin, io.RawIOBase)
        try:
            # Buffered, since a raw pipe may take less than it is given and nobody would notice.
            with io.BufferedWriter(remote.stdin, CHUNK_BYTES) as pipe:
                _write_tar(pipe, files, watch)
        except BrokenPipeError:
            pass  # tar has ended; its status and its words tell why
        status = remote.wait()
        stderr.seek(0)
        if status:
            said = stderr.read().decode(errors="replace").strip()
            raise connection.failure(argv, status, said)


def _write_tar(pipe: IO[bytes], files: Sequence[Outgoing], watch: Watch) -> None:
    done_bytes = 0
    for file in files:
        header = tarfile.TarInfo(file.name + PART)
        header.size, header.mode = file.size_bytes, 0o644
        pipe.write(header.tobuf(tarfile.PAX_FORMAT))
        with _opened(file) as data:
            for size_bytes in _copy(data, pipe, file):
                if watch.stopped():
                    raise errors.DeployInterruptedError
                watch.told(done_bytes + size_bytes)
        done_bytes += file.size_bytes
        pipe.write(bytes(-file.size_bytes % tarfile.BLOCKSIZE))
    pipe.write(bytes(2 * tarfile.BLOCKSIZE))


def _copy(data: IO[bytes], pipe: IO[bytes], file: Outgoing) -> Iterator[int]:
    """Copy a file's bytes; after each chunk, how many went. ModelFileChangedError at their end."""
    hasher = Hasher()
    while hasher.size_bytes < file.size_bytes:
        try:
            chunk = data.read(min(CHUNK_BYTES, file.size_bytes - hasher.size_bytes))
        except OSError as error:
            raise _changed(file, error.strerror or str(error)) from error
        if not chunk:
            break
        hasher.update(chunk)
        pipe.write(chunk)
        yield hasher.size_bytes
    if hasher.digest() != file.digest:
        raise _changed(file, hasher.digest())


def _opened(file: Outgoing) -> IO[bytes]:
    """The source, of the right size; ModelFileChangedError otherwise."""
    try:
        size_bytes = file.source.stat().st_size
        data = file.source.open("rb")
    except OSError as error:
        raise _changed(file, error.strerror or str(error)) from error
    if size_bytes != file.size_bytes:
        data.close()
        raise _changed(file, f"{size_bytes} bytes instead of {file.size_bytes}")
    return data


def _changed(file: Outgoing, found: str) -> node_errors.ModelFileChangedError:
    return node_errors.ModelFileChangedError(str(file.source), file.digest, found)
