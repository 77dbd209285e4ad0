"""The lab's vllm as processes on loopback addresses: no image, no container, no root needed."""

from __future__ import annotations

import http.client
import json
import os
import runpy
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from builder.graft.tables import edit_table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

LAB: Final = Path(__file__).parents[1] / "examples" / "lab"
BASE: Final = LAB / "src" / "base" / "usr/local/lib/python3.12/dist-packages"
DONOR: Final = LAB / "src" / "donor" / "opt/venv/lib/python3.12/site-packages"
MODEL: Final = LAB / "model"
GRAFTED: Final = (
    "vllm/model_executor/models/tiny_spark.py",
    "vllm/transformers_utils/configs/tiny_spark.py",
)
REGISTRY: Final = "vllm/model_executor/models/registry.py"
ADDRESSES: Final = ("127.0.0.2", "127.0.0.3", "127.0.0.4", "127.0.0.5")
START_S: Final = 20
END_S: Final = 20


def make_hybrid(folder: Path) -> Path:
    """The package of the hybrid image as files: base, two files of the donor, registry edited."""
    shutil.copytree(BASE, folder, ignore=shutil.ignore_patterns("__pycache__"))
    for name in GRAFTED:
        shutil.copyfile(DONOR / name, folder / name)
    registry = folder / REGISTRY
    entries = {"TinySparkForCausalLM": ("tiny_spark", "TinySparkForCausalLM")}
    edit = edit_table(
        registry.read_bytes(), entries, table="_TEXT_GENERATION_MODELS", place=str(registry)
    )
    registry.write_bytes(edit.after)
    return folder


def make_tiny_llama(folder: Path) -> Path:
    """A model for the base alone: random weights of the lab's model under TinyLlama's names."""
    maker = runpy.run_path(str(LAB / "src" / "model" / "make_model.py"))
    shutil.copytree(MODEL, folder)
    tensors = {
        name: matrix
        for name, matrix in maker["all_weights"]().items()
        if ".self_attn.q_norm" not in name and ".self_attn.k_norm" not in name
    }
    for name in [name for name in tensors if "input_layernorm" in name]:
        tensors[name.replace("input_layernorm", "post_attention_layernorm")] = tensors[name]
    tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"]
    (folder / "model.safetensors").write_bytes(maker["safetensors"](tensors))
    config = json.loads((folder / "config.json").read_text())
    config |= {"architectures": ["TinyLlamaForCausalLM"], "model_type": "tiny_llama"}
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def free_port(address: str) -> int:
    """A port on which nobody listens at the moment."""
    with socket.socket() as probe:
        probe.bind((address, 0))
        return int(probe.getsockname()[1])


def command(*arguments: str) -> list[str]:
    """The argv of `vllm ARGUMENTS`."""
    return [sys.executable, "-m", "vllm.entrypoints.cli.main", *arguments]


def environment(package: Path, **more: str) -> dict[str, str]:
    """The environment of a node: nothing of ours but PATH."""
    return {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(package),
        "PYTHONDONTWRITEBYTECODE": "1",
        **more,
    }


@dataclass
class NodeProcess:
    """The first process of one node, and its log."""

    process: subprocess.Popen[bytes]
    log: Path

    def text(self) -> str:
        return self.log.read_text()

    def wait(self, timeout_s: float = END_S) -> int:
        return self.process.wait(timeout_s)

    def descendants(self) -> dict[str, int]:
        """Titles and pids of all processes below the first one; one may end at any moment."""
        found: dict[str, int] = {}
        todo = [self.process.pid]
        while todo:
            pid = todo.pop()
            with suppress(FileNotFoundError, ProcessLookupError):
                if pid != self.process.pid:
                    found[title(pid)] = pid
                children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
                todo += map(int, children)
        return found

    def end(self) -> None:
        """Make sure that nothing is left of it; the children die with their parents."""
        for pid in () if self.process.poll() is not None else self.descendants().values():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        self.process.kill()
        self.process.wait(END_S)


def title(pid: int) -> str:
    """The first argument in a process's command line."""
    return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0].decode()


