"""What is sent to a registry, and what is not: over real HTTP, against a server that fails."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from builder.digest import digest_bytes
from builder.edges.registry import upload
from builder.edges.registry.errors import (
    AccessDeniedError,
    OfflineError,
    RateLimitedError,
    RegistryFailedError,
    UnexpectedAnswerError,
    UnreachableError,
    UnsafeAddressError,
)
from builder.oci.errors import DigestMismatchError, TruncatedBlobError
from builder.progress import Silent
from tests.fake_registry import Login, basic_of, hang_up, impatient, redirect, serving, status
from tests.fake_target import SOURCE_REPOSITORY, after_doing, answer, cut_upload, taking
from tests.fakes import MemorySource
from tests.unit.oci.archives import Published, file, tar_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from builder.edges.registry.push import Pushed
    from builder.oci.model import Image
    from tests.fake_target import FakeTarget

PASSWORD = "p:w-hush"  # noqa: S105 - nobody's
LOWER = tar_of(file("a", bytes(range(256)) * 12_000))
UPPER = tar_of(file("b", b"y" * 1000))


@pytest.fixture
def image(published: Published) -> Image:
    return published.image(LOWER, UPPER)


@pytest.fixture
def target() -> Iterator[FakeTarget]:
    with taking(MemorySource()) as found:
        yield found


def push(target: FakeTarget, published: Published, image: Image, **options: str) -> Pushed:
    return target.target(**options).push(image, published.source.open_blob, "v1", Silent())  # type: ignore[arg-type]


def is_there(target: FakeTarget, published: Published, image: Image) -> bool:
    """Whether the registry has every byte, under the tag too, and no upload is open."""
    assert target.sessions == {}
    assert target.tags["v1"] == target.tags[image.manifest.descriptor.digest]
    return target.source.blobs == published.source.blobs


def test_blobs_go_first_then_the_manifest_by_digest_then_the_tag(
    target: FakeTarget, published: Published, image: Image
) -> None:
    pushed = push(target, published, image)

    assert is_there(target, published, image)
    one = ["POST blobs/uploads/", "PATCH blobs/uploads/ID", "PUT blobs/uploads/ID"]
    digest = image.manifest.descriptor.digest
    assert target.did("POST", "PATCH", "PUT", "DELETE") == [
        *one, *one, *one, f"PUT manifests/{digest}", "PUT manifests/v1",
    ]  # fmt: skip
    assert pushed.as_json() == {
        "name": f"{target.host}/team/image:v1",
        "digest": digest,
        "blobs": {"present": 0, "mounted": 0, "sent": 3},
        "sent_bytes": sum(map(len, published.source.blobs.values())),
        "moved_from": None,
    }


def test_of_an_image_that_is_there_nothing_is_sent(
    target: FakeTarget, published: Published, image: Image
) -> None:
    push(target, published, image)
    target.asked.clear()
    published.source.opened.clear()

    pushed = push(target, published, image)

    assert {asked.method for asked in target.asked} == {"HEAD"}
    assert published.source.opened == {}
    assert (pushed.sent_bytes, pushed.blobs["present"]) == (0, 3)


def test_a_tag_that_named_another_image_says_so(target: FakeTarget, published: Published) -> None:
    first = published.image(LOWER)
    push(target, published, first)

    second = published.image(LOWER, UPPER)
    pushed = push(target, published, second)

    assert pushed.moved_from == first.manifest.descriptor.digest
    assert pushed.blobs == {"present": 1, "mounted": 0, "sent": 2}
    assert first.manifest.descriptor.digest in "\n".join(pushed.lines())


def test_the_tag_moves_last(target: FakeTarget, published: Published) -> None:
    old = published.image(LOWER)
    push(target, published, old)
    target.fail_at("PUT", answer(403), end=published.image(UPPER).manifest.descriptor.digest)

    with pytest.raises(AccessDeniedError):
        push(target, published, published.image(UPPER))

    assert target.tags["v1"] == old.manifest.descriptor.digest


# --- mounting ----------------------------------------------------------------------------------


def test_a_layer_of_the_same_registry_is_mounted_and_its_bytes_go_nowhere(
    target: FakeTarget, published: Published, image: Image
) -> None:
    target.others[digest_bytes(LOWER)] = LOWER

    pushed = push(target, published, image, mount_from=SOURCE_REPOSITORY)

    assert is_there(target, published, image)
    assert pushed.blobs == {"present": 0, "mounted": 1, "sent": 2}
    assert digest_bytes(LOWER) not in published.source.opened


def test_a_mount_that_became_an_upload_is_cancelled_and_the_layer_streamed(
    target: FakeTarget, published: Published, image: Image
) -> None:
    pushed = push(target, published, image, mount_from=SOURCE_REPOSITORY)

    assert is_there(target, published, image)
    assert target.did("DELETE") == ["DELETE blobs/uploads/ID"] * 3
    assert pushed.blobs["sent"] == 3


@pytest.mark.parametrize("code", [403, 404, 405, 400])
def test_a_registry_that_mounts_nothing_gets_the_bytes(
    target: FakeTarget, published: Published, image: Image, code: int
) -> None:
    target.fail_at("POST", status(code))

    push(target, published, image, mount_from=SOURCE_REPOSITORY)

    assert is_there(target, published, image)


def test_one_token_is_for_reading_the_source_and_writing_the_target(
    target: FakeTarget, published: Published, image: Image
) -> None:
    target.login = Login()
    target.others[digest_bytes(LOWER)] = LOWER

    pushed = push(target, published, image, mount_from=SOURCE_REPOSITORY)

    assert pushed.blobs["mounted"] == 1
    assert set(target.scopes) == {
        "repository:team/image:pull",  # the challenge's own
        "repository:team/image:pull,push",
        f"repository:{SOURCE_REPOSITORY}:pull",
    }
    assert len(target.scopes) == 3, "one token was enough"


def test_a_token_server_that_refuses_the_source_still_gives_the_target(
    target: FakeTarget, published: Published, image: Image
) -> None:
    target.login = Login()
    target.fail(status(403), at="/token")

    pushed = push(target, published, image, mount_from=SOURCE_REPOSITORY)

    assert is_there(target, published, image)
    assert pushed.blobs == {"present": 0, "mounted": 0, "sent": 3}
    assert target.scopes[-1] == "repository:team/image:pull,push"


# --- who asks ----------------------------------------------------------------------------------


def test_the_credentials_are_those_of_docker_login(
    target: FakeTarget, published: Published, image: Image, nobody: Path
) -> None:
    auth = basic_of("me", PASSWORD).removeprefix("Basic ")
    (nobody / "config.json").write_text(f'{{"auths": {{"{target.host}": {{"auth": "{auth}"}}}}}}')
    target.basic = Login("me", PASSWORD)

    push(target, published, image)

    assert is_there(target, published, image)
    assert {asked.authorization for asked in target.asked} == {None, basic_of("me", PASSWORD)}


def test_who_may_not_push_is_told_so_once(
    target: FakeTarget, published: Published, image: Image
) -> None:
    target.login = Login(token="right")  # noqa: S106 - nobody's
    challenge = f'Bearer realm="http://{target.host}/token"'
    target.fail_at("HEAD", status(401, WWW_Authenticate=challenge), times=99)

    with pytest.raises(AccessDeniedError) as caught:
        push(target, published, image)

    assert len(target.did("HEAD")) == 2, "no loop"
    assert "the right to push" in str(caught.value)
    assert f"docker login {target.host}" in str(caught.value)


def test_a_token_that_grows_old_in_the_middle_is_renewed(
    target: FakeTarget, published: Published, image: Image
) -> None:
    target.login = Login()

    def renewed(handler: object) -> None:
        assert target.login is not None
        target.login.token = "another"  # noqa: S105 - nobody's
        refuse = status(401, WWW_Authenticate=f'Bearer realm="http://{target.host}/token"')
        handler.close_connection = True  # type: ignore[attr-defined]
        refuse(handler)  # type: ignore[arg-type]

    target.fail_at("PATCH", renewed)

    push(target, published, image)

    assert is_there(target, published, image)


# --- faults ------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [429, 500, 502, 503])
@pytest.mark.parametrize("method", ["HEAD", "POST", "PATCH", "PUT"])
def test_what_passes_is_waited_for(
    target: FakeTarget, published: Published, image: Image, method: str, code: int
) -> None:
    target.fail_at(method, answer(code, Retry_After="3"), times=2)
    pauses: list[float] = []

    patience = impatient(pauses=pauses)
    target.target(patience=patience).push(image, published.source.open_blob, "v1", Silent())

    assert is_there(target, published, image)
    assert pauses == [3, 3]


@pytest.mark.parametrize(
    ("code", "error"),
    [(429, RateLimitedError), (500, RegistryFailedError), (413, RegistryFailedError)],
)
def test_what_stays_is_told_and_the_upload_is_given_up(
    target: FakeTarget, published: Published, image: Image, code: int, error: type[Exception]
) -> None:
    target.fail_at("PATCH", answer(code), times=99)

    with pytest.raises(error):
        push(target, published, image)

    assert target.sessions == {}, "each was ended"
    assert len(target.did("PATCH")) == (1 if code == 413 else 5)
    assert target.tags == {}


@pytest.mark.parametrize("at", [1, 70_000, 1_500_000, len(LOWER)])
def test_an_upload_that_is_cut_goes_on_where_it_was(
    target: FakeTarget, published: Published, image: Image, at: int
) -> None:
    target.fail_at("PATCH", cut_upload(at))

    push(target, published, image)

    assert is_there(target, published, image)
    assert len(target.did("POST")) == (4 if at == 1 else 3), "of a byte it is begun anew"
    ranges = [
        asked.headers.get("content-range") for asked in target.asked if asked.method == "PATCH"
    ]
    if 1 < at < len(LOWER):
        assert ranges[1] == f"{at}-{len(LOWER) - 1}"


def test_a_registry_that_forgot_the_upload_gets_it_again(
    target: FakeTarget, published: Published, image: Image
) -> None:
    target.fail_at("PATCH", cut_upload(70_000))
    target.fail_at("GET", answer(404))

    push(target, published, image)

    assert target.source.blobs == published.source.blobs
    assert len(target.did("POST")) == 4


def test_an_answer_that_was_lost_does_not_send_the_blob_again(
    target: FakeTarget, published: Published, image: Image
) -> None:
    target.fail_at("PUT", after_doing(hang_up))

    pushed = push(target, published, image)

    assert is_there(target, published, image)
    assert pushed.sent_bytes == sum(map(len, published.source.blobs.values()))


def test_a_line_that_is_cut_for_ever_is_given_up(
    target: FakeTarget, published: Published, image: Image
) -> None:
    target.fail_at("PATCH", cut_upload(0), times=99)

    with pytest.raises(UnreachableError):
        push(target, published, image)


def test_a_line_that_gets_on_is_given_no_end_of_tries(
    target: FakeTarget, published: Published, image: Image, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upload, "RENEWAL_BYTES", 1)
    target.fail_at("PATCH", cut_upload(300_000), times=9)

    push(target, published, image)

    assert is_there(target, published, image)


@pytest.mark.parametrize("method", ["POST", "PUT"])
def test_a_registry_that_stores_another_blob_is_not_believed(
    target: FakeTarget, published: Published, image: Image, method: str
) -> None:
    wrong = "sha256:" + "0" * 64
    target.fail_at(method, answer(201, Docker_Content_Digest=wrong))

    with pytest.raises(UnexpectedAnswerError) as caught:
        push(target, published, image, mount_from=SOURCE_REPOSITORY)

    assert wrong in str(caught.value)
    assert target.tags == {}


@pytest.mark.parametrize("end", ["v1", "manifest"])
def test_a_registry_that_stores_another_manifest_is_not_believed(
    target: FakeTarget, published: Published, image: Image, end: str
) -> None:
    name = "v1" if end == "v1" else image.manifest.descriptor.digest
    target.fail_at("PUT", answer(201, Docker_Content_Digest="sha256:" + "0" * 64), end=name)

    with pytest.raises(UnexpectedAnswerError):
        push(target, published, image)


def test_an_upload_without_a_place_is_told(
    target: FakeTarget, published: Published, image: Image
) -> None:
    target.fail_at("POST", answer(202))

    with pytest.raises(UnexpectedAnswerError) as caught:
        push(target, published, image)
    assert "no Location" in str(caught.value)


# --- elsewhere ---------------------------------------------------------------------------------


def test_an_upload_may_be_elsewhere_and_gets_no_credentials_there(
    target: FakeTarget, published: Published, image: Image
) -> None:
    target.login = Login()
    with taking(MemorySource()) as other:
        other.sessions["7"] = bytearray()
        location = f"http://{other.host}/v2/team/image/blobs/uploads/7?_state=0"
        target.fail_at("POST", answer(202, Location=location))
        digest = image.layers[0].descriptor.digest

        with pytest.raises(RegistryFailedError):
            push(target, published, image)  # the manifest names a blob that is elsewhere

        assert other.source.blobs[digest] == LOWER
        assert {asked.authorization for asked in other.asked} == {None}


@pytest.mark.parametrize("method", ["HEAD", "POST", "PATCH", "PUT"])
def test_a_redirect_is_followed_with_method_and_body(
    target: FakeTarget, published: Published, image: Image, method: str
) -> None:
    def there(handler: object) -> None:
        handler.rfile.read(handler.left)  # type: ignore[attr-defined]
        redirect(handler.path)(handler)  # type: ignore[attr-defined, arg-type]

    target.fail_at(method, there)

    push(target, published, image)

    assert is_there(target, published, image)


def test_a_step_down_to_plain_http_is_not_gone(
    target: FakeTarget, published: Published, image: Image
) -> None:
    target.fail_at("POST", answer(202, Location="http://registry.example/upload"))

    with pytest.raises(UnsafeAddressError):
        push(target, published, image)


# --- what is sent ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("damaged", "error"),
    [(LOWER[:-1], TruncatedBlobError), (LOWER[:-1] + b"x", DigestMismatchError)],
)
def test_a_layer_that_is_not_the_image_s_is_never_stored(
    target: FakeTarget, published: Published, image: Image, damaged: bytes, error: type[Exception]
) -> None:
    published.source.blobs[digest_bytes(LOWER)] = damaged

    with pytest.raises(error):
        push(target, published, image)

    assert target.source.blobs == {}
    assert target.sessions == {}


def test_offline_nothing_is_asked(
    target: FakeTarget, published: Published, image: Image, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARKLOCK_OFFLINE", "1")

    with pytest.raises(OfflineError):
        push(target, published, image)
    assert target.asked == []


def test_a_base_of_another_registry_is_streamed_once(
    target: FakeTarget, published: Published, image: Image
) -> None:
    with serving(published.source) as vendor:
        pushed = target.target().push(image, vendor.opened().open_blob, "v1", Silent())

    assert is_there(target, published, image)
    assert pushed.blobs["sent"] == 3
    assert vendor.paths() == [f"blobs/{digest_bytes(data)}" for data in (LOWER, UPPER)]
