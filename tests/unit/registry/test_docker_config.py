"""Credentials as `docker login` left them, and every way in which they can be unreadable."""

from __future__ import annotations

import json
import os
import traceback
from base64 import b64encode
from typing import TYPE_CHECKING, Any

import docker
import pytest

from builder.edges.registry import docker_config
from builder.edges.registry.docker_config import (
    Credentials,
    credentials_for,
    require_usable_by_docker,
)
from builder.edges.registry.errors import CredentialHelperError, DockerConfigError

if TYPE_CHECKING:
    from pathlib import Path

HOST = "registry.example"
HUB = "https://index.docker.io/v1/"
ME = Credentials("me", "pass:word")
PAIR = {"auth": b64encode(b"me:pass:word").decode()}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    return tmp_path


def configure(folder: Path, **document: Any) -> None:  # noqa: ANN401 - any JSON
    (folder / "config.json").write_text(json.dumps(document))


def helper(folder: Path, name: str, script: str) -> None:
    path = folder / f"docker-credential-{name}"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def answer(user: str, secret: str) -> str:
    """A helper that keeps what it was asked, and answers."""
    text = json.dumps({"ServerURL": "x", "Username": user, "Secret": secret})
    return f"""echo "$1 $(cat)" > "$DOCKER_CONFIG/asked"\necho '{text}'"""


def test_without_a_file_nobody_is_logged_in() -> None:
    assert credentials_for(HOST) is None


def test_the_home_folder_is_looked_in_without_docker_config(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DOCKER_CONFIG")
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".docker").mkdir()
    configure(tmp_path / ".docker", auths={HOST: PAIR})

    assert credentials_for(HOST) == ME


@pytest.mark.parametrize(
    ("key", "host"),
    [
        *((HOST, HOST), (f"https://{HOST}", HOST), (f"http://{HOST}/v2/", HOST)),
        *((f"{HOST}:5000", f"{HOST}:5000"), (HUB, "docker.io"), ("docker.io", "index.docker.io")),
    ],
)
def test_a_key_names_its_host_in_every_spelling_of_docker(
    folder: Path, key: str, host: str
) -> None:
    configure(folder, auths={key: PAIR})

    assert credentials_for(host) == ME


@pytest.mark.parametrize("key", ["other.example", f"{HOST}:5000", f"x.{HOST}", HUB, f"{HOST}.x"])
def test_another_hosts_credentials_are_not_taken(folder: Path, key: str) -> None:
    configure(folder, auths={key: PAIR})

    assert credentials_for(HOST) is None


@pytest.mark.parametrize(
    ("entry", "found"),
    [
        (PAIR, ME),
        ({"username": "me", "password": "pass:word"}, ME),
        ({"auth": b64encode(b"me:").decode(), "identitytoken": "it"}, Credentials("me", "", "it")),
        ({"identitytoken": "it"}, Credentials("", "", "it")),
        ({}, None),
        ({"email": "me@example"}, None),
    ],
)
def test_the_file_has_a_pair_or_a_token(
    folder: Path, entry: dict[str, str], found: Credentials | None
) -> None:
    configure(folder, auths={HOST: entry})

    assert credentials_for(HOST) == found


def test_no_secret_is_in_a_representation() -> None:
    assert "word" not in repr(ME)


def test_the_hosts_helper_comes_before_the_general_one_and_that_before_the_file(
    folder: Path,
) -> None:
    helper(folder, "own", answer("own", "s1"))
    helper(folder, "all", answer("all", "s2"))
    configure(folder, auths={HOST: PAIR}, credHelpers={HOST: "own"}, credsStore="all")

    assert credentials_for(HOST) == Credentials("own", "s1")
    assert (folder / "asked").read_text() == f"get {HOST}\n"
    assert credentials_for("docker.io") == Credentials("all", "s2")
    assert (folder / "asked").read_text() == f"get {HUB}\n"


def test_a_helper_that_has_nothing_is_passed_over(folder: Path) -> None:
    helper(folder, "all", "echo credentials not found in native keychain; exit 1")
    configure(folder, auths={HOST: PAIR}, credsStore="all")

    assert credentials_for(HOST) == ME


