from __future__ import annotations

import pytest

from builder.oci.reference import ImageReference

DIGEST = "sha256:" + "0" * 64


@pytest.mark.parametrize(
    ("text", "host", "repository", "tag", "digest"),
    [
        ("registry.example/a", "registry.example", "a", None, None),
        ("registry.example/a/b_c:1.0-x", "registry.example", "a/b_c", "1.0-x", None),
        (f"host:5000/a@{DIGEST}", "host:5000", "a", None, DIGEST),
        (f"localhost/a/b:t@{DIGEST}", "localhost", "a/b", "t", DIGEST),
        ("docker.io/me/image:latest", "docker.io", "me/image", "latest", None),
        ("docker.io/debian:12", "docker.io", "library/debian", "12", None),
        ("index.docker.io/debian", "index.docker.io", "library/debian", None, None),
    ],
)
def test_a_reference_is_host_name_tag_and_digest(
    text: str, host: str, repository: str, tag: str | None, digest: str | None
) -> None:
    found = ImageReference.parse(text)

    assert (found.host, found.repository, found.tag, found.digest) == (
        host,
        repository,
        tag,
        digest,
    )


@pytest.mark.parametrize(
    "text",
    [
        *("", "a", "a/b", "debian:12", "me/image:latest", "host.example/", "host.example/A"),
        *("host.example/a:", "host.example//a", "host.example/a..b", "host.example/../a"),
        *("https://host.example/a", "user@host.example/a", "host:0x1/a", "host:99999/a"),
        *(
            f"host.example/a@{DIGEST}0",
            "host.example/a@sha512:0",
            "host.example/a b",
            "-x.example/a",
        ),
        "host.example/a\n",
    ],
)
def test_what_has_no_host_or_no_name_is_none(text: str) -> None:
    with pytest.raises(ValueError, match=r".*"):
        ImageReference.parse(text)


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        *(
            ("localhost", True),
            ("localhost:5000", True),
            ("127.0.0.1:80", True),
            ("127.9.9.9", True),
        ),
        *(("127.evil.example", False), ("localhost.example", False), ("192.168.0.1", False)),
        ("registry.example:5000", False),
    ],
)
def test_only_this_machine_is_loopback(host: str, loopback: bool) -> None:  # noqa: FBT001 - a table
    assert ImageReference.parse(f"{host}/a").is_on_loopback is loopback
