"""The commit that a model's main branch has now, asked of the Hugging Face Hub or a mirror."""

from __future__ import annotations

import json
import os
import re
from contextlib import suppress
from http import HTTPStatus
from typing import Final

from builder.edges.hub_errors import HubError
from builder.edges.registry.errors import OfflineError, RegistryError
from builder.edges.registry.transport import Transport, host_of, origin

ENDPOINT: Final = "HF_ENDPOINT"
TOKEN: Final = "HF_TOKEN"  # noqa: S105 - the name of the variable
HUB: Final = "https://huggingface.co"
BRANCH: Final = "main"

_MOST_BYTES: Final = 8 * 2**20
_COMMIT: Final = re.compile(r"[0-9a-f]{40}")
_TOKEN: Final = re.compile(r"[\x21-\x7e]+")
_ADDRESS: Final = re.compile(r"https?://[^\s/?#@]+(?:/[^\s?#]*)?")


def latest_commit(repo: str, *, place: str) -> str:
    """The commit of a model's main branch, 40 hex digits; HubError, or OfflineError.

    HF_ENDPOINT names another server, HF_TOKEN logs in, as for Hugging Face's own tools.
    """
    endpoint = _endpoint(place, repo)
    transport = Transport(place, host_of(endpoint), plain_http=endpoint.startswith("http://"))
    headers = {"Accept": "application/json"}
    token = os.environ.get(TOKEN)
    if token:
        if not _TOKEN.fullmatch(token):
            raise HubError(place, repo, f"{TOKEN} is no token: it has a space or a foreign letter")
        transport.secrets.add(token)
        headers["Authorization"] = f"Bearer {token}"
    url = f"{endpoint}/api/models/{repo}/revision/{BRANCH}"
    try:
        transport.require_safe(url, expected="https, or http on this machine alone")
        answer = transport.fetch(url, headers, most_bytes=_MOST_BYTES)
        if answer.response.status_code != HTTPStatus.OK:
            raise HubError(place, repo, transport.said(answer.response))
    except OfflineError:
        raise
    except RegistryError as error:
        raise HubError(place, repo, error.messages[0].found) from error
    return _commit_in(answer.body, place=place, repo=repo)


def _endpoint(place: str, repo: str) -> str:
    """The server to ask, without a slash at its end; HubError for what is no address."""
    endpoint = (os.environ.get(ENDPOINT) or HUB).rstrip("/")
    with suppress(ValueError):
        if _ADDRESS.fullmatch(endpoint) and origin(endpoint):
            return endpoint
    shown = endpoint.rpartition("@")[2]  # what precedes may be a password
    raise HubError(place, repo, f"{ENDPOINT} is no address: {shown!r}")


def _commit_in(body: bytes, *, place: str, repo: str) -> str:
    try:
        commit = json.loads(body)["sha"]
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise HubError(place, repo, f"no JSON with a sha: {body[:80]!r}") from error
    if not isinstance(commit, str) or not _COMMIT.fullmatch(commit):
        raise HubError(place, repo, f"sha = {commit!r}"[:80])
    return commit
