"""Putting the boot unit on a node, looking at it there, and taking it away, over ssh."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from deploy import boot_errors
from deploy.boot import FOLDERS, PYTHON
from deploy.boot_reports import NodeBoot

if TYPE_CHECKING:
    from collections.abc import Sequence

    from deploy.boot import BootFile, BootSetup
    from deploy.edges.ssh import NodeConnection

PACKAGE: Final = "sparklock_boot"
MAIN: Final = f"""\
import sys
from pathlib import Path
from {PACKAGE}.main import main
main(Path(sys.argv[1]))
"""
EPOCH: Final = (1980, 1, 1, 0, 0, 0)
"""The time of every file in the program's archive, so that equal sources are equal bytes."""

PARENTS: Final = (FOLDERS, FOLDERS.rpartition("/")[0])
"""The folders above a cluster's own, that only we and other clusters of ours have."""

WRITE: Final = 'umask 077; cat >"$1.new" && chmod "$2" "$1.new" && mv "$1.new" "$1"'
NEW_ENOUGH: Final = "import sys; sys.exit(sys.version_info < (3, 10))"


def program() -> bytes:
    """The program that runs on the nodes, as one file that Python takes: a zip archive."""
    sources = Path(__file__).parents[1] / "boot_node"
    files = {f"{PACKAGE}/{path.name}": path.read_bytes() for path in sources.glob("*.py")}
    files["__main__.py"] = MAIN.encode()
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as target:
        for name in sorted(files):
            target.writestr(zipfile.ZipInfo(name, EPOCH), files[name])
    return archive.getvalue()


class BootNode:
    """One node in reach, and what it has to have; every call raises NodeError."""

    def __init__(self, connection: NodeConnection, setup: BootSetup) -> None:
        self._connection = connection
        self._setup = setup
        self._root: tuple[str, ...] = ()

    def look(self, done: str = "") -> NodeBoot:
        """What the node has of it now; needs no rights."""
        setup = self._setup
        paths = [file.path for file in setup.files]
        listed = self._connection.run(("sha256sum", "--", *paths), ok=(0, 1)).stdout.decode()
        digests = {path: digest for digest, path in (x.split("  ", 1) for x in listed.splitlines())}
        version = self._read(f"{setup.folder}/version")
        return NodeBoot(
            node=setup.node,
            version=version or ("unknown" if digests else ""),
            outdated=setup.missing(digests) if digests else (),
            enabled=self._asked("is-enabled"),
            active=self._asked("is-active"),
            said=self._read(f"{setup.folder}/said"),
            done=done,
        )

    def require(self) -> None:
        """Nothing, if the unit can be installed or removed; errors say what is missing."""
        asked = ("sh", "-c", "command -v systemctl")
        if self._connection.run(asked, ok=(0, 1, 127)).status:
            raise boot_errors.NoSystemdError(self._setup.node)
        user = self._connection.run(("id", "-un")).stdout.decode().strip()
        if user != "root":
            may = self._connection.run(("sudo", "-n", "true"), ok=range(255))
            if may.status:
                raise boot_errors.BootRightsError(
                    self._setup.node, found=f"the ssh user is {user}", detail=may.stderr
                )
            self._root = ("sudo", "-n")

    def require_python(self) -> None:
        """Nothing, if the node's own Python can run the program."""
        if self._connection.run((PYTHON, "-c", NEW_ENOUGH), ok=range(255)).status:
            raise boot_errors.OldPythonError(self._setup.node)

    def secret(self) -> bytes:
        """The secret that is there; nothing if there is none."""
        return self._as_root("cat", "--", self._setup.secret_path, ok=(0, 1))

    def install(self, secret: BootFile) -> NodeBoot:
        """Have the node as it should be; nothing is written or restarted that is so already."""
        setup = self._setup
        before = self.look()
        if before.right and self.secret() == secret.data:
            return self.look("as before")
        self._as_root("mkdir", "-p", "-m", "0755", *PARENTS[::-1], setup.folder)
        for file in (secret, *setup.files):
            self._as_root("sh", "-c", WRITE, "sh", file.path, file.mode, stdin=file.data)
        self._as_root("systemctl", "daemon-reload")
        self._as_root("systemctl", "enable", setup.unit)
        self._as_root("systemctl", "restart", setup.unit)
        return self.look("updated" if before.installed else "installed")

    def remove(self) -> NodeBoot:
        """Have nothing of it on the node."""
        setup = self._setup
        there = self._connection.run(("test", "-e", setup.unit_path), ok=(0, 1)).status == 0
        if there:
            self._as_root("systemctl", "disable", "--now", setup.unit)
        self._as_root("rm", "-rf", "--", setup.unit_path, setup.folder)
        # What others keep beside it stays.
        self._as_root("rmdir", "--ignore-fail-on-non-empty", *PARENTS, ok=range(255))
        self._as_root("systemctl", "daemon-reload")
        return self.look("removed" if there else "nothing to remove")

    def _as_root(self, *argv: str, stdin: bytes = b"", ok: Sequence[int] = (0,)) -> bytes:
        return self._connection.run((*self._root, *argv), stdin=stdin, ok=ok).stdout

    def _read(self, path: str) -> str:
        return self._connection.run(("cat", "--", path), ok=(0, 1)).stdout.decode().strip()

    def _asked(self, verb: str) -> str:
        """What systemctl says of the unit in one word."""
        done = self._connection.run(("systemctl", verb, self._setup.unit), ok=range(255))
        return done.stdout.decode().strip() or "not there"
