"""Requests to registries: tried again when that can help, and never led astray.

GET is all that reading images needs, and may be repeated; so may HEAD, and a PUT of what has a
digest. A POST for a token is made once; an upload is repeated as a whole (upload.py).
"""

from __future__ import annotations

import logging
import os
import random
import socket
import time
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from http.cookiejar import DefaultCookiePolicy
from typing import TYPE_CHECKING, Final
from urllib.parse import urljoin, urlsplit

import requests
import urllib3

from builder.edges.registry.causes import reason_of, root_of
from builder.edges.registry.errors import (
    OfflineError,
    RateLimitedError,
    RegistryFailedError,
    TlsError,
    UnexpectedAnswerError,
    UnknownHostError,
    UnreachableError,
    UnsafeAddressError,
)
from builder.edges.registry.words import MAX_BODY_BYTES, said
from builder.oci.reference import is_loopback

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from builder.errors import BuildError

OFFLINE: Final = "SPARKLOCK_OFFLINE"
MAX_REDIRECTS: Final = 5
MOST_ASKED_S: Final = 366 * 86400.0
"""A server that asks for a longer pause has asked for this: its number may be beyond any."""

TRANSIENT: Final = frozenset(
    {
        HTTPStatus.TOO_MANY_REQUESTS,
        HTTPStatus.INTERNAL_SERVER_ERROR,
        HTTPStatus.BAD_GATEWAY,
        HTTPStatus.SERVICE_UNAVAILABLE,
        HTTPStatus.GATEWAY_TIMEOUT,
    }
)
REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
SAME_METHOD: Final = frozenset({307, 308})
"""Behind the other redirects a client may come with GET, so nothing that sends follows those."""


def _cut_queries(record: logging.LogRecord) -> bool:
    """True; the record then shows no address beyond its path, since a query can be a signature."""
    if isinstance(record.args, tuple):
        record.args = tuple(
            part.partition("?")[0] if isinstance(part, str) else part for part in record.args
        )
    return True


logging.getLogger("urllib3.connectionpool").addFilter(_cut_queries)


@dataclass(frozen=True, slots=True)
class Patience:
    """How long to wait, and how often to try.

    A pause doubles from `first_pause_s` and is shortened at random, so that many callers do not
    come back together. A server that asks for a longer pause than `longest_pause_s` is not waited
    for. `connect_s` and `read_s` limit one step of a request, not all of a transfer.
    """

    attempts: int = 5
    first_pause_s: float = 1.0
    longest_pause_s: float = 60.0
    connect_s: float = 10.0
    read_s: float = 60.0
    sleep: Callable[[float], None] = time.sleep
    jitter: Callable[[], float] = random.random
    now: Callable[[], float] = time.time

    def pause(self, attempt: int, asked_s: float | None = None) -> None:
        """Sleep after a failed attempt, counted from 1; at least as long as the server asks."""
        wait_s = min(self.first_pause_s * 2 ** (attempt - 1), self.longest_pause_s)
        self.sleep(max(wait_s * (1 + self.jitter()) / 2, asked_s or 0.0))

    def asked_s(self, response: requests.Response) -> float | None:
        """The pause of a Retry-After header, in seconds or as a date; None if there is none."""
        value = response.headers.get("Retry-After", "").strip()
        if value.isdecimal():
            return min(float(value), MOST_ASKED_S)
        try:
            return max(parsedate_to_datetime(value).timestamp() - self.now(), 0.0)
        except ValueError:
            return None


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer, and its body where that was read."""

    response: requests.Response
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A body to be sent: every iteration opens it anew, and it has just so many bytes."""

    size_bytes: int
    open: Callable[[], Iterator[bytes]]

    def __len__(self) -> int:
        """The bytes; by this, requests sends a Content-Length and no chunks."""
        return self.size_bytes

    def __iter__(self) -> Iterator[bytes]:
        """The bytes in pieces."""
        return self.open()


class _AsGiven(requests.auth.AuthBase):
    """Leaves the headers alone; without it requests would put in what ~/.netrc has for the host."""

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        return request


class _Session(requests.Session):
    """A session that follows no redirect and does not look where one leads."""

    def get_redirect_target(self, resp: requests.Response) -> None:
        """None: otherwise requests would read the body and prepare the next request anyway."""


