"""Where a Python package stands in an image, and which version of it is installed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from builder.digest import Digest

if TYPE_CHECKING:
    from collections.abc import Iterable

    from builder.oci.tree import ImageTree

Read: TypeAlias = Callable[[Digest], bytes]
"""All bytes of a file by its content digest, such as `Blobs.read`."""


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


def find_package(tree: ImageTree, package: str, *, image: str) -> PackageRoot:
    """The one `**/{site,dist}-packages/PACKAGE/__init__.py` of an image.

    `image` is the image as an error names it: `base`, `donor tiny`. Raises PackageNotFoundError
    or PackageAmbiguousError.
    """
    raise NotImplementedError


def installed_version(tree: ImageTree, read: Read, root: PackageRoot, *, image: str) -> str:
    """The version in the METADATA of the package's dist-info, beside the package's folder.

    Raises DistInfoError if there is not exactly one, or if it states no version.
    """
    raise NotImplementedError


def keep_for(packages: Iterable[str], files: Iterable[str] = ()) -> Callable[[str], bool]:
    """Whether a layer reader should keep the content of the file at a tree path.

    True for `*.py` of the packages, for `files` (paths relative to a package's folder, of any
    name), and for METADATA and entry_points.txt of every dist-info.
    """
    raise NotImplementedError
