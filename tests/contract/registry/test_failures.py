"""A registry that fails, and a network that does: tried again where that helps, told otherwise."""

from __future__ import annotations

import socket
import ssl
import subprocess
import threading
import traceback
from contextlib import contextmanager
from email.utils import formatdate
from typing import TYPE_CHECKING

import pytest

from builder.digest import Digest, digest_bytes
from builder.edges.registry import transfer
from builder.edges.registry.errors import (
    NoSuchImageError,
    OfflineError,
    RateLimitedError,
    RegistryError,
    RegistryFailedError,
    TlsError,
    TransferCutError,
    UnexpectedAnswerError,
    UnknownHostError,
    UnreachableError,
)
from builder.edges.registry.source import RegistrySource
from builder.edges.registry.transport import Patience, Transport
from builder.errors import BuildError
from builder.oci.errors import DigestMismatchError, MissingBlobError, TruncatedBlobError
from builder.oci.image_errors import MalformedDocumentError, PinNotFoundError
from builder.oci.model import OCI_CONFIG, OCI_INDEX, OCI_LAYER_TAR, Descriptor, Platform
from builder.oci.reference import ImageReference
from builder.oci.select import MAX_DOCUMENT_BYTES, select_manifest
from tests.fake_registry import body, cut_after, hang_up, impatient, put, redirect, status

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from builder.oci.model import Image
    from tests.fake_registry import FakeRegistry, Fault, Handler

SECRET = "hush"  # noqa: S105 - nobody's
AMD64 = Platform("linux", "amd64")


def read(source: RegistrySource, descriptor: Descriptor) -> bytes:
    with source.open_blob(descriptor) as chunks:
        return b"".join(chunks)


def layer_of(image: Image) -> Descriptor:
    return image.layers[0].descriptor


# --- what is asked -----------------------------------------------------------------------------


def test_nothing_is_asked_before_something_is_needed(registry: FakeRegistry) -> None:
    registry.opened()

    assert registry.asked == []


def test_a_tag_is_asked_once_and_its_document_is_not_fetched_again(
    registry: FakeRegistry, image: Image
) -> None:
    source = registry.opened()

    assert source.roots() == source.roots() == (image.manifest.descriptor,)
    assert select_manifest(source, None, AMD64).image == image
    assert registry.paths() == ["manifests/v1", f"blobs/{image.config.digest}"]


def test_of_a_pinned_image_the_tag_is_not_asked(registry: FakeRegistry, image: Image) -> None:
    pin = image.manifest.descriptor.digest

    assert select_manifest(registry.opened(), pin, AMD64).image == image
    assert registry.paths() == [f"manifests/{pin}", f"blobs/{image.config.digest}"]


def test_a_name_without_tag_means_latest(registry: FakeRegistry) -> None:
    with pytest.raises(NoSuchImageError):
        registry.opened(f"{registry.host}/team/image").roots()

    assert registry.paths() == ["manifests/latest"]


def test_a_digest_in_the_name_is_asked_in_place_of_the_tag(
    registry: FakeRegistry, image: Image
) -> None:
    pin = image.manifest.descriptor.digest
    source = registry.opened(f"{registry.name}@{pin}")

    assert source.roots() == (image.manifest.descriptor,)
    assert registry.paths() == [f"manifests/{pin}"]


def test_every_kind_of_manifest_is_accepted_and_bytes_as_they_are(registry: FakeRegistry) -> None:
    registry.opened().roots()

    (asked,) = registry.asked
    for media_type in (
        "application/vnd.docker.distribution.manifest.list.v2+json",
        "application/vnd.docker.distribution.manifest.v2+json",
        "application/vnd.oci.image.index.v1+json",
        "application/vnd.oci.image.manifest.v1+json",
    ):
        assert media_type in asked.headers["accept"]
    assert asked.headers["accept-encoding"] == "identity"


def test_an_index_is_resolved_to_its_platform(registry: FakeRegistry, image: Image) -> None:
    from tests.unit.oci.archives import Published  # noqa: PLC0415 - made of this registry's blobs

    published = Published(registry.source)
    registry.tagged = published.index(
        (image.manifest.descriptor, "linux/amd64"),
        (Descriptor(image.manifest.descriptor.media_type, digest_bytes(b"x"), 1), "linux/arm64"),
    )

    selected = select_manifest(registry.opened(), None, AMD64)

    assert selected.image == image
    assert selected.index_digest == registry.tagged.digest


