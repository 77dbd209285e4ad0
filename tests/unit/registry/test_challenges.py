from __future__ import annotations

import pytest

from builder.edges.registry.auth import Challenge, challenges_of


@pytest.mark.parametrize(
    ("header", "found"),
    [
        ("", []),
        ('Basic realm="x"', [Challenge("basic", {"realm": "x"})]),
        (
            'Bearer realm="https://auth.example/token",service="s",scope="repository:a/b:pull,push"',
            [
                Challenge(
                    "bearer",
                    {
                        "realm": "https://auth.example/token",
                        "service": "s",
                        "scope": "repository:a/b:pull,push",
                    },
                )
            ],
        ),
        (
            'BEARER Realm = "r" , error="a, b", Basic realm="x y"',
            [
                Challenge("bearer", {"realm": "r", "error": "a, b"}),
                Challenge("basic", {"realm": "x y"}),
            ],
        ),
        ("Bearer realm=bare,service=s", [Challenge("bearer", {"realm": "bare", "service": "s"})]),
        (r'Basic realm="a \"quoted\" one"', [Challenge("basic", {"realm": 'a "quoted" one'})]),
        (
            'Negotiate, Basic realm="x"',
            [Challenge("negotiate", {}), Challenge("basic", {"realm": "x"})],
        ),
        ('Bearer realm="first",realm="second"', [Challenge("bearer", {"realm": "first"})]),
        ('realm="no scheme"', []),
        ('Bearer realm="unclosed', [Challenge("bearer", {})]),
    ],
)
def test_a_header_holds_challenges(header: str, found: list[Challenge]) -> None:
    assert list(challenges_of(header)) == found