def test_a_helpers_token_is_an_identity_token(folder: Path) -> None:
    helper(folder, "all", answer("<token>", "it"))
    configure(folder, credsStore="all")

    assert credentials_for(HOST) == Credentials(identity_token="it")  # noqa: S106 - nobody's


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        (None, "No such file or directory"),
        ("echo pass not initialized >&2; echo no key ring; exit 3", "exit status 3: no key ring"),
        ("""echo '{"Secret":"hush"}'; exit 1""", "exit status 1"),
        ("echo hush", "an answer without Username and Secret"),
        ("echo '[\"hush\"]'", "an answer without Username and Secret"),
        ("""echo '{"Username":1,"Secret":"hush"}'""", "an answer without Username and Secret"),
        (
            """printf '%s' '{"Username":"u","Secret":"hush\\ud800"}'""",
            "an answer without Username and Secret",
        ),
        ("exec sleep 9", "no answer within 0.2 s"),
    ],
)
def test_a_helper_that_fails_is_told_without_what_it_keeps(
    folder: Path, monkeypatch: pytest.MonkeyPatch, script: str | None, reason: str
) -> None:
    monkeypatch.setattr(docker_config, "HELPER_S", 0.2 if script and "sleep" in script else 60)
    if script is not None:
        helper(folder, "all", script)
    configure(folder, credsStore="all")

    with pytest.raises(CredentialHelperError) as caught:
        credentials_for(HOST)

    (message,) = caught.value.messages
    assert message.found == reason
    assert message.place == f"{folder}/config.json: credsStore"
    assert "docker-credential-all get" in message.expected
    assert "hush" not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize(
    ("text", "place", "expected"),
    [
        ("{hush", "", "JSON"),
        ("[1]", "", "a JSON object"),
        ('{"auths":["hush"]}', ": auths", "a JSON object"),
        ('{"credHelpers":"hush"}', ": credHelpers", "a JSON object"),
        ('{"credsStore":"../hush"}', ": credsStore", "docker-credential-NAME"),
        ('{"credHelpers":{"registry.example":7}}', ': credHelpers["registry.example"]', "NAME"),
        ('{"auths":{"registry.example":{"auth":"hush"}}}', ".auth", "base64 of USER:PASSWORD"),
        ('{"auths":{"registry.example":{"auth":"aHVzaA=="}}}', ".auth", "base64 of USER:PASSWORD"),
        ('{"auths":{"registry.example":{"auth":"/w=="}}}', ".auth", "base64 of USER:PASSWORD"),
        ('{"auths":{"registry.example":{"auth":"aHVza\u00df=="}}}', ".auth", "base64 of USER"),
        ('{"auths":{"registry.example":{"auth":["hush"]}}}', ".auth", "text"),
        ('{"auths":{"registry.example":{"password":"hush\\ud800"}}}', ".password", "text"),
    ],
)
def test_a_file_that_cannot_be_read_is_told_without_its_values(
    folder: Path, text: str, place: str, expected: str
) -> None:
    (folder / "config.json").write_text(text)

    with pytest.raises(DockerConfigError) as caught:
        credentials_for(HOST)

    (message,) = caught.value.messages
    assert message.place.startswith(f"{folder}/config.json")
    assert message.place.endswith(place)
    assert expected in message.expected
    assert message.found
    assert "docker login" in message.remedy
    shown = "".join(traceback.format_exception(caught.value))
    assert "hush" not in shown.replace(text, "")


def test_a_folder_in_the_place_of_the_file_is_told(folder: Path) -> None:
    (folder / "config.json").mkdir()

    with pytest.raises(DockerConfigError) as caught:
        credentials_for(HOST)
    assert caught.value.found == "Is a directory"


UNUSABLE = [
    ([], "", "list"),
    (7, "", "int"),
    ({"HttpHeaders": None}, ": HttpHeaders", "NoneType"),
    ({"proxies": [1]}, ": proxies", "list"),
    ({"proxies": {"default": "http://proxy.example"}}, ': proxies["default"]', "str"),
    ({"auths": [1]}, ": auths", "list"),
    ({"credHelpers": "pass"}, ": credHelpers", "str"),
]


@pytest.mark.parametrize(("document", "key", "found"), UNUSABLE)
def test_what_the_docker_package_cannot_use_is_told(
    folder: Path, document: object, key: str, found: str
) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(document))

    with pytest.raises(DockerConfigError) as raised:
        require_usable_by_docker()

    assert (raised.value.place, raised.value.found) == (f"{path}{key}", found)


@pytest.mark.parametrize(
    "text",
    ["{}", '{"auths": null, "proxies": {"default": {}}}', '{"auths": {"a": {}}}', "no JSON", ""],
)
def test_what_it_goes_on_with_is_none_of_ours(folder: Path, text: str) -> None:
    (folder / "config.json").write_text(text)

    require_usable_by_docker()
    docker.APIClient("unix:///nothing/listens/here", version="1.41").close()
