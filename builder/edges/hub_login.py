"""Where the Hugging Face Hub is, and the token for it: as Hugging Face's own tools have them."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from builder.edges.hub_errors import HubAddressError
from builder.edges.registry.transport import origin

if TYPE_CHECKING:
    from collections.abc import Iterator

ENDPOINT: Final = "HF_ENDPOINT"
TOKENS: Final = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN")
HUB: Final = "https://huggingface.co"

_TOKEN: Final = re.compile(r"[\x21-\x7e]+")
_ADDRESS: Final = re.compile(r"https?://[^\s/?#@]+(?:/[^\s?#]*)?")
_MOST_TOKEN_BYTES: Final = 4096


@dataclass(frozen=True, slots=True)
class HubLogin:
    """A server without a slash at its end, and the token for it; None where there is none."""

    endpoint: str
    token: str | None = field(repr=False)


def hub_login(place: str, repo: str) -> HubLogin:
    """The server in HF_ENDPOINT, or the Hub, with the token of HF_TOKEN or of `hf auth login`.

    HubAddressError for what is no address, or no token; it quotes neither password nor token.
    """
    return HubLogin(_endpoint(place, repo), _token(place, repo))


def _endpoint(place: str, repo: str) -> str:
    endpoint = (os.environ.get(ENDPOINT) or HUB).rstrip("/")
    with suppress(ValueError):
        if _ADDRESS.fullmatch(endpoint) and origin(endpoint):
            return endpoint
    shown = endpoint.rpartition("@")[2]  # what precedes may be a password
    raise HubAddressError(place, repo, f"{ENDPOINT} is no address: {shown!r}")


def _token(place: str, repo: str) -> str | None:
    for name, token in _tokens():
        if not token:
            continue
        if not _TOKEN.fullmatch(token):
            said = f"{name} is no token: it has a space or a foreign letter"
            raise HubAddressError(place, repo, said)
        return token
    return None


def _tokens() -> Iterator[tuple[str, str]]:
    """Every place where a token can be, the first one first."""
    for name in TOKENS:
        yield name, os.environ.get(name, "")
    path = _token_file()
    with suppress(OSError), path.open("rb") as file:
        yield str(path), file.read(_MOST_TOKEN_BYTES).decode(errors="replace").strip()


def _token_file() -> Path:
    """The file that `hf auth login` writes."""
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    home = os.environ.get("HF_HOME") or f"{cache}/huggingface"
    return Path(os.environ.get("HF_TOKEN_PATH") or f"{home}/token").expanduser()
