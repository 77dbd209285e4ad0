"""A node's facts, read once each through testinfra and parsed.

Every command is an argv, runs under the node's own `timeout`, and has to succeed: a fact that
could not be read is an error of the check that wanted it, never an empty value.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from builder import labels
from verify import inside as inside_program
from verify.errors import (
    EngineError,
    FactCommandError,
    NoContainerError,
    NodesNotReadyError,
    UnreachableNodeError,
)
from verify.nccl import NcclLog, parse_nccl
from verify.parse import (
    RDMA_CLASS,
    VERBS_CLASS,
    ContainerFacts,
    EngineFacts,
    Netdev,
    RdmaPort,
    parse_containers,
    parse_engine,
    parse_files,
    parse_hca_netdevs,
    parse_image_diff_ids,
    parse_netdevs,
    parse_rdma_files,
    parse_rdma_port,
    parse_sha256sums,
)
from verify.processes import Inside, parse_inside
from verify.traffic import parse_counters

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from builder.manifest import Node
    from verify.expected import ExpectedCluster, ExpectedNode
    from verify.host import Host

T = TypeVar("T")

_COMMAND_TIMEOUT_S: Final = 120
_HASH_ALL: Final = 'printf "%s\\0" "$@" | xargs -0 -n 1 -P "$(nproc)" -- sh -c "$0" sh'
"""Hashes each of its arguments by the program in `$0`, as many at once as there are processors."""

_HASH_ONE: Final = """
if command -v openssl >/dev/null; then sum=$(openssl dgst -sha256 -r <"$1") || exit 1
else sum=$(sha256sum <"$1") || exit 1; fi
printf '%s  %s\\0' "${sum%% *}" "$1"
"""
"""As `sha256sum --zero`, which is several times slower where it was built without OpenSSL."""

_SOME_NOT_HASHED: Final = 123
_HASH_TIMEOUT_S: Final = 3600
"""Hashing is bound by the disk: 130 GB take minutes."""

_TIMED_OUT: Final = 124
_SOME_UNREADABLE: Final = (0, 1, 2)
"""grep's statuses: an unused GID slot gives EINVAL on read, and an absent device has no file."""


