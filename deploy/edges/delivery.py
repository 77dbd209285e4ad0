"""Bringing the image to one node, on the way that was planned, or on the next one if that fails.

Whatever the way, the image gets its tag last: it comes under another name, and on the containerd
store a container has to be created from it before it counts. So the tag says that it was proven.
"""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from builder.oci.dual import DualArchive
from deploy import node_errors
from deploy.delivery import (
    ARCHIVE_COPIES,
    Delivered,
    Way,
    retried_without,
    says_missing,
    tunnel_failed,
)
from deploy.edges.blobserver import BlobServer
from deploy.edges.supply import FORBIDDEN, free_bytes, present, supply_facts
from deploy.edges.waiting import until_stopped
from deploy.state import TRIAL, ImageStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from builder.oci.model import Image
    from builder.sources import OpenBlob
    from deploy.actions import PullBase
    from deploy.edges.blobserver import Offer
    from deploy.edges.engine import Engine
    from deploy.edges.ssh import NodeConnection
    from deploy.edges.supply import KnownBlobs
    from deploy.edges.transfer import Watch
    from deploy.state import EngineFacts, SupplyFacts
    from deploy.wanted import WantedImage

FIRST_REQUEST_S: Final = 30
"""What an engine may take until its first request arrives through the tunnel."""

LOGIN_PULL_S: Final = 4 * 3600
"""The limit of a pull by the node's own docker program, which tells nothing of its progress."""


@dataclass(frozen=True, slots=True)
class ImageSupply:
    """The image as it stands here: what a node may fetch of it, and what an archive is made of."""

    offer: Offer
    image: Image
    open_blob: OpenBlob


