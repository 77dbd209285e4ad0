"""Whether the plugins of an image register: their classes exist, and vLLM loads them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from builder.errors import Message
from builder.graft.registrations import missing_class

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from builder.graft.donors import Donors
    from builder.graft.findings import MissingClass
    from builder.graft.modules import Modules
    from builder.graft.packages import PackageRoot
    from builder.image_section import Plugin


@dataclass(frozen=True, slots=True)
class PluginNotLoaded:
    """VLLM_PLUGINS leaves a plugin out."""

    place: str
    name: str
    allowed: str

    @property
    def message(self) -> Message:
        """The variable's value and the plugin's name."""
        return Message(
            place=self.place,
            what="vLLM will not load this plugin",
            expected=f"{self.name} in VLLM_PLUGINS, or no such variable",
            found=f"VLLM_PLUGINS = {self.allowed!a}",
            remedy=f"add {self.name} to VLLM_PLUGINS, in the env of [image.config], [container] "
            "or the node that sets it",
        )


def unmet_plugins(
    modules: Modules,
    root: PackageRoot,
    plugins: Sequence[Plugin],
    place: Callable[[str], str],
    donors: Donors,
) -> Iterator[MissingClass]:
    """What plugins register although its class is not in the assembled image, in their order."""
    for index, plugin in enumerate(plugins):
        where = place(f"image.plugin[{index}]")
        for key, value in plugin.register_.items():
            module, _, name = value.partition(":")
            at = f"{where}.register.{key}"
            yield from missing_class(modules, root, (at, key, (module, name)), donors)


def plugins_not_loaded(
    plugins: Sequence[Plugin], allowed: Sequence[str], place: Callable[[str], str]
) -> Iterator[PluginNotLoaded]:
    """The plugins that VLLM_PLUGINS leaves out; `allowed` are its values, if it is set at all."""
    for index, plugin in enumerate(plugins):
        for names in allowed:
            if plugin.name not in names.split(","):
                yield PluginNotLoaded(place(f"image.plugin[{index}]"), plugin.name, names)
