"""What an engine is asked and nothing more: GET requests over its unix socket.

The docker package takes a quarter of a second of processor time to import, more than all of a look
at two nodes. So looking is done without it: Docker Engine API 1.41, whose paths need no version.
"""

from __future__ import annotations

import http.client
import json
import threading
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlencode

from deploy.edges.unix_http import UnixConnection

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_HEADER_BYTES: Final = 8
_STREAMS: Final = frozenset({0, 1, 2})


class EngineStatusError(Exception):
    """The engine answered with another status than success; `explanation` is its own message."""

    def __init__(self, status: int, explanation: str) -> None:
        super().__init__(status, explanation)
        self.status, self.explanation = status, explanation


class EngineReads:
    """A client of one engine that only looks; may be used by several threads.

    Raises EngineStatusError, TimeoutError after a silence, OSError or http.client.HTTPException
    when nothing answers on the socket, ValueError or TypeError for what is not the JSON expected.
    """

    def __init__(self, path: Path, timeout_s: float) -> None:
        self._path = path
        self._timeout_s = timeout_s
        self._idle: list[UnixConnection] = []
        self._lock = threading.Lock()

    def close(self) -> None:
        """Close what is not in use."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def version(self) -> dict[str, Any]:
        """The engine's version, API version and platform."""
        return self._object("/version")

    def info(self) -> dict[str, Any]:
        """What the engine tells of its store and its settings."""
        return self._object("/info")

    def image(self, name: str) -> dict[str, Any]:
        """An image by name or id."""
        return self._object(f"/images/{quote(name, safe='/:@')}/json")

    def images(self) -> list[dict[str, Any]]:
        """All images that the engine lists."""
        return self._list("/images/json")

    def containers(self, label: str | None = None) -> list[dict[str, Any]]:
        """The containers, running or not; only those with a label, `key=value`, if it is given."""
        filters = {} if label is None else {"filters": json.dumps({"label": [label]})}
        return self._list("/containers/json", all="1", **filters)

    def container(self, name: str) -> dict[str, Any]:
        """A container by name or id."""
        return self._object(f"/containers/{quote(name, safe='')}/json")

    def volumes(self, label: str) -> list[dict[str, Any]]:
        """The volumes with a label, `key` or `key=value`."""
        query = {"filters": json.dumps({"label": [label]})}
        found = json.loads(self._get("/volumes", query))["Volumes"] or []
        return [item for item in found if isinstance(item, dict)]

    def volumes_used(self) -> list[dict[str, Any]]:
        """All volumes with their sizes, which the engine walks; before API 1.42 images as well."""
        found = json.loads(self._get("/system/df", {"type": "volume"}))["Volumes"] or []
        return [item for item in found if isinstance(item, dict)]

    def logs(self, name: str, *, tail: int, timestamps: bool = False) -> bytes:
        """The last lines of a container's log, stdout and stderr in their order."""
        query = {"stdout": "1", "stderr": "1", "tail": str(tail)}
        query |= {"timestamps": "1"} if timestamps else {}
        return joined_streams(self._get(f"/containers/{quote(name, safe='')}/logs", query))

    def _object(self, path: str) -> dict[str, Any]:
        found = json.loads(self._get(path, {}))
        if not isinstance(found, dict):
            raise TypeError(found)
        return found

    def _list(self, path: str, **query: str) -> list[dict[str, Any]]:
        found = json.loads(self._get(path, query))
        if not isinstance(found, list):
            raise TypeError(found)
        return found

    def _get(self, path: str, query: Mapping[str, str]) -> bytes:
        target = f"{path}?{urlencode(query)}" if query else path
        with self._lock:
            connection = self._idle.pop() if self._idle else None
        if connection is not None:
            try:
                return self._answer(connection, target)
            except (ConnectionError, http.client.HTTPException):
                connection.close()  # it was closed while nobody used it; asking again is harmless
        return self._answer(UnixConnection(self._path, self._timeout_s), target)

    def _answer(self, connection: UnixConnection, target: str) -> bytes:
        try:
            connection.request("GET", target, headers={"Host": "docker"})
            response = connection.getresponse()
            status, body = response.status, response.read()
        except BaseException:
            connection.close()
            raise
        with self._lock:
            self._idle.append(connection)
        if status != http.HTTPStatus.OK:
            raise EngineStatusError(status, _explanation(body))
        return body


def joined_streams(data: bytes) -> bytes:
    """The bytes of stdout and stderr as they came, out of the engine's frames.

    Each has 8 bytes before it: which stream, three zeros, and the length, big-endian. A container
    with a terminal has no frames; its bytes come back as they are.
    """
    parts: list[bytes] = []
    start = 0
    while start < len(data):
        header = data[start : start + _HEADER_BYTES]
        if len(header) < _HEADER_BYTES or header[0] not in _STREAMS or any(header[1:4]):
            return data
        end = start + _HEADER_BYTES + int.from_bytes(header[4:], "big")
        parts.append(data[start + _HEADER_BYTES : end])
        start = end
    return b"".join(parts)


def _explanation(body: bytes) -> str:
    text = body.decode(errors="replace").strip()
    try:
        return str(json.loads(text)["message"])
    except (ValueError, LookupError, TypeError):
        return text