# --- what there is not -------------------------------------------------------------------------


def test_a_tag_that_is_not_there_is_told_with_the_registrys_words(registry: FakeRegistry) -> None:
    registry.tagged = None

    with pytest.raises(NoSuchImageError) as caught:
        registry.opened().roots()

    (message,) = caught.value.messages
    assert message.place == registry.name
    assert message.expected == f"team/image with the tag v1, on {registry.host}"
    assert message.found == "404 Not Found: MANIFEST_UNKNOWN: not known"


@pytest.mark.parametrize("tagged", [True, False])
def test_a_pin_that_is_not_there_is_told_beside_what_the_tag_is_now(
    registry: FakeRegistry,
    image: Image,
    tagged: bool,  # noqa: FBT001 - both cases
) -> None:
    pin = digest_bytes(b"something else")
    if not tagged:
        registry.tagged = None

    with pytest.raises(PinNotFoundError) as caught:
        select_manifest(registry.opened(), pin, AMD64)

    assert caught.value.pin == pin
    assert caught.value.offered == ((image.manifest.descriptor.digest,) if tagged else ())


def test_other_bytes_than_the_tags_own_digest_says_are_refused(registry: FakeRegistry) -> None:
    stated = digest_bytes(b"something else")
    registry.fail(body(b"{}", Docker_Content_Digest=stated))

    with pytest.raises(DigestMismatchError) as caught:
        registry.opened().roots()
    assert (caught.value.expected, caught.value.found) == (stated, digest_bytes(b"{}"))


def test_a_digest_of_another_kind_is_not_compared(registry: FakeRegistry) -> None:
    registry.fail(body(b"{}", Docker_Content_Digest="sha512:0"))

    assert registry.opened().roots()[0].digest == digest_bytes(b"{}")


def test_a_document_without_end_is_not_read_to_its_end(registry: FakeRegistry) -> None:
    huge = put(registry, bytes(MAX_DOCUMENT_BYTES + 1))

    with pytest.raises(MalformedDocumentError) as caught:
        registry.opened().document(huge, media_type=OCI_INDEX)
    assert str(MAX_DOCUMENT_BYTES) in str(caught.value)


# --- blobs that are cut ------------------------------------------------------------------------


@pytest.mark.parametrize("ranges", [True, False])
def test_a_cut_blob_goes_on_where_it_was_cut(
    registry: FakeRegistry,
    image: Image,
    ranges: bool,  # noqa: FBT001 - both cases
) -> None:
    registry.ranges = ranges
    registry.fail(cut_after(1_500_000), at=layer_of(image).digest)
    registry.fail(cut_after(700_001), at=layer_of(image).digest)
    source = registry.opened()

    assert digest_bytes(read(source, layer_of(image))) == layer_of(image).digest

    asked = [request.headers.get("range") for request in registry.asked]
    if ranges:
        assert asked == [None, "bytes=1500000-", "bytes=2200001-"]
    else:
        assert asked == [None, "bytes=1500000-", "bytes=1500000-"]


def test_a_resumed_blob_is_asked_of_the_registry_since_a_redirect_grows_old(
    registry: FakeRegistry, image: Image
) -> None:
    digest = layer_of(image).digest
    registry.fail(redirect(f"/v2/team/image/blobs/{digest}"), at=digest)
    registry.fail(cut_after(1000), at=digest)
    registry.fail(redirect(f"/v2/team/image/blobs/{digest}"), at=digest)

    assert digest_bytes(read(registry.opened(), layer_of(image))) == digest
    ranges = [request.headers.get("range") for request in registry.asked]
    assert ranges == [None, None, "bytes=1000-", "bytes=1000-"]


def test_a_line_that_is_cut_again_and_again_at_one_place_is_given_up(
    registry: FakeRegistry, image: Image
) -> None:
    registry.fail(cut_after(1000))
    registry.fail(cut_after(0), times=99)

    with pytest.raises(TransferCutError) as caught:
        read(registry.opened(), layer_of(image))

    assert len(registry.asked) == Patience().attempts
    (message,) = caught.value.messages
    assert message.place == f"{registry.name}: {layer_of(image).digest}"
    assert message.expected == f"{layer_of(image).size_bytes} bytes"
    assert message.found.startswith("1000 bytes, then: ")


