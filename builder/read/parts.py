"""The valid pieces of a manifest, so that rules between fields run beside errors of other fields.

A manifest with one wrong value would otherwise hide every broken rule until that value is mended,
and a person would mend and run once per problem.
"""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel, ValidationError

from builder.image_section import Accept, Graft, OwnFile, Patch, Plugin, Register, Source
from builder.manifest import ClusterManifest, Fabric, ModelSection, Mount, ServeSection
from builder.read.problems import MISSING, nearest_key, unknown_keys, value_at

if TYPE_CHECKING:
    from collections.abc import Mapping

    from builder.read.lines import Loc

M = TypeVar("M", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Parts:
    """What of a manifest is valid; pieces of a list by their position in it.

    Names that the file merely mentions are here whether or not what they name is valid, so that a
    slip inside of a donor is not told again as a donor that is not there.
    """

    sources: Mapping[Loc, Source]
    donors: frozenset[str]
    graft_count: int
    graft_donors: Mapping[int, str]
    grafts: Mapping[int, Graft]
    registers: Mapping[int, Register]
    patches: Mapping[int, Patch]
    plugins: Mapping[int, Plugin]
    files: Mapping[int, OwnFile]
    accepts: Mapping[int, Accept]
    model: ModelSection | None
    vendor: str | None
    serve: ServeSection | None
    mounts: Mapping[int, Mount]
    shared_env: frozenset[str]
    node_envs: Mapping[int, Mapping[str, Any]]
    node_names: Mapping[int, str]
    fabrics: Mapping[int, Fabric]
    without_fabric: tuple[int, ...]
    node_count: int


def parts_of(document: dict[str, Any], error: ValidationError | None = None) -> Parts:
    """The valid pieces of a document; `error` is what validating all of it raised, if it did."""
    if error is not None:
        document = _as_meant(document, error)
    nodes = _list(document, ("nodes",))
    grafts = _list(document, ("image", "graft"))
    return Parts(
        sources=_sources(document),
        donors=frozenset(_table(document, ("image", "donors"))),
        graft_count=len(grafts) or int(value_at(document, ("image", "graft")) not in (MISSING, [])),
        graft_donors=_texts(grafts, "donor"),
        grafts=_valid_items(Graft, grafts),
        registers=_valid_items(Register, _list(document, ("image", "register"))),
        patches=_valid_items(Patch, _list(document, ("image", "patch"))),
        plugins=_valid_items(Plugin, _list(document, ("image", "plugin"))),
        files=_valid_items(OwnFile, _list(document, ("image", "file"))),
        accepts=_valid_items(Accept, _list(document, ("image", "accept"))),
        model=_valid(ModelSection, _table(document, ("model",))),
        vendor=_texts([_table(document, ("image",))], "vendor").get(0),
        serve=_valid(ServeSection, _table(document, ("serve",))),
        mounts=_valid_items(Mount, _list(document, ("container", "mounts"))),
        shared_env=frozenset(_table(document, ("container", "env"))),
        node_envs={
            number: _table(node, ("env",))
            for number, node in enumerate(nodes)
            if isinstance(node, dict)
        },
        node_names=_texts(nodes, "name"),
        fabrics=_valid_items(Fabric, [value_at(node, ("fabric",)) for node in nodes]),
        without_fabric=tuple(
            number
            for number, node in enumerate(nodes)
            if isinstance(node, dict) and "fabric" not in node
        ),
        node_count=len(nodes),
    )


def _as_meant(document: dict[str, Any], error: ValidationError) -> dict[str, Any]:
    """The document with each unknown key renamed to the one that was probably meant, or gone.

    Otherwise `revison = …` would be told twice: as an unknown key, and as a missing revision.
    """
    meant = copy.deepcopy(document)
    for loc in unknown_keys(error):
        near = nearest_key(ClusterManifest, meant, loc)
        table = _table(meant, loc[:-1])
        value = table.pop(str(loc[-1]))
        if near is not None:
            table[near] = value
    return meant


def _table(document: object, loc: Loc) -> dict[str, Any]:
    value = value_at(document, loc)
    return value if isinstance(value, dict) else {}


def _list(document: object, loc: Loc) -> list[Any]:
    value = value_at(document, loc)
    return value if isinstance(value, list) else []


def _sources(document: object) -> dict[Loc, Source]:
    """The valid sources by their place: the base's and every donor's."""
    donors = (("image", "donors", name) for name in _table(document, ("image", "donors")))
    places: list[Loc] = [("image", "base"), *donors]
    found = ((loc, _valid(Source, value_at(document, loc))) for loc in places)
    return {loc: source for loc, source in found if source is not None}


def _texts(tables: list[Any], key: str) -> dict[int, str]:
    """The text that each of the tables has for a key, valid or not."""
    values = ((number, value_at(table, (key,))) for number, table in enumerate(tables))
    return {number: value for number, value in values if isinstance(value, str)}


def _valid(model: type[M], value: object) -> M | None:
    """The piece as validated in the mode of the whole document; None if it is not valid."""
    if not isinstance(value, dict):
        return None
    try:
        return model.model_validate_json(json.dumps(value))
    except ValidationError:
        return None


def _valid_items(model: type[M], values: list[Any]) -> dict[int, M]:
    pieces = ((number, _valid(model, value)) for number, value in enumerate(values))
    return {number: piece for number, piece in pieces if piece is not None}