@dataclass(slots=True)
class ImageDelivery:
    """What brings an image to one node; every method raises NodeError.

    `docker_socket` is the engine's on the node, `proof` the name of the container that proves an
    image there, `told` takes what went another way than planned.
    """

    connection: NodeConnection
    engine: Engine
    docker_socket: str
    known: KnownBlobs
    proof: str
    told: Callable[[str], None]
    _pulled_base: str = field(default="", init=False)
    _known_facts: EngineFacts | None = field(default=None, init=False)

    def facts(self, image: WantedImage, engine: EngineFacts) -> SupplyFacts:
        """What planning needs to know to bring an image that the node lacks."""
        self._known_facts = engine
        return supply_facts(self.connection, self.engine, engine, image, self.known)

    def pull_base(self, action: PullBase, stopped: Callable[[], bool]) -> None:
        """Let the engine pull the base from its registry; when it cannot, that is told."""
        reference = action.image.base.reference
        assert reference is not None
        try:
            if action.with_login:
                self._pull_with_login(reference, stopped)
            else:
                repository, _, digest = reference.partition("@")
                self.engine.pull(repository, digest, stopped)
        except (node_errors.EngineError, node_errors.RemoteCommandError) as error:
            why = error.detail.strip().splitlines() or [error.what]
            self.told(f"its registry did not give it the base, which is sent from here: {why[-1]}")
        else:
            self._pulled_base = reference

    def pull(self, image: WantedImage, supply: ImageSupply, watch: Watch) -> Delivered:
        """Let the engine fetch the image from us through a tunnel; if that fails, load it."""
        try:
            with (
                BlobServer(supply.offer, watch.told) as server,
                self.connection.forward_remote(server.port) as port,
            ):
                source = f"127.0.0.1:{port}/{image.repository}"
                self._pull_from(source, image, server, watch)
        except node_errors.ForwardingForbiddenError:
            return self._load_instead(FORBIDDEN, image, supply, watch)
        except node_errors.TunnelFailedError as error:
            return self._load_instead(error.detail, image, supply, watch)
        facts = self._engine_facts()
        self._accept(image, f"{source}@{image.manifest_digest}", facts)
        return Delivered(Way.PULL, server.sent_bytes)

    def load(self, image: WantedImage, supply: ImageSupply, watch: Watch) -> Delivered:
        """Load the image as an archive without the layers that are proven to be there.

        What turns out to be missing is added; the last resort is the whole archive.
        """
        facts = self._engine_facts()
        trial = image.reference + TRIAL
        left_out = present(self.engine, facts.store, image, self.known)
        first, sent_bytes = True, 0
        while True:
            archive = DualArchive(supply.image, supply.open_blob, trial, left_out)
            self._require_room(archive.size_bytes, facts)
            counter = _Counter(archive.chunks(), watch, sent_bytes)
            try:
                self.engine.load(image.reference, iter(counter), watch.stopped)
                self._accept(image, trial, facts)
            except (node_errors.EngineError, node_errors.ImageMismatchError) as error:
                self._discard(trial)
                problem, missing = error.detail or error.found, _is_of_the_content(error)
                next_out = retried_without(left_out, problem, first=first) if missing else None
                if next_out is None:
                    raise node_errors.ImageLoadError(
                        self.connection.node, image.reference, problem
                    ) from error
                self.told(f"the image could not be used, and more of it is sent: {problem}")
                left_out, first, sent_bytes = next_out, False, counter.sent_bytes
            else:
                return Delivered(Way.PARTIAL if left_out else Way.WHOLE, counter.sent_bytes)

    def tag(self, image: WantedImage) -> None:
        """Give the image that is there its tag, once it is proven; drop its trial tag."""
        facts = self._engine_facts()
        for name in sorted(image.engine_ids):
            if image.is_image(self.engine.image(name)):
                self._prove(name, facts)
                self.engine.tag(name, image.reference)
                self._discard(image.reference + TRIAL)
                self._discard_tunnels(image)
                return
        raise node_errors.EngineNotFoundError(
            self.connection.node, f"tag image {image.reference}", "the image is gone"
        )

    def _engine_facts(self) -> EngineFacts:
        """The engine, which is asked once: it stays the same for as long as the connection."""
        if self._known_facts is None:
            self._known_facts = self.engine.facts()
        return self._known_facts

    def _pull_from(self, source: str, image: WantedImage, server: BlobServer, watch: Watch) -> None:
        deadline = time.monotonic() + FIRST_REQUEST_S

        def stopped() -> bool:
            if not server.contacted and time.monotonic() > deadline:
                silence = f"no request of the engine arrived in {FIRST_REQUEST_S} s"
                raise node_errors.TunnelFailedError(self.connection.node, detail=silence)
            return watch.stopped()

        try:
            self.engine.pull(source, image.manifest_digest, stopped)
        except node_errors.EngineError as error:
            ours = server.missing or server.failures
            if not ours and tunnel_failed(error.detail, contacted=server.contacted):
                raise node_errors.TunnelFailedError(
                    self.connection.node, detail=error.detail
                ) from error
            raise node_errors.ImagePullError(
                self.connection.node,
                image.reference,
                error.detail,
                missing=server.missing,
                failures=server.failures,
            ) from error

    def _load_instead(
        self, why: str, image: WantedImage, supply: ImageSupply, watch: Watch
    ) -> Delivered:
        self.told(
            f"the image goes over the engine's socket, since no port of ours reaches it: {why}"
        )
        return self.load(image, supply, watch)

    def _pull_with_login(self, reference: str, stopped: Callable[[], bool]) -> None:
        """Have the node's own docker program pull, which knows the logins of the ssh user."""
        argv = ("docker", "--host", f"unix://{self.docker_socket}", "pull", "--quiet", reference)

        def done() -> Iterator[object]:
            yield self.connection.run(argv, timeout_s=LOGIN_PULL_S)

        for _ in until_stopped(done, stopped):
            pass

    def _accept(self, image: WantedImage, name: str, facts: EngineFacts) -> None:
        """Tag the image that came under `name`, if it is right, and take that name away.

        An engine keeps what it pulled by digest under the registry's name too; that name, with the
        tunnel's port in it, would gather with every deploy. The base that was pulled for the image
        is part of it now, so its own name goes as well.
        """
        found = self.engine.image(name)
        try:
            if not image.is_image(found):
                ids = sorted(image.engine_ids)
                raise node_errors.ImageMismatchError(
                    self.connection.node, ids, found.engine_id if found else "nothing"
                )
            self._prove(name, facts)
            self.engine.tag(name, image.reference)
        finally:
            for other in {name, image.reference + TRIAL}:  # the last one a killed deploy may leave
                self._discard(other)
        self._discard_tunnels(image)
        if self._pulled_base:
            self._discard(self._pulled_base)

    def _prove(self, name: str, facts: EngineFacts) -> None:
        """ImageUnprovenError unless an image can be used.

        A graph driver writes an image down when all its layers are in; the containerd store has a
        record of one before, and may keep it when unpacking has failed.
        """
        if facts.store is ImageStore.GRAPH_DRIVER:
            return
        try:
            self.engine.prove(name, self.proof)
        except node_errors.EngineError as error:
            self._discard(name)
            raise node_errors.ImageUnprovenError(
                self.connection.node, error.call, error.detail
            ) from error

    def _discard(self, name: str) -> None:
        with suppress(node_errors.EngineNotFoundError):
            self.engine.untag(name)

    def _discard_tunnels(self, image: WantedImage) -> None:
        """Take away the names that pulls have left which were interrupted at their end."""
        for left in self.engine.image_names(image.repository):
            if left.is_tunnel:
                self._discard(left.name)

    def _require_room(self, size_bytes: int, facts: EngineFacts) -> None:
        free = free_bytes(self.connection, facts.data_root)
        needed = ARCHIVE_COPIES * size_bytes
        if free is not None and free < needed:
            raise node_errors.NoRoomError(self.connection.node, needed, free)


class _Counter:
    """An archive's chunks, counted and watched as they pass."""

    def __init__(self, chunks: Iterator[bytes], watch: Watch, sent_bytes: int) -> None:
        self.sent_bytes = sent_bytes
        self._chunks = chunks
        self._watch = watch

    def __iter__(self) -> Iterator[bytes]:
        for chunk in self._chunks:
            yield chunk
            self.sent_bytes += len(chunk)
            self._watch.told(self.sent_bytes)


def _is_of_the_content(error: node_errors.OneNodeError) -> bool:
    """Whether more of the image may help: something was missing, or what came cannot be used."""
    unusable = (node_errors.ImageUnprovenError, node_errors.ImageMismatchError)
    return isinstance(error, unusable) or says_missing(error.detail)