class ObservedNode:
    """One node as it is now."""

    def __init__(
        self, expected: ExpectedNode, cluster: ExpectedCluster, host: Host, docker_socket: str
    ) -> None:
        self.expected = expected
        self._cluster = cluster
        self._host = host
        self._docker = ("docker", "--host", f"unix://{docker_socket}")

    def run(
        self,
        *argv: str,
        allowed: Sequence[int] = (0,),
        timeout_s: int = _COMMAND_TIMEOUT_S,
    ) -> str:
        """What a command printed to its standard output.

        FactCommandError for another exit status than the allowed ones, UnreachableNodeError if the
        connection is lost.
        """
        out, _ = self._run(argv, allowed, timeout_s)
        return out

    def _run(self, argv: Sequence[str], allowed: Sequence[int], timeout_s: int) -> tuple[str, str]:
        words = ("timeout", "--kill-after=5", str(timeout_s), *argv)
        try:
            done = self._host.run(" ".join(["%s"] * len(words)), *words)
        except RuntimeError as error:  # testinfra's way to say that ssh itself failed
            raise UnreachableNodeError(self.expected.name, argv, 255, str(error)) from error
        stderr = done.stderr_bytes.decode(errors="replace")
        if done.rc not in allowed:
            if done.rc == _TIMED_OUT:
                stderr += f"\nno end within {timeout_s} s"
            raise FactCommandError(self.expected.name, argv, done.rc, stderr)
        return done.stdout_bytes.decode(errors="surrogateescape"), stderr

    def probe(self) -> None:
        """Nothing; EngineError if the node's engine does not answer."""
        try:
            self.run(*self._docker, "version", "--format", "{{.Server.Version}}")
        except FactCommandError as error:
            raise EngineError(error.node, error.argv, error.exit_status, error.stderr) from error

    @cached_property
    def engine(self) -> EngineFacts:
        """The node's engine."""
        return parse_engine(self.run(*self._docker, "info", "--format", "{{json .}}"))

    @cached_property
    def container(self) -> ContainerFacts:
        """The one running container of the cluster; NoContainerError if there is not exactly one.

        Found by its label, since names are deploy's affair.
        """
        label = f"label={labels.CLUSTER}={self._cluster.name}"
        ids = self.run(*self._docker, "ps", "--quiet", "--no-trunc", "--filter", label).split()
        if not ids:
            raise NoContainerError(self.expected.name, self._cluster.name, ())
        found = parse_containers(self.run(*self._docker, "container", "inspect", *ids))
        if len(found) != 1:
            names = tuple(sorted(item.name for item in found))
            raise NoContainerError(self.expected.name, self._cluster.name, names)
        return found[0]

    @cached_property
    def image_diff_ids(self) -> tuple[str, ...]:
        """The layers of the running container's image."""
        return parse_image_diff_ids(
            self.run(*self._docker, "image", "inspect", self.container.engine_id)
        )

    @cached_property
    def inside(self) -> Inside:
        """The inside of the running container, read by a program that runs there."""
        image = self._cluster.image
        paths = {
            *image.files,
            *image.absent,
            *image.executables.values(),
            *self._cluster.devices,
            *filter(None, self.rdma_files.values()),
        }
        program = Path(inside_program.__file__).read_text(encoding="ascii")
        python = ("python3", "-I", "-S", "-c", program)
        return parse_inside(
            self.run(*self._docker, "exec", self.container.id, *python, *sorted(paths))
        )

    @cached_property
    def rdma_files(self) -> dict[str, str]:
        """The device file of each listed RDMA device, empty if the node has none for it.

        Nothing if the containers are given none.
        """
        if not self._cluster.gives_rdma_files:
            return {}
        search = ("find", f"{VERBS_CLASS}/", "-mindepth", "1", "-maxdepth", "1")
        paths = [f"{path}/ibdev" for path in sorted(self.run(*search, allowed=(0, 1)).split())]
        told = self.run("grep", "-sH", ".", "/dev/null", *paths, allowed=_SOME_UNREADABLE)
        return parse_rdma_files([port.hca for port in self.expected.ports], parse_files(told))

    @cached_property
    def nccl(self) -> NcclLog:
        """What NCCL said in the container's log."""
        return parse_nccl(self._log_lines())

    def log_since(self, moment: str) -> tuple[str, ...]:
        """The lines the container logged since a moment of the node's clock."""
        return self._log_lines("--since", moment)

    def _log_lines(self, *options: str) -> tuple[str, ...]:
        argv = (*self._docker, "logs", *options, self.container.id)
        return tuple("".join(self._run(argv, (0,), _COMMAND_TIMEOUT_S)).splitlines())

    def now(self) -> str:
        """The node's clock, as `docker logs --since` takes it."""
        return self.run("date", "--utc", "+%Y-%m-%dT%H:%M:%S.%NZ").strip()

    @cached_property
    def rdma_ports(self) -> dict[str, RdmaPort]:
        """Port 1 of each listed RDMA device, by name; a device that is absent has empty facts."""
        hcas = [port.hca for port in self.expected.ports]
        if not hcas:
            return {}
        parts = (
            *("fw_ver", "node_desc", "ports/1/state", "ports/1/phys_state", "ports/1/rate"),
            *("ports/1/link_layer", "ports/1/gids", "ports/1/gid_attrs"),
        )
        paths = [f"{RDMA_CLASS}/{hca}/{part}" for hca in hcas for part in parts]
        files = parse_files(self.run("grep", "-rsH", ".", *paths, allowed=_SOME_UNREADABLE))
        return {hca: parse_rdma_port(hca, files) for hca in hcas}

    @cached_property
    def hca_netdevs(self) -> dict[str, tuple[str, ...]]:
        """The netdevs of each listed RDMA device."""
        folders = [f"{RDMA_CLASS}/{port.hca}/device/net" for port in self.expected.ports]
        if not folders:
            return {}
        listing = self.run(
            "find", *folders, "-mindepth", "1", "-maxdepth", "1", allowed=_SOME_UNREADABLE
        )
        return parse_hca_netdevs(listing.splitlines())

    @cached_property
    def netdevs(self) -> dict[str, Netdev]:
        """The node's network interfaces by name."""
        return parse_netdevs(self.run("ip", "-json", "address", "show"))

    def counters(self, paths: Iterable[str]) -> dict[str, int]:
        """The value of each counter file; files that do not exist are left out."""
        names = list(paths)
        if not names:
            return {}
        listing = self.run("grep", "-sH", ".", *names, allowed=_SOME_UNREADABLE)
        return parse_counters(parse_files(listing))

    @cached_property
    def model_sha256(self) -> Mapping[str, str]:
        """Hex SHA-256 of each file of the model, by path; files that cannot be read are absent."""
        paths = sorted(self.expected.model_files)
        return parse_sha256sums(
            self.run(
                *("sh", "-c", _HASH_ALL, _HASH_ONE, *paths),
                allowed=(0, _SOME_NOT_HASHED),
                timeout_s=_HASH_TIMEOUT_S,
            )
        )


class ObservedCluster:
    """All nodes of a cluster as they are now, in the order of their ranks."""

    def __init__(
        self,
        expected: ExpectedCluster,
        nodes: Sequence[Node],
        host_of: Callable[[Node], Host],
    ) -> None:
        self.expected = expected
        self.nodes = tuple(
            ObservedNode(wanted, expected, host_of(node), node.docker_socket)
            for wanted, node in zip(expected.nodes, nodes, strict=True)
        )

    def node(self, name: str) -> ObservedNode:
        """The node of a name; KeyError if there is none."""
        return {node.expected.name: node for node in self.nodes}[name]

    def each(self, read: Callable[[ObservedNode], T]) -> dict[str, T]:
        """One fact of every node by the node's name, read on all nodes at once."""
        with ThreadPoolExecutor(len(self.nodes)) as pool:
            facts = list(pool.map(read, self.nodes))
        return {node.expected.name: fact for node, fact in zip(self.nodes, facts, strict=True)}

    def probe(self) -> None:
        """Nothing; NodesNotReadyError with a message for every node that cannot be checked."""
        failures = self.each(_probe_failure)
        messages = tuple(
            message for error in failures.values() if error for message in error.messages
        )
        if messages:
            raise NodesNotReadyError(messages)


def _probe_failure(node: ObservedNode) -> EngineError | UnreachableNodeError | None:
    try:
        node.probe()
    except (EngineError, UnreachableNodeError) as error:
        return error
    return None
