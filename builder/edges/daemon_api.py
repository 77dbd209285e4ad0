"""The few calls of the Docker Engine API that reading an image of its own takes: none changes it.

The client's package takes longer to import than many an image takes to build, so it waits inside
the functions.
"""

from __future__ import annotations

import os
import re
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from builder.digest import Digest
from builder.edges.daemon_errors import (
    EngineAddressError,
    EngineCallError,
    EngineDeniedError,
    EngineSaveError,
    NoEngineError,
)
from builder.edges.disk import CHUNK_BYTES
from builder.edges.registry.docker_config import require_usable_by_docker
from builder.engine_store import in_containerd
from builder.oci.model import Platform

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import docker

    from builder.errors import SparklockError

CALL_S: Final = 60
"""What an answer may take that needs no work, in seconds."""

SSH: Final = "ssh://"
DEFAULT_ADDRESS: Final = "unix:///var/run/docker.sock"
NOT_FOUND: Final = 404

_PASSWORD: Final = re.compile(r"(//[^\s/@:]*):[^\s/]*@")


@dataclass(frozen=True, slots=True)
class EngineSocket:
    """A local unix socket that leads to an engine; `why_silent` finds out why it does not."""

    path: Path
    why_silent: Callable[[], SparklockError]


@dataclass(frozen=True, slots=True)
class EngineImageFacts:
    """An image as its engine knows it; all of it is what the engine says, and proves nothing.

    `id` is the digest of its config, if `named_by_config`, as with a graph driver; of a manifest or
    index, as in the containerd store, otherwise.
    """

    id: Digest
    named_by_config: bool
    platform: Platform
    size_bytes: int


class EngineApi:
    """One engine in reach; `place` is where it is asked for, as an error names that."""

    def __init__(
        self,
        client: docker.APIClient,
        place: str,
        why_silent: Callable[[BaseException], SparklockError],
    ) -> None:
        self._client = client
        self._place = place
        self._why_silent = why_silent

    def image(self, name: str) -> EngineImageFacts | None:
        """The image of a name or an ID; None if there is none."""
        try:
            with self._call(f"inspect image {name}"):
                found: dict[str, Any] = self._client.inspect_image(name)  # type: ignore[no-untyped-call]
        except _NotFoundError:
            return None
        return EngineImageFacts(
            id=Digest(str(found["Id"])),
            named_by_config=not self._in_containerd(),
            platform=Platform(
                str(found.get("Os", "")),
                str(found.get("Architecture", "")),
                str(found.get("Variant") or ""),
            ),
            size_bytes=int(found.get("Size") or 0),
        )

    def _in_containerd(self) -> bool:
        with self._call("tell about itself"):
            return in_containerd(self._client.info())

    def tags(self, repository: str) -> tuple[str, ...]:
        """The names with a tag of a repository, sorted."""
        with self._call(f"list images of {repository}"):
            listed = self._client.images(name=repository)
        names = (str(name) for item in listed for name in item.get("RepoTags") or ())
        return tuple(sorted({name for name in names if not name.endswith(":<none>")}))

    @contextmanager
    def save(self, image: Digest) -> Iterator[Iterator[bytes]]:
        """The archive of an image as the engine writes it, in chunks of at most 1 MiB.

        The first may take minutes: Docker before 25 copies all layers before it writes a byte.
        Left early, the engine is told by its connection that nobody reads on.
        """
        client: Any = self._client  # get_image() hides the response, which has to be closed
        client.timeout = None
        with self._call(f"save image {image}"):
            response = client._get(client._url("/images/{0}/get", image), stream=True)  # noqa: SLF001
            client._raise_for_status(response)  # noqa: SLF001
        with closing(response):
            yield self._chunks(response)

    def _chunks(self, response: Any) -> Iterator[bytes]:  # noqa: ANN401 - requests' own
        import requests  # noqa: PLC0415 - see the module's docstring
        import urllib3  # noqa: PLC0415

        try:
            yield from response.iter_content(CHUNK_BYTES)
        except (
            requests.exceptions.RequestException,
            urllib3.exceptions.HTTPError,
            OSError,
        ) as error:
            if self._still_answers():
                raise EngineSaveError(self._place, reason=str(error)) from error
            raise self._why_silent(error) from error

    def _still_answers(self) -> bool:
        import docker.errors  # noqa: PLC0415 - see the module's docstring
        import requests  # noqa: PLC0415

        self._client.timeout = CALL_S
        try:
            return bool(self._client.ping())
        except (docker.errors.DockerException, requests.exceptions.RequestException, OSError):
            return False

    @contextmanager
    def _call(self, call: str) -> Iterator[None]:
        import docker.errors  # noqa: PLC0415 - see the module's docstring
        import requests  # noqa: PLC0415
        import urllib3  # noqa: PLC0415

        try:
            yield
        except docker.errors.APIError as error:
            response = error.response
            if response is not None and response.status_code == NOT_FOUND:
                raise _NotFoundError(self._place, call=call, reason=_said(error)) from error
            raise EngineCallError(self._place, call=call, reason=_said(error)) from error
        except requests.exceptions.ReadTimeout as error:
            reason = f"no answer in {CALL_S} s"
            raise EngineCallError(self._place, call=call, reason=reason) from error
        except (
            docker.errors.DockerException,
            requests.exceptions.RequestException,
            urllib3.exceptions.HTTPError,
            OSError,
        ) as error:
            raise self._why_silent(error) from error


