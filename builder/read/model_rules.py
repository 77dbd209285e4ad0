"""Rules about [model]: one origin, and a pin for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from builder.read.problems import Problem, value_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from builder.read.fabric_rules import Rule
    from builder.read.parts import Parts


def the_model_has_one_origin(parts: Parts) -> Iterator[Problem]:
    """The model comes from the Hub or from the repository."""
    model = parts.model
    if model is None or (model.repo is None) != (model.files is None):
        return
    yield Problem(
        ("model",) if model.repo is None else ("model", "files"),
        "the model needs exactly one origin",
        expected="repo with revision (from the Hub), or files (a folder beside the manifest)",
        found="neither" if model.repo is None else "both",
        remedy="add one of them" if model.repo is None else "remove one of them",
    )


def a_repo_has_a_revision(parts: Parts) -> Iterator[Problem]:
    """A repository of the Hub is pinned by commit, and nothing else has a revision."""
    model = parts.model
    if model is None:
        return
    if model.repo is not None and model.revision is None:
        yield Problem(
            ("model", "revision"),
            "missing",
            expected="the commit of the model, 40 hex digits: a branch moves",
            found="nothing",
            remedy=f"add model.revision, a commit of https://huggingface.co/{model.repo}/commits",
        )
    if model.repo is None and model.revision is not None:
        yield Problem(
            ("model", "revision"),
            "a revision without a repository",
            expected="repo beside revision",
            found=value_text(model.revision),
            remedy="add model.repo, or remove model.revision: own files are pinned by their hashes",
        )


def patterns_choose_from_a_repo(parts: Parts) -> Iterator[Problem]:
    """Patterns choose among the files of a repository: a folder of our own is taken whole."""
    model = parts.model
    if model is None or model.repo is not None or model.files is None:
        return
    for key, patterns in (("include", model.include), ("exclude", model.exclude)):
        if patterns:
            yield Problem(
                ("model", key),
                "a pattern without a repository",
                expected="repo beside it",
                found=", ".join(map(value_text, patterns)),
                remedy=f"remove {key}, and from the folder the files that are not wanted",
            )


MODEL_RULES: Final[tuple[Rule, ...]] = (
    the_model_has_one_origin,
    a_repo_has_a_revision,
    patterns_choose_from_a_repo,
)