class Transport:
    """Requests for one image; `place` names it in errors, `login` is the host to log in to.

    `plain_http` says that the registry is one on loopback: only then may any address be of plain
    HTTP, and on loopback too; no proxy is asked then.
    """

    def __init__(
        self, place: str, login: str, *, plain_http: bool, patience: Patience | None = None
    ) -> None:
        self.place = place
        self.login = login
        self.patience = patience or Patience()
        self.secrets: set[str] = set()
        self._plain_http = plain_http
        self._session = _Session()
        self._session.trust_env = not plain_http  # proxies and REQUESTS_CA_BUNDLE
        self._session.cookies.set_policy(DefaultCookiePolicy(allowed_domains=[]))

    def open(self, url: str, headers: Mapping[str, str]) -> requests.Response:
        """The answer behind redirects, its body not yet read; of any status that may be final.

        Tried again when no answer comes, and for a status that says so. Authorization goes to the
        first address's origin alone. Raises a RegistryError.
        """
        return self.tried(lambda: Answer(self._follow(url, headers))).response

    def fetch(self, url: str, headers: Mapping[str, str], *, most_bytes: int) -> Answer:
        """As `open`, with the body if the status is 200; of a longer one, one byte too many."""
        return self.tried(lambda: self._read(self._follow(url, headers), most_bytes))

    def once(
        self, method: str, url: str, headers: Mapping[str, str], body: Outgoing | None = None
    ) -> Answer:
        """The answer behind redirects to one request of any method, not tried again by itself.

        Only for use inside `tried`, which knows what a failure means.
        """
        return Answer(self._follow(url, headers, method, body))

    def post(self, url: str, form: Mapping[str, str], *, most_bytes: int) -> Answer:
        """The answer to a form, asked once and not redirected."""
        try:
            return self._read(self._send("POST", url, {}, form), most_bytes)
        except _TransientError as failure:
            raise failure.final(self, 1) from failure.cause

    def said(self, response: requests.Response) -> str:
        """A failed answer in a line without secrets; its connection is closed."""
        return said(response, self.secrets)

    def tried(
        self, action: Callable[[], Answer], *, got_on: Callable[[], bool] = lambda: False
    ) -> Answer:
        """What an action that may be repeated answers, repeated where that can help.

        After a failure in spite of which the work `got_on`, all tries are there again.
        """
        attempt = 0
        while True:
            attempt = 1 if got_on() else attempt + 1
            last = attempt >= self.patience.attempts
            asked_s = None
            try:
                answer = action()
            except _TransientError as failure:
                if last:
                    raise failure.final(self, attempt) from failure.cause
            else:
                response = answer.response
                if response.status_code not in TRANSIENT:
                    return answer
                asked_s = self.patience.asked_s(response)
                if last or (asked_s or 0) > self.patience.longest_pause_s:
                    raise self._gave_up(response, attempt, asked_s)
                response.close()
            self.patience.pause(attempt, asked_s)

    def _read(self, response: requests.Response, most_bytes: int) -> Answer:
        if response.status_code != HTTPStatus.OK:
            return Answer(response)
        try:
            body = b"".join(_at_most(response, most_bytes + 1))
        except (urllib3.exceptions.HTTPError, OSError) as error:
            cause = root_of(error)
            raise _TransientError(host_of(response.url), cause) from cause
        finally:
            response.close()
        return Answer(response, body)

    def require_safe(self, url: str, *, expected: str) -> None:
        """Nothing, if requests may go to an address; UnsafeAddressError otherwise."""
        try:
            origin(url)
        except ValueError as error:
            raise self._unreadable(expected) from error
        parts = urlsplit(url)
        plain = self._plain_http and parts.scheme == "http" and is_loopback(parts.hostname or "")
        if not (parts.hostname and (parts.scheme == "https" or plain)):
            raise UnsafeAddressError(self.place, expected=expected, found=without_query(url))

    def _gave_up(
        self, response: requests.Response, attempts: int, asked_s: float | None
    ) -> BuildError:
        found = self.said(response)
        if response.status_code == HTTPStatus.TOO_MANY_REQUESTS:
            wait_s = None if asked_s is None else round(asked_s)
            return RateLimitedError(self.place, login=self.login, found=found, wait_s=wait_s)
        return RegistryFailedError(self.place, found=found, attempts=attempts)

    def _follow(
        self,
        url: str,
        headers: Mapping[str, str],
        method: str = "GET",
        body: Outgoing | None = None,
    ) -> requests.Response:
        """The answer behind redirects; what is sent is opened anew for each."""
        first = origin(url)
        followed = REDIRECTS if method in ("GET", "HEAD") else SAME_METHOD
        for _ in range(MAX_REDIRECTS + 1):
            same = origin(url) == first
            sent = {k: v for k, v in headers.items() if same or k.lower() != "authorization"}
            response = self._send(method, url, sent, body)
            target = response.headers.get("Location")
            if response.status_code not in followed or target is None:
                return response
            response.close()
            url = self.joined(url, target)
        raise UnsafeAddressError(
            self.place, expected=f"at most {MAX_REDIRECTS} redirects", found=without_query(url)
        )

    def joined(self, url: str, target: str) -> str:
        """The address that an answer of `url` leads to; UnsafeAddressError if none may go there."""
        expected = "a redirect to https, without a step down to http"
        try:
            joined = urljoin(url, target)
        except ValueError as error:
            raise self._unreadable(expected) from error
        self.require_safe(joined, expected=expected)
        return joined

    def _unreadable(self, expected: str) -> UnsafeAddressError:
        found = "an address that cannot be read"
        return UnsafeAddressError(self.place, expected=expected, found=found)

    def _send(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        data: Mapping[str, str] | Outgoing | None = None,
    ) -> requests.Response:
        if os.environ.get(OFFLINE, "") not in ("", "0"):
            raise OfflineError(self.place, variable=OFFLINE, url=without_query(url))
        try:
            return self._session.request(
                method,
                url,
                data=data,
                headers={"User-Agent": "sparklock", "Accept-Encoding": "identity", **headers},
                auth=_AsGiven(),
                allow_redirects=False,
                stream=True,
                timeout=(self.patience.connect_s, self.patience.read_s),
            )
        except (requests.RequestException, urllib3.exceptions.HTTPError) as error:
            cause = root_of(error)
            # The cause, not the error: that one quotes the address with what it may be signed with.
            raise self._failure(error, cause, host_of(url)) from cause

    def _failure(
        self, error: Exception, cause: BaseException, host: str
    ) -> BuildError | _TransientError:
        if isinstance(cause, socket.gaierror):
            return UnknownHostError(self.place, host=host, reason=reason_of(cause))
        if isinstance(error, requests.exceptions.SSLError):
            return TlsError(self.place, host=host, reason=reason_of(cause))
        if isinstance(error, (requests.ConnectionError, requests.Timeout)):
            return _TransientError(host, cause)
        return UnexpectedAnswerError(
            self.place, expected="an HTTP answer", found=type(error).__name__
        )