def test_a_line_that_brings_much_between_its_cuts_is_not_given_up(
    registry: FakeRegistry, image: Image, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transfer, "RENEWAL_BYTES", 200_000)
    registry.fail(cut_after(200_000), times=12)

    assert digest_bytes(read(registry.opened(), layer_of(image))) == layer_of(image).digest
    assert len(registry.asked) == 13


def test_a_blob_that_is_shorter_in_the_registry_is_cut_short_for_good(
    registry: FakeRegistry, image: Image
) -> None:
    layer = layer_of(image)
    longer = Descriptor(layer.media_type, layer.digest, layer.size_bytes + 1)

    with pytest.raises(TruncatedBlobError) as caught:
        read(registry.opened(), longer)
    assert caught.value.found_bytes == layer.size_bytes


def test_an_answer_of_unknown_length_that_ends_too_early_is_cut_short(
    registry: FakeRegistry, image: Image
) -> None:
    def until_close(handler: Handler) -> None:
        handler.wfile.write(b"HTTP/1.0 200 OK\r\n\r\n" + b"x" * 100)
        handler.close_connection = True

    registry.fail(until_close)
    registry.fail(status(416), times=1)

    with pytest.raises(TruncatedBlobError) as caught:
        read(registry.opened(), layer_of(image))
    assert caught.value.found_bytes == 100


def test_a_length_that_is_beyond_any_number_is_none(registry: FakeRegistry, image: Image) -> None:
    layer = layer_of(image)
    whole = registry.source.blobs[layer.digest]

    def boasts(handler: Handler) -> None:
        head = f"HTTP/1.1 200 OK\r\nContent-Length: {'9' * 5000}\r\n\r\n"
        handler.wfile.write(head.encode() + whole)
        handler.close_connection = True

    registry.fail(boasts)

    assert read(registry.opened(), layer) == whole


def test_another_part_than_was_asked_for_is_refused(registry: FakeRegistry, image: Image) -> None:
    def wrong_part(handler: Handler) -> None:
        handler.send_response(206)
        handler.send_header("Content-Range", "bytes 0-99/3000000")
        handler.send_header("Content-Length", "100")
        handler.end_headers()
        handler.wfile.write(b"x" * 100)

    registry.fail(cut_after(1000))
    registry.fail(wrong_part)

    with pytest.raises(UnexpectedAnswerError) as caught:
        read(registry.opened(), layer_of(image))
    assert "from 1000 on" in caught.value.expected
    assert caught.value.found == "bytes 0-99/3000000"


def test_a_blob_that_goes_away_while_it_is_resumed_is_missing(
    registry: FakeRegistry, image: Image
) -> None:
    registry.fail(cut_after(1000))
    registry.fail(status(404))

    with pytest.raises(MissingBlobError):
        read(registry.opened(), layer_of(image))


def test_bytes_are_never_decoded_on_the_way(registry: FakeRegistry, image: Image) -> None:
    data = registry.source.blobs[layer_of(image).digest]
    registry.fail(body(data, Content_Encoding="gzip"))

    assert read(registry.opened(), layer_of(image)) == data


def test_an_answer_that_is_no_blob_is_told(registry: FakeRegistry, image: Image) -> None:
    registry.fail(status(418, "TEAPOT", "short\n\x1b[31mand stout"))

    with pytest.raises(RegistryFailedError) as caught:
        read(registry.opened(), layer_of(image))
    assert caught.value.found == "418 I'm a Teapot: TEAPOT: short  [31mand stout"


# --- trying again ------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [429, 500, 502, 503, 504])
def test_a_status_that_may_pass_is_waited_for(registry: FakeRegistry, code: int) -> None:
    pauses: list[float] = []
    registry.fail(status(code), times=3)

    assert registry.opened(patience=impatient(pauses=pauses)).roots()
    assert pauses == [1, 2, 4]


def test_pauses_are_shortened_at_random_but_never_below_half() -> None:
    pauses: list[float] = []
    patience = Patience(sleep=pauses.append, jitter=iter([0.0, 0.5, 1.0]).__next__)
    for attempt in (1, 2, 9):
        patience.pause(attempt)

    assert pauses == [0.5, 1.5, 60]


@pytest.mark.parametrize("value", ["7", formatdate(1000007, usegmt=True)])
def test_a_server_that_says_how_long_is_believed(registry: FakeRegistry, value: str) -> None:
    pauses: list[float] = []
    patience = Patience(sleep=pauses.append, jitter=lambda: 1, now=lambda: 1000000)
    registry.fail(status(429, Retry_After=value))

    assert registry.opened(patience=patience).roots()
    assert pauses == [7]


