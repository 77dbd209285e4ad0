"""One blob on its way into a registry, gone on with where the line was cut.

Source: OCI distribution specification 1.1, pushing blobs. The bytes go in one PATCH, which every
registry takes since Docker sends so, and a PUT with the digest ends it: only then there is a blob.
"""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from builder.edges.registry.errors import UnexpectedAnswerError
from builder.edges.registry.transfer import RENEWAL_BYTES
from builder.edges.registry.transport import Outgoing, finish
from builder.errors import SparklockError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from builder.edges.registry.transport import Answer
    from builder.oci.model import Descriptor

BLOB_TYPE: Final = "application/octet-stream"
DONE: Final = frozenset({HTTPStatus.OK, HTTPStatus.CREATED})
_RANGE: Final = re.compile(r"(?:bytes=)?0-(\d{1,18})\Z")
_GONE: Final = frozenset(
    {
        HTTPStatus.BAD_REQUEST,
        HTTPStatus.NOT_FOUND,
        HTTPStatus.CONFLICT,
        HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE,
    }
)
"""What registries say of an upload that they do not know any more, or not as we do."""


class Upload:
    """One blob's upload; `attempt` is made again until it ends well.

    `ask` sends a request with credentials, `joined` is Transport.joined, and `folder` is where the
    repository's blobs are.
    """

    def __init__(
        self,
        ask: Callable[..., Answer],
        joined: Callable[[str, str], str],
        place: str,
        folder: str,
        descriptor: Descriptor,
    ) -> None:
        self._ask = ask
        self._joined = joined
        self._place = place
        self._blob = f"{folder}/{descriptor.digest}"
        self._sessions = f"{folder}/uploads/"
        self._descriptor = descriptor
        self._location: str | None = None
        self._stored_bytes = 0
        self._marked_bytes = 0
        self.sent_bytes = 0

    def attempt(self, open_from: Callable[[int], Iterator[bytes]]) -> Answer:
        """The last answer: of a status in DONE when the blob is there, else what came instead.

        `open_from` gives the blob's bytes from an offset on.
        """
        if self._location is None or not self._go_on():
            if self.sent_bytes:  # perhaps only the last answer was lost
                there = self._ask("HEAD", self._blob, {})
                if there.response.status_code == HTTPStatus.OK:
                    return there
                finish(there.response)
            begun = self._ask("POST", self._sessions, {"Content-Length": "0"})
            if begun.response.status_code != HTTPStatus.ACCEPTED:
                return begun
            self._stored_bytes = 0
            self._lead(begun)
        if self._stored_bytes < self._descriptor.size_bytes:
            patched = self._patch(open_from)
            if patched.response.status_code not in (HTTPStatus.ACCEPTED, HTTPStatus.NO_CONTENT):
                return self._perhaps_gone(patched)
            self._lead(patched)
        assert self._location is not None
        separator = "&" if "?" in self._location else "?"
        url = f"{self._location}{separator}digest={self._descriptor.digest}"
        return self._perhaps_gone(self._ask("PUT", url, {"Content-Length": "0"}))

    def got_on(self) -> bool:
        """Whether so much went since this was asked last that a failure is not the line's end."""
        moved = self.sent_bytes - self._marked_bytes >= RENEWAL_BYTES
        if moved:
            self._marked_bytes = self.sent_bytes
        return moved

    def cancel(self) -> None:
        """End a session that nothing will come of; a registry that does not care is left alone."""
        if self._location is not None:
            location, self._location = self._location, None
            try:
                finish(self._ask("DELETE", location, {}).response)
            except (SparklockError, OSError):
                return

    def begun_at(self, answer: Answer) -> None:
        """Take over the session of an answer, as of a mount that became an upload."""
        self._lead(answer)

    def _patch(self, open_from: Callable[[int], Iterator[bytes]]) -> Answer:
        begin, end = self._stored_bytes, self._descriptor.size_bytes
        headers = {"Content-Type": BLOB_TYPE}
        if begin:
            headers["Content-Range"] = f"{begin}-{end - 1}"
        body = Outgoing(end - begin, lambda: self._counted(open_from(begin)))
        assert self._location is not None
        return self._ask("PATCH", self._location, headers, body)

    def _counted(self, chunks: Iterator[bytes]) -> Iterator[bytes]:
        for chunk in chunks:
            self.sent_bytes += len(chunk)
            yield chunk

    def _go_on(self) -> bool:
        """Whether the registry still has what was sent, and how much that is."""
        assert self._location is not None
        answer = self._ask("GET", self._location, {})
        finish(answer.response)
        match = _RANGE.match(answer.response.headers.get("Range", ""))
        stored_bytes = int(match[1]) + 1 if match else 0
        known = answer.response.status_code == HTTPStatus.NO_CONTENT
        # Nothing stored is 0-0 too, as one byte is, and not worth going on with.
        if not (known and 1 < stored_bytes <= self._descriptor.size_bytes):
            self.cancel()
            return False
        self._stored_bytes = stored_bytes
        if "Location" in answer.response.headers:
            self._lead(answer)
        return True

    def _lead(self, answer: Answer) -> None:
        """Go on where an answer says."""
        response = answer.response
        target = response.headers.get("Location")
        finish(response)
        if not target:
            raise UnexpectedAnswerError(
                self._place,
                expected=f"{response.status_code} with the Location of the upload",
                found="no Location",
            )
        self._location = self._joined(response.url, target)

    def _perhaps_gone(self, answer: Answer) -> Answer:
        """The answer; the next attempt begins anew if the registry lost the session."""
        if answer.response.status_code in _GONE:
            self._location = None
        return answer
