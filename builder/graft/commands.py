"""Whether what a container executes is there: entrypoint, node script, `vllm`, interpreters."""

from __future__ import annotations

from dataclasses import dataclass
from posixpath import basename, join, normpath
from typing import TYPE_CHECKING, Final

from builder.graft.command_findings import (
    BadCommand,
    MissingCommand,
    MissingInterpreter,
    NotExecutable,
    WrongFormat,
)
from builder.oci.tree import ImageTree, Kind, SymlinkLoopError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from builder.oci.model import Platform
    from builder.oci.tree import Entry

_DEFAULT_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""PATH of a container whose image sets none; source: Moby's oci/defaults."""

_MACHINES: Final = {"amd64": 62, "arm64": 183}
"""e_machine of ELF files by OCI architecture; source: the ELF ABI's registry."""

_MAX_INTERPRETERS: Final = 5
"""Scripts whose interpreter is a script again, as many as Linux follows (binfmt in exec.c)."""


@dataclass(frozen=True, slots=True)
class Launch:
    """How containers of the image are started.

    `entrypoint` and `workdir` are the image configuration's own after our changes; `paths` are the
    values of the variable PATH, of which nodes may have several, and an empty one stands for unset.
    `mounts` are the absolute targets of the bind mounts.
    """

    entrypoint: tuple[str, ...]
    workdir: str
    paths: tuple[str, ...]
    node_script: str | None
    mounts: tuple[str, ...]
    platform: Platform


def check_commands(tree: ImageTree, launch: Launch, *, place: str) -> tuple[BadCommand, ...]:
    """What could not be executed in a container of the assembled tree; nothing if all is right.

    `place` is the node script in the manifest, as an error names it. A path below a mount's
    target is provided by the node, so it is not judged. The node script and `vllm` are the
    image's own, so for them a mounted folder on PATH does not count.
    """
    containers = (_Container.of(tree, launch, path) for path in launch.paths)
    found = (finding for each in containers for finding in _judged(each, launch, place))
    return tuple(dict.fromkeys(finding for finding in found if finding is not None))


def _judged(container: _Container, launch: Launch, place: str) -> Iterator[BadCommand | None]:
    own = container.folders_of_the_image()
    for name in launch.entrypoint[:1]:
        yield container.judge_command("image config: Entrypoint", name, container.search)
    if launch.node_script is not None:
        yield container.judge_command(place, launch.node_script, own)
    yield container.judge_command("image: the package's console script", "vllm", own)


class _ProvidedByNode:
    """The answer to a look-up that ends below a mount: what is there is the node's affair."""


_NODE: Final = _ProvidedByNode()


