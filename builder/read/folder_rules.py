"""The rules for folders that mean one thing: that of vendored files, and those of plugins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from builder.read.problems import Problem, value_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from builder.read.parts import Parts

OWN_PLACES: Final = (".sparklock", "lockfile.json", "cluster.toml")
"""What sparklock itself has beside a manifest: a cache that anybody may delete, and two files."""

_LOCAL: Final = ("oci:", "archive:")


def vendored_files_lie_apart(parts: Parts) -> Iterator[Problem]:
    """Vendored files are no part of anything else: they would be locked with it, or go with it."""
    vendor = parts.vendor
    if vendor is None:
        return
    for what, other in _taken(parts, vendor):
        if f"{vendor}/".startswith(f"{other}/") or f"{other}/".startswith(f"{vendor}/"):
            yield Problem(
                ("image", "vendor"),
                "the folder for vendored files is not one of its own",
                expected=f"a folder apart from {what}",
                found=value_text(vendor),
                remedy="name another folder: inv lock --vendor DIR",
            )


def plugins_are_no_cache(parts: Parts) -> Iterator[Problem]:
    """No plugin's modules lie where sparklock itself writes: the next run would find others."""
    for number, plugin in parts.plugins.items():
        if plugin.source is not None and plugin.source.split("/")[0] == OWN_PLACES[0]:
            yield Problem(
                ("image", "plugin", number, "source"),
                "the plugin's folder is in sparklock's own",
                expected=f"a folder of the repository, apart from {OWN_PLACES[0]}",
                found=value_text(plugin.source),
                remedy="move the modules to a folder of their own",
            )


def _taken(parts: Parts, vendor: str) -> Iterator[tuple[str, str]]:
    """Each place that is taken: in words, and its path."""
    if parts.model is not None and parts.model.files is not None:
        yield f"model.files = {value_text(parts.model.files)}", parts.model.files
    for number, plugin in parts.plugins.items():
        if plugin.source is not None:
            place = f"image.plugin[{number}].source = {value_text(plugin.source)}"
            yield place, plugin.source
    for source in parts.sources.values():
        if source.source.startswith(_LOCAL):
            yield value_text(source.source), source.source.partition(":")[2]
    yield from ((place, place) for place in OWN_PLACES)
    folders = vendor.split("/")
    if ".git" in folders:
        yield "git's own folder", "/".join(folders[: folders.index(".git") + 1])
