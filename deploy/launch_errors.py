"""What can keep a rank's container from being made as the manifest wants it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from builder.errors import ManifestError, Message
from deploy.node_errors import OneNodeError

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(eq=False)
class ApiKeyError(ManifestError):
    """The variable named by [serve] api_key_env holds no key; `found` tells what, not the value."""

    template = Message(
        place="cluster.toml: serve.api_key_env",
        what="the API key cannot be had from the variable {name}",
        expected="the key that clients send, printable ASCII without blanks",
        found="{found}",
        remedy="export {name}=… before inv deploy, or remove api_key_env to want no key",
    )

    name: str
    found: str


class RdmaFileMissingError(OneNodeError):
    """RDMA devices of a node have no file below /dev/infiniband; `known` are those that have."""

    def __init__(self, node: str, hcas: Sequence[str], known: Sequence[str]) -> None:
        super().__init__(node)
        self.hcas = tuple(hcas)
        self.known = tuple(known)

    @property
    def messages(self) -> tuple[Message, ...]:
        """A message for each device."""
        return tuple(
            Message(
                place=f"node {self.node}, {hca}",
                what="the RDMA device cannot be given to a container",
                expected="/dev/infiniband/uverbsN, which /sys/class/infiniband_verbs names for it",
                found=", ".join(self.known) or "no such file for any device",
                remedy="on the node: modprobe ib_uverbs, and check hcas of the node in "
                "cluster.toml (ibdev2netdev lists them)",
            )
            for hca in self.hcas
        )
