"""Where a Python package stands in an image, and which version of it is installed."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from email.parser import BytesHeaderParser
from typing import TYPE_CHECKING, Final, TypeAlias

from builder.digest import Digest
from builder.graft.errors import DistInfoError, PackageAmbiguousError, PackageNotFoundError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from builder.oci.tree import Entry, ImageTree

Read: TypeAlias = Callable[[Digest], bytes]
"""All bytes of a file by its content digest, such as `Blobs.read`."""

VLLM: Final = "vllm"
"""The package whose version the lock states; read from every image, grafted or not."""

TRANSFORMERS_TABLES: Final = (
    r"(?:.*/)?transformers/models/auto/(?:configuration_auto|auto_mappings)\.py"
)
"""Where transformers keeps its table of model types, in any folder of an image."""

_SITE = r"(?:.*/)?(?:site|dist)-packages"
_KEPT = re.compile(rf"{_SITE}/[^/]+\.dist-info/(?:METADATA|entry_points\.txt)")


@dataclass(frozen=True, slots=True)
class PackageRoot:
    """A package's folder: `path` is a tree path, `usr/lib/python3/dist-packages/vllm`."""

    package: str
    path: str

    @property
    def site(self) -> str:
        """The tree path of the site-packages or dist-packages folder around the package."""
        return self.path.removesuffix("/" + self.package)

    def file(self, relative: str) -> str:
        """The tree path of a file named relative to the package's folder."""
        return f"{self.path}/{relative}"

    def relative(self, path: str) -> str | None:
        """A tree path relative to the package's folder; None if it is not below it."""
        inside = path.startswith(self.path + "/")
        return path.removeprefix(self.path + "/") if inside else None


def find_package(tree: ImageTree, package: str, *, image: str) -> PackageRoot:
    """The one `**/{site,dist}-packages/PACKAGE/__init__.py` of an image.

    `image` is the image as an error names it: `base`, `donor tiny`. Raises PackageNotFoundError
    or PackageAmbiguousError.
    """
    site = re.compile(_SITE)
    init = re.compile(rf"({_SITE}/{re.escape(package)})/__init__\.py")
    end = f"/{package}/__init__.py"
    paths = [path for path in tree.entries if path.endswith(end)]
    found = sorted(match[1] for path in paths if (match := init.fullmatch(path)))
    if len(found) > 1:
        raise PackageAmbiguousError(image, package, tuple(found))
    if not found:
        sites = sorted(path for path in tree.entries if site.fullmatch(path))
        links = (f"{path}/{package}" for path in sites)
        linked = {path: entry.link for path in links if (entry := tree.get(path)) and entry.link}
        raise PackageNotFoundError(image, package, tuple(sites), linked)
    return PackageRoot(package, found[0])


def installed_version(tree: ImageTree, read: Read, root: PackageRoot, *, image: str) -> str:
    """The version in the METADATA of the package's dist-info, beside the package's folder.

    Raises DistInfoError if there is not exactly one, or if it states no version. Source: core
    metadata, and "Recording installed projects", of the Python Packaging User Guide.
    """
    wanted = re.compile(rf"{re.escape(root.site)}/([^/]+)-[^/-]+\.dist-info/METADATA")
    found: list[Entry] = [
        entry
        for path, entry in sorted(tree.entries.items())
        if (match := wanted.fullmatch(path)) and normal_name(match[1]) == normal_name(root.package)
    ]
    paths = tuple(entry.path for entry in found)
    if len(found) != 1 or found[0].content is None:
        raise DistInfoError(image, root.package, root.site, paths)
    version = BytesHeaderParser().parsebytes(read(found[0].content))["Version"]
    if not version:
        raise DistInfoError(image, root.package, root.site, paths)
    return str(version).strip()


def keep_for(packages: Iterable[str], files: Iterable[str] = ()) -> Callable[[str], bool]:
    """Whether a layer reader should keep the content of the file at a tree path.

    True for `*.py` of the packages, for `files` (paths relative to a package's folder, of any
    name), for METADATA and entry_points.txt of every dist-info, and for the files in which
    transformers lists model types.
    """
    names = "|".join(re.escape(name) for name in sorted(packages)) or r"(?!)"
    inside = re.compile(rf"{_SITE}/(?:{names})/(.+)")
    wanted = frozenset(files)
    tables = re.compile(TRANSFORMERS_TABLES)

    def keep(path: str) -> bool:
        match = inside.fullmatch(path)
        if match and (match[1].endswith(".py") or match[1] in wanted):
            return True
        return _KEPT.fullmatch(path) is not None or tables.fullmatch(path) is not None

    return keep


def normal_name(name: str) -> str:
    """A distribution's name as names are compared (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()
