"""Credentials as `docker login` keeps them: in its config.json, or with a helper program.

Sources: docker/cli, cli/config (the keys of config.json) and docker/docker-credential-helpers (the
protocol: `docker-credential-NAME get`, the server on standard input, JSON on standard output).
"""

from __future__ import annotations

import base64
import json
import os
import re
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeGuard

from builder.edges.registry.errors import CredentialHelperError, DockerConfigError
from builder.oci.reference import DOCKER_HUB

HUB_KEY: Final = "https://index.docker.io/v1/"
"""What Docker calls its own registry in config.json and to helpers."""

HELPER_S: Final = 60
"""A helper may ask a person to unlock a key ring."""

_HELPER_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*\Z")
_NOT_FOUND: Final = "credentials not found"
_TOKEN_USER: Final = "<token>"  # noqa: S105 - the protocol's word for "the secret is a token"


@dataclass(frozen=True, slots=True)
class Credentials:
    """A user with a password, or an identity token, which a token server takes in its place.

    No secret is part of the representation.
    """

    user: str = ""
    password: str = field(default="", repr=False)
    identity_token: str = field(default="", repr=False)

    @property
    def basic(self) -> str:
        """The value of an Authorization header of the Basic scheme."""
        pair = f"{self.user}:{self.password}".encode()
        return f"Basic {base64.b64encode(pair).decode()}"


def credentials_for(host: str) -> Credentials | None:
    """The credentials for a registry's host, from DOCKER_CONFIG or ~/.docker; None without any.

    A helper of the host is asked first, then the one for all hosts, then the file itself. Raises
    DockerConfigError or CredentialHelperError: whoever is logged in should not silently be nobody.
    """
    config = _Config.read()
    key = HUB_KEY if host in DOCKER_HUB else host
    for place, helper in config.helpers(host):
        found = _ask_helper(place, helper, key)
        if found is not None:
            return found
    return config.written(host)


def require_usable_by_docker() -> None:
    """Nothing, if the docker package can begin with config.json; else DockerConfigError.

    It goes on without a file that it cannot read, and ends in a bug on JSON of another shape.
    """
    path = _path()
    try:
        document = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return
    parts = {"": document}
    if isinstance(document, dict):
        parts |= {key: document.get(key, {}) for key in ("HttpHeaders", "proxies")}
        parts |= {key: document.get(key) or {} for key in ("auths", "credHelpers")}
        proxies = parts["proxies"]
        for address, proxy in proxies.items() if isinstance(proxies, dict) else ():
            parts[f'proxies["{address}"]'] = proxy
    for key, part in parts.items():
        if not isinstance(part, dict):
            place = f"{path}: {key}" if key else str(path)
            raise DockerConfigError(place, expected="a JSON object", found=type(part).__name__)


def _path() -> Path:
    folder = os.environ.get("DOCKER_CONFIG")
    return (Path(folder) if folder else _home() / ".docker") / "config.json"


