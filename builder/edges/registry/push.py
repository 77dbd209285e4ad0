"""An image into a repository: what the registry lacks, each blob once, the tag last.

A base that is in the same registry is mounted, so its bytes go nowhere. What is sent comes straight
from where it is. Source: OCI distribution specification 1.1, push.
"""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from builder.edges.registry.auth import Authorizer
from builder.edges.registry.errors import (
    AccessDeniedError,
    RegistryFailedError,
    UnexpectedAnswerError,
)
from builder.edges.registry.source import base_of, stated_digest
from builder.edges.registry.transport import Outgoing, Patience, Transport, finish
from builder.edges.registry.upload import DONE, Upload
from builder.oci.model import Descriptor
from builder.oci.stream import checked

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator, Mapping

    from builder.digest import Digest, JsonValue
    from builder.edges.registry.transport import Answer
    from builder.oci.model import Image
    from builder.oci.reference import ImageReference
    from builder.progress import Progress
    from builder.sources import OpenBlob

PRESENT: Final = "present"
MOUNTED: Final = "mounted"
SENT: Final = "sent"


@dataclass(frozen=True, slots=True)
class Pushed:
    """What a push did: blobs by how they came there, and the bytes that went over the line.

    `moved_from` is what the tag named before, None if nothing or the same.
    """

    name: str
    digest: Digest
    blobs: Mapping[str, int]
    sent_bytes: int
    moved_from: Digest | None

    def lines(self) -> Iterator[str]:
        """What was done as lines of plain text."""
        yield f"pushed    {self.name}@{self.digest}"
        counts = ", ".join(f"{count} {how}" for how, count in self.blobs.items())
        yield f"          blobs: {counts}; {self.sent_bytes} bytes went"
        if self.moved_from:
            yield f"          the tag named {self.moved_from} before"

    def as_json(self) -> JsonValue:
        """The same as a JSON object."""
        return {
            "name": self.name,
            "digest": self.digest,
            "blobs": dict(self.blobs),
            "sent_bytes": self.sent_bytes,
            "moved_from": self.moved_from,
        }


@dataclass(slots=True)
class _Count:
    """What was done so far."""

    blobs: Counter[str] = field(default_factory=Counter)
    sent_bytes: int = 0
    done_bytes: int = 0


