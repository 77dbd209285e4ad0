"""(wanted, observed) -> how every node gets the locked image."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deploy.actions import LoadImage, PullBase, PullImage, TagImage
from deploy.delivery import UNASKED, Way, route
from deploy.state import RegistryAnswer

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from deploy.actions import AnyAction
    from deploy.state import NodeState, SupplyFacts
    from deploy.wanted import Wanted, WantedImage


def images_of(wanted: Wanted, states: Mapping[str, NodeState]) -> Iterator[AnyAction]:
    """What gives every node the locked image under its tag."""
    image = wanted.image
    for spec in wanted.specs:
        state = states[spec.node]
        if state.image is not None and image.is_image(state.image):
            if state.image.left_over(image.repository):
                yield TagImage(spec.node, "a killed deploy has left another name of it", image)
        elif not image.is_image(state.untagged):
            yield from _bring(spec.node, image, state.supply or UNASKED)
        elif state.image is None:
            yield TagImage(spec.node, "it has lost its tag", image)
        else:
            yield TagImage(spec.node, "the tag names another image", image)


def _bring(node: str, image: WantedImage, supply: SupplyFacts) -> Iterator[AnyAction]:
    chosen = route(image, supply)
    if chosen.base_bytes and supply.registry is not None:
        login = supply.registry.answer is RegistryAnswer.LOGIN
        reason = f"its registry answers the node{', and wants a login' if login else ''}"
        yield PullBase(node, reason, image, chosen.base_bytes, with_login=login)
    if chosen.way is Way.PULL:
        yield PullImage(node, chosen.reason, image, chosen.size_bytes)
    else:
        whole = chosen.way is Way.WHOLE
        yield LoadImage(node, chosen.reason, image, chosen.size_bytes, whole)
