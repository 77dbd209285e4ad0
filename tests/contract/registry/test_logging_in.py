"""Who asks, and how a registry is told: over real HTTP, against a server that keeps what came."""

from __future__ import annotations

import json
import traceback
from typing import TYPE_CHECKING

import pytest

from builder.edges.registry.errors import (
    AccessDeniedError,
    CredentialHelperError,
    RegistryFailedError,
    UnexpectedAnswerError,
    UnsafeAddressError,
)
from builder.oci.model import OCI_CONFIG
from tests.fake_registry import Login, basic_of, body, redirect, serving, status

if TYPE_CHECKING:
    from pathlib import Path

    from builder.oci.model import Image
    from tests.fake_registry import FakeRegistry, Handler
    from tests.unit.oci.archives import Published

PASSWORD = "p:w-hush"  # noqa: S105 - nobody's


def log_in(folder: Path, host: str, user: str = "me", **entry: str) -> None:
    """As `docker login` does."""
    auth = basic_of(user, PASSWORD).removeprefix("Basic ")
    document = {"auths": {host: entry or {"auth": auth}}}
    (folder / "config.json").write_text(json.dumps(document))


def test_a_registry_that_wants_nobody_gets_no_authorization(registry: FakeRegistry) -> None:
    registry.opened().roots()

    assert [asked.authorization for asked in registry.asked] == [None]


def test_a_token_is_got_for_nobody_and_used_again(registry: FakeRegistry, image: Image) -> None:
    registry.login = Login()
    source = registry.opened()

    source.roots()
    source.document(image.config.digest, media_type=OCI_CONFIG)

    first, token, second, third = registry.asked
    assert first.authorization is None
    assert (token.method, token.path, token.authorization) == ("GET", "/token", None)
    assert token.query == {"service": ["fake"], "scope": ["repository:team/image:pull"]}
    assert second.authorization == third.authorization == "Bearer the-token"


def test_a_token_is_got_with_the_password_that_docker_keeps(
    registry: FakeRegistry, nobody: Path
) -> None:
    log_in(nobody, registry.host)
    registry.login = Login("me", PASSWORD)

    assert registry.opened().roots()

    token = registry.asked[1]
    assert token.authorization == basic_of("me", PASSWORD)
    assert token.query["account"] == ["me"]
    assert [asked.authorization for asked in registry.asked[::2]] == [None, "Bearer the-token"]


def test_an_identity_token_is_exchanged_by_a_form(registry: FakeRegistry, nobody: Path) -> None:
    log_in(nobody, registry.host, identitytoken="it-hush")
    registry.login = Login(identity_token="it-hush")  # noqa: S106 - nobody's

    assert registry.opened().roots()

    token = registry.asked[1]
    assert token.method == "POST"
    assert "grant_type=refresh_token" in token.body
    assert "it-hush" not in token.path
    assert token.authorization is None


def test_the_password_itself_is_for_a_registry_that_asks_for_it(
    registry: FakeRegistry, nobody: Path
) -> None:
    log_in(nobody, registry.host)
    registry.basic = Login("me", PASSWORD)

    assert registry.opened().roots()
    sent = [asked.authorization for asked in registry.asked]
    assert sent == [None, basic_of("me", PASSWORD)]


def test_several_scopes_are_asked_for_one_by_one(registry: FakeRegistry) -> None:
    registry.login = Login()
    challenge = f'Bearer realm="http://{registry.host}/token",scope="repository:a:pull b:c:d"'
    registry.fail(status(401, WWW_Authenticate=challenge))

    registry.opened().roots()

    assert registry.asked[1].query == {"scope": ["repository:a:pull", "b:c:d"]}


def test_a_challenge_without_scope_means_pulling_this_image(registry: FakeRegistry) -> None:
    registry.login = Login()
    challenge = f'Bearer realm="http://{registry.host}/token?x=1"'
    registry.fail(status(401, WWW_Authenticate=challenge))

    registry.opened().roots()

    assert registry.asked[1].query == {"x": ["1"], "scope": ["repository:team/image:pull"]}


def test_a_token_that_grew_old_is_renewed(registry: FakeRegistry, image: Image) -> None:
    registry.login = Login()
    source = registry.opened()
    source.roots()
    registry.login.token = "another"  # noqa: S105 - nobody's

    assert source.document(image.config.digest, media_type=OCI_CONFIG) == image.config.raw
    assert [asked.path for asked in registry.asked].count("/token") == 2


