"""Causes of a failed start that ranks log themselves: the words of vLLM, PyTorch, NCCL and others.

Each pattern is of a message that was seen or read in the program's source; facts that are not in
the words, such as who was waited for, are told by other rules.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from deploy.logscan import FAILED
from deploy.refusals import ENTRYPOINT
from deploy.verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from deploy.scene import RankScene, Scene


@dataclass(frozen=True, slots=True)
class Words:
    """What a line means that has these words; `what` completes `rank 1 on spark-b ...`.

    Named groups of the pattern are fields of `what` and `remedy`.
    """

    pattern: re.Pattern[str]
    what: str
    remedy: str


def _words(pattern: str, what: str, remedy: str) -> Words:
    return Words(re.compile(pattern), what, remedy)


LOWER_MEMORY: Final = (
    "lower gpu-memory-utilization or max-model-len in [serve.args], and see what else uses the "
    "memory of the node: on GB10 it is the GPU's too, page cache included"
)

CAUSES: Final = (
    _words(
        r"ibv_reg_mr\w* failed.*Cannot allocate memory|ibv_reg_mr\w*.*ENOMEM",
        "could not register memory with its RDMA device",
        "see that memlock is unlimited; kernel 7.0.0-1019-nvidia has this fault unless it was "
        "booted with kho=off (CmaFree above CmaTotal in /proc/meminfo tells)",
    ),
    _words(
        r"Bootstrap : no socket interface found",
        "found no interface of the name in NCCL_SOCKET_IFNAME",
        "correct fabric.netdev of the node in cluster.toml: ip -brief address shows the names",
    ),
    _words(
        r"Failed to initialize any NET plugin",
        "found no RDMA device that NCCL can use, and NCCL_NET=IB allows no other way",
        "correct fabric.hcas of the node in cluster.toml and see that the container has "
        "/dev/infiniband: ibv_devinfo on the node shows the devices",
    ),
    _words(
        r"Unable to find address for: (?P<name>\S+)",
        "has no interface {name} with an address, which GLOO_SOCKET_IFNAME names",
        "correct fabric.netdev of the node in cluster.toml: ip -brief address shows the names",
    ),
    _words(
        r"Gloo connectFullMesh failed.*127\.0\.|Connection refused.*remote=\[127\.0\.",
        "was given a loopback address by a rank of another node",
        "see that fabric.netdev of each node is set in cluster.toml, and that nothing in "
        "[container].env or an image overrides GLOO_SOCKET_IFNAME and VLLM_HOST_IP",
    ),
    _words(
        r"ibv_modify_qp failed.*(?:110|Connection timed out)",
        "reached no RDMA device of its peer",
        "compare the two nodes' RoCE addresses and GIDs, and unset NCCL_IB_GID_INDEX wherever it "
        "is set: the index moves",
    ),
    _words(
        r"[Aa]ddress already in use|EADDRINUSE",
        "found its port taken",
        "end what listens there (ss -ltnp on the node), or change port or master_port in [serve]",
    ),
    _words(
        r"Free memory on device .*less than desired GPU memory utilization",
        "has less free memory than gpu-memory-utilization asks for",
        LOWER_MEMORY,
    ),
    _words(
        r"No available memory for the cache blocks|KV cache is needed, which is larger than",
        "has no memory left for the KV cache once the weights are loaded",
        LOWER_MEMORY,
    ),
    _words(
        r"CUDA out of memory|OutOfMemoryError|NVRM:.*Out of memory",
        "ran out of GPU memory",
        LOWER_MEMORY,
    ),
    _words(
        r"\bMemoryError\b|can't allocate memory|Cannot allocate memory",
        "ran out of memory",
        LOWER_MEMORY,
    ),
    _words(
        r"No space left on device",
        "found a disk or /dev/shm full",
        "make room on the node: df -h; the size of /dev/shm is shm_gib in [container]",
    ),
    _words(
        r"Model architectures (?P<names>\[[^\]]*\]) (?:are not supported|failed to be inspected)",
        "has a vLLM that does not know the architecture {names}",
        "graft the model's files and [[image.register]] the architecture, or take a base that "
        "knows it; then: inv build",
    ),
    _words(
        r"model type [`']?(?P<name>[\w.-]+)[`']? but Transformers does not recognize",
        "has a transformers that does not know the model type {name}",
        "register its config class in the image ([[image.register]], the table of configs), or "
        "take a base with a newer transformers; then: inv build",
    ),
    _words(
        r"cannot import name '(?P<name>\w+)' from '(?P<module>[\w.]+)'",
        "has an image whose code lacks {name} in {module}",
        "the grafted files need more of the donor: inv build names what is missing",
    ),
    _words(
        r"ModuleNotFoundError: No module named '(?P<name>[\w.]+)'",
        "has an image without the module {name}",
        "add it to the image, or graft fewer files: inv build names what is missing",
    ),
    _words(
        r"SafetensorError|incomplete metadata, file not fully covered|MetadataIncompleteBuffer"
        r"|HeaderTooLarge|InvalidHeader",
        "read a weights file that is cut short or damaged",
        "restore the file on the node; inv deploy compares every file with the lock and sends "
        "what differs",
    ),
    _words(
        r"Cannot find any model weights|No such file or directory: '[^']*safetensors'"
        r"|Invalid repository ID or local directory|does not appear to have a file named",
        "did not find the model's files",
        "see that [model].path, or model_path of the node, is the folder of the model",
    ),
    _words(
        r"WeightsError: |no module or parameter named '|weights were not initialized from checkpo",
        "has weights that do not fit the model's code",
        "the checkpoint and the image are not of one model: compare [model] with the grafted files",
    ),
    _words(
        r"JSONDecodeError|is not a valid JSON file",
        "read a file of the model that is cut short or damaged",
        "restore the model's files on the node; inv deploy compares every file with the lock",
    ),
    _words(
        r"\[FATAL tini[^\]]*\] exec (?P<name>\S+) failed: (?P<why>.*)",
        "could not start {name}: {why}",
        f"{ENTRYPOINT}; of a script that is there, its first line names a missing interpreter",
    ),
    _words(
        r": (?:line )?\d+: (?:exec: )?(?P<name>[^:\s]+): (?P<why>cannot execute\b.*"
        r"|No such file or directory|Permission denied|not found|bad interpreter\b.*)",
        "could not start {name}: {why}",
        f"{ENTRYPOINT}; of a script that is there, its first line names a missing interpreter",
    ),
    _words(
        r"error: (?P<said>(?:unrecognized arguments|argument |ambiguous option|invalid choice"
        r"|the following arguments are required).{0,120})",
        "was started with arguments that it does not take: {said}",
        "correct [serve.args] for this vLLM: vllm serve --help in the image; words that are no "
        "option at all mean that the image's entrypoint took them (set [image.config] entrypoint)",
    ),
    _words(
        r"KV cache specs .*differ|KV cache spec.*same layer are different",
        "has another KV cache than the others: the ranks were given different settings",
        "see that no [[nodes]].env, mount or image changes what vLLM reads on one node",
    ),
    _words(
        r"rank 0 has world size .* and version (?P<ours>\S+), not",
        "runs another version or world size than rank 0, which has {ours}",
        "every node has to run the locked image: inv deploy",
    ),
    _words(
        r"No CUDA GPUs are available|Found no NVIDIA driver|Failed to infer device type"
        r"|driver version is insufficient|no CUDA-capable device",
        "sees no GPU that it can use",
        'see nvidia-smi on the node, and gpus = "all" in [container]',
    ),
    _words(
        r"no kernel image is available|only supports sm120",
        "has kernels that were not built for this GPU",
        "take a base that was built for GB10 (compute capability 12.1)",
    ),
    _words(
        r"Duplicate GPU detected",
        "shares its GPU with another rank",
        "GB10 has one GPU a node: tensor_parallel times pipeline_parallel must be the nodes",
    ),
)
"""What a rank itself did not get done, the narrow before the wide."""

CONSEQUENCES: Final = (
    _words(
        r"client socket has (?:timed out|failed to connect)"
        r"(?P<rest>.{0,40}\((?P<address>[\w.:]+), (?P<port>\d+)\))?",
        "did not reach the head at the master address in its own time",
        "see that rank 0 came up, and that no firewall stands between the fabric addresses",
    ),
    _words(
        r"[Tt]imed out after \S+ seconds waiting for clients",
        "waited in vain for the other ranks to come",
        "see below why the others did not come",
    ),
    _words(
        r"ncclRemoteError|ncclSystemError|unhandled system error|NCCL WARN",
        "failed in NCCL, which often means that its peer had gone",
        'set NCCL_DEBUG = "INFO" in [container].env and read both ranks\' logs from the start',
    ),
    _words(
        r"Connection (?:reset|closed) by peer|Another rank is gone|engine is gone|Broken pipe"
        r"|connectFullMesh failed",
        "lost the connection to another rank",
        "see below which rank had ended or was unreachable",
    ),
)
"""What a rank logs when another has failed before, or was never there."""


def logged(scene: Scene, rules: Sequence[Words]) -> Iterator[Verdict]:
    """A verdict for each rule that the log of a rank fits, ranks that ended first before others."""
    ranks = sorted(scene.ranks, key=lambda item: (not item.first, item.alive, item.rank))
    if rules is CONSEQUENCES and ranks[0].first:
        ranks = [item for item in ranks if item.first]
    for rule in rules:
        for item in ranks:
            found = next(filter(None, map(rule.pattern.search, _telling(item))), None)
            if found is not None:
                yield _verdict(rule, item, found)


def _telling(item: RankScene) -> Iterable[str]:
    """The lines that count: of a rank that runs, only those of a failure.

    A server that came up healthy may have told of a module that it can do without.
    """
    return (line for line in item.log if FAILED.search(line)) if item.alive else item.log


def _verdict(rule: Words, item: RankScene, found: re.Match[str]) -> Verdict:
    groups = {name: value or "" for name, value in found.groupdict().items()}
    what = rule.what.format_map(groups)
    return Verdict(
        what=f"rank {item.rank} on {item.node} {what}",
        evidence=(f"its log: {found.string.strip()[:400]}",),
        remedy=rule.remedy,
        rank=item.rank,
    )
