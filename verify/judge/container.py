"""Does the container run as the lock and the manifest say?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from builder import labels as keys
from verify.expected import OPEN_FILES_AT_LEAST, PER_RANK_FLAGS
from verify.processes import served_commands
from verify.verdict import Finding, Verdict, not_shown, same, together

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from verify.expected import ExpectedNode
    from verify.parse import ContainerFacts
    from verify.processes import Inside, Process, ServeCommand

_RENEW: Final = "inv stop, then inv deploy: all ranks are made anew from the manifest"


def labels(node: ExpectedNode, container: ContainerFacts) -> Verdict:
    """Whether the container says that it was made for this lock, cluster and rank."""
    return together(
        same(
            f"label {key}",
            expected=value,
            found=container.labels.get(key, "absent"),
            remedy="inv deploy, or check out the lockfile.json that is deployed",
        )
        for key, value in sorted(node.labels.items())
    )


def one_generation(containers: Mapping[str, ContainerFacts]) -> Verdict:
    """Whether the containers of all nodes were made by one deployment."""
    found = {name: c.labels.get(keys.GENERATION, "absent") for name, c in containers.items()}
    finding = Finding(
        "the nodes run containers of different deployments",
        "one generation number on every node",
        ", ".join(f"{name}: {number}" for name, number in found.items()),
        "inv deploy replaces all ranks together",
    )
    equal = len(set(found.values())) == 1 and all(text.isdigit() for text in found.values())
    return Verdict(
        evidence=tuple(f"{name}: generation {number}" for name, number in found.items()),
        findings=() if equal else (finding,),
    )


def least_privilege(container: ContainerFacts) -> Verdict:
    """Whether the container is neither privileged nor in the node's process namespace."""
    return together(
        [
            same("privileged", expected=False, found=container.privileged, remedy=_RENEW),
            same("PID mode", expected="own", found=container.pid_mode or "own", remedy=_RENEW),
        ]
    )


def restart_policy(container: ContainerFacts) -> Verdict:
    """Whether the engine leaves a rank that ended alone.

    A rank that comes back by itself meets a group that has gone on or broken up.
    """
    return same("restart policy", expected="no", found=container.restart_policy, remedy=_RENEW)


def entrypoint(expected: Sequence[str], container: ContainerFacts) -> Verdict:
    """Whether the container's entrypoint is the locked image's."""
    return same(
        "entrypoint",
        expected=" ".join(expected) or "none",
        found=" ".join(container.entrypoint) or "none",
        remedy=_RENEW,
    )


def locked_memory(inside: Inside, *, uses_rdma: bool) -> Verdict:
    """Whether the served process may lock all memory, as registering it for RDMA needs."""
    served = served_commands(inside.processes)
    if not served:
        return _no_server(inside)
    verdict = together(
        same(
            f"locked memory of process {process.pid}",
            expected="unlimited",
            found=process.limits.get("locked memory", "unread"),
            remedy=f"{_RENEW}; under a limit RDMA cannot register memory, and NCCL takes TCP "
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
        return _no_server(inside)
    return together(_open_files(process) for process, _ in served)


def _open_files(process: Process) -> Verdict:
    found = process.limits.get("open files", "unread")
    enough = found == "unlimited" or (found.isdigit() and int(found) >= OPEN_FILES_AT_LEAST)
    finding = Finding(
        f"process {process.pid} may open too few files",
        f"at least {OPEN_FILES_AT_LEAST}",
        found,
        _RENEW,
    )
    return Verdict(
        evidence=(f"open files of process {process.pid}: {found}",),
        findings=() if enough else (finding,),
    )


def devices(expected: Sequence[str], inside: Inside) -> Verdict:
    """Whether the devices of the manifest exist inside the container."""
    if not expected:
        return not_shown("[container] devices is empty")
    kinds = {path: inside.paths[path].kind if path in inside.paths else "" for path in expected}
    return together(
        Verdict(
            evidence=(f"{path}: {kind}",),
            findings=()
            if kind in ("directory", "other")
            else (Finding(f"{path} is missing inside the container", "a device", kind, _RENEW),),
        )
        for path, kind in kinds.items()
    )


def command(node: ExpectedNode, inside: Inside) -> Verdict:
    """Whether the process that serves was started as the manifest wants for its rank."""
    served = served_commands(inside.processes)
    if not served:
        return _no_server(inside)
    return together(_command(node, found) for _, found in served)


def _command(node: ExpectedNode, found: ServeCommand) -> Verdict:
    parts = [same("model", expected=node.model, found=found.model, remedy=_RENEW)]
    for key, value in sorted(node.flags.items()):
        parts.append(
            same(
                f"--{key}",
                expected=_flag_text(value),
                found=_flag_text(found.flags.get(key)),
                remedy=_RENEW,
            )
        )
    return together(parts)


def _flag_text(value: str | Literal[True] | None) -> str:
    return "absent" if value is None else "present" if value is True else value


def commands_agree(inside: Mapping[str, Inside]) -> Verdict:
    """Whether the ranks' live commands differ in nothing but what belongs to a rank.

    vLLM compares little of it itself: another maximum length on one rank goes unnoticed until
    that rank fails every step past it, while the client still sees 200.
    """
    commands = {name: _shared_part(facts) for name, facts in inside.items()}
    missing = [name for name, found in commands.items() if not found]
    if missing:
        return together(_no_server(inside[name]) for name in missing)
    first, *others = commands
    findings = [
        Finding(
            f"the commands of {first} and {other} differ",
            f"on {first}: {' '.join(sorted(commands[first] - commands[other])) or 'nothing else'}",
            f"on {other}: {' '.join(sorted(commands[other] - commands[first])) or 'nothing else'}",
            _RENEW,
        )
        for other in others
        if commands[other] != commands[first]
    ]
    evidence = tuple(f"{name}: {len(found)} shared arguments" for name, found in commands.items())
    return Verdict(evidence=evidence, findings=tuple(findings))


def _shared_part(inside: Inside) -> frozenset[str]:
    """The model and flags of every served command, without those that belong to a rank."""
    return frozenset(
        text
        for _, found in served_commands(inside.processes)
        for text in (
            f"model={found.model}",
            *(
                f"--{key}={_flag_text(value)}"
                for key, value in found.flags.items()
                if key not in PER_RANK_FLAGS
            ),
        )
    )


def _no_server(inside: Inside) -> Verdict:
    seen = [" ".join(process.args)[:80] for process in inside.processes if process.args]
    finding = Finding(
        "no process of the container is `vllm serve`",
        "one, started by the node script or the entrypoint",
        "; ".join(seen) or "no process",
        f"inv logs; then {_RENEW}",
    )
    return Verdict(evidence=tuple(seen), findings=(finding,))
