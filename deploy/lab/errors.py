"""The failures of a lab, all of exit code 5."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from builder.errors import Message, NodeError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


ROOT_NEEDED: Final = "root: namespaces, mounts and links need it"


class LabSpecError(NodeError):
    """A lab was asked for that cannot be."""

    def __init__(self, *, field: str, expected: str, found: str) -> None:
        super().__init__(field, expected, found)
        self.field, self.expected, self.found = field, expected, found

    @property
    def messages(self) -> tuple[Message, ...]:
        """One message."""
        return (
            Message(
                place=f"lab: {self.field}",
                what="a lab cannot be made like this",
                expected=self.expected,
                found=self.found,
                remedy=f"choose another {self.field}",
            ),
        )


class NotRootError(NodeError):
    """Somebody who is not root asked for a lab, or for its end."""

    @property
    def messages(self) -> tuple[Message, ...]:
        """One message."""
        return (
            Message(
                place="this machine",
                what="the lab belongs to root: namespaces, mounts and links need it",
                remedy="run the same command as root",
            ),
        )


class LabElsewhereError(NodeError):
    """The lab of another folder is up, and has the links and addresses that this one needs."""

    def __init__(self, name: str, folder: Path) -> None:
        super().__init__(name, folder)
        self.name, self.folder = name, folder

    @property
    def messages(self) -> tuple[Message, ...]:
        """One message with the other's folder."""
        return (
            Message(
                place=f"lab {self.name}",
                what="another lab of this name is up on this machine, with the same addresses",
                found=str(self.folder),
                remedy="inv lab.down in that repository",
            ),
        )


class LabCommandError(NodeError):
    """A program that sets up the lab failed."""

    def __init__(self, argv: Sequence[str], status: int, stderr: str, *, place: str) -> None:
        super().__init__(tuple(argv), status, stderr, place)
        self.place, self.argv, self.status, self.stderr = place, tuple(argv), status, stderr

    @property
    def messages(self) -> tuple[Message, ...]:
        """One message with the end of stderr."""
        return (
            Message(
                place=self.place,
                what=f"{' '.join(self.argv)} ended with status {self.status}",
                detail=end_of(self.stderr),
                remedy="inv lab.down, then inv lab.up",
            ),
        )


class NodeStartError(NodeError):
    """A node, or a service in it, did not come up."""

    def __init__(self, node: str, what: str, log: Path, log_text: str) -> None:
        super().__init__(node, what, log, log_text)
        self.node, self.what, self.log, self.log_text = node, what, log, log_text

    @property
    def messages(self) -> tuple[Message, ...]:
        """One message with the log's end."""
        return (
            Message(
                place=f"lab node {self.node}",
                what=self.what,
                detail=end_of(self.log_text),
                remedy=f"read {self.log}, then inv lab.down and inv lab.up",
            ),
        )


class NodeOffError(NodeError):
    """A node was asked for something while it is off."""

    def __init__(self, node: str) -> None:
        super().__init__(node)
        self.node = node

    @property
    def messages(self) -> tuple[Message, ...]:
        """One message."""
        return (
            Message(place=f"lab node {self.node}", what="the node is off", remedy="inv lab.up"),
        )


class LeftoverError(NodeError):
    """Something of a lab could not be removed."""

    def __init__(self, leftovers: Sequence[str], *, place: str) -> None:
        super().__init__(tuple(leftovers), place)
        self.leftovers, self.place = tuple(leftovers), place

    @property
    def messages(self) -> tuple[Message, ...]:
        """One message that lists what is left."""
        return (
            Message(
                place=self.place,
                what="not everything could be removed",
                detail="\n".join(self.leftovers),
                remedy="end what uses it, then inv lab.down again",
            ),
        )


class RequirementsMissingError(NodeError):
    """The machine lacks what a lab needs; `command` installs what packages bring of it."""

    def __init__(self, missing: Sequence[str], command: Sequence[str]) -> None:
        super().__init__(tuple(missing), tuple(command))
        self.missing, self.command = tuple(missing), tuple(command)

    @property
    def messages(self) -> tuple[Message, ...]:
        """One message that lists all of it."""
        return (
            Message(
                place="this machine",
                what="it cannot carry a lab",
                detail="\n".join(f"missing: {what}" for what in self.missing),
                remedy=self._remedy(),
            ),
        )

    def _remedy(self) -> str:
        """What helps: installing, being root, both, or another machine."""
        install = f"as root: {' '.join(self.command)}" if self.command else ""
        again = "run the same command as root" if ROOT_NEEDED in self.missing else ""
        return "; then ".join(filter(None, (install, again))) or "use a machine that has it"


class InstallError(NodeError):
    """apt-get could not install what a lab needs."""

    def __init__(self, argv: Sequence[str], status: int, output: str) -> None:
        super().__init__(tuple(argv), status, output)
        self.argv, self.status, self.output = tuple(argv), status, output

    @property
    def messages(self) -> tuple[Message, ...]:
        """One message with the end of the output."""
        command = " ".join(self.argv)
        return (
            Message(
                place="this machine",
                what=f"{command} ended with status {self.status}",
                detail=end_of(self.output),
                remedy=f"repair what apt-get tells of, then: {command}",
            ),
        )


def end_of(text: str, lines: int = 15) -> str:
    """The last lines of a log."""
    return "\n".join(text.splitlines()[-lines:])
