from __future__ import annotations

import re
import shutil
import subprocess
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.standin import ADDRESSES, BASE, MODEL, Difference, Starter, make_tiny_llama

if TYPE_CHECKING:
    from tests.standin import Server

PROMPTS = ("two sparks", "ask for a token", "count the bytes, all of them")


def _all_tokens(server: Server) -> list[list[int]]:
    greedy = [server.tokens(prompt) for prompt in PROMPTS]
    sampled = [server.tokens(prompt, temperature=0.8, seed=7) for prompt in PROMPTS]
    return greedy + sampled


def test_one_two_and_four_ranks_give_the_same_tokens(starter: Starter) -> None:
    alone = _all_tokens(starter.serve(ranks=1))
    assert len({tuple(tokens) for tokens in alone}) == len(alone)  # the prompt matters
    for ranks, nodes in ((2, 2), (2, 1), (4, 2), (4, 4)):
        assert _all_tokens(starter.serve(ranks=ranks, nodes=nodes)) == alone, (ranks, nodes)


def test_the_base_alone_serves_an_architecture_that_it_knows(tmp_path: Path) -> None:
    model = make_tiny_llama(tmp_path / "model")
    starter = Starter(BASE, tmp_path)
    try:
        answers = []
        for ranks in (1, 2):
            server = starter.start(
                ranks=ranks, nodes=ranks, different=dict.fromkeys(range(2), Difference(model))
            )
            server.wait_up()
            answers.append(server.tokens(PROMPTS[0]))
    finally:
        starter.end()
    assert answers[0] == answers[1]


def test_requests_in_one_batch_do_not_disturb_each_other(pair: Server) -> None:
    alone = {prompt: pair.tokens(prompt) for prompt in PROMPTS}
    together: dict[str, list[int]] = {}

    def ask(prompt: str) -> None:
        together[prompt] = pair.tokens(prompt)

    threads = [threading.Thread(target=ask, args=(prompt,)) for prompt in PROMPTS]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert together == alone


def test_other_weights_on_one_node_go_unnoticed_and_give_other_text(
    starter: Starter, pair: Server, tmp_path: Path
) -> None:
    other = tmp_path / "model"
    shutil.copytree(MODEL, other)
    weights = bytearray((other / "model.safetensors").read_bytes())
    for start in range(len(weights) // 2, len(weights), 4):
        weights[start + 2] ^= 0x3F  # a few of the mantissa's and exponent's bits
    (other / "model.safetensors").write_bytes(weights)
    server = starter.start(ranks=2, nodes=2, different={1: Difference(model=other)})
    server.wait_up()
    assert server.tokens(PROMPTS[0]) != pair.tokens(PROMPTS[0])
    assert "ERROR" not in server.logs()


def test_the_ranks_talk_from_fabric_address_to_fabric_address(pair: Server) -> None:
    titles = [node.descendants() for node in pair.nodes]
    worker_0, worker_1 = titles[0]["VLLM::Worker_TP0"], titles[1]["VLLM::Worker_TP1"]
    engine = titles[0]["VLLM::EngineCore"]
    there = {(ADDRESSES[0], ADDRESSES[1])}
    assert _connections(worker_0) == there
    assert _connections(engine) == there
    assert _connections(worker_1) == {(ADDRESSES[1], ADDRESSES[0])}


def test_every_token_moves_bytes_between_the_ranks(pair: Server) -> None:
    worker = pair.nodes[1].descendants()["VLLM::Worker_TP1"]

    def moved(tokens: int) -> int:
        before = _sent_bytes(worker)
        pair.tokens("x", max_tokens=tokens, ignore_eos=True)
        return _sent_bytes(worker) - before

    few, many = moved(8), moved(64)
    assert few > 8 * 2 * 2 * 32 * 8  # tokens, all-reduces a layer, layers, features, bytes of each
    assert 6 * few < many < 9 * few


@pytest.mark.parametrize("temperature", [0, 0.8])
def test_a_seed_makes_a_sampled_text_repeatable(pair: Server, temperature: float) -> None:
    asked = {"temperature": temperature, "seed": 11}
    assert pair.tokens("again", **asked) == pair.tokens("again", **asked)


def test_without_a_seed_sampled_texts_differ(pair: Server) -> None:
    assert pair.tokens("again", temperature=1) != pair.tokens("again", temperature=1)


def _connections(pid: int) -> set[tuple[str, str]]:
    """Local and remote address of every TCP connection of a process."""
    links = [str(path.readlink()) for path in Path(f"/proc/{pid}/fd").iterdir()]
    inodes = {link.removeprefix("socket:[").rstrip("]") for link in links}
    lines = Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]
    fields = [line.split() for line in lines]
    established = "01"
    return {
        (_address(field[1]), _address(field[2]))
        for field in fields
        if field[9] in inodes and field[3] == established
    }


def _address(text: str) -> str:
    return ".".join(str(byte) for byte in reversed(bytes.fromhex(text.split(":", maxsplit=1)[0])))


def _sent_bytes(pid: int) -> int:
    """What a process has sent over all its TCP connections, as the kernel counts it."""
    shown = subprocess.run(
        ["ss", "-tniHOp"], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    ours = [line for line in shown if f"pid={pid}," in line]
    return sum(int(sent) for line in ours for sent in re.findall(r"bytes_sent:(\d+)", line))
