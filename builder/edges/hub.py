"""What the Hugging Face Hub, or a mirror, says of a model: its newest commit, its files."""

from __future__ import annotations

import json
import re
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from builder.digest import digest_bytes, git_sha1
from builder.edges.hub_errors import (
    HubDamagedError,
    HubError,
    HubFilesError,
    HubUnfitError,
    NoModelFileError,
    refusal,
)
from builder.edges.hub_login import HubLogin, hub_login
from builder.edges.registry.errors import OfflineError, RegistryError
from builder.edges.registry.transport import Transport, host_of, origin
from builder.hub_tree import TreeError, chosen, read_page
from builder.lock import ModelFile

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from builder.edges.registry.transport import Answer
    from builder.hub_tree import HubFile
    from builder.manifest import ModelSection

BRANCH: Final = "main"
CONFIG: Final = "config.json"

MOST_PAGES: Final = 1000
MOST_SMALL_BYTES: Final = 64 * 2**20
"""Of a file that is not in LFS; the Hub itself takes 10 MB."""

_MOST_BYTES: Final = 8 * 2**20
_COMMIT: Final = re.compile(r"[0-9a-f]{40}")
_PARALLEL: Final = 8
_ENDLESS: Final = "a listing without end"
_SAFE: Final = "https, or http on this machine alone"


class Hub:
    """One model on the Hub; `place` is where the manifest names it, for errors."""

    def __init__(self, repo: str, *, place: str) -> None:
        """Read the login; HubAddressError."""
        self.login: HubLogin = hub_login(place, repo)
        self.repo = repo
        self.place = place
        endpoint, token = self.login.endpoint, self.login.token
        plain = endpoint.startswith("http://")
        self.transport = Transport(place, host_of(endpoint), plain_http=plain)
        self._headers = {}
        if token:
            self.transport.secrets.add(token)
            self._headers["Authorization"] = f"Bearer {token}"

    def ask(self, url: str, *, most_bytes: int = _MOST_BYTES) -> Answer:
        """The answer for an address of the endpoint, which alone gets the token; RegistryError."""
        self.transport.require_safe(url, expected=_SAFE)
        same = origin(url) == origin(self.login.endpoint)
        headers = {"Accept": "*/*", **(self._headers if same else {})}
        return self.transport.fetch(url, headers, most_bytes=most_bytes)


def latest_commit(repo: str, *, place: str) -> str:
    """The commit of a model's main branch, 40 hex digits; HubError, or OfflineError.

    HF_ENDPOINT names another server, HF_TOKEN or `hf auth login` logs in, as for Hugging Face's
    own tools.
    """
    hub = Hub(repo, place=place)
    url = f"{hub.login.endpoint}/api/models/{repo}/revision/{BRANCH}"
    try:
        answer = hub.ask(url)
        if answer.response.status_code != HTTPStatus.OK:
            raise HubError(place, repo, hub.transport.said(answer.response))
    except OfflineError:
        raise
    except RegistryError as error:
        raise HubError(place, repo, error.messages[0].found) from error
    return _commit_in(answer.body, place=place, repo=repo)


def _commit_in(body: bytes, *, place: str, repo: str) -> str:
    try:
        commit = json.loads(body)["sha"]
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise HubError(place, repo, f"no JSON with a sha: {body[:80]!r}") from error
    if not isinstance(commit, str) or not _COMMIT.fullmatch(commit):
        raise HubError(place, repo, f"sha = {commit!r}"[:80])
    return commit


