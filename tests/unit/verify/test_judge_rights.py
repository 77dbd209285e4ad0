from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.unit.verify import samples
from verify.judge import rights as judge
from verify.processes import PathFacts

if TYPE_CHECKING:
    from verify.processes import Inside

RDMA = {"rocep1s0f1": "/dev/infiniband/uverbs0", "roceP2p1s0f1": "/dev/infiniband/uverbs1"}


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


def test_a_log_without_the_manifest_s_limits_is_found() -> None:
    rights = samples.expected().rights
    container = samples.container()
    assert judge.log_rotation(rights, container).holds
    assert judge.log_rotation(rights, replace(container, log_options={})).findings
    assert judge.log_rotation(rights, replace(container, log_driver="journald")).findings
    assert judge.log_rotation(samples.expected(container={"log_mb": 5}).rights, container).findings
