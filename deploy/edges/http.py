"""A completion over a forwarded unix socket: the one request that touches every rank."""

from __future__ import annotations

import http.client
import json
from typing import TYPE_CHECKING, Any, Final

from deploy.edges.unix_http import UnixConnection
from deploy.state import Completion, Outcome

if TYPE_CHECKING:
    from pathlib import Path

    from builder.secret import Secret

PROMPT: Final = "The capital of France is"
MAX_TOKENS: Final = 8
END_CHARACTERS: Final = 2000
_UNAUTHORIZED: Final = f"HTTP {http.HTTPStatus.UNAUTHORIZED.value}: "


def answers(api: Path, *, timeout_s: float) -> bool:
    """Whether anything answers a request with HTTP, whatever it says."""
    connection = UnixConnection(api, timeout_s)
    try:
        connection.request("GET", "/health")
        connection.getresponse().read()
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
    return True


def complete(
    api: Path, model: str, *, timeout_s: float, api_key: Secret | None = None
) -> Completion:
    """Ask for a few tokens at temperature 0; whatever happens is told by the outcome.

    `model` may be empty for the only one that is served; `api_key` may be None for a server that
    wants none.

    `api` is a local unix socket that leads to the server. The answer is not streamed, so the first
    byte comes with the last token and `timeout_s` bounds the whole request.
    """
    asked = {"prompt": PROMPT, "max_tokens": MAX_TOKENS, "temperature": 0}
    body = json.dumps(asked | ({"model": model} if model else {}))
    connection = UnixConnection(api, timeout_s)
    try:
        headers = {"Content-Type": "application/json"}
        if api_key is not None:
            headers["Authorization"] = f"Bearer {api_key.value}"
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


def unauthorized(completion: Completion) -> bool:
    """Whether the server wants an API key, or another one."""
    return completion.outcome is Outcome.REFUSED and completion.text.startswith(_UNAUTHORIZED)


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
