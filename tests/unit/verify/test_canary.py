from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.unit.verify.test_observe import Answer, cluster
from verify.canary import ask, ask_again, long_prompt
from verify.errors import ApiError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from builder.digest import JsonValue

NONCE = "0123456789abcdeffedcba9876543210"
COUNTER = "/sys/class/net/enp1s0f1np1/statistics/tx_bytes"
NODE: dict[str, Answer | Exception] = {
    "date": Answer("now"),
    "grep": Answer(f"{COUNTER}:5\n", rc=2),
}
PAIR = {"spark-a": NODE, "spark-b": NODE}


class Server:
    """A Poster that gives one answer after the other; an ApiError is raised."""

    def __init__(self, *answers: Mapping[str, Any] | ApiError) -> None:
        self.answers = list(answers)
        self.bodies: list[Any] = []

    def post(self, route: str, body: JsonValue, *, deadline_s: float) -> Mapping[str, Any]:
        self.bodies.append((route, body, deadline_s))
        answer = self.answers.pop(0)
        if isinstance(answer, ApiError):
            raise answer
        return answer


@pytest.mark.parametrize("max_model_len", [64, 256, 262_144, None])
def test_a_prompt_begins_with_the_nonce_and_fits_half_of_the_model_s_length(
    max_model_len: int | None,
) -> None:
    text = long_prompt(NONCE, max_model_len)
    assert text.startswith(NONCE)
    assert len(text) <= (max_model_len or 4096) // 2
    assert len(text) <= 2048


def test_two_prompts_share_no_beginning() -> None:
    assert long_prompt("a" * 32, 256)[0] != long_prompt("b" * 32, 256)[0]


def test_a_short_and_a_long_completion_are_asked_for_with_the_counters_read_around_them() -> None:
    server = Server({"choices": []}, {"choices": [1]})
    found = ask(cluster(PAIR), server, NONCE)
    assert (found.short, found.long) == ({"choices": []}, {"choices": [1]})
    assert found.readings == ({"spark-a": {COUNTER: 5}, "spark-b": {COUNTER: 5}},) * 3
    assert found.began == {"spark-a": "now", "spark-b": "now"}
    (route, short, deadline_s), (_, long, _) = server.bodies
    assert (route, short["model"], deadline_s) == ("/v1/completions", "/srv/models/tiny", 60)
    assert (short["max_tokens"], long["max_tokens"]) == (4, 16)
    assert len(short["prompt"]) * 4 < len(long["prompt"]) == len(found.prompt)
    assert short["prompt"][:4] != long["prompt"][:4]


def test_a_completion_has_one_length_and_one_way_to_be_answered() -> None:
    server = Server({}, {})
    ask(cluster(PAIR), server, NONCE)
    for _, body, _ in server.bodies:
        assert (body["ignore_eos"], body["temperature"]) == (True, 0)
        assert isinstance(body["seed"], int)


def test_the_repeats_ask_the_same_and_nothing_of_it_comes_out_of_a_cache() -> None:
    server = Server({}, {}, {"n": 1}, {"n": 2}, {"n": 2})
    pair = cluster(PAIR)
    found = ask_again(pair, server, ask(pair, server, NONCE), ["1", "2", "3"])
    assert (found.again, found.together) == ({"n": 1}, ({"n": 2}, {"n": 2}))
    bodies = [body for _, body, _ in server.bodies[1:]]
    assert len({body["cache_salt"] for body in bodies}) == len(bodies) == 4
    for body in bodies:
        assert {**body, "cache_salt": ""} == {**bodies[0], "cache_salt": ""}


FAILURE = ApiError("POST /v1/completions", "TimeoutError: the deadline is over", 60)


@pytest.mark.parametrize("answers", [[FAILURE], [{}, FAILURE]])
def test_without_an_answer_the_rest_is_known_and_the_answer_raises(
    answers: list[Mapping[str, Any] | ApiError],
) -> None:
    found = ask(cluster(PAIR), Server(*answers), NONCE)
    assert found.failure is FAILURE
    assert len(found.answers) == len(answers) - 1
    assert len(found.readings) == len(answers) + 1
    port = cluster(PAIR).expected.nodes[0].ports[0]
    for look in (lambda: found.long, lambda: found.moved(port)):
        with pytest.raises(ApiError, match="deadline"):
            look()
