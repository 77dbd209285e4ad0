"""Is the container made of the locked image, and are its files the locked ones?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from verify.processes import PathFacts
from verify.verdict import Finding, Verdict, not_shown, same, together

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from verify.expected import ExpectedImage
    from verify.parse import ContainerFacts, EngineFacts
    from verify.processes import Inside

_RENEW: Final = (
    "inv deploy; if it finds nothing to change, inv stop --remove (which also removes what is "
    "kept for rollback), then inv deploy"
)
_ABSENT: Final = PathFacts(kind="absent")


def identity(image: ExpectedImage, engine: EngineFacts, container: ContainerFacts) -> Verdict:
    """Whether the engine names the container's image as the lock does.

    A graph driver names an image by its config's digest and the containerd store by its
    manifest's, so one image has two names; which one counts is the engine's to say, not ours.
    """
    store = "containerd store" if engine.containerd_store else "graph driver"
    return same(
        f"image of the running container, as the {store} names it",
        expected=image.manifest_digest if engine.containerd_store else image.config_digest,
        found=container.engine_id,
        remedy=_RENEW,
    )


def layers(image: ExpectedImage, diff_ids: Sequence[str]) -> Verdict:
    """Whether the image is made of the locked layers in the locked order."""
    found, expected = tuple(diff_ids), tuple(image.diff_ids)
    if found == expected:
        return Verdict(evidence=(f"{len(found)} diff_ids, the topmost {found[-1]}",))
    place = next(
        (i for i, (a, b) in enumerate(zip(expected, found, strict=False)) if a != b),
        min(len(expected), len(found)),
    )
    finding = Finding(
        f"the image's layers differ from layer {place} on, counted from 0 at the bottom",
        f"{len(expected)} layers, there {_at(expected, place)}",
        f"{len(found)} layers, there {_at(found, place)}",
        _RENEW,
    )
    return Verdict(evidence=(f"{len(found)} diff_ids",), findings=(finding,))


def _at(items: Sequence[str], place: int) -> str:
    return items[place] if place < len(items) else "none"


def files(image: ExpectedImage, inside: Inside) -> Verdict:
    """Whether every file we put into the image has the locked bytes in the running container."""
    if not image.files:
        return not_shown("the lock adds no file to the base")
    return together(
        same(
            f"SHA-256 of {path}",
            expected=digest,
            found=_sha256(inside.paths.get(path, _ABSENT)),
            remedy=_RENEW,
        )
        for path, digest in sorted(image.files.items())
    )


def _sha256(facts: PathFacts) -> str:
    return facts.sha256 or f"no readable file ({facts.kind})"


def stale_files(image: ExpectedImage, inside: Inside) -> Verdict:
    """Whether the base's files that would shadow ours are gone from the running container."""
    if not image.absent:
        return not_shown("the lock takes no file out of the base")
    return together(
        same(path, expected="absent", found=_kind(inside.paths, path), remedy=_RENEW)
        for path in image.absent
    )


def _kind(paths: Mapping[str, PathFacts], path: str) -> str:
    return paths[path].kind if path in paths else "not looked at"


def executables(image: ExpectedImage, inside: Inside) -> Verdict:
    """Whether each program that a start needs is there, executable, with its interpreter."""
    return together(
        _executable(purpose, path, inside.paths.get(path, _ABSENT))
        for purpose, path in sorted(image.executables.items())
    )


def _executable(purpose: str, path: str, facts: PathFacts) -> Verdict:
    name = f"{purpose} {path}"
    problem = _why_not_executable(facts)
    if not problem:
        return Verdict(evidence=(f"{name}: executable at {facts.resolved}",))
    finding = Finding(
        f"the {name} cannot be started in the running container",
        "an executable file and its interpreter",
        problem,
        "pin a base that has it, or add it with [[image.file]] and mode 0755; then inv lock, "
        "inv build, inv deploy",
    )
    return Verdict(evidence=(f"{name}: {problem}",), findings=(finding,))


def _why_not_executable(facts: PathFacts) -> str:
    if facts.kind != "file":
        return facts.kind
    if not facts.executable:
        return "present, but not executable"
    if facts.interpreter and not facts.interpreter_executable:
        return f"executable, but its interpreter {facts.interpreter} is not"
    return ""