def test_a_token_without_the_right_is_no_reason_to_ask_for_ever(registry: FakeRegistry) -> None:
    registry.login = Login()
    challenge = f'Bearer realm="http://{registry.host}/token"'
    registry.fail(status(401, WWW_Authenticate=challenge), at="/v1", times=9)

    with pytest.raises(AccessDeniedError):
        registry.opened().roots()
    assert len(registry.asked) == 3


@pytest.mark.parametrize("code", [401, 403])
def test_who_may_not_pull_is_told_who_asked_and_how_to_be_another(
    registry: FakeRegistry, nobody: Path, code: int
) -> None:
    log_in(nobody, registry.host)
    registry.basic = Login("me", PASSWORD)
    registry.fail(status(401, WWW_Authenticate='Basic realm="x"'))
    registry.fail(status(code, "DENIED", f"{PASSWORD} and {basic_of('me', PASSWORD)}"))

    with pytest.raises(AccessDeniedError) as caught:
        registry.opened().roots()

    (message,) = caught.value.messages
    assert message.place == registry.name
    assert message.expected == "the right to pull for me"
    assert message.found.startswith(f"{code} ")
    assert "DENIED" in message.found
    assert f"docker login {registry.host}" in message.remedy
    shown = "".join(traceback.format_exception(caught.value))
    assert PASSWORD not in shown
    assert basic_of("me", PASSWORD).partition(" ")[2] not in shown


def test_nobody_in_particular_is_told_to_log_in(registry: FakeRegistry) -> None:
    registry.basic = Login("me", PASSWORD)

    with pytest.raises(AccessDeniedError) as caught:
        registry.opened().roots()
    assert "for everybody" in str(caught.value)


def test_a_status_of_a_servers_own_repeats_no_secret_and_is_short(
    registry: FakeRegistry, nobody: Path
) -> None:
    log_in(nobody, registry.host)
    registry.basic = Login("me", PASSWORD)
    secret = basic_of("me", PASSWORD).partition(" ")[2]

    def own(handler: Handler) -> None:
        handler.send_response(599, f"{secret} {'x' * 5000}")
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    source = registry.opened()
    registry.fail(status(401, WWW_Authenticate='Basic realm="x"'))
    registry.fail(own, times=9)
    with pytest.raises(RegistryFailedError) as caught:
        source.roots()

    assert caught.value.found.startswith("599 *** x")
    assert len(caught.value.found) < 400


def test_a_token_server_that_refuses_repeats_no_secret(
    registry: FakeRegistry, nobody: Path
) -> None:
    log_in(nobody, registry.host)
    registry.login = Login("me", "another")

    with pytest.raises(AccessDeniedError) as caught:
        registry.opened().roots()

    assert "wrong: Basic ***" in caught.value.found
    assert basic_of("me", PASSWORD).partition(" ")[2] not in str(caught.value)


@pytest.mark.parametrize(
    "realm",
    [
        *("http://auth.example/token", "http://127.evil.example/token", "ftp://127.0.0.1/x"),
        *("file:///etc/passwd", "/token", ""),
        *("https://[x", "https://auth.example:abc/token", "https://auth.example:99999/token"),
    ],
)
def test_a_password_goes_to_no_token_server_without_tls(
    registry: FakeRegistry, nobody: Path, realm: str
) -> None:
    log_in(nobody, registry.host)
    registry.fail(status(401, WWW_Authenticate=f'Bearer realm="{realm}"'))

    with pytest.raises(UnsafeAddressError):
        registry.opened().roots()
    assert len(registry.asked) == 1


@pytest.mark.parametrize(
    "answer", [b"no json", b"[]", b"{}", b'{"token":7}', b'{"token":"a\\r\\nb: c"}']
)
def test_an_answer_without_a_token_is_not_of_the_protocol(
    registry: FakeRegistry, answer: bytes
) -> None:
    registry.login = Login()
    registry.fail(body(answer), at="/token")

    with pytest.raises(UnexpectedAnswerError) as caught:
        registry.opened().roots()
    assert "token" in caught.value.expected


@pytest.mark.parametrize("challenge", ["", "Negotiate", 'Digest realm="x"'])
def test_a_way_to_log_in_that_is_not_ours_is_named(registry: FakeRegistry, challenge: str) -> None:
    headers = {"WWW_Authenticate": challenge} if challenge else {}
    registry.fail(status(401, **headers))

    with pytest.raises(UnexpectedAnswerError) as caught:
        registry.opened().roots()
    assert caught.value.found == (challenge.partition(" ")[0].lower() or "no challenge")


