"""The actions a plan is made of, and the plan itself: values that say what, where and why."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator

    from builder.digest import JsonValue
    from builder.lock import ModelFile
    from deploy.launch import ContainerSpec
    from deploy.serving import ServingAddress
    from deploy.wanted import WantedImage


class Phase(Enum):
    """What the nodes do at the same time; a phase begins when every node has ended the one before.

    Up to and with CREATE the old pair serves. After CONFIRM the new one does: nothing is undone.
    """

    CLEAR = "clear what an interrupted deploy left"
    PREPARE = "bring model and image"
    FETCH = "fetch the model"
    COPY = "copy the model between the nodes"
    CREATE = "create the new containers"
    STOP = "stop the old pair"
    PLACE = "put the model in place"
    START_WORKERS = "start the workers"
    START_HEAD = "start the head"
    CONFIRM = "wait for a completion"
    ACCEPT = "accept the new pair"
    RETIRE = "keep the old pair, stopped"
    REMOVE = "tidy up"


TIDYING: Final = frozenset({Phase.ACCEPT, Phase.RETIRE, Phase.REMOVE})
"""Phases of which nothing is undone: the pair they are about serves, asked just now or before."""


@dataclass(frozen=True, slots=True)
class Action:
    """One change on one node, and why it is needed."""

    node: str
    reason: str

    @property
    def what(self) -> str:
        """The change in a few words, such as `pull image sparklock/lab:0123456789ab`."""
        raise NotImplementedError

    def as_json(self) -> dict[str, JsonValue]:
        """The action as a JSON object."""
        return {"node": self.node, "what": self.what, "reason": self.reason}


@dataclass(frozen=True, slots=True)
class SendModel(Action):
    """Bring model files to a node, beside their place; nothing that is in use changes yet."""

    folder: str
    files: tuple[ModelFile, ...]

    @property
    def size_bytes(self) -> int:
        """What has to travel, at most."""
        return sum(file.size_bytes for file in self.files)

    @property
    def what(self) -> str:
        """Number and size of the files."""
        return f"send model: {_files(len(self.files))}, {size_text(self.size_bytes)}"


@dataclass(frozen=True, slots=True)
class FetchModel(Action):
    """Let a node fetch model files from the Hub, beside their place, by the locked image."""

    image: str
    repo: str
    revision: str
    files: tuple[ModelFile, ...]

    @property
    def size_bytes(self) -> int:
        """What has to travel, at most."""
        return sum(file.size_bytes for file in self.files)

    @property
    def what(self) -> str:
        """Number and size of the files."""
        return f"fetch model from the Hub: {_files(len(self.files))}, {size_text(self.size_bytes)}"


@dataclass(frozen=True, slots=True)
class CopyModel(Action):
    """Copy model files from another node over the fabric, beside their place."""

    source: str
    image: str
    files: tuple[ModelFile, ...]

    @property
    def size_bytes(self) -> int:
        """What has to travel, at most."""
        return sum(file.size_bytes for file in self.files)

    @property
    def what(self) -> str:
        """The other node, number and size of the files."""
        what = f"{_files(len(self.files))}, {size_text(self.size_bytes)}"
        return f"copy model from {self.source}: {what}"


@dataclass(frozen=True, slots=True)
class PullBase(Action):
    """Let a node's engine pull the base from its own registry.

    When it cannot after all, the base's layers travel from us with the image. `with_login` asks
    for it with the login that the node has.
    """

    image: WantedImage
    size_bytes: int
    with_login: bool = False

    @property
    def what(self) -> str:
        """The base's name in its registry, its digest cut short, and what the node lacks of it."""
        name, _, digest = (self.image.base.reference or "").partition("@sha256:")
        return f"pull base {name}@sha256:{digest[:12]}: {size_text(self.size_bytes)}"


@dataclass(frozen=True, slots=True)
class PullImage(Action):
    """Let a node's engine pull the locked image, by digest, from us, and tag it."""

    image: WantedImage
    size_bytes: int

    @property
    def what(self) -> str:
        """The image's tag, and the size of the layers that the engine lacks."""
        return f"pull image {self.image.reference} from here: {size_text(self.size_bytes)}"


