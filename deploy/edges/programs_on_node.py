"""Our own programs (deploy/onnode) on a node: given to its python3 over ssh, or in a container.

What a program is asked goes through its stdin and no argument list, so a secret shows in no list of
processes. It ends when its stdin does, which no death of ours can prevent.
"""

from __future__ import annotations

import io
import json
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

import deploy.onnode
from deploy import node_errors
from deploy.edges.programs import end_of
from deploy.edges.waiting import until_stopped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from builder.digest import JsonValue
    from deploy.edges.ssh import NodeConnection

BOOT: Final = (
    "import sys\n"
    "text = sys.stdin.buffer.read(int(sys.argv[1]))\n"
    "exec(compile(text, 'sparklock', 'exec'))\n"
)
"""Reads the program from stdin, where what it is asked follows."""

NOT_FOUND: Final = 127
END_S: Final = 10


def source_of(name: str) -> bytes:
    """The text of a program of deploy/onnode."""
    return (Path(deploy.onnode.__file__).parent / f"{name}.py").read_bytes()


def started(name: str) -> tuple[tuple[str, ...], bytes]:
    """The arguments of python3 for a program, and the begin of its stdin."""
    text = source_of(name)
    return ("-c", BOOT, str(len(text))), text


def asking(asked: JsonValue) -> bytes:
    """What a program is asked, as it reads it."""
    return json.dumps(asked).encode() + b"\n"


@contextmanager
def running(connection: NodeConnection, name: str, asked: JsonValue) -> Iterator[NodeProgram]:
    """A program at work on the node; it has ended afterwards."""
    arguments, text = started(name)
    argv = ("python3", "-I", *arguments)
    with tempfile.TemporaryFile() as stderr, connection.start(argv, stderr) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            try:
                with io.BufferedWriter(_KeptOpen(process.stdin)) as pipe:
                    pipe.write(text + asking(asked))
            except BrokenPipeError:
                pass  # it has ended; its status and its words tell why
            yield NodeProgram(connection, argv[:2], process, stderr)
        finally:
            process.stdin.close()
            try:
                process.wait(END_S)
            except BaseException:
                process.kill()
                raise


class NodeProgram:
    """A program that runs on a node, and what it tells."""

    def __init__(
        self,
        connection: NodeConnection,
        argv: tuple[str, ...],
        process: Any,  # noqa: ANN401 - Popen[bytes], generic only for type checkers
        stderr: IO[bytes],
    ) -> None:
        self._connection = connection
        self._argv = argv
        self._process = process
        self._stderr = stderr

    def told(self, stopped: Callable[[], bool]) -> Iterator[dict[str, Any]]:
        """What it tells, one by one; DeployInterruptedError as soon as `stopped` says so.

        NodeError when it has ended with a failure.
        """
        yield from facts_in(until_stopped(lambda: self._process.stdout, stopped))
        status = self._process.wait()
        self._stderr.seek(0)
        said = end_of(self._stderr.read())
        if status == NOT_FOUND:
            raise node_errors.NoPythonError(self._connection.node, detail=said)
        if status:
            raise self._connection.failure(self._argv, status, said)


def facts_in(lines: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    """The objects in lines of JSON; what is none is left out."""
    for line in lines:
        try:
            facts = json.loads(line)
        except ValueError:
            continue
        if isinstance(facts, dict):
            yield facts


class _KeptOpen(io.RawIOBase):
    """A pipe as BufferedWriter takes it, that stays open when that one is closed."""

    def __init__(self, pipe: IO[bytes]) -> None:
        self._pipe = pipe

    def writable(self) -> bool:
        """True."""
        return True

    def write(self, data: Any) -> int | None:  # noqa: ANN401 - any buffer
        """As the pipe's."""
        return self._pipe.write(data)
