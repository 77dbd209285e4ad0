"""Names of images in registries: `HOST[:PORT]/NAME[:TAG][@DIGEST]`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import IPv4Address
from typing import Final

from builder.digest import Digest

_LABEL = r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?"
_PART = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_REFERENCE: Final = re.compile(
    rf"(?P<host>localhost|{_LABEL}(?:\.{_LABEL})+|{_LABEL}(?=:))(?::(?P<port>[0-9]{{1,5}}))?"
    rf"/(?P<repository>{_PART}(?:/{_PART})*)"
    r"(?::(?P<tag>[A-Za-z0-9_][A-Za-z0-9._-]{0,127}))?(?:@(?P<digest>sha256:[0-9a-f]{64}))?\Z"
)
_MAX_PORT: Final = 65_535
DOCKER_HUB: Final = frozenset({"docker.io", "index.docker.io"})


@dataclass(frozen=True, slots=True)
class ImageReference:
    """An image in a registry; `host` has the port, if one is written.

    There is no search through registries: a name without a host is none. Only behind `docker.io/` a
    name of one part means `library/NAME`, as everywhere.
    """

    host: str
    repository: str
    tag: str | None = None
    digest: Digest | None = None

    @classmethod
    def parse(cls, text: str) -> ImageReference:
        """The reference in the text; ValueError if it is none."""
        match = _REFERENCE.match(text)
        if match is None or int(match["port"] or 0) > _MAX_PORT:
            raise ValueError(text)
        host, repository = match["host"], match["repository"]
        if host in DOCKER_HUB and "/" not in repository:
            repository = f"library/{repository}"
        return cls(
            host=f"{host}:{match['port']}" if match["port"] else host,
            repository=repository,
            tag=match["tag"],
            digest=Digest(match["digest"]) if match["digest"] else None,
        )

    @property
    def is_on_loopback(self) -> bool:
        """Whether the registry is on this machine, where plain HTTP is enough."""
        return is_loopback(self.host.partition(":")[0])


def is_loopback(host: str) -> bool:
    """Whether a host, without port, is this machine by name or IPv4 address."""
    try:
        return host == "localhost" or IPv4Address(host).is_loopback
    except ValueError:
        return False
