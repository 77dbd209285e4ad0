"""Does the pair serve the locked model, as one server of the wanted width?"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from verify.fingerprint import FULL, Fingerprint, parse_fingerprint
from verify.processes import titles
from verify.shape import Tokens
from verify.verdict import Finding, Verdict, not_shown, same, together

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from verify.errors import ApiError
    from verify.expected import ExpectedNode
    from verify.processes import Inside

_LOGS: Final = "inv logs, on every node"
_RENEW: Final = (
    "inv deploy; if it finds nothing to change, inv stop --remove (which also removes what is "
    "kept for rollback), then inv deploy"
)
_CORE: Final = "EngineCore"
_LONE_WORKER: Final = "Worker"
_ERROR_LINE: Final = re.compile(
    r"(?:\([^)]*\) *)*(?:ERROR|CRITICAL)\b|.*Traceback \(most recent call last\)"
)
"""vLLM puts the process in brackets before the level: `(Worker_TP1 pid=77) ERROR 11-30`."""


def worker_titles(node: ExpectedNode, inside: Inside) -> Verdict:
    """Whether exactly the processes of this rank run here, by the titles vLLM gives them.

    A lone rank's worker lives inside the engine core or, where vLLM starts it by multiprocessing
    all the same, beside it.
    """
    found = titles(inside.processes, node.title_prefix)
    lone = node.titles == (_CORE,) and found == (_CORE, _LONE_WORKER)
    return same(
        "vLLM processes",
        expected=" ".join(found if lone else node.titles) or "none",
        found=" ".join(found) or "none",
        remedy=f"inv logs; then {_RENEW}",
    )


def version(expected: str, answer: Mapping[str, Any]) -> Verdict:
    """Whether the running server says it is the locked vLLM version."""
    return same(
        "version the server answers",
        expected=expected,
        found=answer.get("version", "none"),
        remedy=_RENEW,
    )


def served_model(expected: str, answer: Mapping[str, Any]) -> Verdict:
    """Whether the server lists the wanted model name. It answers; it proves no parallelism."""
    names = [str(item.get("id")) for item in _objects(answer.get("data"))]
    finding = Finding(
        "the server does not list the model",
        expected,
        ", ".join(names) or "no model",
        f"{_RENEW}; the name is [serve] args served-model-name",
    )
    return Verdict(
        evidence=(f"models: {', '.join(names) or 'none'}",),
        findings=() if expected in names else (finding,),
    )


def api_key(name: str | None, problem: str) -> Verdict:
    """Whether the server refuses a request without a key; `problem` is what it said to it."""
    if name is None:
        return not_shown("[serve] api_key_env is not set: whoever reaches the port is answered")
    return same(
        "answer without a key",
        expected="HTTP 401",
        found=problem.partition(":")[0] or "HTTP 200",
        remedy=_RENEW,
    )


def completion(answers: Sequence[Mapping[str, Any]], failure: ApiError | None) -> Verdict:
    """Whether the server generated tokens in time, for each request. It takes every rank to do so.

    `failure` says why there is no further answer, if one is missing.
    """
    found = together(_completed(answer) for answer in answers)
    if failure is None:
        return found
    wanted = "an answer within [serve] completion_timeout_s"
    finding = Finding("the server did not complete a prompt", wanted, failure.problem, _LOGS)
    return together([found, Verdict(findings=(finding,))])


def _completed(answer: Mapping[str, Any]) -> Verdict:
    tokens = tokens_of(answer).generated
    texts = _texts(answer)
    finding = Finding(
        "the completion holds no generated token",
        "choices with a text, and usage of at least one token",
        f"{len(texts)} choices, {tokens} tokens",
        _LOGS,
    )
    return Verdict(
        evidence=(f"{tokens} tokens generated", *(f"text: {text[:60]!r}" for text in texts)),
        findings=() if texts and tokens > 0 else (finding,),
    )


def tokens_of(answer: Mapping[str, Any]) -> Tokens:
    """How many tokens a completion read and wrote, by its usage; 0 where it does not say."""
    return Tokens(_count(answer, "prompt_tokens"), _count(answer, "completion_tokens"))


def _count(answer: Mapping[str, Any], key: str) -> int:
    usage = answer.get("usage")
    value = usage.get(key) if isinstance(usage, dict) else None
    return value if isinstance(value, int) else 0


def _texts(answer: Mapping[str, Any]) -> list[str]:
    return [str(item.get("text", "")) for item in _objects(answer.get("choices"))]


def same_answer(first: Mapping[str, Any], again: Mapping[str, Any]) -> Verdict:
    """Whether one prompt gives one text, twice, at temperature 0.

    Ranks that are out of step, or a memory that holds another request's state, answer differently.
    """
    texts, others = _texts(first), _texts(again)
    finding = Finding(
        "the same greedy completion gave another text the second time",
        repr(texts),
        repr(others),
        "verify again while nobody else uses the server: other requests in a batch may change the "
        f"rounding; if it stays, the ranks disagree: {_LOGS}",
    )
    evidence = tuple(f"text, twice: {text!r}" for text in texts)
    return Verdict(evidence=evidence, findings=() if texts == others else (finding,))


def all_answered(answers: Sequence[Mapping[str, Any]]) -> Verdict:
    """Whether requests that came at once each got their tokens."""
    counts = [tokens_of(answer).generated for answer in answers]
    finding = Finding(
        "of requests at once, not every one got a token",
        f"tokens for each of {len(answers)}",
        ", ".join(map(str, counts)),
        _LOGS,
    )
    return Verdict(
        evidence=(f"tokens of {len(answers)} requests at once: {', '.join(map(str, counts))}",),
        findings=() if all(counts) else (finding,),
    )


def fingerprint(wanted: Fingerprint, answer: Mapping[str, Any], mode: str = FULL) -> Verdict:
    """Whether the server's own fingerprint names the locked version and the wanted width.

    vLLM has it from 0.21 on, as vllm-VERSION-tpN-HASH. It says nothing of nodes.
    """
    text = str(answer.get("system_fingerprint") or "")
    if not text:
        return not_shown("the server gives no system_fingerprint")
    if mode != FULL:
        return not_shown(f"[serve] args fingerprint-mode is {mode}", f"fingerprint: {text}")
    finding = Finding(
        "the server's fingerprint names another version or width",
        f"vllm-{wanted.version}, tensor parallel {wanted.tensor_parallel}, "
        f"pipeline parallel {wanted.pipeline_parallel}",
        text,
        _RENEW,
    )
    fits = parse_fingerprint(text) == wanted
    return Verdict(evidence=(f"fingerprint: {text}",), findings=() if fits else (finding,))


def quiet_log(lines: Sequence[str]) -> Verdict:
    """Whether a rank logged no error while it answered.

    A rank other than the head can fail every step while the client sees 200.
    """
    errors = [line.strip() for line in lines if _ERROR_LINE.match(line)]
    finding = Finding(
        "the rank logged errors while it answered",
        "no error",
        "; ".join(errors[:3])[:500],
        _LOGS,
    )
    return Verdict(
        evidence=(f"{len(lines)} lines logged, {len(errors)} of them errors",),
        findings=(finding,) if errors else (),
    )


def model_files(expected: Mapping[str, str], found: Mapping[str, str]) -> Verdict:
    """Whether each file of the model has the locked bytes on this node.

    vLLM does not compare weights between ranks: other weights of one shape give other answers and
    no warning.
    """
    if not expected:
        return not_shown("the lock lists no file of the model")
    return together(
        same(
            f"SHA-256 of {path}",
            expected=digest,
            found=found.get(path, "no readable file"),
            remedy="inv deploy copies what differs",
        )
        for path, digest in sorted(expected.items())
    )


def _objects(value: object) -> list[Mapping[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
