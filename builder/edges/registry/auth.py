"""From a registry's challenge to an Authorization header.

Sources: distribution, docs/content/spec/auth/token.md and oauth.md; RFC 9110, section 11.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Final
from urllib.parse import urlencode, urlsplit

from builder.edges.registry.docker_config import Credentials, credentials_for
from builder.edges.registry.errors import AccessDeniedError, UnexpectedAnswerError
from builder.edges.registry.transport import origin
from builder.edges.registry.words import MAX_BODY_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import requests

    from builder.edges.registry.transport import Answer, Transport

_CHALLENGE: Final = re.compile(
    r"[\s,]*(?:(?P<key>[A-Za-z0-9_-]+)\s*=\s*(?:\"(?P<quoted>(?:[^\"\\]|\\.)*)\"|(?P<bare>[^\s,\"]+))"
    r"|(?P<scheme>[A-Za-z0-9_-]+)(?=[\s,]|\Z))"
)


@dataclass(frozen=True, slots=True)
class Challenge:
    """One way to log in that a 401 offers; scheme and keys in lower case."""

    scheme: str
    values: Mapping[str, str]


def challenges_of(header: str) -> tuple[Challenge, ...]:
    """The challenges of a WWW-Authenticate header, which may hold several, in their order."""
    found: list[tuple[str, dict[str, str]]] = []
    position = 0
    while (match := _CHALLENGE.match(header, position)) is not None:
        position = match.end()
        if match["scheme"]:
            found.append((match["scheme"].lower(), {}))
        elif found:
            value = match["bare"] or re.sub(r"\\(.)", r"\1", match["quoted"] or "")
            found[-1][1].setdefault(match["key"].lower(), value)
    return tuple(Challenge(scheme, values) for scheme, values in found)


class Authorizer:
    """Logs in where a registry asks for it; the registry's credentials are looked up only then.

    `base` is where the registry's own addresses begin: no other place gets credentials. `scopes`
    are asked for whatever a challenge says; without any, pulling the repository is what it means.
    """

    def __init__(
        self, transport: Transport, host: str, repository: str, *, base: str, action: str = "pull"
    ) -> None:
        self.scopes: tuple[str, ...] = ()
        self._transport = transport
        self._host = host
        self._origin = origin(base)
        self._action = action
        self._scope = f"repository:{repository}:pull"
        self._credentials: Credentials | None = None
        self._looked_up = False
        self._header = ""

    def ask(
        self, send: Callable[[Mapping[str, str]], Answer], headers: Mapping[str, str], *, url: str
    ) -> Answer:
        """The answer of `send`, after logging in, once, if the registry wants that.

        A token may be too old. Raises AccessDeniedError and what `answer` raises.
        """
        answer = send({**headers, **self.headers(url)})
        if answer.response.status_code == HTTPStatus.UNAUTHORIZED and self._is_own(answer):
            self.answer(answer.response)
            answer.response.close()
            answer = send({**headers, **self.headers(url)})
        refused = answer.response.status_code in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)
        if refused and self._is_own(answer):
            raise self.denied(answer.response)
        return answer

    def _is_own(self, answer: Answer) -> bool:
        """Whether the registry itself answered, and not a place that it leads to."""
        return origin(answer.response.url) == self._origin

    def headers(self, url: str) -> dict[str, str]:
        """What to send with a request: nothing until the registry has asked, or to elsewhere."""
        own = origin(url) == self._origin
        return {"Authorization": self._header} if self._header and own else {}

    @property
    def user(self) -> str:
        """Who asks, as an error says it; empty for nobody in particular."""
        known = self._credentials
        return "" if known is None else known.user or "the identity token's user"

    def answer(self, refusal: requests.Response) -> None:
        """Log in as a 401 asks; the headers are others then.

        Raises AccessDeniedError, UnexpectedAnswerError, and what reading credentials and asking the
        token server raise.
        """
        offered = challenges_of(refusal.headers.get("WWW-Authenticate", ""))
        credentials = self._known()
        for challenge in offered:
            if challenge.scheme == "bearer" and "realm" in challenge.values:
                self._header = f"Bearer {self._token(challenge.values, credentials)}"
                return
        if "basic" in (challenge.scheme for challenge in offered):
            if credentials is None or not credentials.password:
                raise self.denied(refusal)
            self._header = credentials.basic
            return
        raise UnexpectedAnswerError(
            self._transport.place,
            expected="401 with a challenge of the Bearer or Basic scheme",
            found=", ".join(challenge.scheme for challenge in offered) or "no challenge",
        )

    def denied(self, refusal: requests.Response) -> AccessDeniedError:
        """The error of a 401 or 403."""
        return AccessDeniedError(
            self._transport.place,
            login=self._host,
            user=self.user,
            found=self._transport.said(refusal),
            action=self._action,
        )

    def _known(self) -> Credentials | None:
        if not self._looked_up:
            self._credentials = known = credentials_for(self._host)
            self._looked_up = True
            if known is not None:
                self._hide(known.password, known.identity_token, known.basic.partition(" ")[2])
        return self._credentials

    def _hide(self, *secrets: str) -> None:
        self._transport.secrets.update(filter(None, secrets))

    def _token(self, challenge: Mapping[str, str], credentials: Credentials | None) -> str:
        realm = challenge["realm"]
        self._transport.require_safe(realm, expected="a token server's address with https")
        scopes = list(dict.fromkeys([*challenge.get("scope", "").split(), *self.scopes]))
        scopes = scopes or [self._scope]
        service = challenge.get("service", "")
        if credentials is not None and credentials.identity_token:
            form = {
                "grant_type": "refresh_token",
                "client_id": "sparklock",
                "service": service,
                "scope": " ".join(scopes),
                "refresh_token": credentials.identity_token,
            }
            answer = self._transport.post(realm, form, most_bytes=MAX_BODY_BYTES)
        else:
            query = [("service", service)] if service else []
            query += [("scope", scope) for scope in scopes]
            headers = {}
            if credentials is not None:
                query.append(("account", credentials.user))
                headers = {"Authorization": credentials.basic}
            separator = "&" if urlsplit(realm).query else "?"
            address = f"{realm}{separator}{urlencode(query)}"
            answer = self._transport.fetch(address, headers, most_bytes=MAX_BODY_BYTES)
        return self._token_in(answer)

    def _token_in(self, answer: Answer) -> str:
        if answer.response.status_code != HTTPStatus.OK:
            raise self.denied(answer.response)
        try:
            document = json.loads(answer.body)
            token = document.get("token") or document.get("access_token")
        except (ValueError, AttributeError, RecursionError):
            token = None
        if not isinstance(token, str) or not re.fullmatch(r"[\x21-\x7e]+", token):
            raise UnexpectedAnswerError(
                self._transport.place,
                expected="a token server's JSON object with a token",
                found="something else",
            ) from None  # the cause would quote the answer
        self._hide(token)
        return token