def test_credentials_are_read_only_when_a_registry_asks(
    registry: FakeRegistry, nobody: Path
) -> None:
    (nobody / "config.json").write_text('{"credsStore":"that-is-not-installed"}')

    assert registry.opened().roots()
    registry.login = Login()
    with pytest.raises(CredentialHelperError):
        registry.opened().roots()


def test_netrc_gives_nothing_away(
    registry: FakeRegistry, nobody: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (nobody / "netrc").write_text("machine 127.0.0.1 login me password hush\n")
    (nobody / "netrc").chmod(0o600)
    monkeypatch.setenv("NETRC", str(nobody / "netrc"))

    registry.opened().roots()
    assert registry.asked[0].authorization is None


@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
def test_a_redirect_to_another_port_is_followed_without_authorization(
    registry: FakeRegistry, published: Published, image: Image, nobody: Path, code: int
) -> None:
    log_in(nobody, registry.host)
    registry.basic = Login("me", PASSWORD)
    with serving(published.source) as other:
        path = f"/v2/team/image/blobs/{image.config.digest}"
        source = registry.opened()
        source.roots()
        registry.fail(redirect(f"http://{other.host}{path}?X-Signature=hush", code))

        assert source.document(image.config.digest, media_type=OCI_CONFIG) == image.config.raw

        (asked,) = other.asked
    assert asked.authorization is None
    assert asked.query == {"X-Signature": ["hush"]}
    assert registry.asked[-1].authorization == basic_of("me", PASSWORD)


def test_no_log_has_a_secret_or_a_signature(
    registry: FakeRegistry,
    image: Image,
    nobody: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    log_in(nobody, registry.host)
    registry.login = Login("me", PASSWORD)
    path = f"/v2/team/image/blobs/{image.config.digest}"
    registry.fail(redirect(f"{path}?X-Signature=hush"), at=image.config.digest)
    caplog.set_level("DEBUG")

    registry.opened().document(image.config.digest, media_type=OCI_CONFIG)

    assert f"GET {path} HTTP" in caplog.text
    sent = [
        asked.authorization.partition(" ")[2] for asked in registry.asked if asked.authorization
    ]
    for secret in ("hush", PASSWORD, *sent):
        assert secret not in caplog.text


def test_a_redirect_to_the_same_registry_keeps_authorization(
    registry: FakeRegistry, image: Image, nobody: Path
) -> None:
    log_in(nobody, registry.host)
    registry.basic = Login("me", PASSWORD)
    source = registry.opened()
    source.roots()
    registry.fail(redirect(f"/v2/team/image/blobs/{image.config.digest}"))

    assert source.document(image.config.digest, media_type=OCI_CONFIG) == image.config.raw


def test_a_place_behind_a_redirect_is_never_logged_in_to(
    registry: FakeRegistry, published: Published, image: Image, nobody: Path
) -> None:
    log_in(nobody, registry.host)
    with serving(published.source) as other:
        other.basic = Login("me", PASSWORD)
        registry.fail(redirect(f"http://{other.host}/x?X-Signature=hush"))

        with pytest.raises(Exception, match="401") as caught:
            registry.opened().document(image.config.digest, media_type=OCI_CONFIG)

        assert [asked.authorization for asked in other.asked] == [None]
    assert "hush" not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize(
    "target",
    [
        *("http://storage.example/x?sig=hush", "ftp://127.0.0.1/x", "file:///etc/passwd"),
        *("http://[::1", "http://me:hush@127.evil.example/", "http://127.0.0.1:99999/"),
    ],
)
def test_a_redirect_to_where_nothing_may_be_asked_is_refused(
    registry: FakeRegistry, target: str
) -> None:
    registry.fail(redirect(target))

    with pytest.raises(UnsafeAddressError) as caught:
        registry.opened().roots()
    assert "hush" not in str(caught.value)


def test_redirects_come_to_an_end(registry: FakeRegistry) -> None:
    registry.fail(redirect("/v2/team/image/manifests/v1"), times=99)

    with pytest.raises(UnsafeAddressError) as caught:
        registry.opened().roots()
    assert "at most 5 redirects" in caught.value.expected
    assert len(registry.asked) == 6
