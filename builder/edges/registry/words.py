"""What a registry says of a failure, fit to be shown."""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

import urllib3

if TYPE_CHECKING:
    from collections.abc import Iterable

    import requests

MAX_BODY_BYTES: Final = 64 * 2**10
_MAX_SHOWN: Final = 300


def said(response: requests.Response, secrets: Iterable[str] = ()) -> str:
    """An answer's status and the registry's own words, in one line; its connection is closed.

    Any of the secrets is blotted out: a server may repeat what it was sent.
    """
    try:
        status = HTTPStatus(response.status_code).phrase
    except ValueError:
        status = _fit(response.reason or "unknown status", secrets)
    words = _fit(_words(_body(response)), secrets)
    head = f"{response.status_code} {status}"
    return f"{head}: {words}" if words.strip() else head


def _fit(text: str, secrets: Iterable[str]) -> str:
    """The start of a text of the server's, in one line, without the secrets."""
    shown = "".join(character if character.isprintable() else " " for character in text)
    for secret in secrets:
        shown = shown.replace(secret, "***")
    return shown[:_MAX_SHOWN]


def _body(response: requests.Response) -> bytes:
    try:
        body: bytes = response.raw.read(MAX_BODY_BYTES, decode_content=True)
    except (urllib3.exceptions.HTTPError, OSError):
        return b""  # the status is what counts
    finally:
        response.close()
    return body


def _words(body: bytes) -> str:
    """The errors of the distribution protocol, or a token server's; nothing of a page."""
    try:
        document = json.loads(body)
        errors = document.get("errors") or [document]
        parts = [[item.get("code"), item.get("message") or item.get("details")] for item in errors]
    except (ValueError, AttributeError, TypeError, RecursionError):
        return ""
    return "; ".join(
        ": ".join(text for text in part if isinstance(text, str) and text) for part in parts
    )