class RegistryTarget:
    """One repository that images are pushed to; asks nothing when it is made.

    `mount_from` is the repository of the same registry that has the base's layers, if any.
    """

    def __init__(
        self,
        reference: ImageReference,
        *,
        mount_from: str | None = None,
        patience: Patience | None = None,
    ) -> None:
        self._repository = reference.repository
        self.place = f"{reference.host}/{reference.repository}"
        self._base = base_of(reference)
        self._transport = Transport(
            self.place, reference.host, plain_http=reference.is_on_loopback, patience=patience
        )
        self._authorizer = Authorizer(
            self._transport, reference.host, reference.repository, base=self._base, action="push"
        )
        self._mount_from = mount_from if mount_from != reference.repository else None
        self._ask_for_scopes()

    def push(self, image: Image, open_blob: OpenBlob, tag: str, progress: Progress) -> Pushed:
        """Nothing is left to be sent: the repository has the image, and the tag names it.

        Blobs go first, then the manifest under its digest, then the tag, so that whoever pulls
        meanwhile gets the old image or the new one, whole. Raises a RegistryError, and what reading
        the layers raises; what is in the repository by then is only not sent again.
        """
        count = _Count()
        descriptors = list(dict.fromkeys(layer.descriptor for layer in image.layers))
        total_bytes = sum(item.size_bytes for item in descriptors)

        def told(size_bytes: int) -> None:
            count.done_bytes += size_bytes
            done_bytes = max(0, min(count.done_bytes, total_bytes))
            progress.advance(self.place, done_bytes, total_bytes)

        for descriptor in descriptors:
            self._push_blob(descriptor, _from_source(open_blob, descriptor), count, told)
        config = Descriptor(
            image.manifest.config.media_type, image.config.digest, len(image.config.raw)
        )
        self._push_blob(config, _from_memory(image.config.raw), count, lambda _: None)
        manifest = image.manifest.descriptor
        if self._named(manifest.digest, manifest) != manifest.digest:
            self._put_manifest(manifest.digest, image)
            count.sent_bytes += manifest.size_bytes
        before = self._named(tag, manifest)
        if before != manifest.digest:
            self._put_manifest(tag, image)
        return Pushed(
            name=f"{self.place}:{tag}",
            digest=manifest.digest,
            blobs={how: count.blobs[how] for how in (PRESENT, MOUNTED, SENT)},
            sent_bytes=count.sent_bytes,
            moved_from=before if before != manifest.digest else None,
        )

    def _push_blob(
        self,
        descriptor: Descriptor,
        open_from: Callable[[int], Iterator[bytes]],
        count: _Count,
        told: Callable[[int], None],
    ) -> None:
        if self._has(descriptor.digest):
            how = PRESENT
        elif self._mounted(descriptor.digest):
            how = MOUNTED
        else:
            how = SENT
        count.blobs[how] += 1
        if how == SENT:
            count.sent_bytes += self._send(descriptor, open_from, told)
        else:
            told(descriptor.size_bytes)

    def _has(self, digest: Digest) -> bool:
        url = f"{self._base}/blobs/{digest}"
        try:
            answer = self._tried("HEAD", url)
        except AccessDeniedError:
            if self._mount_from is None:
                raise
            self._mount_no_more()  # some token servers give all that is asked for, or nothing
            answer = self._tried("HEAD", url)
        return self._found(answer)

    def _found(self, answer: Answer) -> bool:
        response = answer.response
        if response.status_code not in (HTTPStatus.OK, HTTPStatus.NOT_FOUND):
            found = self._transport.said(response)
            raise RegistryFailedError(self.place, found=found, attempts=1, expected="200 or 404")
        finish(response)
        return response.status_code == HTTPStatus.OK

    def _mounted(self, digest: Digest) -> bool:
        """Whether the registry took the blob from its other repository."""
        if self._mount_from is None:
            return False
        url = f"{self._base}/blobs/uploads/?mount={digest}&from={self._mount_from}"
        try:
            answer = self._tried("POST", url, {"Content-Length": "0"})
        except AccessDeniedError:
            self._mount_no_more()
            return False
        response = answer.response
        finish(response)
        if response.status_code == HTTPStatus.CREATED:
            self._require(answer, DONE, digest)
            return True
        if response.status_code == HTTPStatus.ACCEPTED and "Location" in response.headers:
            session = self._upload(Descriptor("", digest, 0))
            session.begun_at(answer)
            session.cancel()
        return False

    def _send(
        self,
        descriptor: Descriptor,
        open_from: Callable[[int], Iterator[bytes]],
        told: Callable[[int], None],
    ) -> int:
        """The bytes that went; the registry has the blob then."""
        upload = self._upload(descriptor)
        begun_bytes = 0

        def opened(offset: int) -> Iterator[bytes]:
            nonlocal begun_bytes
            told(offset - begun_bytes)  # what has to go again has not gone yet
            begun_bytes = offset
            for chunk in open_from(offset):
                begun_bytes += len(chunk)
                told(len(chunk))
                yield chunk

        with ExitStack() as stack:
            stack.callback(upload.cancel)
            answer = self._transport.tried(lambda: upload.attempt(opened), got_on=upload.got_on)
            self._require(answer, DONE, descriptor.digest)
            stack.pop_all()
        return upload.sent_bytes

    def _upload(self, descriptor: Descriptor) -> Upload:
        folder = f"{self._base}/blobs"
        return Upload(self._once, self._transport.joined, self.place, folder, descriptor)

    def _named(self, name: str, manifest: Descriptor) -> Digest | None:
        """What a tag or digest names in the repository; None if nothing, or nobody says."""
        answer = self._tried(
            "HEAD", f"{self._base}/manifests/{name}", {"Accept": manifest.media_type}
        )
        if not self._found(answer):
            return None
        return stated_digest(answer.response.headers.get("Docker-Content-Digest", ""))

    def _put_manifest(self, name: str, image: Image) -> None:
        raw, manifest = image.manifest.raw, image.manifest.descriptor
        body = Outgoing(len(raw), lambda: iter([raw]))
        url, headers = f"{self._base}/manifests/{name}", {"Content-Type": manifest.media_type}
        answer = self._transport.tried(lambda: self._once("PUT", url, headers, body))
        self._require(answer, {HTTPStatus.CREATED}, manifest.digest)

    def _require(self, answer: Answer, good: Container[int], digest: Digest) -> None:
        """Nothing, if the registry has what was sent, and does not say that it is another."""
        response = answer.response
        if response.status_code not in good:
            found = self._transport.said(response)
            raise RegistryFailedError(self.place, found=found, attempts=1, expected="201 Created")
        finish(response)
        stated = response.headers.get("Docker-Content-Digest", digest)
        if stated != digest:
            raise UnexpectedAnswerError(
                self.place, expected=f"Docker-Content-Digest: {digest}", found=stated[:100]
            )

    def _tried(self, method: str, url: str, headers: Mapping[str, str] | None = None) -> Answer:
        return self._transport.tried(lambda: self._once(method, url, headers or {}))

    def _once(
        self, method: str, url: str, headers: Mapping[str, str], body: Outgoing | None = None
    ) -> Answer:
        """One request, with credentials where they belong."""

        def send(headers: Mapping[str, str]) -> Answer:
            return self._transport.once(method, url, headers, body)

        return self._authorizer.ask(send, headers, url=url)

    def _mount_no_more(self) -> None:
        self._mount_from = None
        self._ask_for_scopes()

    def _ask_for_scopes(self) -> None:
        """One token is for all requests; a mount needs the right to read the source, too."""
        scopes = [f"repository:{self._repository}:pull,push"]
        if self._mount_from is not None:
            scopes.append(f"repository:{self._mount_from}:pull")
        self._authorizer.scopes = tuple(scopes)


def _from_source(open_blob: OpenBlob, descriptor: Descriptor) -> Callable[[int], Iterator[bytes]]:
    """A blob's bytes from an offset on, all of them checked: what is wrong is never stored."""

    def opened(offset: int) -> Iterator[bytes]:
        with open_blob(descriptor) as chunks:
            whole = checked(chunks, descriptor, place=f"layer {descriptor.digest}")
            yield from _after(whole, offset)

    return opened


def _from_memory(data: bytes) -> Callable[[int], Iterator[bytes]]:
    return lambda offset: iter([data[offset:]])


def _after(chunks: Iterator[bytes], offset: int) -> Iterator[bytes]:
    """The chunks without their first `offset` bytes."""
    for chunk in chunks:
        skipped = min(offset, len(chunk))
        offset -= skipped
        if skipped < len(chunk):
            yield chunk[skipped:]
