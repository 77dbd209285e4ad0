"""One blob on its way from a registry, resumed where the line is cut."""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

import urllib3

from builder.edges.disk import CHUNK_BYTES
from builder.edges.registry.causes import reason_of, root_of
from builder.edges.registry.errors import (
    RegistryFailedError,
    TransferCutError,
    UnexpectedAnswerError,
)
from builder.oci.errors import MissingBlobError, TruncatedBlobError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Mapping

    import requests

    from builder.edges.registry.transport import Transport
    from builder.errors import BuildError
    from builder.oci.model import Descriptor

RENEWAL_BYTES: Final = 16 * 2**20
"""Who got this far since the last cut has all tries again: a slow line is no broken one."""

_CONTENT_RANGE: Final = re.compile(r"bytes (\d{1,18})-\d+/(?:\d+|\*)\Z")
_LENGTH: Final = re.compile(r"\d{1,18}\Z")
"""A blob's length; more digits than any blob has can be more than int() takes."""


class Transfer:
    """One blob on its way, resumed where the line is cut."""

    def __init__(
        self,
        open_url: Callable[[str, Mapping[str, str]], requests.Response],
        transport: Transport,
        folder: str,
        descriptor: Descriptor,
    ) -> None:
        self._open_url = open_url
        self._transport = transport
        self._url = f"{folder}/{descriptor.digest}"
        self._descriptor = descriptor
        self._done_bytes = 0
        self._skip_bytes = 0
        self._response: requests.Response | None = None

    def begin(self) -> None:
        """Open the blob, from where it was cut last."""
        done = self._done_bytes
        response = self._open_url(self._url, {"Range": f"bytes={done}-"} if done else {})
        self._response = response
        status = response.status_code
        if status == HTTPStatus.NOT_FOUND:
            self.close()
            raise MissingBlobError(self._transport.place, self._descriptor.digest)
        if status == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE and done:
            raise self._truncated(done)
        if status == HTTPStatus.OK:
            self._skip_bytes = done  # this registry knows no ranges, and begins anew
            length = _LENGTH.match(response.headers.get("Content-Length", ""))
            if length is not None and int(length[0]) < self._descriptor.size_bytes:
                raise self._truncated(int(length[0]))
        elif status == HTTPStatus.PARTIAL_CONTENT and done:
            self._require_range(response, done)
        else:
            found = self._transport.said(response)
            raise RegistryFailedError(self._transport.place, found=found, attempts=1)

    def chunks(self) -> Iterator[bytes]:
        """The blob's bytes, in chunks of at most 1 MiB.

        Raises TransferCutError, or TruncatedBlobError for answers that are whole and too short,
        when no try brings more of them; and what opening raises.
        """
        cuts, cut_at = 0, 0
        while True:
            cut_by = yield from self._received()
            if self._done_bytes >= self._descriptor.size_bytes:
                return
            if self._done_bytes - cut_at >= RENEWAL_BYTES:
                cuts = 0
            cuts, cut_at = cuts + 1, self._done_bytes
            self.close()
            if cuts >= self._transport.patience.attempts:
                raise self._gave_up(cut_by) from cut_by
            self._transport.patience.pause(cuts)
            self.begin()

    def close(self) -> None:
        """End the request; its connection is not used again if the body was not read to the end."""
        if self._response is not None:
            self._response.close()

    def _received(self) -> Generator[bytes, None, BaseException | None]:
        """The bytes until the answer ends or is cut, and by what it was cut."""
        assert self._response is not None
        stream = self._response.raw.stream(CHUNK_BYTES, decode_content=False)
        while True:
            try:
                chunk: bytes = next(stream, b"")
            except (urllib3.exceptions.HTTPError, OSError) as error:
                return root_of(error)
            if not chunk:
                return None
            skipped = min(self._skip_bytes, len(chunk))
            self._skip_bytes -= skipped
            self._done_bytes += len(chunk) - skipped
            if skipped < len(chunk):
                yield chunk[skipped:]

    def _require_range(self, response: requests.Response, begin: int) -> None:
        stated = response.headers.get("Content-Range", "")
        match = _CONTENT_RANGE.match(stated)
        if match is None or int(match[1]) != begin:
            self.close()
            raise UnexpectedAnswerError(
                self._transport.place,
                expected=f"206 with a Content-Range from {begin} on",
                found=stated[:100] or "no Content-Range",
            )

    def _gave_up(self, cut_by: BaseException | None) -> BuildError:
        if cut_by is None:
            return self._truncated(self._done_bytes)
        return TransferCutError(
            self._transport.place,
            digest=self._descriptor.digest,
            expected_bytes=self._descriptor.size_bytes,
            found_bytes=self._done_bytes,
            reason=reason_of(cut_by),
        )

    def _truncated(self, found_bytes: int) -> TruncatedBlobError:
        self.close()
        return TruncatedBlobError(
            self._transport.place,
            self._descriptor.digest,
            expected_bytes=self._descriptor.size_bytes,
            found_bytes=found_bytes,
        )
