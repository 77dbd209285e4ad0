"""The plugins of a manifest and of a lock: what is recorded of them, and the files made of that."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING

from builder.digest import digest_bytes
from builder.graft.packages import normal_name
from builder.graft.plugin import OwnModule, make_plugin
from builder.graft.plugin_errors import PluginInstalledError, PluginTargetTakenError
from builder.lock import LockedFile, LockedMade, LockedPlugin, LockedRegistration

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from builder.asked import Wanted
    from builder.image_section import Plugin
    from builder.oci.tree import ImageTree

MADE_MODE = "0644"


def plugin_record(
    name: str, folder: str, models: Mapping[str, str], files: Sequence[LockedFile]
) -> tuple[LockedPlugin, dict[str, bytes]]:
    """What a lock says of a plugin, and the files made for it by their absolute path.

    `folder` is the absolute path of the site folder, and `files` are the plugin's own modules.
    """
    own = [
        OwnModule(file.target.removeprefix(f"{folder}/"), file.digest, file.size_bytes)
        for file in files
    ]
    made = make_plugin(name, models, own)
    written = {f"{folder}/{path}": data for path, data in made.files.items()}
    record = LockedPlugin(
        name=name,
        version=made.version,
        folder=folder,
        entries=tuple(LockedRegistration(key=key, value=models[key]) for key in models),
        files=tuple(files),
        made=tuple(
            LockedMade(
                target=target, mode=MADE_MODE, size_bytes=len(data), digest=digest_bytes(data)
            )
            for target, data in written.items()
        ),
    )
    return record, written


def plugin_remade(plugin: LockedPlugin) -> tuple[LockedPlugin, dict[str, bytes]]:
    """As plugin_record, from the values of the record that are not made."""
    models = {entry.key: entry.value for entry in plugin.entries}
    return plugin_record(plugin.name, plugin.folder, models, plugin.files)


def place_plugins(
    wanted: Wanted, tree: ImageTree, site: str
) -> tuple[tuple[LockedPlugin, dict[str, bytes]], ...]:
    """Each plugin of the manifest as plugin_record has it.

    `site` is the tree path of the folder around the base's vllm. Raises PluginInstalledError or
    PluginTargetTakenError.
    """
    found = []
    taken = _taken(tree, site)
    for index, asked in enumerate(wanted.manifest.image.plugins):
        place = wanted.place(f"image.plugin[{index}]")
        files = _own_modules(wanted, asked, site)
        record, made = plugin_record(asked.name, f"/{site}", asked.register_, files)
        _refuse_installed(tree, site, asked.name, place)
        for top in _tops(record, site):
            name = _imported_as(top)
            if name in taken:
                raise PluginTargetTakenError(place, top, taken[name])
            taken[name] = f"the plugin {asked.name}"
        found.append((record, made))
    return tuple(found)


def _own_modules(wanted: Wanted, asked: Plugin, site: str) -> tuple[LockedFile, ...]:
    """The files below the plugin's folder, each where it goes."""
    start = f"{asked.source}/"
    return tuple(
        LockedFile(
            source=source,
            target=f"/{site}/{source.removeprefix(start)}",
            mode=MADE_MODE,
            size_bytes=file.size_bytes,
            digest=file.digest,
        )
        for source, file in sorted(wanted.own_files.items())
        if asked.source is not None and source.startswith(start)
    )


def _tops(record: LockedPlugin, site: str) -> list[str]:
    """The names that a plugin brings into the site folder, each once.

    A module of the plugin's own that has the name of the one that registers is two of one name.
    """
    own = {file.target.removeprefix(f"/{site}/").partition("/")[0] for file in record.files}
    made = {file.target.removeprefix(f"/{site}/").partition("/")[0] for file in record.made}
    return sorted([*own, *made])


def _taken(tree: ImageTree, site: str) -> dict[str, str]:
    """Every name by which Python imports something else than a plugin's module, and what that is.

    The standard library comes before the site folder, a package before a module of its name, and
    a module before a folder that is no package.
    """
    taken = dict.fromkeys(sys.stdlib_module_names, "Python's standard library")
    start = f"{site}/"
    for path in tree.entries:
        top = path.removeprefix(start)
        if path.startswith(start) and "/" not in top:
            taken[_imported_as(top)] = f"/{path} of the base"
    return taken


def _imported_as(top: str) -> str:
    """The name by which Python imports what stands in a site folder, or its own name."""
    return top.partition(".")[0] if top.endswith((".py", ".so")) else top


def _refuse_installed(tree: ImageTree, site: str, name: str, place: str) -> None:
    info = re.compile(rf"{re.escape(site)}/([^/]+)-[^/-]+\.(?:dist-info|egg-info)")
    for path in tree.entries:
        match = info.fullmatch(path)
        if match is not None and normal_name(match[1]) == name:
            raise PluginInstalledError(place, name, path)
