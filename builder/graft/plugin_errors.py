"""Why a plugin cannot be put into an image, one class each; `place` is its [[image.plugin]]."""

from __future__ import annotations

from dataclasses import dataclass

from builder.errors import BuildError, Message


@dataclass(eq=False)
class PluginInstalledError(BuildError):
    """The base has a distribution of the plugin's name."""

    place: str
    name: str
    path: str

    template = Message(
        place="{place}",
        what="the base has a distribution of this name",
        expected="a name that is new to it, other than {name}",
        found="/{path}",
        remedy="give the plugin another `name`",
    )


@dataclass(eq=False)
class PluginTargetTakenError(BuildError):
    """A module of the plugin has a name that is taken; `found` is what has it."""

    place: str
    module: str
    found: str

    template = Message(
        place="{place}",
        what="the plugin brings {module}, and that name is taken",
        expected="modules of names that are new to the base",
        found="{found}",
        remedy="rename the module, or the plugin; to change files of the base, use "
        "[[image.patch]], [[image.graft]] or [[image.file]]",
    )
