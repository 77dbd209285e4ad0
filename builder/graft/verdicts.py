"""Verdicts of the closure check that are kept, so that nothing is parsed when nothing changed.

A verdict is found again by a digest over all that it depends on: every module of the packages in
base, image and donors, what is registered, and the checker itself. One that is damaged, or belongs
to something else, counts as none: the check is then made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from builder.digest import digest_bytes
from builder.graft.records import UnknownRecordError, ascii_json, read_findings, write_findings
from builder.oci.tree import Kind

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from builder.digest import Digest, JsonValue
    from builder.graft.findings import Finding
    from builder.oci.tree import ImageTree


class Verdicts(Protocol):
    """Where verdicts are kept."""

    @property
    def checker(self) -> str:
        """A digest of everything that makes a verdict."""

    def read(self, key: Digest) -> bytes | None:
        """What was kept under a key; None if nothing was, or it cannot be read."""

    def write(self, key: Digest, data: bytes) -> None:
        """Keep bytes under a key, if that can be done."""


def verdict_key(checker: str, facts: JsonValue, trees: Mapping[str, ImageTree]) -> Digest:
    """The digest over all that a verdict depends on."""
    modules: dict[str, JsonValue] = {name: _modules(tree) for name, tree in trees.items()}
    return digest_bytes(ascii_json({"checker": checker, "facts": facts, "trees": modules}))


def kept_verdict(verdicts: Verdicts, key: Digest) -> tuple[Finding, ...] | None:
    """The findings that were kept under a key; None if they were not, or are damaged."""
    data = verdicts.read(key)
    if data is None:
        return None
    head, _, body = data.partition(b"\n")
    if head != _head(key, body):
        return None
    try:
        return read_findings(body)
    except UnknownRecordError:
        return None


def keep_verdict(verdicts: Verdicts, key: Digest, found: Iterable[Finding]) -> None:
    """Keep the findings of a check."""
    body = write_findings(found)
    verdicts.write(key, _head(key, body) + b"\n" + body)


def _head(key: Digest, body: bytes) -> bytes:
    """What ties a body to its key: either changed, it no longer fits."""
    return digest_bytes(key.encode() + b"\n" + body).encode()


def _modules(tree: ImageTree) -> str:
    """A digest over what decides how imports resolve in a tree.

    Those are folders, links, compiled modules and the contents of all sources that were kept.
    """
    parts = [
        f"{path}\0{entry.kind.value}\0{entry.link}\0{entry.content}"
        for path, entry in tree.entries.items()
        if entry.kind is not Kind.FILE or entry.content is not None or path.endswith(_MODULES)
    ]
    # no path or link has a NUL, but each may have a line end
    return digest_bytes("\0".join(sorted(parts)).encode(errors="surrogateescape"))


_MODULES = (".py", ".so", ".pth", ".egg-link")
