"""The model's folder on a node: what is in it, and how other files come in and go back.

New files arrive in `.sparklock/in` inside the folder, under names made of their digests, and are
checked there; so an interrupted transfer continues, and what serves is not touched. They are moved
to their places when the old pair has stopped, with the files they replace kept until the new pair
has answered: in `.sparklock/old/OWNER`, which says whose they are, so that no later failure puts
back what another pair had. Inside the folder, because a rename must not cross filesystems.
"""

from __future__ import annotations

import json
from pathlib import PurePosixPath
from posixpath import dirname, join, normpath
from typing import TYPE_CHECKING, Any, Final

from builder.digest import Digest, NotADigestError, digest_bytes, hex_of, parse_digest
from deploy.edges.transfer import Outgoing, each_pair, hashes, make_folders, put_files
from deploy.state import ModelFileFacts, ModelObstacle

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping, Sequence
    from pathlib import Path

    from builder.lock import ModelFile
    from deploy.edges.ssh import NodeConnection
    from deploy.edges.transfer import Watch

OWN: Final = ".sparklock"
READINESS: Final = r"""
met() { printf '%s\t%s\0' "$1" "$2"; }
for path in "$1" "$2"; do
  while [ ! -e "$path" ] && [ ! -L "$path" ]; do path=$(dirname -- "$path"); done
  if [ ! -d "$path" ]; then met blocked "$path"; break; fi
  if [ -w "$path" ] && [ -x "$path" ]; then continue; fi
  case $(LC_ALL=C touch -a -c -- "$path" 2>&1) in *Read-only*) met read-only "$path"; break;; esac
  met "$(stat -c %U -- "$path") $(id -un)" "$path"; break
done
xargs -0 sh -c 'cd -- "$0" 2>/dev/null || exit 0
for path; do
  if [ -d "$path" ]; then printf "blocked\t%s/%s\0" "$0" "$path"; fi
  while [ "$path" != "${path%/*}" ]; do
    path=${path%/*}
    if [ ! -d "./$path" ] && { [ -e "./$path" ] || [ -L "./$path" ]; }; then
      printf "blocked\t%s/%s\0" "$0" "$path"
    fi
  done
done' "$1"
printf '\0'
du -s -k -- "$2" "$3" 2>/dev/null
exit 0
"""
"""Tells of paths that keep files from being put here, each by its kind and itself; then nothing,
and what lies in the inbox and in the download's folder. The files to come are its stdin."""

STAT: Final = r"%s %T@ %i %C@"
"""What find prints of a file to recognise it: size, modification time, inode, change time."""

LOOK: Final = rf"""find -L "$1" -type f -printf '%P\0{STAT}\0'
status=$?
printf '\0'
find -H "$1" -type l -printf '%P\0%l\0'
printf '\0'
cat -- "$2" 2>/dev/null | tr -d '\000'
exit $status"""
"""Every file with its marks, NUL after each; one more NUL; every link with its target and one more
NUL, as before; then the note, which is JSON."""