@dataclass(frozen=True, slots=True)
class LoadImage(Action):
    """Load the locked image as an archive, over the engine's socket, and tag it.

    `size_bytes` are its layers, without those the node has or has pulled with its base by then.
    """

    image: WantedImage
    size_bytes: int
    whole: bool

    @property
    def what(self) -> str:
        """The image's tag, and the size of the layers in the archive."""
        kind = "a whole archive" if self.whole else "a partial archive"
        return f"load image {self.image.reference} as {kind}: {size_text(self.size_bytes)}"


@dataclass(frozen=True, slots=True)
class TagImage(Action):
    """Give an image that is there its tag, which also keeps it from being pruned."""

    image: WantedImage

    @property
    def what(self) -> str:
        """The tag."""
        return f"tag image {self.image.reference}"


@dataclass(frozen=True, slots=True)
class CreateContainer(Action):
    """Create one rank's container under its trial name, without starting it.

    `cache` is the volume for its compile caches, made if it is not there; empty for none.
    """

    name: str
    spec: ContainerSpec
    labels: tuple[tuple[str, str], ...]
    cache: str = ""

    @property
    def what(self) -> str:
        """The container's name."""
        return f"create {self.name}"


@dataclass(frozen=True, slots=True)
class StopContainer(Action):
    """Stop a container of the old pair; it can be started again."""

    name: str

    @property
    def what(self) -> str:
        """The container's name."""
        return f"stop {self.name}"


@dataclass(frozen=True, slots=True)
class PlaceModel(Action):
    """Move sent model files to their place; `replaced` are paths where another file stands now.

    Those other files are kept as `owner`'s, a `deploy.replaced.owner`, until the plan has served.
    """

    folder: str
    files: tuple[ModelFile, ...]
    replaced: tuple[str, ...]
    owner: str

    @property
    def what(self) -> str:
        """Number of files and the folder; without files, only what a failure would put back."""
        if not self.files:
            return f"keep the model as it is placed in {self.folder}"
        return f"place model: {_files(len(self.files))} in {self.folder}"


@dataclass(frozen=True, slots=True)
class StartContainer(Action):
    """Start a container."""

    name: str

    @property
    def what(self) -> str:
        """The container's name."""
        return f"start {self.name}"


@dataclass(frozen=True, slots=True)
class Confirm(Action):
    """Wait until the head answers a real completion, watching every rank."""

    ranks: tuple[tuple[str, str], ...]
    """(node, container name), head first."""

    @property
    def what(self) -> str:
        """What is asked."""
        return "ask for a completion"


@dataclass(frozen=True, slots=True)
class AcceptContainer(Action):
    """Give a confirmed container its final name; the trial name is what says `not confirmed`."""

    name: str
    final_name: str

    @property
    def what(self) -> str:
        """The final name."""
        return f"accept {self.final_name}"


@dataclass(frozen=True, slots=True)
class RetireContainer(Action):
    """Give a superseded container the name that says so; it stays, stopped, for rollback."""

    name: str
    final_name: str

    @property
    def what(self) -> str:
        """The name it keeps."""
        return f"keep {self.final_name}"


@dataclass(frozen=True, slots=True)
class RestoreModel(Action):
    """Put back the files that an interrupted deploy replaced and that are kept as `owner`'s."""

    folder: str
    owner: str

    @property
    def what(self) -> str:
        """The folder."""
        return f"put the replaced model files back in {self.folder}"


@dataclass(frozen=True, slots=True)
class DropModel(Action):
    """Drop replaced model files of pairs that none goes back to any more: `owners`."""

    folder: str
    owners: tuple[str, ...]

    @property
    def what(self) -> str:
        """The folder."""
        return f"drop model files in {self.folder} that an earlier deploy replaced"


@dataclass(frozen=True, slots=True)
class SettleModel(Action):
    """Drop the files that the model's new files replaced, and what else a transfer left.

    But for those that are kept as `keep`'s, if it is not empty.
    """

    folder: str
    keep: str = ""

    @property
    def what(self) -> str:
        """The folder."""
        return f"drop replaced model files in {self.folder}"


