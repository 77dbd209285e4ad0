"""Does the container run as the lock and the manifest say?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from builder import labels as keys
from verify.expected import PER_RANK_FLAGS
from verify.processes import served_commands
from verify.verdict import Finding, Verdict, not_shown, nothing_serves, same, together

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from verify.expected import ExpectedNode
    from verify.parse import ContainerFacts
    from verify.processes import Inside, ServeCommand

RENEW: Final = (
    "inv deploy; if it finds nothing to change, inv stop --remove (which also removes what is "
    "kept for rollback), then inv deploy"
)


def labels(
    node: ExpectedNode, container: ContainerFacts, *, must_be_of_lock: bool = False
) -> Verdict:
    """Whether the container says that it was made for this lock, cluster and rank.

    One of another lock may well run as this one asks, since not all that a lock holds reaches a
    container: its label then shows nothing, and what runs is for the other checks to say. Where
    this very lock is asked for (`must_be_of_lock`), another one is a finding.
    """
    found = {key: container.labels.get(key, "absent") for key in node.labels}
    verdict = together(
        same(
            f"label {key}",
            expected=value,
            found=found[key],
            remedy="inv deploy, or check out the lockfile.json that is deployed",
        )
        for key, value in sorted(node.labels.items())
    )
    lock = found.get(keys.LOCK_DIGEST, "absent")
    others = {key: value for key, value in node.labels.items() if key != keys.LOCK_DIGEST}
    others_differ = any(found[key] != value for key, value in others.items())
    if must_be_of_lock or lock == "absent" or verdict.holds or others_differ:
        return verdict
    return not_shown(
        "it was made from another lock; inv status --drift compares every setting with this one",
        *verdict.evidence,
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


def one_cache(containers: Mapping[str, ContainerFacts], *, kept: bool) -> Verdict:
    """Whether all ranks compile into caches of one name, made together for one image and model.

    Ranks of which one finds compiled kernels and the other does not can wait in vain.
    """
    found = {name: container.cache for name, container in containers.items()}
    if not kept and not any(found.values()):
        return not_shown("[container] caches is off: every new container starts cold")
    finding = Finding(
        "the ranks compile into different caches",
        "the same volume's name on every node" if kept else "none",
        ", ".join(f"{name}: {cache or 'none'}" for name, cache in found.items()),
        RENEW,
    )
    equal = kept and len(set(found.values())) == 1 and all(found.values())
    return Verdict(
        evidence=tuple(f"{name}: {cache or 'no cache'}" for name, cache in found.items()),
        findings=() if equal else (finding,),
    )


def restart_policy(container: ContainerFacts) -> Verdict:
    """Whether the engine leaves a rank that ended alone.

    A rank that comes back by itself meets a group that has gone on or broken up.
    """
    return same("restart policy", expected="no", found=container.restart_policy, remedy=RENEW)


def entrypoint(expected: Sequence[str], container: ContainerFacts) -> Verdict:
    """Whether the container's entrypoint is the locked image's."""
    return same(
        "entrypoint",
        expected=" ".join(expected) or "none",
        found=" ".join(container.entrypoint) or "none",
        remedy=RENEW,
    )


def environment(node: ExpectedNode, container: ContainerFacts) -> Verdict:
    """Whether the container has every variable of the manifest; values may be secrets, and stay.

    What the image has beside them is the image's.
    """
    found = container.env
    findings = tuple(
        Finding(
            f"variable {name} is not as the manifest says",
            "the manifest's value",
            "another value" if name in found else "absent",
            RENEW,
        )
        for name, value in sorted(node.env.items())
        if found.get(name) != value
    )
    equal = len(node.env) - len(findings)
    return Verdict(
        evidence=(f"{equal} of {len(node.env)} variables as the manifest says",),
        findings=findings,
    )


def mounts(node: ExpectedNode, container: ContainerFacts) -> Verdict:
    """Whether the container has the model and the manifest's paths of the node, and no other."""
    targets = sorted({*node.mounts, *container.mounts})
    return together(
        same(
            f"mount at {target}",
            expected=node.mounts.get(target, "none"),
            found=container.mounts.get(target, "none"),
            remedy=RENEW,
        )
        for target in targets
    )


def command(node: ExpectedNode, inside: Inside) -> Verdict:
    """Whether the process that serves was started as the manifest wants for its rank."""
    served = served_commands(inside.processes)
    if not served:
        return nothing_serves(inside, renew=RENEW)
    return together(_command(node, found) for _, found in served)


def _command(node: ExpectedNode, found: ServeCommand) -> Verdict:
    parts = [same("model", expected=node.model, found=found.model, remedy=RENEW)]
    for key, value in sorted(node.flags.items()):
        parts.append(
            same(
                f"--{key}",
                expected=_flag_text(value),
                found=_flag_text(found.flags.get(key)),
                remedy=RENEW,
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
        return together(nothing_serves(inside[name], renew=RENEW) for name in missing)
    first, *others = commands
    findings = [
        Finding(
            f"the commands of {first} and {other} differ",
            f"on {first}: {' '.join(sorted(commands[first] - commands[other])) or 'nothing else'}",
            f"on {other}: {' '.join(sorted(commands[other] - commands[first])) or 'nothing else'}",
            RENEW,
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