class ModelFolder:
    """One node's model folder; every call is one or a few commands on the node."""

    def __init__(self, connection: NodeConnection, folder: str) -> None:
        self._connection = connection
        self._folder = folder
        self._own = f"{folder}/{OWN}"
        self._inbox = f"{self._own}/in"
        self._old = f"{self._own}/old"
        self._observed: dict[str, tuple[str, Digest]] = {}
        self._sent: dict[str, tuple[str, Digest]] = {}
        self._news = False
        self.staged: frozenset[str] = frozenset()
        """The wanted files that `observe` found whole in the inbox, by path."""
        self.kept_for: frozenset[str] = frozenset()
        """The owners of the replaced files that `observe` found."""
        self.hidden = ""
        """The link, as `PATH -> TARGET`, by which a wanted file lies outside of the folder."""

    @property
    def path(self) -> str:
        """The folder itself."""
        return self._folder

    @property
    def inbox(self) -> str:
        """Where files arrive; it need not be there."""
        return self._inbox

    @property
    def download(self) -> str:
        """Where files come from the Hub, before they are proven; it need not be there."""
        return f"{self._own}/hub"

    def observe(self, wanted: Sequence[ModelFile]) -> tuple[tuple[ModelFileFacts, ...], bool]:
        """The wanted files that are there, sorted by path, and whether a transfer left others.

        A file of another size is not hashed and has no digest. Neither is one hashed again that
        `remember` noted and that has not changed since: verify hashes everything, deploy need not.
        """
        stats, links, noted = self._look()
        sizes = {file.path: file.size_bytes for file in wanted}
        there = [path for path in sorted(sizes) if path in stats]
        fitting = [path for path in there if _size_bytes(stats[path]) == sizes[path]]
        known = {
            path: noted[path][1]
            for path in fitting
            if path in noted and noted[path][0] == stats[path]
        }
        unknown = [path for path in fitting if path not in known]
        found = hashes(self._connection, [f"{self._folder}/{path}" for path in unknown])
        known |= {path: found[f"{self._folder}/{path}"] for path in unknown}
        self._observed = {path: (stats[path], known[path]) for path in fitting}
        self._news = bool(unknown)
        facts = [ModelFileFacts(path, _size_bytes(stats[path]), known.get(path)) for path in there]
        own = (f"{OWN}/in/", f"{OWN}/old/", f"{OWN}/hub/")
        self.staged = frozenset(f.path for f in wanted if f"{OWN}/in/{staged_name(f)}" in stats)
        self.kept_for = frozenset(p.split("/")[2] for p in stats if p.startswith(f"{OWN}/old/"))
        right = frozenset(file.path for file in wanted if known.get(file.path) == file.digest)
        self.hidden = _hidden(self._folder, links, sizes, right)
        return tuple(facts), any(path.startswith(own) for path in stats)

    def remember(self) -> None:
        """Note on the node what `observe` had to hash, so that the next one need not.

        The times noted were read before the hashing: a file that changed since has another.
        """
        if not self._news:
            return
        note = json.dumps(self._observed, sort_keys=True).encode()
        make_folders(self._connection, [self._own])
        self._connection.run(("tee", "--", f"{self._own}/seen.new"), stdin=note)
        each_pair(self._connection, "mv", [(f"{self._own}/seen.new", f"{self._own}/seen")])

    def readiness(self, files: Sequence[ModelFile]) -> tuple[ModelObstacle | None, int]:
        """What keeps these files from being put here, if anything; and what lies beside them.

        The latter in bytes of the disk: whole files, and parts of what is still to come.
        """
        argv = ("sh", "-c", READINESS, "sh", self._folder, self._inbox, self.download)
        paths = "".join(f"{file.path}\0" for file in files)
        done = self._connection.run(argv, stdin=paths.encode(errors="surrogateescape"))
        *told, sizes = done.stdout.decode(errors="replace").split("\0")
        met = [_obstacle(each) for each in told if each]
        kib = (line.split()[0] for line in sizes.splitlines() if line.strip())
        beside_bytes = sum(int(size) for size in kib if size.isdecimal()) * 1024
        return (met[0] if met else None), beside_bytes

    def begin(self) -> None:
        """Have the inbox, and the folder for what comes from the Hub."""
        make_folders(self._connection, [self._inbox, self.download])

    def places_of(self, files: Sequence[ModelFile]) -> tuple[str, ...]:
        """Where wanted files are on the node, each in the inbox or in its place."""
        there = self._names(self._inbox)
        return tuple(
            self._staged_at(file) if staged_name(file) in there else f"{self._folder}/{file.path}"
            for file in files
        )

    def missing(self, files: Sequence[ModelFile]) -> tuple[ModelFile, ...]:
        """Those of the files that are not in the inbox."""
        there = self._names(self._inbox)
        return tuple(file for file in files if staged_name(file) not in there)

    def take_in(self, files: Sequence[ModelFile]) -> tuple[ModelFile, ...]:
        """Move what has come from the Hub and is right into the inbox; what is not, is removed.

        Returns the files that were not right; one that has not come whole has another name there.
        """
        stats = self._stats(self.download)
        there = [file for file in files if file.path in stats]
        whole = [file for file in there if _size_bytes(stats[file.path]) == file.size_bytes]
        found = hashes(self._connection, [f"{self.download}/{file.path}" for file in whole])
        right = [f for f in whole if found.get(f"{self.download}/{f.path}") == f.digest]
        wrong = tuple(file for file in there if file not in right)
        moves = [(f"{self.download}/{file.path}", self._staged_at(file)) for file in right]
        each_pair(self._connection, "mv", moves)
        if wrong:
            listed = "".join(f"{self.download}/{file.path}\0" for file in wrong)
            self._connection.run(("xargs", "-0", "rm", "-f", "--"), stdin=listed.encode())
        self.arrived(right)
        return wrong

    def arrived(self, files: Sequence[ModelFile]) -> None:
        """Take note that files are in the inbox and were proven there."""
        there = self._stats(self._inbox)
        self._sent |= {f.path: (there[staged_name(f)], f.digest) for f in files}

    def send(self, files: Sequence[ModelFile], source: Path, watch: Watch) -> int:
        """Bring files from a folder of ours into the inbox; the bytes that had to travel.

        What an earlier, interrupted transfer brought is there already and is not sent again.
        """
        make_folders(self._connection, [self._inbox])
        there = self._names(self._inbox)
        missing = [file for file in files if staged_name(file) not in there]
        if missing:
            outgoing = [
                Outgoing(source / file.path, staged_name(file), file.size_bytes, file.digest)
                for file in missing
            ]
            put_files(self._connection, self._inbox, outgoing, watch)
        arrived = self._stats(self._inbox)
        self._sent |= {file.path: (arrived[staged_name(file)], file.digest) for file in files}
        return sum(file.size_bytes for file in missing)

    def place(self, files: Sequence[ModelFile], replaced: Sequence[str], owner: str) -> None:
        """Move files from the inbox to their places and keep the ones they replace as `owner`'s.

        What is kept for that owner already stays: what stands in its place now came later.
        """
        old = f"{self._old}/{owner}"
        kept = self._names(old)
        keep = [path for path in replaced if path not in kept]
        places = [(f"{self._folder}/{path}", f"{old}/{path}") for path in keep]
        moves = [(self._staged_at(file), f"{self._folder}/{file.path}") for file in files]
        make_folders(self._connection, [_parent(target) for _, target in (*places, *moves)])
        each_pair(self._connection, "ln", places)
        each_pair(self._connection, "mv", moves)

    def restore(self, files: Sequence[ModelFile], owner: str) -> None:
        """Undo `place`, however far it came: new files to the inbox, kept ones to their places."""
        kept_in = f"{self._old}/{owner}"
        staged = self._names(self._inbox)
        moved = [file for file in files if staged_name(file) not in staged]
        back = [(f"{self._folder}/{file.path}", self._staged_at(file)) for file in moved]
        each_pair(self._connection, "mv", back)
        kept = sorted(self._names(kept_in))
        old = [(f"{kept_in}/{path}", f"{self._folder}/{path}") for path in kept]
        make_folders(self._connection, [_parent(target) for _, target in old])
        each_pair(self._connection, "mv", old)

    def kept(self) -> frozenset[str]:
        """The owners of the replaced files that are kept."""
        return frozenset(path.split("/")[0] for path in self._names(self._old))

    def drop(self, owners: Iterable[str]) -> None:
        """Drop the replaced files of these owners."""
        self._connection.run(("rm", "-rf", "--", *(f"{self._old}/{item}" for item in owners)))

    def settle(self, keep: str = "") -> None:
        """Drop the inbox and the replaced files: the new model has served, or `keep`'s have not.

        Those of `keep` stay. What was sent was hashed on arrival. Moving a file changes none of its
        marks but the change time, so what has the others still need not be hashed again.
        """
        gone = [f"{self._old}/{item}" for item in self.kept() - {keep}] if keep else [self._old]
        self._connection.run(("rm", "-rf", "--", self._inbox, self.download, *gone))
        stats = self._stats(self._folder)
        for path, (arrived, digest) in self._sent.items():
            if _lasting(stats.get(path, "")) == _lasting(arrived):
                self._observed[path] = (stats[path], digest)
                self._news = True
        self.remember()

    def _stats(self, folder: str) -> dict[str, str]:
        """What find tells of every file below a folder, by path; links are followed."""
        parts = self._found("-L", folder, "-type", "f", "-printf", rf"%P\0{STAT}\0")
        return dict(zip(parts[::2], parts[1::2], strict=True))

    def _names(self, folder: str) -> frozenset[str]:
        """The paths of all files and links below a folder; none if it is not there."""
        return frozenset(self._found(folder, "!", "-type", "d", "-printf", r"%P\0"))

    def _found(self, *search: str) -> list[str]:
        done = self._connection.run(("find", *search), ok=(0, 1))
        return done.stdout.decode(errors="surrogateescape").split("\0")[:-1]

    def _look(self) -> tuple[dict[str, str], dict[str, str], dict[str, tuple[str, Digest]]]:
        """`_stats` of the folder, its links, and what `remember` noted; one session for each look.

        Nothing is noted if the note is not there or cannot be read.
        """
        argv = ("sh", "-c", LOOK, "sh", self._folder, f"{self._own}/seen")
        done = self._connection.run(argv, ok=(0, 1))
        told, _, noted = done.stdout.rpartition(b"\0")
        parts = told.decode(errors="surrogateescape").split("\0")
        end = next(place for place in range(0, len(parts), 2) if not parts[place])
        files, links = parts[:end], parts[end + 1 :]
        return (
            dict(zip(files[::2], files[1::2], strict=True)),
            dict(zip(links[::2], links[1::2], strict=False)),
            _notes(noted),
        )

    def _staged_at(self, file: ModelFile) -> str:
        return f"{self._inbox}/{staged_name(file)}"