def files_at_revision(
    model: ModelSection, *, place: str, told: Callable[[int, int], None]
) -> tuple[tuple[ModelFile, ...], bytes | None]:
    """The wanted files of a model at its revision, sorted by path, and its config.json's bytes.

    The SHA-256 of large files is the Hub's word; small ones are fetched, compared with their Git
    hash and hashed, `told` how many of how many. None where the model has no config.json. Raises
    HubFilesError and what is derived from it, or OfflineError.
    """
    assert model.repo is not None
    assert model.revision is not None
    asked = _Asked(Hub(model.repo, place=place), model.revision)
    listed = asked.tree()
    try:
        files = chosen(listed, model.include, model.exclude)
    except TreeError as error:
        raise HubUnfitError(place, model.repo, model.revision, str(error)) from error
    if not files:
        raise NoModelFileError(place, model.repo, model.revision, "no file fits")
    small = [file for file in files if file.digest is None]
    locked = {file.path: file.digest for file in files if file.digest is not None}
    config = None
    told(0, len(small))
    with ThreadPoolExecutor(_PARALLEL) as pool:
        for number, (file, data) in enumerate(zip(small, pool.map(asked.bytes_of, small)), 1):  # noqa: B905 - of one length
            locked[file.path] = digest_bytes(data)
            config = data if file.path == CONFIG else config
            told(number, len(small))
    return tuple(
        ModelFile(path=file.path, size_bytes=file.size_bytes, digest=locked[file.path])
        for file in files
    ), config


class _Asked:
    """What is asked about one revision."""

    def __init__(self, hub: Hub, revision: str) -> None:
        self._hub = hub
        self._revision = revision

    def tree(self) -> Sequence[HubFile]:
        """All files, page by page; HubFilesError for what is no listing."""
        hub = self._hub
        root = f"{hub.login.endpoint}/api/models/{hub.repo}/tree/{self._revision}"
        url: str | None = f"{root}?recursive=true"
        found: list[HubFile] = []
        seen: set[str] = set()
        while url is not None:
            if url in seen or len(seen) >= MOST_PAGES:
                raise self._failed(HubFilesError, _ENDLESS)
            seen.add(url)
            answer = self._get(url)
            try:
                found += read_page(answer.body)
            except TreeError as error:
                raise self._failed(HubFilesError, str(error)) from error
            url = self._following(url, answer.response.links)
        return found

    def _following(self, url: str, links: Mapping[str, Mapping[str, str]]) -> str | None:
        """The address of the next page, as a page's Link header has it; HubFilesError."""
        following = links.get("next", {}).get("url")
        try:
            return following and self._hub.transport.joined(url, following)
        except RegistryError as error:
            raise self._failed(HubFilesError, error.messages[0].found) from error

    def bytes_of(self, file: HubFile) -> bytes:
        """A small file's bytes, proven; HubDamagedError for others."""
        if file.size_bytes > MOST_SMALL_BYTES:
            raise self._failed(
                HubUnfitError, f"{file.path} has {file.size_bytes} bytes and no SHA-256"
            )
        hub = self._hub
        path = f"{hub.repo}/resolve/{self._revision}/{quote(file.path)}"
        data = self._get(f"{hub.login.endpoint}/{path}", file.size_bytes).body
        found = git_sha1(data)
        if len(data) != file.size_bytes or found != file.git_sha1:
            expected = f"{file.size_bytes} bytes, Git's SHA-1 {file.git_sha1}"
            said = f"{len(data)} bytes, {found}"
            names = (hub.place, hub.repo, self._revision, said)
            raise HubDamagedError(*names, path=file.path, expected=expected)
        return data

    def _get(self, url: str, most_bytes: int = _MOST_BYTES) -> Answer:
        hub = self._hub
        try:
            answer = hub.ask(url, most_bytes=most_bytes)
        except OfflineError:
            raise
        except RegistryError as error:
            raise self._failed(HubFilesError, error.messages[0].found) from error
        response = answer.response
        if response.status_code != HTTPStatus.OK:
            kind = refusal(response.status_code, response.headers.get("X-Error-Code", ""))
            raise self._failed(kind, hub.transport.said(response))
        return answer

    def _failed(self, kind: type[HubFilesError], found: str) -> HubFilesError:
        return kind(self._hub.place, self._hub.repo, self._revision, found)
