from __future__ import annotations

import http.client
import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from tests.standin import ADDRESSES, END_S, Difference, wait_for

if TYPE_CHECKING:
    from tests.standin import Server, Starter


def test_a_completion_has_the_fields_clients_count_on(pair: Server) -> None:
    status, answer = pair.post(
        "/v1/completions", model="tiny", prompt="two sparks", max_tokens=5, temperature=0
    )
    assert status == 200
    assert answer["object"] == "text_completion"
    assert answer["model"] == "tiny"
    assert isinstance(answer["created"], int)
    assert re.fullmatch(r"vllm-0\.17\.1\+standin-tp2-[0-9a-f]{8}", answer["system_fingerprint"])
    assert answer["usage"] == {"prompt_tokens": 11, "completion_tokens": 5, "total_tokens": 16}
    (choice,) = answer["choices"]
    assert choice.keys() >= {"text", "index", "finish_reason", "logprobs"}
    assert (choice["index"], choice["finish_reason"], choice["logprobs"]) == (0, "length", None)
    assert len(choice["text"]) == 5


def test_several_prompts_get_a_choice_each(pair: Server) -> None:
    _, answer = pair.post("/v1/completions", prompt=["a", [98, 99]], max_tokens=3, temperature=0)
    assert [choice["index"] for choice in answer["choices"]] == [0, 1]
    assert answer["usage"]["prompt_tokens"] == 4
    assert answer["usage"]["completion_tokens"] == 6


def test_a_stop_string_ends_the_text_before_it(pair: Server) -> None:
    asked: dict[str, Any] = {"prompt": "two sparks", "max_tokens": 40, "temperature": 0}
    whole = pair.post("/v1/completions", **asked)[1]["choices"][0]["text"]
    stop = whole[7:10]
    _, answer = pair.post("/v1/completions", stop=[stop], **asked)
    assert answer["choices"][0]["text"] == whole[: whole.index(stop)]
    assert answer["choices"][0]["finish_reason"] == "stop"
    events = _events(pair, stop=[stop], **asked)
    assert "".join(event["choices"][0]["text"] for event in events) == whole[: whole.index(stop)]


def test_a_stream_tells_the_same_text_token_by_token(pair: Server) -> None:
    asked: dict[str, Any] = {"prompt": "two sparks", "max_tokens": 12, "temperature": 0}
    whole = pair.post("/v1/completions", **asked)[1]["choices"][0]["text"]
    *events, last = _events(pair, stream_options={"include_usage": True}, **asked)
    assert "".join(event["choices"][0]["text"] for event in events) == whole
    assert [event["choices"][0]["finish_reason"] for event in events] == [None] * 11 + ["length"]
    assert last["usage"]["completion_tokens"] == 12


def test_a_client_that_leaves_a_stream_frees_its_place(pair: Server) -> None:
    connection = http.client.HTTPConnection(ADDRESSES[0], pair.port, timeout=10)
    body = {"prompt": "x", "max_tokens": 250, "stream": True, "ignore_eos": True}
    connection.request("POST", "/v1/completions", json.dumps(body))
    answer = connection.getresponse()
    answer.read(10)
    answer.close()
    connection.close()
    wait_for(
        lambda: b'num_requests_running{engine="0",model_name="tiny"} 0.0' in _metrics(pair), END_S
    )
    assert _metric(pair, "request_success_total", finished_reason="abort") == 1


def test_chat_renders_the_template(pair: Server) -> None:
    messages = [{"role": "user", "content": "hello"}]
    status, answer = pair.post(
        "/v1/chat/completions",
        messages=messages,
        max_tokens=4,
        temperature=0,
        return_token_ids=True,
    )
    assert status == 200
    (choice,) = answer["choices"]
    assert choice["message"]["role"] == "assistant"
    assert len(choice["message"]["content"]) == 4
    assert choice["prompt_token_ids"] == [256, 259, *b"hello", 257, 260]


def test_the_model_list_has_the_served_name_and_length(pair: Server) -> None:
    status, body = pair.get("/v1/models")
    (model,) = json.loads(body)["data"]
    assert (status, model["id"], model["max_model_len"]) == (200, "tiny", 256)


def test_version_says_that_it_is_a_stand_in(pair: Server) -> None:
    assert json.loads(pair.get("/version")[1]) == {"version": "0.17.1+standin"}


