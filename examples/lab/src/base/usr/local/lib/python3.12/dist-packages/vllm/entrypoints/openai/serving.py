"""The completion routes: from a request to tokens, and from tokens to answers."""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Dict, Iterator, List, Optional

from vllm.config import VllmConfig
from vllm.entrypoints.chat_utils import ChatTemplate
from vllm.entrypoints.openai.protocol import (
    GenerationRequest,
    Json,
    Prompt,
    RequestError,
    parse_generation,
    parse_messages,
    parse_prompts,
)
from vllm.transformers_utils.tokenizer import ByteTokenizer
from vllm.v1.engine.async_llm import AsyncLLM
from vllm.v1.engine.detokenizer import IncrementalDetokenizer
from vllm.v1.metrics import Metrics

_DEFAULT_MAX_TOKENS = 16  # of /v1/completions, as OpenAI has it; a chat may fill the context


@dataclass(frozen=True)
class Delta:
    """What one more token adds to an answer."""

    text: str
    token: int
    finish_reason: Optional[str]


@dataclass(frozen=True)
class Job:
    """A request that passed all checks: its prompts as tokens, and the kind of its answers."""

    request: GenerationRequest
    prompts: List[List[int]]
    max_tokens: List[int]
    is_chat: bool


class Serving:
    """Answers for the completion routes and the model list."""

    def __init__(self, config: VllmConfig, engine: AsyncLLM) -> None:
        model_config = config.model_config
        self.engine = engine
        self.names = model_config.served_model_names
        self.metrics = Metrics(self.names[0])
        self.max_num_seqs = config.max_num_seqs
        self._root = model_config.model
        self._max_model_len = model_config.max_model_len
        self._vocab_size = int(model_config.hf_config["vocab_size"])
        self._tokenizer = ByteTokenizer.from_pretrained(model_config.model)
        template = model_config.chat_template
        self._template = None if template is None else ChatTemplate(template)
        self._fingerprint = config.system_fingerprint()
        self._created = int(time.time())

    def models(self) -> Json:
        """The answer of /v1/models."""
        return {
            "object": "list",
            "data": [
                {
                    "id": name,
                    "object": "model",
                    "created": self._created,
                    "owned_by": "vllm",
                    "root": self._root,
                    "parent": None,
                    "max_model_len": self._max_model_len,
                }
                for name in self.names
            ],
        }

    def metrics_text(self) -> str:
        """The answer of /metrics."""
        under_way = self.engine.num_requests
        running = min(under_way, self.max_num_seqs)
        return self.metrics.text(running, under_way - running)

    def completion(self, body: Json) -> Job:
        """The job of /v1/completions; RequestError if it cannot be done."""
        request = self._parse(body)
        return self._job(request, [self._encode(prompt) for prompt in parse_prompts(body)], False)

    def chat(self, body: Json) -> Job:
        """The job of /v1/chat/completions; RequestError if it cannot be done."""
        request = self._parse(body)
        messages = parse_messages(body)
        if self._template is None:
            raise RequestError(
                "As of transformers v4.44, default chat template is no longer allowed, so you must "
                "provide a chat template if the tokenizer does not define one."
            )
        prompt = self._template.render(messages)
        return self._job(request, [self._tokenizer.encode(prompt, add_special_tokens=False)], True)

    def answer(self, job: Job) -> Json:
        """The whole answer at once. EngineDeadError if the engine dies before it is complete."""
        running = [self._start(job, number) for number in range(len(job.prompts))]
        choices = [self._choice(job, number, list(run)) for number, run in enumerate(running)]
        completion_tokens = sum(choice.pop("num_tokens") for choice in choices)
        return {
            **self._head(job),
            "choices": choices,
            "usage": self._usage(job, completion_tokens),
        }

    def stream(self, job: Job) -> Iterator[Json]:
        """The answer in chunks. EngineDeadError as in `answer`, at the next chunk."""
        head = self._head(job, chunk=job.is_chat)
        completion_tokens = 0
        for number in range(len(job.prompts)):
            for delta in self._start(job, number):
                completion_tokens += 1
                yield {**head, "choices": [self._chunk(job, number, delta)]}
        if job.request.include_usage:
            yield {**head, "choices": [], "usage": self._usage(job, completion_tokens)}

    def _parse(self, body: Json) -> GenerationRequest:
        request = parse_generation(body)
        if request.model is not None and request.model not in self.names:
            raise RequestError(
                f"The model `{request.model}` does not exist.", HTTPStatus.NOT_FOUND, "model"
            )
        return request

    def _encode(self, prompt: Prompt) -> List[int]:
        if isinstance(prompt, str):
            return self._tokenizer.encode(prompt)
        for token in prompt:
            if not 0 <= token < self._vocab_size:
                raise RequestError(f"Token id {token} is out of vocabulary")
        return prompt

    def _job(self, request: GenerationRequest, prompts: List[List[int]], is_chat: bool) -> Job:
        return Job(request, prompts, [self._room(request, p, is_chat) for p in prompts], is_chat)

    def _room(self, request: GenerationRequest, prompt: List[int], is_chat: bool) -> int:
        """How many tokens the answer may have; RequestError if the context has no room for them."""
        limit = self._max_model_len
        wanted = request.max_tokens
        if wanted is None:
            wanted = max(limit - len(prompt), 1) if is_chat else _DEFAULT_MAX_TOKENS
        if not prompt:
            raise RequestError("The prompt cannot be empty", param="prompt")
        if len(prompt) + wanted > limit:
            raise RequestError(
                f"You passed {len(prompt)} input tokens and requested {wanted} output tokens. "
                f"However, the model's context length is only {limit} tokens, resulting in a "
                f"maximum input length of {max(limit - wanted, 0)} tokens. Please reduce the "
                "length of the input prompt.",
                param="input_tokens",
            )
        return wanted

    def _start(self, job: Job, number: int) -> Iterator[Delta]:
        """Send one prompt to the engine now; its answer as it comes."""
        request = job.request
        outputs = self.engine.generate(
            job.prompts[number],
            max_tokens=job.max_tokens[number],
            temperature=request.temperature,
            seed=request.seed,
            ignore_eos=request.ignore_eos,
        )
        return self._deltas(outputs, request, len(job.prompts[number]))

    def _deltas(
        self, outputs: Iterator[Any], request: GenerationRequest, prompt_tokens: int
    ) -> Iterator[Delta]:
        detokenizer = IncrementalDetokenizer(request.stop)
        reason: Optional[str] = None
        try:
            for token, last in outputs:
                reason = "stop" if detokenizer.push(token, last=last is not None) else last
                self.metrics.count_tokens(prompt_tokens, 1)
                prompt_tokens = 0
                yield Delta(detokenizer.take_new(last=reason is not None), token, reason)
                if reason is not None:
                    break
        finally:
            self.metrics.count_end(reason or "abort")
            outputs.close()  # type: ignore[attr-defined]

    def _head(self, job: Job, chunk: bool = False) -> Dict[str, Any]:
        kind = "chat.completion" if job.is_chat else "text_completion"
        return {
            "id": ("chatcmpl-" if job.is_chat else "cmpl-") + uuid.uuid4().hex,
            "object": kind + (".chunk" if chunk else ""),
            "created": int(time.time()),
            "model": job.request.model or self.names[0],
            "system_fingerprint": self._fingerprint,
        }

    def _choice(self, job: Job, number: int, deltas: List[Delta]) -> Dict[str, Any]:
        text = "".join(delta.text for delta in deltas)
        choice: Dict[str, Any] = {
            "index": number,
            **(
                {"message": {"role": "assistant", "content": text}}
                if job.is_chat
                else {"text": text}
            ),
            "logprobs": None,
            "finish_reason": deltas[-1].finish_reason,
            "stop_reason": None,
            "num_tokens": len(deltas),
        }
        if job.request.return_token_ids:
            choice["token_ids"] = [delta.token for delta in deltas]
            choice["prompt_token_ids"] = job.prompts[number]
        return choice

    @staticmethod
    def _chunk(job: Job, number: int, delta: Delta) -> Dict[str, Any]:
        text = {"delta": {"content": delta.text}} if job.is_chat else {"text": delta.text}
        choice: Dict[str, Any] = {
            "index": number,
            **text,
            "logprobs": None,
            "finish_reason": delta.finish_reason,
            "stop_reason": None,
        }
        if job.request.return_token_ids:
            choice["token_ids"] = [delta.token]
        return choice

    @staticmethod
    def _usage(job: Job, completion_tokens: int) -> Dict[str, int]:
        prompt_tokens = sum(map(len, job.prompts))
        return {
            "prompt_tokens": prompt_tokens,
            "total_tokens": prompt_tokens + completion_tokens,
            "completion_tokens": completion_tokens,
        }
