"""A completion over a connection that ssh carries: the one request that touches every rank."""

from __future__ import annotations

import http.client
import json
import socket
from typing import TYPE_CHECKING, Any, Final

from deploy.state import Completion, Outcome

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

PROMPT: Final = "The capital of France is"
MAX_TOKENS: Final = 8
END_CHARACTERS: Final = 2000


class _CarriedConnection(http.client.HTTPConnection):
    """HTTP over a connection made elsewhere; every single wait on it ends after the timeout."""

    def __init__(self, carry: Callable[[], socket.socket], timeout_s: float) -> None:
        super().__init__("localhost", timeout=timeout_s)
        self._carry = carry

    def connect(self) -> None:
        """Take the connection instead of making one to a host."""
        self.sock = self._carry()
        self.sock.settimeout(self.timeout)


def to_socket(path: Path) -> socket.socket:
    """A connection to a unix socket; OSError if nobody listens."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.connect(str(path))
    except OSError:
        connection.close()
        raise
    return connection


def complete(carry: Callable[[], socket.socket], model: str, *, timeout_s: float) -> Completion:
    """Ask for a few tokens at temperature 0; whatever happens is told by the outcome.

    `carry` makes a connection that leads to the server. The answer is not streamed, so the first
    byte comes with the last token and `timeout_s` bounds the whole request.
    """
    body = json.dumps(
        {"model": model, "prompt": PROMPT, "max_tokens": MAX_TOKENS, "temperature": 0}
    )
    connection = _CarriedConnection(carry, timeout_s)
    try:
        headers = {"Content-Type": "application/json", "Connection": "close"}
        connection.request("POST", "/v1/completions", body, headers)
        response = connection.getresponse()
        status, said = response.status, response.read()
    except TimeoutError:
        return Completion(Outcome.TOO_LATE)
    except (OSError, http.client.HTTPException):
        # The forwarded socket always accepts; that nothing is behind it shows as its closing.
        return Completion(Outcome.NOT_UP)
    finally:
        connection.close()
    return _judged(status, said)


def _judged(status: int, said: bytes) -> Completion:
    text = said.decode(errors="replace")[-END_CHARACTERS:]
    if status != http.HTTPStatus.OK:
        final = status in {400, 401, 403, 404, 422}
        return Completion(Outcome.REFUSED if final else Outcome.FAILED, f"HTTP {status}: {text}")
    try:
        answer: Any = json.loads(said)
        words = str(answer["choices"][0]["text"])
        tokens = int(answer["usage"]["completion_tokens"])
    except (ValueError, LookupError, TypeError):
        return Completion(Outcome.REFUSED, f"not a completion: {text}")
    if tokens < 1:
        return Completion(Outcome.REFUSED, f"a completion of no tokens: {text}")
    return Completion(Outcome.ANSWERED, words, tokens)