@pytest.mark.parametrize("value", ["soon", "-7", "", formatdate(0, usegmt=True)])
def test_a_retry_after_of_no_use_is_no_reason_to_hurry(registry: FakeRegistry, value: str) -> None:
    pauses: list[float] = []
    registry.fail(status(429, Retry_After=value))

    assert registry.opened(patience=impatient(pauses=pauses)).roots()
    assert pauses == [1]


@pytest.mark.parametrize(("value", "told"), [("7200", "7200 s"), ("9" * 400, "31622400 s")])
def test_a_pause_of_hours_is_told_and_not_waited_for(
    registry: FakeRegistry, value: str, told: str
) -> None:
    pauses: list[float] = []
    registry.fail(status(429, "TOOMANYREQUESTS", "enough", Retry_After=value), times=9)

    with pytest.raises(RateLimitedError) as caught:
        registry.opened(patience=impatient(pauses=pauses)).roots()

    assert pauses == []
    (message,) = caught.value.messages
    assert message.found == "429 Too Many Requests: TOOMANYREQUESTS: enough"
    assert message.remedy.startswith(f"run it again in {told}; docker login 127.0.0.1:")


def test_a_rate_limit_that_stays_is_told(registry: FakeRegistry) -> None:
    registry.fail(status(429), times=9)

    with pytest.raises(RateLimitedError, match="run it again later"):
        registry.opened().roots()
    assert len(registry.asked) == Patience().attempts


def test_an_error_of_the_registrys_own_that_stays_is_told(registry: FakeRegistry) -> None:
    registry.fail(status(500, "UNKNOWN", "the disk"), times=9)

    with pytest.raises(RegistryFailedError) as caught:
        registry.opened().roots()
    assert "500 Internal Server Error: UNKNOWN: the disk, 5 times" in str(caught.value)


@pytest.mark.parametrize("code", [400, 404, 405, 418, 501])
def test_a_status_that_will_not_pass_is_asked_once(registry: FakeRegistry, code: int) -> None:
    registry.fail(status(code), times=9)

    with pytest.raises(RegistryError):
        registry.opened().roots()
    assert len(registry.asked) == 1


def test_a_connection_that_ends_without_an_answer_is_made_again(registry: FakeRegistry) -> None:
    registry.fail(hang_up, times=2)

    assert registry.opened().roots()
    assert len(registry.asked) == 3


def test_a_document_that_is_cut_is_asked_for_again(registry: FakeRegistry, image: Image) -> None:
    registry.fail(cut_after(10))

    found = registry.opened().document(image.config.digest, media_type=OCI_CONFIG)
    assert found == image.config.raw


def test_a_form_with_a_token_is_sent_once(registry: FakeRegistry) -> None:
    registry.fail(hang_up)
    transport = Transport("place", registry.host, plain_http=True, patience=impatient())

    with pytest.raises(UnreachableError) as caught:
        transport.post(f"http://{registry.host}/token", {"a": "b"}, most_bytes=10)
    assert caught.value.attempts == len(registry.asked) == 1


# --- no registry at all ------------------------------------------------------------------------


def opened(host: str, patience: Patience | None = None) -> RegistrySource:
    name = f"{host}/team/image:v1"
    return RegistrySource(ImageReference.parse(name), name, patience=patience or impatient())


def test_a_host_that_is_not_known_is_named() -> None:
    with pytest.raises(UnknownHostError) as caught:
        opened("registry.invalid").roots()

    (message,) = caught.value.messages
    assert message.place == "registry.invalid/team/image:v1"
    assert message.expected == "an address of registry.invalid"
    assert message.found


def test_a_port_where_nobody_listens_is_tried_as_often_as_others() -> None:
    pauses: list[float] = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

    with pytest.raises(UnreachableError) as caught:
        opened(f"127.0.0.1:{port}", impatient(pauses=pauses)).roots()

    assert len(pauses) == Patience().attempts - 1
    assert "Connection refused, after 5 tries" in str(caught.value)


def test_a_server_that_keeps_silent_is_not_waited_for_long() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        pytest.raises(UnreachableError) as caught,
    ):
        opened(f"127.0.0.1:{server.getsockname()[1]}", impatient(read_s=0.05)).roots()
    assert "no answer in time" in str(caught.value)


