from __future__ import annotations

import http.client
import socket
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from builder.digest import digest_bytes
from builder.oci.errors import MissingBlobError
from deploy.edges.blobserver import BlobServer, Offer, Stream
from tests.contract.deploy.images import SmallImage, small_image

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def image(tmp_path: Path) -> SmallImage:
    return small_image(tmp_path)


@pytest.fixture
def told() -> list[int]:
    return []


@pytest.fixture
def server(image: SmallImage, told: list[int]) -> Iterator[BlobServer]:
    with BlobServer(image.offer, told.append) as running:
        yield running


def ask(
    server: BlobServer, path: str, *, method: str = "GET", headers: dict[str, str] | None = None
) -> tuple[http.client.HTTPResponse, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    connection.request(method, path, headers=headers or {})
    response = connection.getresponse()
    body = response.read()
    connection.close()
    return response, body


def test_it_says_that_it_is_a_registry(server: BlobServer) -> None:
    assert ask(server, "/v2/")[0].status == 200


def test_tls_is_answered_in_a_way_that_makes_docker_fall_back_to_http(server: BlobServer) -> None:
    hello = b"\x16\x03\x01\x00\xc8" + b"\x01" * 200  # no line end in it, like most
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as client:
        client.sendall(hello)
        assert client.recv(5, socket.MSG_WAITALL) == b"HTTP/"


def test_the_manifest_comes_by_digest_with_its_type_and_digest(
    server: BlobServer, image: SmallImage
) -> None:
    digest = image.offer.manifest_digest
    response, body = ask(server, f"/v2/sparklock/lab/manifests/{digest}")
    assert body == image.manifest
    assert response.headers["Content-Type"] == image.offer.media_type
    assert response.headers["Docker-Content-Digest"] == digest


def test_a_blob_comes_whole_and_its_bytes_are_counted_as_they_go(
    server: BlobServer, image: SmallImage, told: list[int]
) -> None:
    digest = digest_bytes(image.layer)
    assert ask(server, f"/v2/sparklock/lab/blobs/{digest}")[1] == image.layer
    assert server.sent_bytes == told[-1] == len(image.layer)


def test_a_head_request_gets_the_size_and_no_byte(server: BlobServer, image: SmallImage) -> None:
    path = f"/v2/a/blobs/{digest_bytes(image.layer)}"
    response, body = ask(server, path, method="HEAD")
    assert response.headers["Content-Length"] == str(len(image.layer))
    assert (body, server.sent_bytes) == (b"", 0)


@pytest.mark.parametrize(
    ("asked", "begin", "end"),
    [("bytes=0-99", 0, 100), ("bytes=700-", 700, None), ("bytes=700-9999999", 700, None)],
)
def test_a_range_resumes_a_blob_that_was_cut(
    server: BlobServer, image: SmallImage, asked: str, begin: int, end: int | None
) -> None:
    path = f"/v2/a/blobs/{digest_bytes(image.layer)}"
    response, body = ask(server, path, headers={"Range": asked})
    assert response.status == 206
    assert body == image.layer[begin:end]
    last = len(image.layer[:end]) - 1
    assert response.headers["Content-Range"] == f"bytes {begin}-{last}/{len(image.layer)}"


@pytest.mark.parametrize("asked", ["bytes=5-1", "bytes=99999999-", "lines=1-2", "bytes=-5"])
def test_a_range_that_makes_no_sense_gets_the_whole(
    server: BlobServer, image: SmallImage, asked: str
) -> None:
    path = f"/v2/a/blobs/{digest_bytes(image.layer)}"
    response, body = ask(server, path, headers={"Range": asked})
    assert (response.status, body) == (200, image.layer)


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/v2/_catalog",
        "/v2/sparklock/lab/tags/list",
        "/v2/sparklock/lab/manifests/latest",
        "/v2/sparklock/lab/blobs/../../etc/passwd",
        f"/v2/sparklock/lab/blobs/{digest_bytes(b'a secret')}",
        f"/v2/sparklock/lab/manifests/{digest_bytes(b'a secret')}",
    ],
)
def test_nothing_but_the_offered_image_is_served(
    server: BlobServer, image: SmallImage, path: str
) -> None:
    (image.folder / digest_bytes(b"a secret")).write_bytes(b"a secret")
    response, body = ask(server, path)
    assert (response.status, body) == (404, b"")


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
def test_nothing_can_be_written(server: BlobServer, method: str) -> None:
    assert ask(server, "/v2/sparklock/lab/blobs/uploads/", method=method)[0].status == 501


def test_a_blob_that_stands_nowhere_is_remembered(server: BlobServer, image: SmallImage) -> None:
    digest = digest_bytes(image.layer)
    (image.folder / digest).unlink()
    assert ask(server, f"/v2/a/blobs/{digest}")[0].status == 404
    assert server.missing == (digest,)


def test_the_first_place_that_has_a_blob_serves_it(image: SmallImage, tmp_path: Path) -> None:
    offer = image.offer
    places = (lambda digest: tmp_path / "nowhere" / digest, *offer.places)
    offer = Offer(offer.manifest, offer.manifest_digest, offer.media_type, offer.blobs, places)
    with BlobServer(offer, lambda _: None) as server:
        digest = digest_bytes(image.layer)
        assert ask(server, f"/v2/a/blobs/{digest}")[1] == image.layer


def test_a_blob_without_a_file_is_passed_on_from_where_it_comes(image: SmallImage) -> None:
    digest = digest_bytes(image.layer)
    (image.folder / digest).unlink()
    chunks = (image.layer[:100], image.layer[100:])
    stream = Stream(len(image.layer), lambda: nullcontext(iter(chunks)))
    offer = replace(image.offer, streams={digest: stream})
    with BlobServer(offer, lambda _: None) as server:
        assert ask(server, f"/v2/a/blobs/{digest}")[1] == image.layer
        head, body = ask(server, f"/v2/a/blobs/{digest}", method="HEAD")
        assert (head.headers["Content-Length"], body) == (str(len(image.layer)), b"")
        assert server.sent_bytes == len(image.layer)


def test_a_stream_that_breaks_cuts_the_connection_and_its_reason_is_kept(
    image: SmallImage,
) -> None:
    digest = digest_bytes(image.layer)
    (image.folder / digest).unlink()
    error = MissingBlobError("registry.example/base", digest)

    def broken() -> Iterator[bytes]:
        yield image.layer[:100]
        raise error

    stream = Stream(len(image.layer), lambda: nullcontext(broken()))
    offer = replace(image.offer, streams={digest: stream})
    with BlobServer(offer, lambda _: None) as server:
        with pytest.raises(http.client.IncompleteRead):
            ask(server, f"/v2/a/blobs/{digest}")
        assert server.failures == (error,)


def test_it_ends_although_a_client_keeps_its_connection_open(image: SmallImage) -> None:
    with BlobServer(image.offer, lambda _: None) as server:
        kept = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
        kept.request("GET", "/v2/")
        kept.getresponse().read()
        port = server.port
    fresh = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    with pytest.raises(ConnectionRefusedError):
        fresh.request("GET", "/v2/")
    kept.close()