@dataclass(frozen=True, slots=True)
class _Config:
    path: Path
    document: dict[str, Any]

    @classmethod
    def read(cls) -> _Config:
        path = _path()
        try:
            document = json.loads(path.read_bytes())
        except FileNotFoundError:
            return cls(path, {})
        except OSError as error:
            found = error.strerror or type(error).__name__
            raise DockerConfigError(str(path), expected="a readable file", found=found) from error
        except (ValueError, RecursionError):
            # A cause would quote the file, which holds secrets.
            raise DockerConfigError(str(path), expected="JSON", found="something else") from None
        if not isinstance(document, dict):
            raise DockerConfigError(
                str(path), expected="a JSON object", found=type(document).__name__
            )
        return cls(path, document)

    def helpers(self, host: str) -> list[tuple[str, str]]:
        """The helpers to ask, each with the place that names it."""
        found: list[tuple[str, object]] = [
            (f'{self.path}: credHelpers["{key}"]', name)
            for key, name in self._table("credHelpers").items()
            if _same_registry(key, host)
        ]
        found.append((f"{self.path}: credsStore", self.document.get("credsStore")))
        return [(place, self._helper(place, name)) for place, name in found if name]

    def _helper(self, place: str, name: object) -> str:
        if not isinstance(name, str) or not _HELPER_NAME.match(name):
            expected = "the end of a program's name, as in docker-credential-NAME"
            raise DockerConfigError(place, expected=expected, found="something else")
        return f"docker-credential-{name}"

    def written(self, host: str) -> Credentials | None:
        """What the file itself says for a host."""
        for key, entry in self._table("auths").items():
            if _same_registry(key, host) and isinstance(entry, dict) and entry:
                found = self._entry(f'{self.path}: auths["{key}"]', entry)
                if found is not None:
                    return found
        return None

    def _entry(self, place: str, entry: dict[str, Any]) -> Credentials | None:
        texts = {
            key: self._text(f"{place}.{key}", entry.get(key, ""))
            for key in ("auth", "username", "password", "identitytoken")
        }
        user, password = texts["username"], texts["password"]
        if texts["auth"]:
            user, password = self._pair(f"{place}.auth", texts["auth"])
        if not (password or texts["identitytoken"]):
            return None
        return Credentials(user, password, texts["identitytoken"])

    def _text(self, place: str, value: object) -> str:
        if not _is_text(value):
            found = "half a character" if isinstance(value, str) else type(value).__name__
            raise DockerConfigError(place, expected="text", found=found)
        return value

    def _pair(self, place: str, encoded: str) -> tuple[str, str]:
        try:
            text = base64.b64decode(encoded, validate=True).decode().rstrip("\0")
            user, colon, password = text.partition(":")
        except ValueError:  # no base64, not even ASCII, or not of text
            user, colon, password = "", "", ""
        if not colon:
            raise DockerConfigError(
                place, expected="base64 of USER:PASSWORD", found="something else"
            ) from None
        return user, password

    def _table(self, key: str) -> dict[str, Any]:
        table = self.document.get(key) or {}
        if not isinstance(table, dict):
            place = f"{self.path}: {key}"
            raise DockerConfigError(place, expected="a JSON object", found=type(table).__name__)
        return table


def _home() -> Path:
    return Path(os.path.expanduser("~"))  # noqa: PTH111 - Path.home() raises where there is none


def _same_registry(key: str, host: str) -> bool:
    """Whether a key of config.json means the host; Docker wrote keys with scheme and path, too."""
    name = key.removeprefix("https://").removeprefix("http://").partition("/")[0]
    return name == host or {name, host} <= DOCKER_HUB


def _ask_helper(place: str, program: str, key: str) -> Credentials | None:
    """What the helper has for a key; None when it says that it has nothing."""
    try:
        done = subprocess.run(
            [program, "get"], input=key.encode(), capture_output=True, timeout=HELPER_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise CredentialHelperError(
            place, program=program, reason=f"no answer within {HELPER_S} s"
        ) from None  # the cause would hold what it had printed by then
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise CredentialHelperError(place, program=program, reason=reason) from error
    said = done.stdout.decode(errors="replace").strip()
    if done.returncode:
        if _NOT_FOUND in said:
            return None
        raise CredentialHelperError(
            place, program=program, reason=f"exit status {done.returncode}{_quoted(said)}"
        )
    return _answer(place, program, said)


def _is_text(value: object) -> TypeGuard[str]:
    """Whether a value out of JSON is text that can be sent: no half of a surrogate pair."""
    return isinstance(value, str) and not any("\ud800" <= item <= "\udfff" for item in value)


def _quoted(said: str) -> str:
    """A helper's words about its failure, unless they could be the credentials themselves."""
    line = said.splitlines()[0][:200] if said else ""
    return f": {line}" if line and "Secret" not in said else ""


def _answer(place: str, program: str, said: str) -> Credentials | None:
    try:
        document = json.loads(said)
        user, secret = document["Username"], document["Secret"]
    except (ValueError, LookupError, TypeError, RecursionError):
        user, secret = None, None
    if not (_is_text(user) and _is_text(secret)):
        raise CredentialHelperError(
            place, program=program, reason="an answer without Username and Secret"
        ) from None
    if not secret:
        return None
    if user == _TOKEN_USER:
        return Credentials(identity_token=secret)
    return Credentials(user, secret)
