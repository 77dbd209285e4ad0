"""The flags of `vllm serve`, and the configuration that they make."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Dict, Optional

from vllm.config import ParallelConfig, VllmConfig, load_model_config

_NO_EFFECT = "accepted as in vLLM, without effect in this stand-in"

_IGNORED_VALUES = (
    "--block-size",
    "--dtype",
    "--gpu-memory-utilization",
    "--kv-cache-dtype",
    "--load-format",
    "--max-num-batched-tokens",
    "--reasoning-parser",
    "--revision",
    "--tokenizer-revision",
    "--tool-call-parser",
)
_IGNORED_SWITCHES = (
    "--disable-custom-all-reduce",
    "--enable-auto-tool-choice",
    "--enable-prefix-caching",
    "--enforce-eager",
    "--trust-remote-code",
)


class FlexibleArgumentParser(argparse.ArgumentParser):
    """An argument parser that takes --a_flag for --a-flag, and no shortened flags."""

    def __init__(self, **options: object) -> None:
        super().__init__(allow_abbrev=False, **options)  # type: ignore[arg-type]

    def parse_known_args(self, args=None, namespace=None):  # type: ignore[no-untyped-def]
        """As its base, after rewriting underscores in the names of flags."""
        given = sys.argv[1:] if args is None else args
        return super().parse_known_args([_dashed(arg) for arg in given], namespace)


def _dashed(arg: str) -> str:
    if not arg.startswith("--"):
        return arg
    name, equals, value = arg.partition("=")
    return name.replace("_", "-") + equals + value


def add_serve_args(parser: argparse.ArgumentParser) -> None:
    """Add all flags of `vllm serve`."""
    parser.add_argument("model_tag", nargs="?", metavar="MODEL", help="the model's folder")
    parser.add_argument("--model", help="the model's folder, for the api_server module")
    parser.add_argument("--host", default="0.0.0.0", help="address of the HTTP server")
    parser.add_argument("--port", type=int, default=8000, help="port of the HTTP server")
    parser.add_argument("--served-model-name", nargs="+", default=[], metavar="NAME")
    parser.add_argument("--chat-template", metavar="FILE", help="a template in Jinja's language")
    parser.add_argument("--max-model-len", type=int, help="most tokens of prompt and answer")
    parser.add_argument("--max-num-seqs", type=int, default=8, help="most requests at a time")
    parser.add_argument("--seed", type=int, default=0, help="for requests without a seed")
    ranks = parser.add_argument_group("ranks and nodes")
    ranks.add_argument("--tensor-parallel-size", "-tp", type=int, default=1, help="1, 2 or 4")
    ranks.add_argument("--pipeline-parallel-size", "-pp", type=int, default=1, choices=[1])
    ranks.add_argument("--distributed-executor-backend", choices=["mp"], default="mp")
    ranks.add_argument("--nnodes", "-n", type=int, default=1, help="number of nodes")
    ranks.add_argument("--node-rank", "-r", type=int, default=0, help="this node; 0 is the head")
    ranks.add_argument("--master-addr", default="127.0.0.1", help="the head's fabric address")
    ranks.add_argument("--master-port", type=int, default=29501)
    ranks.add_argument("--headless", action="store_true", help="workers only; every node but 0")
    ranks.add_argument(
        "--distributed-timeout-seconds",
        type=float,
        help="give up waiting for the other ranks at start (vLLM has it from 0.18); unset: never",
    )
    ignored = parser.add_argument_group("flags without effect here")
    for flag in _IGNORED_VALUES:
        ignored.add_argument(flag, metavar="VALUE", help=_NO_EFFECT)
    for flag in _IGNORED_SWITCHES:
        ignored.add_argument(flag, action=argparse.BooleanOptionalAction, help=_NO_EFFECT)


def create_engine_config(args: argparse.Namespace) -> VllmConfig:
    """The configuration that the flags ask for; ValueError if it cannot run."""
    model = args.model_tag or args.model
    if not model:
        raise ValueError("no model: name its folder")
    if args.headless != (args.node_rank > 0):
        raise ValueError("--headless belongs on every node but the first, and only there")
    config = VllmConfig(
        load_model_config(
            model,
            list(args.served_model_name),
            args.max_model_len,
            args.seed,
            _read_template(args.chat_template),
        ),
        ParallelConfig(
            tensor_parallel_size=args.tensor_parallel_size,
            nnodes=args.nnodes,
            node_rank=args.node_rank,
            master_addr=args.master_addr,
            master_port=args.master_port,
            timeout_s=args.distributed_timeout_seconds,
        ),
        args.max_num_seqs,
    )
    config.verify()
    return config


def _read_template(path: Optional[str]) -> Optional[str]:
    if path is None:
        return None
    try:
        return Path(path).read_text()
    except OSError as error:
        raise ValueError(
            f"The supplied chat template ({path}) looks like a file path, but it failed to be "
            f"opened. Reason: {error}"
        ) from error


def non_default_args(
    parser: argparse.ArgumentParser, args: argparse.Namespace
) -> Dict[str, object]:
    """The flags that were given with another value than their default."""
    return {key: value for key, value in vars(args).items() if value != parser.get_default(key)}
