"""A model of the Hub in the lock: its files asked once, and taken from the lock afterwards."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from builder.checkpoint import checkpoint_in
from builder.inputs import sources_of
from builder.reuse import is_same_model

if TYPE_CHECKING:
    from builder.asked import Wanted
    from builder.lock import LockedModel
    from builder.progress import Progress


def with_hub_model(wanted: Wanted, before: LockedModel | None, progress: Progress) -> Wanted:
    """What is wanted, with the files of a model of the Hub; a model of our own stays as it is.

    Nothing is asked when `before`, the model as it was locked, is the same. Raises HubFilesError
    and CheckpointConfigError.
    """
    model = wanted.manifest.model
    if model.repo is None:
        return wanted
    if any(source.digest is None for source in sources_of(wanted.manifest).values()):
        return wanted  # resolving says which: the pins come first, and need no Hub
    if before is not None and is_same_model(model, before):
        return replace(
            wanted,
            model_files=before.files,
            architectures=before.architectures,
            model_type=before.model_type,
        )
    from builder.edges.hub import files_at_revision  # noqa: PLC0415 - HTTP and TLS are slow to import

    progress.stage(f"ask for the files of {model.repo}")
    files, config = files_at_revision(
        model,
        place=wanted.place("model.repo"),
        told=lambda done, total: progress.advance("small files of the model", done, total),
    )
    if config is None:
        return replace(wanted, model_files=files)
    architectures, model_type = checkpoint_in(config, f"{model.repo}: config.json")
    return replace(wanted, model_files=files, architectures=architectures, model_type=model_type)