@contextmanager
def answering(
    answer: Callable[[socket.socket], object],
) -> Iterator[int]:
    """The port of a server that does this with every connection."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    try:
                        answer(connection)
                    except OSError:
                        continue

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)
        thread.join(5)


def test_a_server_of_another_protocol_is_told() -> None:
    with (
        answering(lambda connection: connection.sendall(b"220 mail.example ESMTP\r\n")) as port,
        pytest.raises(RegistryError) as caught,
    ):
        opened(f"127.0.0.1:{port}").roots()
    assert "BadStatusLine" in str(caught.value)


def over_tls() -> Transport:
    return Transport("the place", "registry.example", plain_http=False, patience=impatient())


def test_a_server_without_tls_is_not_asked_in_plain_words() -> None:
    received: list[bytes] = []

    def answer(connection: socket.socket) -> None:
        received.append(connection.recv(1000))
        connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    with answering(answer) as port, pytest.raises(TlsError) as caught:
        over_tls().open(f"https://127.0.0.1:{port}/v2/?token={SECRET}", {"Authorization": SECRET})

    assert len(received) == 1
    assert SECRET.encode() not in received[0]
    assert "TLS failed: " in str(caught.value)
    assert SECRET not in "".join(traceback.format_exception(caught.value))


def test_a_certificate_that_nobody_vouches_for_is_refused(tmp_path: Path) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    try:
        subprocess.run(
            [
                *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt"),
                *("ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"),
                *("-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"),
                *("-keyout", str(key), "-out", str(certificate)),
            ],
            check=True,
            capture_output=True,
        )
    except FileNotFoundError:
        pytest.skip("openssl is not installed: apt-get install openssl")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)

    def answer(connection: socket.socket) -> None:
        with context.wrap_socket(connection, server_side=True) as wrapped:
            wrapped.recv(1000)
            wrapped.sendall(b"HTTP/1.1 204 No Content\r\n\r\n")

    with answering(answer) as port:
        with pytest.raises(TlsError) as caught:
            over_tls().open(f"https://127.0.0.1:{port}/", {})
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("REQUESTS_CA_BUNDLE", str(certificate))
            assert over_tls().open(f"https://127.0.0.1:{port}/", {}).status_code == 204

    (message,) = caught.value.messages
    assert message.found == "certificate refused: self-signed certificate"
    assert "REQUESTS_CA_BUNDLE" in message.remedy


def test_a_registry_elsewhere_is_never_asked_in_plain_http() -> None:
    source = opened("registry.example")

    assert source._base == "https://registry.example/v2/team/image"
    assert opened("localhost:5000")._base == "http://localhost:5000/v2/team/image"
    assert opened("docker.io")._base == "https://registry-1.docker.io/v2/team/image"


def test_no_proxy_is_asked_for_a_registry_on_loopback(
    registry: FakeRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.delenv("NO_PROXY", raising=False)

    assert registry.opened().roots()


@pytest.mark.parametrize("ask", ["roots", "document", "blob"])
def test_offline_every_request_is_an_error(
    registry: FakeRegistry, monkeypatch: pytest.MonkeyPatch, ask: str
) -> None:
    monkeypatch.setenv("SPARKLOCK_OFFLINE", "1")
    source = registry.opened()
    digest = Digest("sha256:" + "0" * 64)
    asks: dict[str, Callable[[], object]] = {
        "roots": source.roots,
        "document": lambda: source.document(digest, media_type=OCI_INDEX),
        "blob": lambda: read(source, Descriptor(OCI_LAYER_TAR, digest, 1)),
    }

    with pytest.raises(OfflineError) as caught:
        asks[ask]()

    assert registry.asked == []
    assert f"http://{registry.host}/v2/team/image/" in str(caught.value)
    assert "unset SPARKLOCK_OFFLINE" in str(caught.value)


@pytest.mark.parametrize("value", ["", "0"])
def test_an_empty_variable_does_not_mean_offline(
    registry: FakeRegistry, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setenv("SPARKLOCK_OFFLINE", value)

    assert registry.opened().roots()


FAULTS: dict[str, Fault] = {
    "200 of a page": body(b"<html>welcome</html>", Content_Type="text/html"),
    "403": status(403),
    "a redirect to nowhere": redirect("http://"),
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_every_failure_is_ours_with_place_and_remedy(registry: FakeRegistry, fault: Fault) -> None:
    registry.fail(fault, times=9)

    with pytest.raises(BuildError) as caught:
        select_manifest(registry.opened(), None, AMD64)
    for message in caught.value.messages:
        assert message.place.startswith(registry.name)
        assert message.remedy