def _hidden(
    folder: str, links: Mapping[str, str], wanted: Iterable[str], right: Container[str]
) -> str:
    """The first link by which a wanted file lies outside of the folder; empty if there is none.

    The container has the folder at the same path, and nothing of what lies beside it. A link in the
    place of a file counts if what it leads to is `right`: else the file will replace it.
    """
    out = {
        path: target
        for path, target in links.items()
        if not normpath(join(folder, dirname(path), target)).startswith(f"{folder}/")
    }
    for path in sorted(wanted) if out else ():
        own = (path,) if path in right else ()
        for way in (*own, *map(str, PurePosixPath(path).parents)):
            if way in out:
                return f"{way} -> {out[way]}"
    return ""


def staged_name(file: ModelFile) -> str:
    """The name in the inbox; of the path too, since two files may have the same bytes."""
    path = digest_bytes(file.path.encode(errors="surrogateescape"))
    return f"{hex_of(file.digest)}.{hex_of(path)[:8]}"


def _obstacle(told: str) -> ModelObstacle:
    kind, _, path = told.partition("\t")
    if kind == "blocked":
        found = f"{path} is no folder, or one where a file goes"
        return ModelObstacle("blocked", path, found)
    if kind == "read-only":
        found = f"{path} is on a disk that is mounted read-only"
        return ModelObstacle("read-only", path, found)
    owner, _, user = kind.partition(" ")
    found = f"{path} belongs to {owner} and {user} may not write there"
    return ModelObstacle("rights", path, found)


def _notes(text: bytes) -> dict[str, tuple[str, Digest]]:
    try:
        note: Any = json.loads(text)
        return {str(k): (str(v[0]), parse_digest(str(v[1]))) for k, v in note.items()}
    except (ValueError, LookupError, AttributeError, TypeError, NotADigestError):
        return {}


def _size_bytes(stat: str) -> int:
    return int(stat.split(" ", 1)[0])


def _lasting(stat: str) -> str:
    """The marks of a file that a rename leaves as they are."""
    return stat.rpartition(" ")[0]


def _parent(path: str) -> str:
    return path.rpartition("/")[0]