@dataclass(frozen=True, slots=True)
class _Container:
    """The filesystem that a container sees, and how it finds programs.

    `tree` has nothing of the image that a mount hides. `mounts` are tree paths.
    """

    tree: ImageTree
    mounts: tuple[str, ...]
    workdir: str
    search: tuple[str, ...]
    architecture: str

    @classmethod
    def of(cls, tree: ImageTree, launch: Launch, path: str) -> _Container:
        mounts = tuple(sorted(tree.resolve(target) for target in launch.mounts))
        seen = {path: entry for path, entry in tree.entries.items() if not _is_in(path, mounts)}
        return cls(
            ImageTree(seen),
            mounts,
            launch.workdir or "/",
            tuple((path or _DEFAULT_PATH).split(":")),
            launch.platform.architecture,
        )

    def folders_of_the_image(self) -> tuple[str, ...]:
        """The folders on PATH that no mount covers."""
        return tuple(folder for folder in self.search if self._at(folder) is not _NODE)

    def judge_command(self, place: str, name: str, folders: tuple[str, ...]) -> BadCommand | None:
        """Why a container could not execute a command, by path or by its name in the folders."""
        found = self.find(name, folders)
        if found is not None:
            return self.judge_entry(place, name, found, _MAX_INTERPRETERS)
        by_path = "/" in name
        return MissingCommand(
            place,
            name,
            normpath(join(self.workdir, name)) if by_path else "",
            self.workdir,
            () if by_path else folders,
            self._namesakes(name),
        )

    def judge_entry(
        self, place: str, name: str, found: Entry | _ProvidedByNode, depth: int
    ) -> BadCommand | None:
        """Why the kernel could not execute what was found, its interpreters included."""
        if isinstance(found, _ProvidedByNode):
            return None
        path = "/" + found.path
        if found.kind is not Kind.FILE:
            return NotExecutable(place, name, path, f"a {found.kind.value}")
        if not found.mode & 0o111:
            return NotExecutable(place, name, path, f"a file of mode {found.mode:04o}")
        if not found.head.startswith(b"#!"):
            return self._judge_binary(place, name, path, found.head)
        for interpreter in _interpreters(found.head):
            finding = self._judge_interpreter(place, path, interpreter, depth)
            if finding is not None:
                return finding
        return None

    def find(self, name: str, folders: tuple[str, ...]) -> Entry | _ProvidedByNode | None:
        """What a command means: what its path leads to, or the first program of that name."""
        if "/" in name:
            return self._at(name)
        found = [self._at(join(folder, name)) for folder in folders]
        there = [item for item in found if item is not None]
        usable = [item for item in there if isinstance(item, _ProvidedByNode) or _can_run(item)]
        return next(iter([*usable, *there]), None)

    def _at(self, path: str) -> Entry | _ProvidedByNode | None:
        """What is at an absolute path, or at one relative to the working directory."""
        try:
            real = self.tree.resolve(join(self.workdir, path))
        except SymlinkLoopError:
            return None
        return _NODE if _is_in(real, self.mounts) else self.tree.get(real)

    def _judge_interpreter(
        self, place: str, script: str, interpreter: str, depth: int
    ) -> BadCommand | None:
        if depth == 0:
            return MissingInterpreter(place, script, interpreter, "too many scripts in a row")
        found = self.find(interpreter, self.search)
        if found is None:
            detail = ""
            if interpreter.endswith("\r"):
                detail = "nothing; the script's lines end in carriage returns, save it with LF"
            return MissingInterpreter(place, script, interpreter, detail)
        return self.judge_entry(place, f"{interpreter}, which runs {script},", found, depth - 1)

    def _judge_binary(self, place: str, name: str, path: str, head: bytes) -> BadCommand | None:
        wanted = _MACHINES.get(self.architecture)
        expected = f"an ELF program for {self.architecture}, or a script with a #! line,"
        if not head.startswith(b"\x7fELF"):
            return WrongFormat(place, name, path, expected, f"a file that begins {head[:16]!r}")
        machine = int.from_bytes(head[18:20], "little")
        if wanted is None or machine == wanted:
            return None
        names = {number: text for text, number in _MACHINES.items()}
        found = names.get(machine, f"machine number {machine}")
        return WrongFormat(place, name, path, expected, f"an ELF program for {found}")

    def _namesakes(self, name: str) -> tuple[str, ...]:
        """Up to three files of the same name elsewhere in the image."""
        wanted = basename(name)
        paths = (path for path in sorted(self.tree.entries) if basename(path) == wanted)
        files = ["/" + path for path in paths if self.tree.entries[path].kind is Kind.FILE]
        return tuple(files[:3])


def _is_in(path: str, folders: tuple[str, ...]) -> bool:
    return any(path == folder or path.startswith(folder + "/") for folder in folders)


def _can_run(entry: Entry) -> bool:
    """Whether root may execute the entry: one execute bit of any class is enough."""
    return entry.kind is Kind.FILE and bool(entry.mode & 0o111)


def _interpreters(head: bytes) -> tuple[str, ...]:
    """The programs that a script's first line needs: the interpreter, and what `env` looks up.

    The kernel passes all text behind the interpreter as one argument, so `env` sees several words
    only with -S. Source: execve(2); env(1).
    """
    line = head.removeprefix(b"#!").split(b"\n", 1)[0].strip(b" \t").decode(errors="replace")
    program, _, argument = line.replace("\t", " ").partition(" ")
    argument = argument.strip(" ")
    path = program if "/" in program else f"./{program}"  # the kernel does not search PATH
    if basename(program) != "env" or not argument:
        return (path,)
    if not argument.startswith("-S"):
        return (path, argument)
    words = argument.removeprefix("-S").split()
    named = [word for word in words if not word.startswith("-") and "=" not in word]
    return (path, *named[:1])
