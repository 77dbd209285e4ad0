"""A registry as a source of images: documents by digest, and blobs that mend cut lines."""

from __future__ import annotations

from contextlib import contextmanager
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from builder.digest import NotADigestError, digest_bytes, parse_digest
from builder.edges.registry.auth import Authorizer
from builder.edges.registry.errors import (
    NoSuchImageError,
    RegistryFailedError,
)
from builder.edges.registry.transfer import Transfer
from builder.edges.registry.transport import Answer, Patience, Transport
from builder.oci.errors import DigestMismatchError, MissingBlobError
from builder.oci.image_errors import MalformedDocumentError
from builder.oci.model import INDEX_TYPES, MANIFEST_TYPES, Descriptor
from builder.oci.reference import DOCKER_HUB
from builder.oci.select import MAX_DOCUMENT_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import requests

    from builder.digest import Digest
    from builder.oci.reference import ImageReference

HUB_API: Final = "registry-1.docker.io"
DEFAULT_TAG: Final = "latest"
_MANIFESTS: Final = INDEX_TYPES | MANIFEST_TYPES
_ACCEPT: Final = ", ".join(sorted(_MANIFESTS))


class RegistrySource:
    """One repository of a registry; a builder.sources.ImageSource. Asks nothing when it is made.

    The tag is asked by `roots` alone; whatever has a digest is asked by that.
    """

    def __init__(
        self, reference: ImageReference, name: str, *, patience: Patience | None = None
    ) -> None:
        """`name` is the reference as written, by which errors call the source."""
        self._reference = reference
        self._name = name
        self._base = base_of(reference)
        self._transport = Transport(
            name, reference.host, plain_http=reference.is_on_loopback, patience=patience
        )
        self._authorizer = Authorizer(
            self._transport, reference.host, reference.repository, base=self._base
        )
        self._tagged: tuple[Descriptor, bytes] | None = None

    @property
    def place(self) -> str:
        """The source as an error names it: the reference as written."""
        return self._name

    def roots(self) -> tuple[Descriptor, ...]:
        """What the tag names now, or the reference's own digest; NoSuchImageError if nothing."""
        if self._tagged is None:
            self._tagged = self._by_tag()
        return (self._tagged[0],)

    def document(self, digest: Digest, *, media_type: str) -> bytes:
        """The raw bytes of a manifest, index or config, checked against the digest."""
        if self._tagged is not None and self._tagged[0].digest == digest:
            return self._tagged[1]
        of_manifests = media_type in _MANIFESTS
        path = f"{'manifests' if of_manifests else 'blobs'}/{digest}"
        answer = self._document(path, {"Accept": _ACCEPT} if of_manifests else {})
        if answer.response.status_code == HTTPStatus.NOT_FOUND:
            answer.response.close()
            raise MissingBlobError(self.place, digest)
        place = f"{self.place}: {digest}"
        raw = self._whole(answer, place, media_type)
        self._require(raw, digest, place)
        return raw

    @contextmanager
    def open_blob(self, descriptor: Descriptor) -> Iterator[Iterator[bytes]]:
        """The stored bytes of a blob in chunks of at most 1 MiB, however often the line is cut.

        A resumed blob goes on where it was cut, so whoever hashes the chunks hashes the whole.
        A manifest comes whole and checked, since registries keep those elsewhere.
        Raises MissingBlobError, or TruncatedBlobError when the registry has less than the size.
        """
        if descriptor.media_type in _MANIFESTS:
            yield iter([self.document(descriptor.digest, media_type=descriptor.media_type)])
            return
        transfer = Transfer(self._open, self._transport, f"{self._base}/blobs", descriptor)
        transfer.begin()
        try:
            yield transfer.chunks()
        finally:
            transfer.close()

    def _by_tag(self) -> tuple[Descriptor, bytes]:
        reference = self._reference
        wanted = reference.digest or reference.tag or DEFAULT_TAG
        answer = self._document(f"manifests/{wanted}", {"Accept": _ACCEPT})
        if answer.response.status_code == HTTPStatus.NOT_FOUND:
            kind = "digest" if reference.digest else "tag"
            raise NoSuchImageError(
                self.place,
                wanted=f"{reference.repository} with the {kind} {wanted}, on {reference.host}",
                found=self._transport.said(answer.response),
            )
        place = f"{self.place}: {wanted}"
        raw = self._whole(answer, place, "an image manifest or index")
        headers = answer.response.headers
        stated = reference.digest or stated_digest(headers.get("Docker-Content-Digest", ""))
        if stated is not None:
            self._require(raw, stated, place)
        media_type = headers.get("Content-Type", "").partition(";")[0].strip()
        return Descriptor(media_type, digest_bytes(raw), len(raw)), raw

    def _require(self, raw: bytes, digest: Digest, place: str) -> None:
        found = digest_bytes(raw)
        if found != digest:
            raise DigestMismatchError(place, expected=digest, found=found)

    def _whole(self, answer: Answer, place: str, wanted: str) -> bytes:
        if answer.response.status_code != HTTPStatus.OK:
            raise RegistryFailedError(
                self.place, found=self._transport.said(answer.response), attempts=1
            )
        if len(answer.body) > MAX_DOCUMENT_BYTES:
            problem = f"more than {MAX_DOCUMENT_BYTES} bytes"
            raise MalformedDocumentError(place, wanted=wanted, problems=(problem,))
        return answer.body

    def _document(self, path: str, headers: Mapping[str, str]) -> Answer:
        url = f"{self._base}/{path}"

        def ask(headers: Mapping[str, str]) -> Answer:
            return self._transport.fetch(url, headers, most_bytes=MAX_DOCUMENT_BYTES)

        return self._authorizer.ask(ask, headers, url=url)

    def _open(self, url: str, headers: Mapping[str, str]) -> requests.Response:
        def ask(headers: Mapping[str, str]) -> Answer:
            return Answer(self._transport.open(url, headers))

        return self._authorizer.ask(ask, headers, url=url).response


def base_of(reference: ImageReference) -> str:
    """Where the addresses of a repository begin: plain HTTP is for loopback alone."""
    host = HUB_API if reference.host in DOCKER_HUB else reference.host
    scheme = "http" if reference.is_on_loopback else "https"
    return f"{scheme}://{host}/v2/{reference.repository}"


def stated_digest(text: str) -> Digest | None:
    """The digest that a header states; None if it is of another kind than ours."""
    try:
        return parse_digest(text)
    except NotADigestError:
        return None
