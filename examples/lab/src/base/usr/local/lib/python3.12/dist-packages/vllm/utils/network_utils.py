"""This node's address."""

from __future__ import annotations

import socket

from vllm import envs
from vllm.logger import init_logger

logger = init_logger(__name__)

_DOCUMENTATION_ADDRESS = "192.0.2.1"  # RFC 5737: never anybody's; nothing is sent to it


def get_ip() -> str:
    """VLLM_HOST_IP, else the address of the default route, else loopback.

    The address of the default route is the wrong one on a node whose fabric is another network.
    Ranks then advertise an address that their peers may not reach, so set VLLM_HOST_IP.
    """
    if envs.host_ip():
        return envs.host_ip()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((_DOCUMENTATION_ADDRESS, 80))  # asks the routing table, sends nothing
            return str(probe.getsockname()[0])
        except OSError:
            logger.warning("Failed to get the IP address, using 127.0.0.1. Set VLLM_HOST_IP.")
            return "127.0.0.1"


def check_interface() -> None:
    """Fail, as Gloo does, when GLOO_SOCKET_IFNAME names an interface that this node lacks."""
    name = envs.gloo_socket_ifname()
    if name and name not in {present for _, present in socket.if_nameindex()}:
        raise RuntimeError(f"Unable to find address for: {name} (GLOO_SOCKET_IFNAME)")


def listen(address: str, port: int) -> socket.socket:
    """A listening TCP socket on one address; port 0 lets the system choose."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((address, port))
    except OSError as error:
        listener.close()
        problem = f"cannot listen on {address}:{port}: {error.strerror}"
        raise OSError(error.errno, problem) from error
    listener.listen(128)
    return listener


def connect(address: str, port: int, source: str) -> socket.socket:
    """A TCP connection that leaves this node from `source`; OSError if nobody answers."""
    peer = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        peer.bind((source, 0))
        peer.connect((address, port))
    except OSError:
        peer.close()
        raise
    return peer
