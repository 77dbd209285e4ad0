"""What can be wrong between us and a registry; no text holds a secret or a signed address."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

from builder.errors import BuildError, Message


@dataclass(eq=False)
class RegistryError(BuildError):
    """A registry did not give what was asked; `place` is the image as the manifest names it."""

    place: str


@dataclass(eq=False)
class OfflineError(RegistryError):
    """A request was not made, because none may be made."""

    _: KW_ONLY
    variable: str
    url: str

    template = Message(
        place="{place}",
        what="a registry would be asked, and this run is offline",
        expected="no {variable} in the environment",
        found="{variable} is set; the request was {url}",
        remedy="unset {variable}, or name a source on disk: oci:DIR or archive:FILE",
    )


@dataclass(eq=False)
class UnknownHostError(RegistryError):
    """The registry's name has no address."""

    _: KW_ONLY
    host: str
    reason: str

    template = Message(
        place="{place}",
        what="the registry's host is not known",
        expected="an address of {host}",
        found="{reason}",
        remedy="correct the host in `source`, or look at this machine's network and DNS",
    )


@dataclass(eq=False)
class UnreachableError(RegistryError):
    """No answer came, however often it was asked."""

    _: KW_ONLY
    host: str
    reason: str
    attempts: int

    @property
    def messages(self) -> tuple[Message, ...]:
        """The host, the last failure and how many there were."""
        tries = "one try" if self.attempts == 1 else f"{self.attempts} tries"
        return (
            Message(
                place=self.place,
                what="the registry does not answer",
                expected=f"an HTTP answer of {self.host}",
                found=f"{self.reason}, after {tries}",
                remedy="look at network, proxy (HTTPS_PROXY) and port; then run it again",
            ),
        )


@dataclass(eq=False)
class TlsError(RegistryError):
    """The registry's certificate is not one that this machine trusts, or it speaks no TLS."""

    _: KW_ONLY
    host: str
    reason: str

    template = Message(
        place="{place}",
        what="no trusted TLS connection to the registry",
        expected="a certificate of {host} that this machine trusts",
        found="{reason}",
        remedy="name the file of its certificate authority in REQUESTS_CA_BUNDLE; plain HTTP is "
        "for registries on loopback only",
    )


@dataclass(eq=False)
class AccessDeniedError(RegistryError):
    """The registry, or its token server, says 401 or 403; `login` is the host to log in to."""

    _: KW_ONLY
    login: str
    user: str
    found: str
    action: str = "pull"

    @property
    def messages(self) -> tuple[Message, ...]:
        """Who asked, and the answer."""
        return (
            Message(
                place=self.place,
                what="the registry gives no access to this image",
                expected=f"the right to {self.action} for {self.user or 'everybody'}",
                found=self.found,
                remedy=f"docker login {self.login}, as somebody who may {self.action} it; or "
                "correct the name, since some registries answer so for images that do not exist",
            ),
        )


@dataclass(eq=False)
class NoSuchImageError(RegistryError):
    """The registry has no such repository or tag."""

    _: KW_ONLY
    wanted: str
    found: str

    template = Message(
        place="{place}",
        what="the registry has no such image",
        expected="{wanted}",
        found="{found}",
        remedy="correct name and tag in `source`; a tag can be removed, a digest that you have "
        "pinned is asked without it",
    )


@dataclass(eq=False)
class RateLimitedError(RegistryError):
    """The registry wants fewer requests."""

    _: KW_ONLY
    login: str
    found: str
    wait_s: int | None

    @property
    def messages(self) -> tuple[Message, ...]:
        """The answer, and how long to wait if it says so."""
        wait = "later" if self.wait_s is None else f"in {self.wait_s} s"
        return (
            Message(
                place=self.place,
                what="the registry's rate limit is reached",
                expected="an answer without 429",
                found=self.found,
                remedy=f"run it again {wait}; docker login {self.login} often raises the limit",
            ),
        )


@dataclass(eq=False)
class RegistryFailedError(RegistryError):
    """The registry answers with an error of its own, or with a status that has no meaning here."""

    _: KW_ONLY
    found: str
    attempts: int
    expected: str = "200 OK"

    @property
    def messages(self) -> tuple[Message, ...]:
        """The answer."""
        tries = "" if self.attempts == 1 else f", {self.attempts} times"
        return (
            Message(
                place=self.place,
                what="the registry fails to answer",
                expected=self.expected,
                found=f"{self.found}{tries}",
                remedy="run it again later; if it stays, tell who keeps the registry",
            ),
        )


@dataclass(eq=False)
class TransferCutError(RegistryError):
    """A blob's transfer was cut again and again, and nothing more came of it."""

    _: KW_ONLY
    digest: str
    expected_bytes: int
    found_bytes: int
    reason: str

    template = Message(
        place="{place}: {digest}",
        what="the transfer of a blob was cut, and going on did not help",
        expected="{expected_bytes} bytes",
        found="{found_bytes} bytes, then: {reason}",
        remedy="look at network and proxy, then run it again",
    )


@dataclass(eq=False)
class UnsafeAddressError(RegistryError):
    """The registry sends us to an address that nothing may be asked of."""

    _: KW_ONLY
    expected: str
    found: str

    template = Message(
        place="{place}",
        what="the registry leads to an address that is not asked",
        expected="{expected}",
        found="{found}",
        remedy="tell who keeps the registry; do not log in to it before that is mended",
    )


@dataclass(eq=False)
class UnexpectedAnswerError(RegistryError):
    """An answer breaks the protocol."""

    _: KW_ONLY
    expected: str
    found: str

    template = Message(
        place="{place}",
        what="the registry's answer is not of the registry protocol",
        expected="{expected}",
        found="{found}",
        remedy="check that host and port in `source` are a registry's",
    )


@dataclass(eq=False)
class DockerConfigError(BuildError):
    """Docker's config.json cannot be used; `place` has the key."""

    place: str
    _: KW_ONLY
    expected: str
    found: str

    template = Message(
        place="{place}",
        what="Docker's configuration cannot be read",
        expected="{expected}",
        found="{found}",
        remedy="correct the file, or log in again: docker login HOST",
    )


@dataclass(eq=False)
class CredentialHelperError(BuildError):
    """A credential helper of Docker's configuration gives no credentials."""

    place: str
    _: KW_ONLY
    program: str
    reason: str

    template = Message(
        place="{place}",
        what="the credential helper gives no credentials",
        expected="an answer of `{program} get`",
        found="{reason}",
        remedy="install or mend the helper, or remove this entry",
    )
