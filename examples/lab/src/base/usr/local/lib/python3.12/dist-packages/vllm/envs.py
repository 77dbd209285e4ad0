"""The environment variables that are read, each at the time of use."""

from __future__ import annotations

import os


def host_ip() -> str:
    """VLLM_HOST_IP: this node's address on the fabric; empty if unset."""
    return os.environ.get("VLLM_HOST_IP", "")


def process_name_prefix() -> str:
    """VLLM_PROCESS_NAME_PREFIX: what process titles begin with."""
    return os.environ.get("VLLM_PROCESS_NAME_PREFIX", "VLLM")


def gloo_socket_ifname() -> str:
    """GLOO_SOCKET_IFNAME: the interface of the fabric; empty if unset."""
    return os.environ.get("GLOO_SOCKET_IFNAME", "")


def api_key() -> str:
    """VLLM_API_KEY: what requests to /v1 must bring; empty if they need bring nothing."""
    return os.environ.get("VLLM_API_KEY", "")
