"""Model files that a deploy has replaced: whose they are, and what becomes of them.

They are kept on the node until the new pair has served, each under its owner's name. A deploy that
is killed leaves them there, before it served or after. So whoever comes next has to know whose
they are: those of the pair that it would restore go back, those of an earlier one never do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from builder.digest import NotADigestError, hex_of, parse_digest
from deploy.actions import DropModel, RestoreModel
from deploy.state import KeptModel

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from deploy.generations import Generation
    from deploy.state import NodeState
    from deploy.wanted import Wanted

NOBODY: Final = "nobody"
"""The owner of replaced files that are of no pair that could be restored."""


def owner(pair: Generation | None) -> str:
    """Whose a model's files are: a name for the model of a pair, NOBODY if none is known."""
    if pair is None:
        return NOBODY
    try:
        return hex_of(parse_digest(pair.model_digest))[:12]
    except NotADigestError:  # its label was never written, or by somebody else
        return NOBODY


def owner_beside(pair: Generation | None, wanted: Wanted) -> str:
    """Whose the files are that the wanted model's files replace, when a pair has served before.

    NOBODY's where the pair has the same model: what is replaced is damaged.
    """
    same = pair is not None and pair.model_digest == wanted.model_digest
    return NOBODY if same else owner(pair)


def kept_by(wanted: Wanted, states: Mapping[str, NodeState]) -> dict[str, KeptModel]:
    """What every node keeps of replaced files."""
    nodes = wanted.manifest.nodes
    path = wanted.manifest.model_path
    return {node.name: KeptModel(path(node), states[node.name].model_kept) for node in nodes}


def put_back(pair: Generation, kept: Mapping[str, KeptModel]) -> Iterator[RestoreModel]:
    """What gives a pair its files back that a deploy replaced and was killed before it served."""
    for node, model in kept.items():
        if owner(pair) in model.owners - {NOBODY}:
            yield RestoreModel(node, "a deploy was interrupted", model.folder, owner(pair))


def outlived(pair: Generation | None, kept: Mapping[str, KeptModel]) -> Iterator[DropModel]:
    """What drops the replaced files of others than the pair that was confirmed last.

    Nothing goes back to them, and they may be as large as the model.
    """
    for node, model in kept.items():
        others = tuple(sorted(model.owners - {owner(pair)}))
        if others:
            yield DropModel(node, "what replaced them has served", model.folder, others)