def test_metrics_count_tokens_and_requests(pair: Server) -> None:
    names = ("prompt_tokens_total", "generation_tokens_total")
    before = [_metric(pair, name) for name in names]
    ended = _metric(pair, "request_success_total", finished_reason="length")
    pair.tokens("abc", max_tokens=7, ignore_eos=True)
    assert [_metric(pair, name) for name in names] == [before[0] + 4, before[1] + 7]
    assert _metric(pair, "request_success_total", finished_reason="length") == ended + 1


@pytest.mark.parametrize(
    ("body", "status", "kind", "text"),
    [
        ({"prompt": "x", "model": "other"}, 404, "NotFoundError", "`other` does not exist"),
        ({"prompt": "x" * 300}, 400, "BadRequestError", "context length is only 256 tokens"),
        ({"prompt": "x", "max_tokens": 300}, 400, "BadRequestError", "requested 300 output"),
        ({"prompt": "x", "max_tokens": 0}, 400, "BadRequestError", "max_tokens must be at least 1"),
        ({"prompt": "x", "max_tokens": "9"}, 400, "BadRequestError", "must be a number"),
        (
            {"prompt": "x", "temperature": -1},
            400,
            "BadRequestError",
            "temperature must be at least",
        ),
        ({"prompt": "x", "n": 2}, 400, "BadRequestError", "does not support `n`"),
        ({"prompt": [999]}, 400, "BadRequestError", "out of vocabulary"),
        ({"prompt": []}, 400, "BadRequestError", "`prompt` must be text"),
        ({}, 400, "BadRequestError", "`prompt` must be text"),
    ],
)
def test_a_bad_request_gets_an_error_in_openais_form(
    pair: Server, body: dict[str, Any], status: int, kind: str, text: str
) -> None:
    found, answer = pair.post("/v1/completions", **body)
    assert (found, answer["error"]["type"], answer["error"]["code"]) == (status, kind, status)
    assert text in answer["error"]["message"]


@pytest.mark.parametrize("body", [b"{", b"[]", b"\xff", b""])
def test_a_body_that_is_no_json_object_gets_400(pair: Server, body: bytes) -> None:
    status, answer = pair.request("POST", "/v1/completions", body)
    assert status == 400
    assert json.loads(answer)["error"]["type"] == "BadRequestError"


def test_unknown_paths_and_methods_are_told_apart(pair: Server) -> None:
    assert pair.get("/nowhere")[0] == 404
    assert pair.get("/v1/completions")[0] == 405
    assert pair.request("POST", "/health", b"{}")[0] == 405


def test_a_connection_serves_request_after_request(pair: Server) -> None:
    connection = http.client.HTTPConnection(ADDRESSES[0], pair.port, timeout=10)
    for _ in range(3):
        connection.request("POST", "/v1/completions", json.dumps({"prompt": "x", "max_tokens": 1}))
        assert connection.getresponse().read().startswith(b'{"id": "cmpl-')
    connection.close()


def _events(server: Server, **body: Any) -> list[Any]:  # noqa: ANN401 - JSON
    status, raw = server.request(
        "POST", "/v1/completions", json.dumps({"stream": True, **body}).encode()
    )
    assert status == 200
    *events, done, rest = raw.decode().split("\n\n")
    assert (done, rest) == ("data: [DONE]", "")
    return [json.loads(event.removeprefix("data: ")) for event in events]


def _metrics(server: Server) -> bytes:
    return server.get("/metrics")[1]


def _metric(server: Server, name: str, **labels: str) -> float:
    more = "".join(f',{key}="{value}"' for key, value in labels.items())
    wanted = f'vllm:{name}{{engine="0",model_name="tiny"{more}}} '
    lines = _metrics(server).decode().splitlines()
    return float(next(line for line in lines if line.startswith(wanted)).removeprefix(wanted))


def test_with_a_key_in_the_environment_the_api_wants_it_and_health_does_not(
    starter: Starter,
) -> None:
    server = starter.start(different={0: Difference(env={"VLLM_API_KEY": "a key"})})
    server.wait_up()

    def asked(path: str, **headers: str) -> int:
        connection = http.client.HTTPConnection(ADDRESSES[0], server.port, timeout=10)
        connection.request("GET", path, headers=headers)
        return connection.getresponse().status

    assert server.post("/v1/completions", prompt="a") == (401, {"error": "Unauthorized"})
    assert asked("/v1/models") == 401
    assert asked("/v1/models", Authorization="Bearer another key") == 401
    assert asked("/v1/models", Authorization="a key") == 401
    assert asked("/v1/models", Authorization="Bearer a key") == 200
    assert asked("/version") == asked("/health") == asked("/metrics") == 200
    assert "a key" not in server.logs()
