from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from builder.digest import digest_bytes
from tests.unit.verify import samples
from verify.judge import container as judge
from verify.judge import rights

if TYPE_CHECKING:
    from collections.abc import Callable

    from verify.processes import Inside
    from verify.verdict import Verdict

HEAD, OTHER = samples.expected().nodes


def replaced(words: list[str], old: str, *new: str) -> list[str]:
    place = words.index(old)
    return [*words[:place], *new, *words[place + 1 :]]


def test_labels_of_this_lock_and_rank_are_accepted_and_foreign_labels_ignored() -> None:
    assert judge.labels(OTHER, samples.container(1)).holds


def test_of_a_container_of_another_lock_its_labels_show_nothing() -> None:
    verdict = judge.labels(OTHER, samples.container(1, lock=digest_bytes(b"another lock")))
    assert not verdict.holds
    assert not verdict.findings
    assert "another lock" in verdict.not_shown


@pytest.mark.parametrize("labels", [{"rank": "0"}, {"cluster": "other"}])
def test_a_container_of_another_rank_or_cluster_is_found(labels: dict[str, str]) -> None:
    (finding,) = judge.labels(OTHER, samples.container(1, **labels)).findings
    assert finding.found in labels.values()


def test_an_unlabelled_container_is_found() -> None:
    bare = replace(samples.container(), labels={})
    assert len(judge.labels(HEAD, bare).findings) == 3


def test_one_generation_is_accepted_and_two_are_not() -> None:
    a, b = samples.container(0), samples.container(1)
    assert judge.one_generation({"a": a, "b": b}).holds
    newer = samples.container(1, generation="4")
    assert judge.one_generation({"a": a, "b": newer}).findings
    bare = replace(a, labels={})
    assert judge.one_generation({"a": bare, "b": bare}).findings


@pytest.mark.parametrize("policy", ["always", "unless-stopped", "on-failure"])
def test_a_restart_policy_is_found(policy: str) -> None:
    assert judge.restart_policy(samples.container()).holds
    assert judge.restart_policy(replace(samples.container(), restart_policy=policy)).findings


@pytest.mark.parametrize("found", [(), ("/app/entrypoint.sh",)])
def test_another_or_a_cleared_entrypoint_is_found(found: tuple[str, ...]) -> None:
    assert judge.entrypoint(["/opt/entrypoint.sh"], samples.container()).holds
    container = replace(samples.container(), entrypoint=found)
    assert judge.entrypoint(["/opt/entrypoint.sh"], container).findings


def test_ranks_that_compile_into_different_caches_are_found() -> None:
    def verdict(*names: str, kept: bool = True) -> Verdict:
        here = zip("abc", names, strict=False)
        containers = {node: replace(samples.container(), cache=name) for node, name in here}
        return judge.one_cache(containers, kept=kept)

    assert verdict("x-g1", "x-g1").holds
    assert verdict("x-g1", "x-g2").findings
    assert verdict("x-g1", "").findings
    assert verdict("", "").findings
    assert verdict("", "", kept=False).not_shown
    assert verdict("x-g1", "x-g1", kept=False).findings


def test_each_rank_s_own_command_is_accepted() -> None:
    assert judge.command(HEAD, samples.inside(0)).holds
    assert judge.command(OTHER, samples.inside(1)).holds


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ("2", ["1"], "--tensor-parallel-size"),
        ("192.168.200.11", ["127.0.0.1"], "--master-addr"),
        ("--headless", [], "--headless"),
        ("--disable-custom-all-reduce", [], "--disable-custom-all-reduce"),
        ("256", ["128"], "--max-model-len"),
        ("/srv/models/tiny", ["/srv/models/other"], "model"),
    ],
)
def test_a_changed_argument_is_found_and_named(old: str, new: list[str], named: str) -> None:
    words = replaced(samples.serve_words(1), old, *new)
    (finding,) = judge.command(OTHER, samples.inside(1, words=words)).findings
    assert finding.what.startswith(named)


def test_two_nodes_with_one_rank_are_found() -> None:
    (finding,) = judge.command(OTHER, samples.inside(words=samples.serve_words(0))).findings[:1]
    assert finding.what.startswith("--headless")


def test_commands_that_differ_in_rank_alone_agree() -> None:
    assert judge.commands_agree({"a": samples.inside(0), "b": samples.inside(1)}).holds


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("256", ["128"]),
        ("--enforce-eager", []),
        ("--enforce-eager", ["--enforce-eager", "--seed", "7"]),
        ("/srv/models/tiny", ["/srv/models/other"]),
    ],
)
def test_commands_that_differ_in_anything_else_are_found(old: str, new: list[str]) -> None:
    words = replaced(samples.serve_words(1), old, *new)
    inside = {"a": samples.inside(0), "b": samples.inside(1, words=words)}
    assert judge.commands_agree(inside).findings


@pytest.mark.parametrize(
    "ask",
    [
        rights.open_files,
        lambda inside: rights.locked_memory(inside, uses_rdma=False),
        lambda inside: judge.command(HEAD, inside),
        lambda inside: judge.commands_agree({"a": samples.inside(0), "b": inside}),
    ],
)
def test_a_container_that_serves_nothing_is_found(ask: Callable[[Inside], Verdict]) -> None:
    idle = samples.inside(words=["sleep", "infinity"])
    (finding,) = ask(idle).findings
    assert "vllm serve" in finding.what


def test_the_manifests_variables_are_in_the_container_and_no_value_is_shown() -> None:
    node = samples.expected(container={"env": {"TOKEN_OF_MINE": "hidden-value"}}).nodes[0]
    healthy = replace(samples.container(), env={**node.env, "PATH": "/usr/bin"})
    assert judge.environment(node, healthy).holds

    changed = replace(healthy, env={**node.env, "TOKEN_OF_MINE": "other-value"})
    (finding,) = judge.environment(node, changed).findings
    assert "TOKEN_OF_MINE" in finding.what
    assert finding.found == "another value"
    assert not any(word in str(finding) for word in ("hidden-value", "other-value"))

    (finding,) = judge.environment(
        node, replace(healthy, env={k: v for k, v in node.env.items() if k != "VLLM_HOST_IP"})
    ).findings
    assert finding.found == "absent"


def test_a_path_of_the_node_that_is_missing_writable_or_extra_is_found() -> None:
    mount = {"source": "/srv/files", "target": "/files"}
    node = samples.expected(container={"mounts": [mount]}).nodes[0]
    healthy = replace(samples.container(), mounts=node.mounts)
    assert node.mounts["/files"] == "/srv/files (read-only)"
    assert len(node.mounts) == 2  # and the model
    assert judge.mounts(node, healthy).holds

    for found in (
        {**node.mounts, "/files": "/srv/files (writable)"},
        {**node.mounts, "/more": "/srv/more (read-only)"},
        {target: text for target, text in node.mounts.items() if target != "/files"},
    ):
        assert len(judge.mounts(node, replace(healthy, mounts=found)).findings) == 1


def test_where_one_lock_is_asked_for_a_container_of_another_is_found() -> None:
    another = samples.container(1, lock=digest_bytes(b"another lock"))
    (finding,) = judge.labels(OTHER, another, must_be_of_lock=True).findings
    assert "lock" in finding.what
    assert judge.labels(OTHER, samples.container(1), must_be_of_lock=True).holds
