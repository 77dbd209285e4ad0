"""Has the container no more of its node than the manifest gives, and all that serving needs?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from verify.expected import OPEN_FILES_AT_LEAST
from verify.judge.container import RENEW
from verify.processes import served_commands
from verify.verdict import Finding, Verdict, not_shown, nothing_serves, same, together

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from verify.expected import ExpectedRights
    from verify.parse import ContainerFacts
    from verify.processes import Inside, Process

_CONNECTION_MANAGER: Final = "/dev/infiniband/rdma_cm"


def least_privilege(rights: ExpectedRights, container: ContainerFacts) -> Verdict:
    """Whether the container was given no more of its node than the default gives.

    A manifest that asks for more is answered: as expected, it is told and nothing is shown.
    """
    host_ipc = container.ipc_mode == "host"
    verdict = together(
        [
            same(
                "privileged", expected=rights.privileged, found=container.privileged, remedy=RENEW
            ),
            same("PID mode", expected="own", found=container.pid_mode or "own", remedy=RENEW),
            same("the node's IPC", expected=rights.host_ipc, found=host_ipc, remedy=RENEW),
        ]
    )
    if rights.weaker and not verdict.findings:
        return not_shown("; ".join(rights.weaker), *verdict.evidence)
    return verdict


def capabilities(rights: ExpectedRights, inside: Inside) -> Verdict:
    """Whether no served process can ever have a capability that the manifest does not give."""
    served = served_commands(inside.processes)
    if not served:
        return nothing_serves(inside, renew=RENEW)
    return together(_capabilities(rights, process) for process, _ in served)


def _capabilities(rights: ExpectedRights, process: Process) -> Verdict:
    place = f"process {process.pid}"
    if process.capabilities is None:
        found = Finding(f"capabilities of {place} are not shown", "CapBnd", "nothing", RENEW)
        return Verdict(findings=(found,))
    given = process.capabilities if rights.capabilities is None else rights.capabilities
    more = process.capabilities - given
    excess = Finding(
        f"{place} can have capabilities that the manifest does not give",
        ", ".join(sorted(given)),
        ", ".join(sorted(more)),
        RENEW,
    )
    guarded = process.no_new_privileges or not rights.no_new_privileges
    setuid = Finding(
        f"{place} can gain privileges from a setuid program", "NoNewPrivs: 1", "0", RENEW
    )
    return Verdict(
        evidence=(
            f"{place}: {len(process.capabilities)} capabilities at most",
            f"{place}: new privileges {'barred' if process.no_new_privileges else 'possible'}",
        ),
        findings=(*((excess,) if more else ()), *(() if guarded else (setuid,))),
    )


def log_rotation(rights: ExpectedRights, container: ContainerFacts) -> Verdict:
    """Whether the rank's log cannot fill the node's disk."""
    limits = {key: container.log_options.get(key, "none") for key in sorted(rights.log_limits)}
    return together(
        [
            same("log driver", expected="json-file", found=container.log_driver, remedy=RENEW),
            *(
                same(f"log {key}", expected=rights.log_limits[key], found=found, remedy=RENEW)
                for key, found in limits.items()
            ),
        ]
    )


def locked_memory(inside: Inside, *, uses_rdma: bool) -> Verdict:
    """Whether the served process may lock all memory, as registering it for RDMA needs."""
    served = served_commands(inside.processes)
    if not served:
        return nothing_serves(inside, renew=RENEW)
    verdict = together(
        same(
            f"locked memory of process {process.pid}",
            expected="unlimited",
            found=process.limits.get("locked memory", "unread"),
            remedy=f"{RENEW}; under a limit RDMA cannot register memory, and NCCL takes TCP "
            "without a word",
        )
        for process, _ in served
    )
    if verdict.findings and not uses_rdma:
        return not_shown("limited, but the ranks are given no RDMA device", *verdict.evidence)
    return verdict


def open_files(inside: Inside) -> Verdict:
    """Whether the served process may open enough files; every client is one."""
    served = served_commands(inside.processes)
    if not served:
        return nothing_serves(inside, renew=RENEW)
    return together(_open_files(process) for process, _ in served)


def _open_files(process: Process) -> Verdict:
    found = process.limits.get("open files", "unread")
    enough = found == "unlimited" or (found.isdigit() and int(found) >= OPEN_FILES_AT_LEAST)
    finding = Finding(
        f"process {process.pid} may open too few files",
        f"at least {OPEN_FILES_AT_LEAST}",
        found,
        RENEW,
    )
    return Verdict(
        evidence=(f"open files of process {process.pid}: {found}",),
        findings=() if enough else (finding,),
    )


def devices(
    expected: Sequence[str], rdma: Mapping[str, str], container: ContainerFacts, inside: Inside
) -> Verdict:
    """Whether the container has the manifest's devices, and no other.

    `rdma` maps each RDMA device that it is to have to its file; empty text if the node has none.
    """
    if not expected and not rdma and not container.devices:
        return not_shown("[container] devices gives the ranks none")
    wanted = [*((path, path) for path in expected), *rdma.items()]
    allowed = [path for _, path in wanted]
    more = [path for path in container.devices if path not in (*allowed, _CONNECTION_MANAGER)]
    excess = Finding("the container has other devices", ", ".join(allowed), ", ".join(more), RENEW)
    parts = (_device(what, path, inside) for what, path in wanted)
    return together([*parts, Verdict(findings=(excess,) if more else ())])


def _device(what: str, path: str, inside: Inside) -> Verdict:
    kind = inside.paths[path].kind if path in inside.paths else "absent"
    missing = Finding(f"{what} is missing inside the container", "a device", kind, RENEW)
    present = kind in ("directory", "other")
    return Verdict(
        evidence=(f"{what}: {path or 'no device file'}, {kind}",),
        findings=() if present else (missing,),
    )
