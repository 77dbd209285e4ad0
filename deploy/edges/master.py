"""The ssh process that holds a connection: how it is started, what it said, how it ends.

It imports little and waits for nothing, so a login can be on its way while the rest is imported.
"""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from deploy.edges.places import Place
from deploy.edges.programs import answer, end_of, environment, write

if TYPE_CHECKING:
    from pathlib import Path

READY: Final = b"sparklock-ready\n"
"""What comes back once the node is reached, and its shell says nothing of its own."""

MASTER_OPTIONS: Final = (
    "BatchMode=yes",
    "ClearAllForwardings=yes",
    "ControlMaster=yes",
    "ControlPersist=no",
    "ForwardAgent=no",
    "ForwardX11=no",
    "LogLevel=INFO",
    "PermitLocalCommand=no",
    "RemoteCommand=none",
    "RequestTTY=no",
    "ServerAliveCountMax=3",
    "ServerAliveInterval=5",
)
"""Settings our use of the connection needs, over whatever the user's config has for a person's."""

FAST_CIPHER: Final = "aes128-gcm@openssh.com"
"""ARM and x86 processors have instructions for it; ssh's first choice runs without, and takes more
than twice as long: that, not the link or the engine, would limit a first delivery."""


@dataclass(frozen=True, slots=True)
class Destination:
    """Where a node is reached: its name, ssh's own name for it, and the ssh_config to use."""

    node: str
    ssh: str
    config: Path | None
    connect_timeout_s: int


class Master:
    """A master process of a node, from its start on; whoever makes one ends it.

    It runs `cat` on the node and dies with our end of the pipe, so that not even a killed process
    of ours leaves it behind. It has its own session: an interrupt typed at the terminal must not
    cut the connection that cleaning up needs.
    """

    def __init__(self, destination: Destination, *, bulk: bool = True) -> None:
        """Start to connect; OSError if ssh cannot be run.

        Without `bulk`, whatever cipher ssh chooses is fast enough.
        """
        self.destination = destination
        self._place = Place()
        self.folder = self._place.path
        self.control = self.folder / "master"
        try:
            self.process = self._start(self._fast_cipher() if bulk else ())
            assert self.process.stdin is not None
            write(self.process.stdin, READY)
        except BaseException:
            self._place.remove()
            raise

    def close(self) -> None:
        """End the connection with all that goes through it; again is nothing."""
        if self.process.poll() is None:
            self.process.terminate()  # ssh then ends as if asked to, without a client that asks it
            try:
                self.process.wait(5)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        if self.process.stdin and self.process.stdout:
            self.process.stdin.close()
            self.process.stdout.close()
        self._place.remove()

    def abandon(self) -> None:
        """End the connection at once, also while it is being made; all that uses it fails."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self._place.remove()

    def said(self) -> str:
        """The end of what it wrote to stderr."""
        return end_of((self.folder / "stderr").read_bytes())

    def _start(self, ciphers: tuple[str, ...]) -> subprocess.Popen[bytes]:
        options = (
            *MASTER_OPTIONS,
            *ciphers,
            f"ConnectTimeout={self.destination.connect_timeout_s}",
        )
        with (self.folder / "stderr").open("wb") as stderr:
            return subprocess.Popen(
                [
                    *("ssh", *self._own_config(), "-S", str(self.control)),
                    *(part for option in options for part in ("-o", option)),
                    *("-T", "--", self.destination.ssh, "cat"),
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                env=environment(),
                start_new_session=True,
                bufsize=0,
            )

    def _own_config(self) -> tuple[str, ...]:
        config = self.destination.config
        return () if config is None else ("-F", str(config))

    def _fast_cipher(self) -> tuple[str, ...]:
        """The option that puts the fast cipher first among those that the user's ssh allows."""
        try:
            done = answer(["ssh", *self._own_config(), "-G", "--", self.destination.ssh])
        except subprocess.TimeoutExpired:
            return ()  # the connection itself will tell what its configuration waits for
        lines = done.stdout.decode(errors="replace").splitlines()
        found = next((line.split()[1:] for line in lines if line.startswith("ciphers ")), [])
        allowed = "".join(found).split(",")
        if FAST_CIPHER not in allowed:
            return ()
        rest = (cipher for cipher in allowed if cipher != FAST_CIPHER)
        return (f"Ciphers={','.join((FAST_CIPHER, *rest))}",)
