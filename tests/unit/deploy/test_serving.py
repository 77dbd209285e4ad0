from __future__ import annotations

import pytest

from deploy.serving import MeetingPoint, ServingAddress, meeting_point, serving_at
from tests.unit.deploy.clusters import wanted

SCRIPT = ("./run-cluster-node.sh", "--role", "head", "--host-ip", "198.18.0.1", "--")


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("vllm serve /models/m --port 8123", ServingAddress("127.0.0.1", 8123, "/models/m")),
        ("vllm serve /models/m", ServingAddress("127.0.0.1", 8000, "/models/m")),
        ("vllm serve /m --host 0.0.0.0", ServingAddress("127.0.0.1", 8000, "/m")),
        ("vllm serve /m --host ::", ServingAddress("::1", 8000, "/m")),
        ("vllm serve /m --host 198.18.0.1", ServingAddress("198.18.0.1", 8000, "/m")),
        ("vllm serve /m --host localhost", ServingAddress("localhost", 8000, "/m")),
        ("vllm serve /m --served-model-name a b", ServingAddress("127.0.0.1", 8000, "a")),
        ("vllm serve /m --served_model_name=a", ServingAddress("127.0.0.1", 8000, "a")),
        ("vllm serve /m --port 1 --port=2", ServingAddress("127.0.0.1", 2, "/m")),
        ("/opt/venv/bin/vllm serve --model /m", ServingAddress("127.0.0.1", 8000, "/m")),
        ("--model /m --port 9", ServingAddress("127.0.0.1", 9, "/m")),
        ("vllm serve", ServingAddress("127.0.0.1", 8000, "")),
        ("vllm serve /m --port", ServingAddress("127.0.0.1", 8000, "/m")),
        ("", ServingAddress("127.0.0.1", 8000, "")),
    ],
)
def test_a_command_tells_where_its_server_answers(command: str, expected: ServingAddress) -> None:
    assert serving_at(command.split()) == expected


def test_the_launcher_scripts_own_options_are_not_vllms() -> None:
    command = (*SCRIPT[:-1], "--port", "1", "--", "vllm", "serve", "/m", "--port", "2")
    assert serving_at(command).port == 2


def test_every_rank_of_a_rendered_pair_meets_at_the_heads_fabric_address() -> None:
    pair = wanted()
    head = pair.manifest.head.fabric
    assert head is not None
    expected = MeetingPoint(str(head.address), pair.manifest.serve.master_port)
    assert [meeting_point(spec.command) for spec in pair.specs] == [expected, expected]


def test_a_rendered_head_tells_what_the_manifest_says() -> None:
    pair = wanted()
    found = serving_at(pair.specs[0].command)
    assert found.port == pair.manifest.serve.port
    assert found.model == pair.manifest.served_model_name


def test_a_rank_alone_meets_nobody() -> None:
    assert meeting_point(["vllm", "serve", "/m"]) is None
    assert meeting_point(["vllm", "serve", "/m", "--master-addr", "a"]) == MeetingPoint("a", 29501)
