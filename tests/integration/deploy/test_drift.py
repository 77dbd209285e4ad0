from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from deploy.drifting import drift

if TYPE_CHECKING:
    from tests.integration.deploy.conftest import Cluster

pytestmark = pytest.mark.lab

MOUNTS = ("/usr/bin", "/usr/lib", "/usr/lib64")
HAND = [
    *("docker", "run", "--detach", "--name", "hand", "--network", "host"),
    *("--entrypoint", "/usr/bin/sleep"),
    *(part for path in MOUNTS for part in ("--volume", f"{path}:{path}")),
]


def found(cluster: Cluster) -> set[tuple[str, str, str]]:
    """Every difference as (node, what, who)."""
    report = drift(cluster.file)
    return {(item.node, item.what, item.cause.name) for item in report.differences}


def test_every_thing_that_a_person_does_on_a_node_is_named_and_nothing_else(
    served: Cluster,
) -> None:
    assert found(served) == set()
    name = served.folder.name
    ((head, _),), ((worker, _),) = served.containers().values()
    one, two = served.node("spark-a"), served.node("spark-b")
    model = f"/srv/models/{name}"
    image = one.run(["docker", "inspect", "--format", "{{.Config.Image}}", head]).strip()
    one.run(["touch", f"{model}/config.json"])  # other times, and the same bytes
    assert found(served) == set()

    limits = ["--memory", "2g", "--memory-swap", "3g", "--restart", "always"]
    one.run(["docker", "update", *limits, head])
    edit = "echo changed >>/workspace/vllm/chat_template.jinja"
    one.run(["docker", "exec", head, "/usr/bin/sh", "-c", edit])
    two.run(["docker", "rename", worker, f"renamed-{name}"])
    two.run([*HAND, image, "1000"])
    two.run(["sh", "-c", f"echo >>{model}/config.json"])
    two.run(["docker", "commit", "hand", f"other-{name}"])
    two.run(["docker", "tag", f"other-{name}", image])
    try:
        assert found(served) == {
            ("spark-a", "Memory", "PERSON"),
            ("spark-a", "MemorySwap", "PERSON"),
            ("spark-a", "RestartPolicy", "PERSON"),
            ("spark-a", "file /workspace/vllm/chat_template.jinja", "PERSON"),
            ("spark-b", "name", "PERSON"),
            ("spark-b", "container hand", "PERSON"),
            ("spark-b", f"tag {image}", "PERSON"),
            ("spark-b", "model file config.json", "DISK"),
        }
    finally:
        two.run(["docker", "rm", "--force", "hand"])
        two.run(["docker", "rmi", f"other-{name}"])


def test_a_changed_manifest_is_told_apart_from_what_a_person_changed(served: Cluster) -> None:
    ((head, _),), _ = served.containers().values()
    served.node("spark-a").run(["docker", "update", "--cpu-shares", "512", head])
    served.change("serve.args", max_model_len=128)
    assert found(served) == {
        ("spark-a", "CpuShares", "PERSON"),
        ("spark-a", "Cmd", "INPUTS"),
        ("spark-b", "Cmd", "INPUTS"),
    }
