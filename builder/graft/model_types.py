"""Whether the checkpoint's `model_type` leads to a configuration class in the assembled image."""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import TYPE_CHECKING, Final

from builder.graft.findings import UnknownModelType
from builder.graft.mentions import mentions_of
from builder.graft.packages import TRANSFORMERS_TABLES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from builder.graft.donors import Donors
    from builder.graft.modules import Modules
    from builder.graft.packages import PackageRoot
    from builder.oci.tree import ImageTree

CONFIG: Final = "transformers_utils/config.py"
"""vLLM's table of its own configuration classes, relative to its package's folder."""


def unknown_model_type(
    modules: Modules, root: PackageRoot, tree: ImageTree, model_type: str, donors: Donors
) -> Iterator[UnknownModelType]:
    """The finding for a model type that neither vLLM's table has nor that of transformers.

    Nothing for an image without any such table, or with one whose content is not known: there is
    nothing to tell it by.
    """
    own = root.file(CONFIG)
    others = sorted(path for path in tree.entries if re.fullmatch(TRANSFORMERS_TABLES, path))
    known: set[str] = set()
    looked: list[str] = []
    for path in (own, *others) if model_type and modules.has(own) else ():
        found = modules.fact(mentions_of, path)
        if found is None:
            return
        keys = {entry.key for entry in found.entries if entry.key and "CONFIG" in entry.table}
        known |= keys
        looked += [path] if keys else []
    if looked and model_type not in known:
        near = tuple(get_close_matches(model_type, sorted(known), n=3))
        known_by = donors.entry(root.package, CONFIG, model_type)
        yield UnknownModelType(model_type, tuple(looked), root.package, CONFIG, near, known_by)
