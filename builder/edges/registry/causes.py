"""Why a request got no answer, without the address that it went to: it can hold a signature."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

import requests
import urllib3

if TYPE_CHECKING:
    from collections.abc import Iterator


def root_of(error: BaseException) -> BaseException:
    """What the network or TLS said, out of what requests and urllib3 wrap around it."""
    found = error
    for item in _chain(error):
        if isinstance(item, (OSError, TimeoutError)) and not isinstance(
            item, requests.RequestException
        ):
            return item
        found = item
    return found


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    todo: list[BaseException | None] = [error]
    while todo:
        item = todo.pop(0)
        if item is None or id(item) in seen:
            continue
        seen.add(id(item))
        yield item
        todo += [part for part in item.args if isinstance(part, BaseException)]
        if isinstance(item, urllib3.exceptions.MaxRetryError):
            todo.append(item.reason)
        todo += [item.__cause__, item.__context__]


def reason_of(cause: BaseException) -> str:
    """The cause in a few words, without any address."""
    if isinstance(cause, ssl.SSLCertVerificationError):
        return f"certificate refused: {cause.verify_message}"
    if isinstance(cause, ssl.SSLError):
        return f"TLS failed: {cause.reason or type(cause).__name__}"
    if isinstance(cause, TimeoutError):
        return "no answer in time"
    if isinstance(cause, OSError) and cause.strerror:
        return cause.strerror
    return f"the connection ended ({type(cause).__name__})"
