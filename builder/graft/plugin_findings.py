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
    from builder.manifest import Plugin


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
            remedy=f"add {self.name} to VLLM_PLUGINS in [image.config] env",
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
    plugins: Sequence[Plugin], allowed: str | None, place: Callable[[str], str]
) -> Iterator[PluginNotLoaded]:
    """The plugins that VLLM_PLUGINS leaves out; `allowed` is its value, None if it is not set."""
    names = None if allowed is None else allowed.split(",")
    for index, plugin in enumerate(plugins):
        if names is not None and plugin.name not in names:
            yield PluginNotLoaded(place(f"image.plugin[{index}]"), plugin.name, allowed or "")
