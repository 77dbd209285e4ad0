"""Serving: does the pair answer as one server of the wanted width?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from verify.errors import ApiError
from verify.fingerprint import FULL, Fingerprint
from verify.judge import serving as judge

if TYPE_CHECKING:
    from verify.canary import Canary, Repeats
    from verify.claim import Claim
    from verify.edges.api import Api
    from verify.expected import ExpectedCluster
    from verify.observe import ObservedNode

_DEADLINE_S: Final = 10
"""For routes that the head answers by itself."""


def test_worker_titles(claim: Claim, node: ObservedNode) -> None:
    """Exactly this rank's vLLM processes run on the node, by the titles vLLM gives them."""
    claim.settle(judge.worker_titles(node.expected, node.inside))


def test_version(claim: Claim, expected: ExpectedCluster, api: Api) -> None:
    """The running server says that it is the locked vLLM version."""
    answer = api.get("/version", deadline_s=_DEADLINE_S)
    claim.settle(judge.version(expected.vllm_version, answer))


def test_server_answers(claim: Claim, expected: ExpectedCluster, api: Api) -> None:
    """The server answers and lists the wanted model name; it proves no parallelism."""
    answer = api.get("/v1/models", deadline_s=_DEADLINE_S)
    claim.settle(judge.served_model(expected.served_model_name, answer))


def test_api_key(claim: Claim, expected: ExpectedCluster, api: Api) -> None:
    """Who brings no key gets no answer from the API."""
    problem = ""
    try:
        api.without_key().get("/v1/models", deadline_s=_DEADLINE_S)
    except ApiError as error:
        problem = error.problem
    claim.settle(judge.api_key(expected.api_key_env, problem))


def test_completion(claim: Claim, canary: Canary) -> None:
    """A real completion, which takes every rank, is answered within its deadline."""
    claim.settle(judge.completion(canary.answers, canary.failure))


def test_same_answer(claim: Claim, canary: Canary, repeats: Repeats) -> None:
    """The same prompt gives the same text twice; it does not prove that the text is right."""
    claim.settle(judge.same_answer(canary.long, repeats.again))


def test_two_at_once(claim: Claim, repeats: Repeats) -> None:
    """Two requests at once are both answered, after those that came one by one."""
    claim.settle(judge.all_answered(repeats.together))


def test_fingerprint(claim: Claim, expected: ExpectedCluster, canary: Canary) -> None:
    """The server's own fingerprint names the locked version and the wanted width; no nodes."""
    wanted = Fingerprint(
        expected.vllm_version, expected.tensor_parallel, expected.pipeline_parallel
    )
    mode = str(expected.head.flags.get("fingerprint-mode", FULL))
    claim.settle(judge.fingerprint(wanted, canary.long, mode))


def test_quiet_log(claim: Claim, canary: Canary, node: ObservedNode) -> None:
    """The rank has logged no error since the first completion was asked for."""
    claim.settle(judge.quiet_log(node.log_since(canary.began[node.expected.name])))