@dataclass(frozen=True, slots=True)
class RemoveContainer(Action):
    """Remove a container, running or not."""

    name: str

    @property
    def what(self) -> str:
        """The container's name."""
        return f"remove {self.name}"


AnyAction: TypeAlias = (
    SendModel
    | FetchModel
    | CopyModel
    | PullBase
    | PullImage
    | LoadImage
    | TagImage
    | CreateContainer
    | StopContainer
    | PlaceModel
    | RestoreModel
    | DropModel
    | StartContainer
    | Confirm
    | AcceptContainer
    | RetireContainer
    | SettleModel
    | RemoveContainer
)


@dataclass(frozen=True, slots=True)
class Step:
    """Actions of one phase; on one node in this order, on different nodes at the same time."""

    phase: Phase
    actions: tuple[AnyAction, ...]


@dataclass(frozen=True, slots=True)
class Restore:
    """The generation that has to serve when a plan fails; 0 if there was none.

    `ranks` are its containers as (node, container name), head first; none if it cannot be restored,
    and then `why_not` says why. `restarts` says that some of them do not run now, so that they are
    started even when the plan stopped nothing. `model` gives them back model files that an earlier
    deploy had replaced.
    """

    generation: int = 0
    ranks: tuple[tuple[str, str], ...] = ()
    restarts: bool = False
    why_not: str = ""
    model: tuple[RestoreModel, ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """What has to be done, in order; nothing when the nodes are as wanted.

    `generation` is the one that serves afterwards, and `at` says where its head answers; None for
    where the manifest says. If the plan fails before it is confirmed, the containers of `discard`
    are removed and those of `restore.ranks` have to run; what the plan itself created is removed
    anyway, and what it started and did not create is stopped. `verb` is the task it belongs to, and
    `again` the command that does, or finishes, the same.
    """

    generation: int
    steps: tuple[Step, ...]
    restore: Restore
    discard: tuple[tuple[str, str], ...] = ()
    at: ServingAddress | None = None
    verb: str = "deploy"
    again: str = "inv deploy"

    @property
    def actions(self) -> tuple[AnyAction, ...]:
        """All actions in order."""
        return tuple(action for step in self.steps for action in step.actions)

    @property
    def up_to_date(self) -> bool:
        """Whether there is nothing to do."""
        return not self.steps

    def text(self) -> str:
        """The plan as lines of plain text, a paragraph a phase."""
        if self.up_to_date:
            return f"up to date: generation {self.generation} runs as locked"
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        node_width = max(len(action.node) for action in self.actions)
        what_width = max(len(action.what) for action in self.actions)
        for step in self.steps:
            reasons = {action.reason for action in step.actions}
            shared = len(reasons) == 1
            yield f"{step.phase.value}  ({reasons.pop()})" if shared else step.phase.value
            for action in step.actions:
                line = f"  {action.node:{node_width}}  "
                why = f"{action.what:{what_width}}  ({action.reason})"
                yield line + (action.what if shared else why)

    def as_json(self) -> dict[str, JsonValue]:
        """The plan as a JSON object."""
        return {
            "up_to_date": self.up_to_date,
            "generation": self.generation,
            "steps": [
                {
                    "phase": step.phase.name.lower(),
                    "actions": [action.as_json() for action in step.actions],
                }
                for step in self.steps
            ],
        }


def size_text(size_bytes: int) -> str:
    """A size for people, in powers of 1000: `318 B`, `20.5 kB`, `125.1 GB`."""
    if size_bytes < 1000:  # noqa: PLR2004 - the unit's own factor
        return f"{size_bytes} B"
    size = float(size_bytes)
    unit = "B"
    for unit in ("kB", "MB", "GB", "TB"):  # noqa: B007 - the unit reached is the one wanted
        size /= 1000
        if size < 999.95:  # noqa: PLR2004 - what rounds to 1000.0 belongs to the next unit
            break
    return f"{size:.1f} {unit}"


def _files(count: int) -> str:
    return "1 file" if count == 1 else f"{count} files"