@dataclass
class Server:
    """All nodes of one server; `nodes[0]` is the head and answers on `port`."""

    nodes: list[NodeProcess]
    port: int

    @property
    def head(self) -> NodeProcess:
        return self.nodes[0]

    def request(
        self, method: str, path: str, body: bytes | None = None, timeout_s: float = 20
    ) -> tuple[int, bytes]:
        """Status and body of an answer."""
        connection = http.client.HTTPConnection(ADDRESSES[0], self.port, timeout=timeout_s)
        try:
            connection.request(method, path, body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def get(self, path: str) -> tuple[int, bytes]:
        return self.request("GET", path)

    def post(self, path: str, timeout_s: float = 20, **body: Any) -> tuple[int, Any]:  # noqa: ANN401 - JSON
        """Status and JSON object of an answer."""
        status, answer = self.request("POST", path, json.dumps(body).encode(), timeout_s)
        return status, json.loads(answer)

    def tokens(self, prompt: str, **body: Any) -> list[int]:  # noqa: ANN401 - JSON
        """The tokens of a completion; greedy unless told otherwise."""
        body = {"max_tokens": 32, "temperature": 0, "return_token_ids": True} | body
        status, answer = self.post("/v1/completions", prompt=prompt, **body)
        assert status == 200, answer
        return list(answer["choices"][0]["token_ids"])

    def is_up(self) -> bool:
        try:
            return self.get("/health")[0] == 200
        except ConnectionError:
            return False

    def wait_up(self) -> None:
        """Return once the API answers; fail when a node ended, or when it takes too long."""
        wait_for(lambda: self.is_up() or self._ended(), START_S)
        assert not self._ended(), self.logs()

    def _ended(self) -> bool:
        return any(node.process.poll() is not None for node in self.nodes)

    def logs(self) -> str:
        return "\n".join(node.text() for node in self.nodes)

    def end(self) -> None:
        for node in self.nodes:
            node.end()


def wait_for(condition: Any, timeout_s: float) -> None:  # noqa: ANN401 - any callable
    """Return once the condition holds; AssertionError when it does not in time."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "not in time"
        time.sleep(0.02)


@dataclass(frozen=True)
class Difference:
    """What is different on one node."""

    model: Path = MODEL
    flags: Sequence[str] = ()
    env: dict[str, str] = field(default_factory=dict)


class Starter:
    """Starts servers of one package; `end` leaves none of them running."""

    def __init__(self, package: Path, logs: Path) -> None:
        self.package = package
        self._logs = logs
        self._started: list[Server] = []

    def start(
        self,
        *flags: str,
        ranks: int = 1,
        nodes: int = 1,
        without: Sequence[int] = (),
        different: Mapping[int, Difference] | None = None,
    ) -> Server:
        """Start a server and do not wait for it; nodes in `without` are never started."""
        ports = free_port(ADDRESSES[0]), free_port(ADDRESSES[0])
        shared = (
            *("--tensor-parallel-size", str(ranks), "--nnodes", str(nodes)),
            *("--master-addr", ADDRESSES[0], "--master-port", str(ports[1])),
            *("--served-model-name", "tiny", *flags),
        )
        started = [
            self._start_node(node, shared, ports[0], (different or {}).get(node, Difference()))
            for node in range(nodes)
            if node not in without
        ]
        server = Server(started, ports[0])
        self._started.append(server)
        return server

    def _start_node(
        self, node: int, shared: Sequence[str], port: int, different: Difference
    ) -> NodeProcess:
        here = ("--host", ADDRESSES[0], "--port", str(port)) if node == 0 else ("--headless",)
        rank = ("--node-rank", str(node))
        log = self._logs / f"{len(self._started)}-{node}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                command("serve", str(different.model), *rank, *here, *shared, *different.flags),
                env=environment(self.package, VLLM_HOST_IP=ADDRESSES[node]) | different.env,
                stdout=output,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
            )
        return NodeProcess(process, log)

    def serve(self, *flags: str, ranks: int = 1, nodes: int = 1) -> Server:
        """Start a server and wait until it is up."""
        server = self.start(*flags, ranks=ranks, nodes=nodes)
        server.wait_up()
        return server

    def end(self) -> None:
        for server in self._started:
            server.end()
