"""`vllm serve`: an HTTP server with an engine on the head, workers alone on every other node."""

from __future__ import annotations

import argparse

from vllm.config import VllmConfig
from vllm.engine.arg_utils import create_engine_config, non_default_args
from vllm.entrypoints.openai.api_server import run_server
from vllm.logger import init_logger, set_process_name
from vllm.utils.system_utils import leave_on_sigterm
from vllm.v1.executor.multiproc_executor import MultiprocExecutor
from vllm.version import __version__

logger = init_logger(__name__)


def serve(parser: argparse.ArgumentParser, args: argparse.Namespace) -> int:
    """The exit code: 0 after a signal, 1 when something failed."""
    set_process_name("APIServer")
    logger.info("vLLM API server version %s", __version__)
    logger.info("non-default args: %s", non_default_args(parser, args))
    try:
        config = create_engine_config(args)
    except ValueError as error:
        logger.error("%s: %s", type(error).__name__, error)
        return 1
    logger.info("Resolved architecture: %s", config.model_config.architectures[0])
    logger.info("Using max model len %d", config.model_config.max_model_len)
    leave_on_sigterm()
    if args.headless:
        return run_headless(config)
    return run_server(config, args.host, args.port)


def run_headless(config: VllmConfig) -> int:
    """Run this node's workers until they end; their exit code."""
    parallel = config.parallel_config
    logger.info(
        "Launching vLLM (v%s) headless multiproc executor, with head node address %s:%d "
        "for torch.distributed process group.",
        __version__,
        parallel.master_addr,
        parallel.master_port,
    )
    executor = MultiprocExecutor(config)
    try:
        return executor.wait_for_workers()
    finally:
        executor.shutdown()
