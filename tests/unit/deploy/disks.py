"""The model's folder of a node on paper: what is in place, beside it, and kept for a failure."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from deploy import actions
from deploy.state import ModelFileFacts

if TYPE_CHECKING:
    from collections.abc import Iterable

    from builder.digest import Digest
    from builder.lock import ModelFile
    from deploy.actions import AnyAction, PlaceModel
    from deploy.state import NodeState
    from deploy.wanted import Wanted


@dataclass
class Disk:
    """Digests of files by path: in place, in the inbox, and kept, each for the pair it is of."""

    places: dict[str, Digest]
    inbox: dict[tuple[str, Digest], None] = field(default_factory=dict)
    kept: dict[str, dict[str, Digest]] = field(default_factory=lambda: defaultdict(dict))

    def perform(self, action: AnyAction) -> None:  # noqa: C901 - one case per kind of action
        """What an action does to the folder, as deploy.edges.model does it."""
        match action:
            case actions.SendModel() | actions.FetchModel() | actions.CopyModel():
                self.inbox |= dict.fromkeys(_marks(action.files))
            case actions.PlaceModel():
                for path in action.replaced:
                    self.kept[action.owner].setdefault(path, self.places[path])
                for mark in _marks(action.files):
                    self.places[mark[0]] = mark[1]
                    del self.inbox[mark]
            case actions.RestoreModel():
                self._put_back(action.owner)
            case actions.DropModel():
                for owner in action.owners:
                    self.kept.pop(owner, None)
            case actions.SettleModel():
                self.inbox.clear()
                for owner in set(self.kept) - {action.keep}:
                    del self.kept[owner]
            case _:
                pass

    def restore(self, action: PlaceModel) -> None:
        """What a failed plan does about a placing that was begun."""
        for path, digest in _marks(action.files):
            if (path, digest) not in self.inbox:
                self.inbox[path, digest] = None
                del self.places[path]
        self._put_back(action.owner)

    def _put_back(self, owner: str) -> None:
        self.places |= self.kept.pop(owner, {})

    def has(self, files: Iterable[ModelFile]) -> bool:
        """Whether all these files are in place."""
        return all(self.places.get(path) == digest for path, digest in _marks(files))

    def shown(self, goal: Wanted, state: NodeState) -> NodeState:
        """A node's state with what is seen of this folder."""
        return replace(
            state,
            model_files=tuple(
                ModelFileFacts(f.path, f.size_bytes, self.places[f.path])
                for f in goal.model_files
                if f.path in self.places
            ),
            model_staged=frozenset(
                f.path for f in goal.model_files if (f.path, f.digest) in self.inbox
            ),
            model_kept=frozenset(owner for owner, files in self.kept.items() if files),
            model_transfer=bool(self.inbox or any(self.kept.values())),
        )


def _marks(files: Iterable[ModelFile]) -> list[tuple[str, Digest]]:
    return [(file.path, file.digest) for file in files]
