"""An image recomputed from its bytes: every digest, diff_id and size, trusting no field."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from builder.errors import BuildError
from builder.oci.select import image_of, parse_config, parse_manifest
from builder.oci.stream import checked, drain, plain_tar

if TYPE_CHECKING:
    from builder.errors import Message
    from builder.oci.model import Descriptor, Image, Layer
    from builder.sources import ImageSource


@dataclass(eq=False)
class InvalidImageError(BuildError):
    """An image recomputed from its bytes is not what its documents say."""

    problems: tuple[BuildError, ...]

    @property
    def messages(self) -> tuple[Message, ...]:
        """Every problem's messages."""
        return tuple(message for problem in self.problems for message in problem.messages)


def validate_image(source: ImageSource, manifest: Descriptor) -> Image:
    """The image of a manifest, all of it read and recomputed.

    Raises InvalidImageError with every blob that is wrong; or, since nothing can be read by a
    manifest or config that is wrong itself, the one error of that document.
    """
    parsed = parse_manifest(_raw(source, manifest), place=_place(source, manifest))
    config = parse_config(_raw(source, parsed.config), place=_place(source, parsed.config))
    image = image_of(parsed, config, place=_place(source, manifest))
    problems = []
    for layer in image.layers:
        try:
            _check_layer(source, layer)
        except BuildError as error:
            problems.append(error)
    if problems:
        raise InvalidImageError(tuple(problems))
    return image


def _raw(source: ImageSource, descriptor: Descriptor) -> bytes:
    """A document's bytes, hashed here and not where they come from."""
    with source.open_blob(descriptor) as chunks:
        return b"".join(checked(chunks, descriptor, place=_place(source, descriptor)))


def _check_layer(source: ImageSource, layer: Layer) -> None:
    with source.open_blob(layer.descriptor) as chunks:
        drain(plain_tar(chunks, layer, place=_place(source, layer.descriptor)))


def _place(source: ImageSource, descriptor: Descriptor) -> str:
    return f"{source.place}: {descriptor.digest}"
