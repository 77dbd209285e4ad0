"""The API key, out of the environment of our own process."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from builder.secret import Secret
from deploy.launch_errors import ApiKeyError

if TYPE_CHECKING:
    from builder.manifest import ClusterManifest


def api_key_of(manifest: ClusterManifest) -> Secret | None:
    """The key that the server shall want; None if the manifest names none or it is not set here."""
    name = manifest.serve.api_key_env
    value = os.environ.get(name, "") if name else ""
    return Secret(value) if value else None


def require_api_key(manifest: ClusterManifest) -> None:
    """Nothing, if the key that the manifest wants is here and can be sent; ApiKeyError if not."""
    name, key = manifest.serve.api_key_env, api_key_of(manifest)
    if name is None:
        return
    if key is None:
        found = "an empty text" if name in os.environ else "no such variable"
        raise ApiKeyError(name, found)
    if not (key.value.isascii() and key.value.isprintable()) or " " in key.value:
        raise ApiKeyError(name, "blanks, or characters that no HTTP header carries")