class _NotFoundError(EngineCallError):
    """The engine has no such thing."""


def _said(error: Any) -> str:  # noqa: ANN401 - the package's stubs lack `explanation`
    return str(error.explanation or error)


@contextmanager
def local_engine(place: str) -> Iterator[EngineApi]:
    """The engine that DOCKER_HOST, DOCKER_CONTEXT or the current context name, as for `docker`.

    Raises EngineAddressError, NoEngineError or EngineDeniedError.
    """
    settings = _settings(place)
    address = _shown(str(settings["base_url"]))

    def why_silent(error: BaseException) -> SparklockError:
        causes = tuple(_causes(error))
        if any(isinstance(cause, PermissionError) for cause in causes):
            return EngineDeniedError(place, address=address)
        system = (cause.strerror for cause in causes if isinstance(cause, OSError))
        reason = next((text for text in system if text), str(error))
        return NoEngineError(place, address=address, reason=reason)

    with _client(settings, why_silent) as client:
        yield EngineApi(client, place, why_silent)


@contextmanager
def engine_behind(socket: EngineSocket, place: str) -> Iterator[EngineApi]:
    """The engine behind a socket; raises what `socket.why_silent` gives when it does not answer."""

    def why_silent(_error: BaseException) -> SparklockError:
        return socket.why_silent()

    with _client({"base_url": f"unix://{socket.path}"}, why_silent) as client:
        yield EngineApi(client, place, why_silent)


@contextmanager
def _client(
    settings: dict[str, Any], why_silent: Callable[[BaseException], SparklockError]
) -> Iterator[docker.APIClient]:
    import docker  # noqa: PLC0415 - see the module's docstring
    import requests  # noqa: PLC0415

    require_usable_by_docker()
    try:
        client = docker.APIClient(**settings, version="auto", timeout=CALL_S)
    except (docker.errors.DockerException, requests.exceptions.RequestException, OSError) as error:
        raise why_silent(error) from error
    with closing(client):
        yield client


def _settings(place: str) -> dict[str, Any]:
    """Address and TLS of the engine, by the rules of Docker's own client."""
    import docker.context  # noqa: PLC0415 - see the module's docstring
    import docker.errors  # noqa: PLC0415
    import docker.utils  # noqa: PLC0415

    named = os.environ.get("DOCKER_HOST")
    found = f"DOCKER_HOST={_shown(named)}" if named else "the docker context"
    try:
        settings = _environment() if named else _context(place)
        address = str(settings.setdefault("base_url", DEFAULT_ADDRESS))
        found = found if named else f"a docker context with {_shown(address)}"
        docker.utils.parse_host(address)
    except (docker.errors.DockerException, ValueError) as error:
        raise EngineAddressError(place, found=found, reason=_shown(str(error))) from error
    if address.startswith(SSH):
        raise EngineAddressError(place, found=found, reason="it is behind ssh")
    return settings


def _shown(text: str) -> str:
    """An address, or a text with one, as an error may show it: without a password."""
    return _PASSWORD.sub(r"\1:...@", text)


def _environment() -> dict[str, Any]:
    import docker.utils  # noqa: PLC0415 - see the module's docstring

    return {**docker.utils.kwargs_from_env()}


def _context(place: str) -> dict[str, Any]:
    import docker.context.config  # noqa: PLC0415 - see the module's docstring

    name = os.environ.get("DOCKER_CONTEXT") or docker.context.config.get_current_context_name()
    if name == "default":
        return {}
    try:
        context = docker.context.ContextAPI.get_context(name)
    except Exception as error:  # the package raises plain Exception for a damaged file
        raise EngineAddressError(place, found=f"context {name}", reason=str(error)) from error
    if context is None:
        raise EngineAddressError(place, found=f"context {name}", reason="there is no such context")
    address, tls = context.Host, context.tls_cfg.get("docker")
    return {"base_url": address} | ({"tls": tls} if tls else {})


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The error and all that it came from, also those that a library only put into its text."""
    seen: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting:
        cause = waiting.pop()
        if cause is None or id(cause) in seen:
            continue
        seen.add(id(cause))
        yield cause
        inside = (item for item in cause.args if isinstance(item, BaseException))
        waiting.extend((cause.__cause__, cause.__context__, *inside))
