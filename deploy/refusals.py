"""Why an engine could not start a container, told from its own words."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

ENTRYPOINT: Final = (
    "its entrypoint and node_script of [serve] come from two images, or one is missing: `[[image."
    "file]]` adds the script, [image.config] sets entrypoint and working_dir; then inv build"
)

KNOWN: Final[Sequence[tuple[re.Pattern[str], str, str]]] = tuple(
    (re.compile(pattern), what, remedy)
    for pattern, what, remedy in (
        (
            r"stat (?P<name>[^:\s]+): no such file or directory",
            "the image has no {name}, or not where its working directory is",
            ENTRYPOINT,
        ),
        (
            r'exec: "(?P<name>[^"]+)": executable file not found',
            "the image has no program {name}",
            ENTRYPOINT,
        ),
        (
            r"exec (?P<name>\S+): (?:no such file or directory|exec format error)",
            "{name} is there, and what interprets or runs it is not of this image or platform",
            "see the first line of the script, and that the image is of the node's architecture",
        ),
        (
            r'exec: "(?P<name>[^"]+)": permission denied',
            "{name} may not be executed",
            'give the file mode = "0755" in [[image.file]], then inv build',
        ),
        (
            r"unsatisfied condition: (?P<name>[^,\s]+)",
            "the image wants {name}, and the node's driver has less",
            'update the driver, or set NVIDIA_REQUIRE_CUDA = "" in [container].env',
        ),
        (
            r"could not select device driver",
            "the engine has no runtime for GPUs",
            "install nvidia-container-toolkit on the node, then: nvidia-ctk runtime configure",
        ),
        (
            r'error gathering device information.*"(?P<name>/dev/infiniband/[^"]+)"',
            "the node's RDMA devices have other files than at the container's making: no {name}",
            "inv stop --remove, then inv deploy: containers are made anew, with the files of now",
        ),
        (
            r'error gathering device information.*"(?P<name>/[^"]+)"',
            "the node has no device {name}",
            "load the RDMA driver on the node, or correct devices of [container]",
        ),
        (
            r"bind source path does not exist: (?P<name>\S+)",
            "the node has no {name}, which the container mounts",
            "correct mounts of [container], or make the folder on the node",
        ),
        (
            r"no space left on device",
            "the node's disk is full",
            "make room on the node: df -h, docker system df",
        ),
    )
)


def refusal(said: str) -> tuple[str, str] | None:
    """What an engine's refusal to start a container means, and what to do; None if unknown."""
    for pattern, what, remedy in KNOWN:
        found = pattern.search(said)
        if found:
            return what.format_map(found.groupdict()), remedy
    return None
