"""Requests as clients send them, and the errors that they get."""

from __future__ import annotations

import json
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Dict, List, Optional, Tuple, Union

Json = Dict[str, Any]
Prompt = Union[str, List[int]]

_UNSUPPORTED: Dict[str, Tuple[Any, ...]] = {
    # parameter: the values that ask for nothing
    "best_of": (None, 1),
    "echo": (None, False),
    "frequency_penalty": (None, 0),
    "logit_bias": (None, {}),
    "logprobs": (None, False),
    "min_p": (None, 0),
    "n": (None, 1),
    "presence_penalty": (None, 0),
    "prompt_logprobs": (None,),
    "repetition_penalty": (None, 1),
    "response_format": (None,),
    "structured_outputs": (None,),
    "suffix": (None, ""),
    "tools": (None, []),
    "top_k": (None, 0, -1),
    "top_logprobs": (None, 0),
    "top_p": (None, 1),
}


class RequestError(Exception):
    """A request that gets an answer in the form of OpenAI's errors."""

    def __init__(
        self, message: str, status: HTTPStatus = HTTPStatus.BAD_REQUEST, param: Optional[str] = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.param = param

    def body(self) -> Json:
        """The JSON object of the answer."""
        kinds = {
            HTTPStatus.BAD_REQUEST: "BadRequestError",
            HTTPStatus.NOT_FOUND: "NotFoundError",
        }
        return {
            "error": {
                "message": str(self),
                "type": kinds.get(self.status, "InternalServerError"),
                "param": self.param,
                "code": int(self.status),
            }
        }


@dataclass(frozen=True)
class GenerationRequest:
    """What both completion routes have in common."""

    model: Optional[str]
    max_tokens: Optional[int]
    temperature: float
    seed: Optional[int]
    stop: Tuple[str, ...]
    ignore_eos: bool
    stream: bool
    include_usage: bool
    return_token_ids: bool


def parse_json(body: bytes) -> Json:
    """The JSON object in a request's body."""
    try:
        parsed = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise RequestError(f"The body is not JSON: {error}") from error
    if not isinstance(parsed, dict):
        raise RequestError("The body must be a JSON object.")
    return parsed


def parse_generation(body: Json) -> GenerationRequest:
    """The common part of a request; RequestError for what is wrong or not supported here."""
    for name, neutral in _UNSUPPORTED.items():
        if body.get(name) not in neutral:
            raise RequestError(f"The stand-in does not support `{name}`.", param=name)
    stop = body.get("stop") or []
    stop = [stop] if isinstance(stop, str) else stop
    if not isinstance(stop, list) or not all(isinstance(text, str) and text for text in stop):
        raise RequestError("`stop` must be text or a list of texts.", param="stop")
    limit = _number(body, "max_completion_tokens", None, 1)
    temperature = _number(body, "temperature", 1.0, 0, (int, float))
    assert temperature is not None
    options = body.get("stream_options")
    return GenerationRequest(
        model=body.get("model"),
        max_tokens=_number(body, "max_tokens", None, 1) if limit is None else limit,
        temperature=float(temperature),
        seed=_number(body, "seed", None, None),
        stop=tuple(stop),
        ignore_eos=bool(body.get("ignore_eos")),
        stream=bool(body.get("stream")),
        include_usage=isinstance(options, dict) and bool(options.get("include_usage")),
        return_token_ids=bool(body.get("return_token_ids")),
    )


def _number(body: Json, name: str, default: Any, least: Optional[int], kinds: Any = int) -> Any:
    value = body.get(name)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, kinds):
        raise RequestError(f"`{name}` must be a number.", param=name)
    if least is not None and not value >= least:
        raise RequestError(f"{name} must be at least {least}, got {value}.", param=name)
    return value


def parse_prompts(body: Json) -> List[Prompt]:
    """The prompts of a completion request: one or several, as text or as token ids."""
    prompt = body.get("prompt")
    if isinstance(prompt, str):
        return [prompt]
    if isinstance(prompt, list) and prompt:
        if _are_token_ids(prompt):
            return [prompt]
        if all(isinstance(item, str) or _are_token_ids(item) for item in prompt):
            return prompt
    raise RequestError("`prompt` must be text, token ids, or a list of these.", param="prompt")


def _are_token_ids(value: Any) -> bool:
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(item, int) and not isinstance(item, bool) for item in value)
    )


def parse_messages(body: Json) -> List[Dict[str, str]]:
    """The messages of a chat request: each has a role, and content that is text."""
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise RequestError("`messages` must be a list of messages.", param="messages")
    for message in messages:
        if not isinstance(message, dict) or not all(
            isinstance(message.get(key), str) for key in ("role", "content")
        ):
            raise RequestError("A message needs `role` and `content`, as text.", param="messages")
    return messages
