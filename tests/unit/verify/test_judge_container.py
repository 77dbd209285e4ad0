from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from builder.digest import digest_bytes
from tests.unit.verify import samples
from verify.judge import container as judge
from verify.processes import Inside, PathFacts

if TYPE_CHECKING:
    from collections.abc import Callable

    from verify.verdict import Verdict

HEAD, OTHER = samples.expected().nodes
RDMA = {"rocep1s0f1": "/dev/infiniband/uverbs0", "roceP2p1s0f1": "/dev/infiniband/uverbs1"}


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


def test_privilege_and_the_nodes_own_processes_are_found() -> None:
    plain = samples.container()
    rights = samples.expected().rights
    assert judge.least_privilege(rights, plain).holds
    assert judge.least_privilege(rights, replace(plain, privileged=True)).findings
    assert judge.least_privilege(rights, replace(plain, pid_mode="host")).findings
    assert judge.least_privilege(rights, replace(plain, ipc_mode="host")).findings


def test_privilege_that_the_manifest_asks_for_is_told_and_never_passed() -> None:
    rights = samples.expected(container={"privileged": True}).rights
    verdict = judge.least_privilege(rights, replace(samples.container(), privileged=True))
    assert verdict.not_shown.startswith("weakens: [container] privileged = true: root in it")
    assert judge.least_privilege(rights, samples.container()).findings


@pytest.mark.parametrize("policy", ["always", "unless-stopped", "on-failure"])
def test_a_restart_policy_is_found(policy: str) -> None:
    assert judge.restart_policy(samples.container()).holds
    assert judge.restart_policy(replace(samples.container(), restart_policy=policy)).findings


@pytest.mark.parametrize("found", [(), ("/app/entrypoint.sh",)])
def test_another_or_a_cleared_entrypoint_is_found(found: tuple[str, ...]) -> None:
    assert judge.entrypoint(["/opt/entrypoint.sh"], samples.container()).holds
    container = replace(samples.container(), entrypoint=found)
    assert judge.entrypoint(["/opt/entrypoint.sh"], container).findings


def test_all_memory_may_be_locked_or_it_is_found() -> None:
    assert judge.locked_memory(samples.inside(), uses_rdma=True).holds
    for found in ("8388608", "unread"):
        tight = samples.inside(limits={"locked memory": found})
        (finding,) = judge.locked_memory(tight, uses_rdma=True).findings
        assert finding.found == found


def test_a_limit_on_locked_memory_shows_nothing_where_no_memory_is_registered() -> None:
    tight = samples.inside(limits={"locked memory": "8388608"})
    verdict = judge.locked_memory(tight, uses_rdma=False)
    assert verdict.not_shown
    assert not verdict.holds
    assert judge.locked_memory(samples.inside(), uses_rdma=False).holds


@pytest.mark.parametrize(
    ("found", "holds"),
    [("unlimited", True), ("20000", True), ("4096", False), ("1024", False), ("unread", False)],
)
def test_enough_files_may_be_opened_or_it_is_found(found: str, *, holds: bool) -> None:
    assert judge.open_files(samples.inside(limits={"open files": found})).holds is holds


def test_only_the_server_s_limits_count() -> None:
    tight = samples.process(99, "VLLM::EngineCore", **{"locked memory": "0", "open files": "0"})
    inside = samples.inside()
    crowded = replace(inside, processes=(*inside.processes, tight))
    assert judge.locked_memory(crowded, uses_rdma=True).holds
    assert judge.open_files(crowded).holds


@pytest.mark.parametrize("facts", [PathFacts("absent"), PathFacts("file")])
def test_a_missing_device_is_found(facts: PathFacts) -> None:
    container = samples.container()
    good = samples.inside(paths=dict.fromkeys(RDMA.values(), PathFacts("other")))
    assert judge.devices([], RDMA, container, good).holds
    for inside in (samples.inside(paths=dict.fromkeys(RDMA.values(), facts)), samples.inside()):
        assert len(judge.devices([], RDMA, container, inside).findings) == 2
    assert judge.devices([], dict.fromkeys(RDMA, ""), replace(container, devices=()), good).findings


def test_a_device_that_nobody_asked_for_is_found() -> None:
    inside = samples.inside(paths={"/dev/fuse": PathFacts("other")})
    more = replace(samples.container(), devices=("/dev/fuse", "/dev/kvm"))
    (finding,) = judge.devices(["/dev/fuse"], {}, more, inside).findings
    assert finding.found == "/dev/kvm"
    assert judge.devices([], {}, replace(more, devices=()), inside).not_shown


def test_capabilities_beyond_the_manifest_s_are_found() -> None:
    rights = samples.expected().rights
    assert rights.capabilities is not None
    assert "NET_RAW" not in rights.capabilities
    assert judge.capabilities(rights, samples.inside()).holds
    for all_of_them in ({"privileged": True}, {"cap_add": ["ALL"]}):
        unbound = samples.expected(container=all_of_them).rights
        assert judge.capabilities(unbound, with_process(capabilities=frozenset({"CAP_63"}))).holds
    asked = samples.expected(container={"cap_add": ["SYS_ADMIN"]}).rights
    strong = with_process(capabilities=rights.capabilities | {"SYS_ADMIN"})
    assert judge.capabilities(asked, strong).holds
    (finding,) = judge.capabilities(rights, strong).findings
    assert finding.found == "SYS_ADMIN"
    assert judge.capabilities(rights, with_process(capabilities=None)).findings


def test_a_setuid_program_that_could_gain_rights_is_found() -> None:
    open_to_setuid = with_process(no_new_privileges=False)
    assert judge.capabilities(samples.expected().rights, open_to_setuid).findings
    off = samples.expected(container={"security_opt": ["no-new-privileges=false"]}).rights
    assert judge.capabilities(off, open_to_setuid).holds


def with_process(**changes: object) -> Inside:
    inside = samples.inside()
    changed = tuple(replace(process, **changes) for process in inside.processes)  # type: ignore[arg-type] # the caller names the fields
    return replace(inside, processes=changed)


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


def test_a_log_without_the_manifest_s_limits_is_found() -> None:
    rights = samples.expected().rights
    container = samples.container()
    assert judge.log_rotation(rights, container).holds
    assert judge.log_rotation(rights, replace(container, log_options={})).findings
    assert judge.log_rotation(rights, replace(container, log_driver="journald")).findings
    assert judge.log_rotation(samples.expected(container={"log_mb": 5}).rights, container).findings


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
        judge.open_files,
        lambda inside: judge.locked_memory(inside, uses_rdma=False),
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