class _TransientError(Exception):
    """A request without an answer, that may be made again."""

    def __init__(self, host: str, cause: BaseException) -> None:
        super().__init__(host)
        self.host = host
        self.cause = cause

    def final(self, transport: Transport, attempts: int) -> BuildError:
        """The error when it is not made again."""
        return UnreachableError(
            transport.place, host=self.host, reason=reason_of(self.cause), attempts=attempts
        )


def finish(response: requests.Response) -> None:
    """End an answer whose body says nothing; its connection is used again if that is short."""
    try:
        response.raw.read(MAX_BODY_BYTES)
    except (urllib3.exceptions.HTTPError, OSError):
        pass  # its head was what counted
    finally:
        response.close()


def _at_most(response: requests.Response, most_bytes: int) -> Iterator[bytes]:
    while most_bytes > 0 and (piece := response.raw.read(most_bytes, decode_content=True)):
        most_bytes -= len(piece)
        yield piece


def origin(url: str) -> tuple[str, str, int | None]:
    """Scheme, host and port of an address; credentials never leave them."""
    parts = urlsplit(url)
    standard = {"https": 443, "http": 80}.get(parts.scheme)
    return parts.scheme, parts.hostname or "", parts.port or standard


def without_query(url: str) -> str:
    """An address as an error may show it: what follows can be a signature, what precedes a user."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{host_of(url)}{parts.path}"


def host_of(url: str) -> str:
    """The host of an address, with its port if one is written."""
    return urlsplit(url).netloc.rpartition("@")[2]
