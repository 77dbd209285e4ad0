"""Runs on a node, in its own python3 (3.10 or later): does the fabric carry what serving needs?

It listens on the node's fabric addresses, tells the ports, is told those of the peers, connects to
them and sends them packets that fill the MTU and may not be fragmented, then tells what came of it.
Three lines of JSON on stdin and stdout; it ends with its stdin, and after a minute anyway.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import sys
import threading
from typing import Any

WAIT_S = 1.0
IP_MTU_DISCOVER, IP_PMTUDISC_PROBE = 10, 3  # linux/in.h: never fragment, whatever was learnt


def listen_tcp(address: str, port: int) -> int:
    """The port of a listener that serves in a thread; OSError if somebody has it already."""
    server = socket.socket()
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.bind((address, port))
    server.listen(64)
    threading.Thread(target=accept, args=(server,), daemon=True).start()
    return int(server.getsockname()[1])


def accept(server: socket.socket) -> None:
    """Accept for ever, each until its client closes: then the port is not left in TIME_WAIT."""
    while True:
        client, _ = server.accept()
        threading.Thread(target=until_closed, args=(client,), daemon=True).start()


def until_closed(client: socket.socket) -> None:
    """Close a connection after its other end has."""
    client.settimeout(WAIT_S)
    with contextlib.suppress(OSError):
        client.recv(1)
    client.close()


def listen_udp(address: str) -> int:
    """The port of an echo that serves in a thread."""
    server = unfragmented(address)
    threading.Thread(target=echo, args=(server,), daemon=True).start()
    return int(server.getsockname()[1])


def unfragmented(address: str) -> socket.socket:
    """A UDP socket of an address whose packets may not be fragmented."""
    found = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    found.setsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_PROBE)
    found.bind((address, 0))
    return found


def echo(server: socket.socket) -> None:
    """Send every packet back; one that is too large for this end has no answer."""
    while True:
        try:
            data, sender = server.recvfrom(65535)
            server.sendto(data, sender)
        except OSError:
            continue


def connect(source: str, target: str, port: int) -> str:
    """What came of a TCP connection."""
    try:
        client = socket.create_connection((target, port), WAIT_S, (source, 0))
    except TimeoutError:
        return "no answer in time"
    except OSError as error:
        return words_of(error)
    client.close()
    return "connected"


def send(way: dict[str, Any], size: int, tries: int) -> str:
    """What came of a UDP packet of a size; sent again, since UDP and a busy peer lose some."""
    try:
        client = unfragmented(way["source"])
        client.connect((way["target"], way["udp"]))
        client.settimeout(WAIT_S / 2)
        for _ in range(tries):
            client.send(bytes(size))
            with contextlib.suppress(TimeoutError):
                if len(client.recv(65535)) == size:
                    return "answered"
    except OSError as error:
        return words_of(error)
    return "no answer in time"


def probe(way: dict[str, Any], told: dict[str, Any]) -> None:
    """Fill in what came of one way: its TCP ports at the same time as its packets."""
    source, target = way["source"], way["target"]
    tcp: dict[int, str] = {}

    def one(port: int) -> None:
        tcp[port] = connect(source, target, port)

    threads = [threading.Thread(target=one, args=(port,)) for port in way["tcp"]]
    for thread in threads:
        thread.start()
    small = send(way, 1, tries=2)
    full = send(way, way["size"], tries=4) if small == "answered" else "not tried"
    for thread in threads:
        thread.join()
    told[source + " " + target] = {"small": small, "full": full, "tcp": tcp}


def opened(address: str, wanted: list[int]) -> dict[str, Any]:
    """The listeners of an address: a free port and the wanted ones, and an echo; or why not."""
    ports = []
    try:
        ports.append(listen_tcp(address, 0))
        udp = listen_udp(address)
    except OSError as error:
        return {"problem": words_of(error)}
    for port in wanted:
        try:
            ports.append(listen_tcp(address, port))
        except OSError:
            ports.append(port)  # whoever has it answers as well
    return {"tcp": ports, "udp": udp}


def words_of(error: OSError) -> str:
    """What the system calls an error."""
    return os.strerror(error.errno) if error.errno else str(error)


def main() -> None:
    """Listen, tell; be told, try, tell; wait until nobody needs the listeners."""
    signal.alarm(60)
    asked = json.loads(sys.stdin.readline())
    tell({address: opened(address, ports) for address, ports in asked})
    told: dict[str, Any] = {}
    ways = json.loads(sys.stdin.readline())
    threads = [threading.Thread(target=probe, args=(way, told)) for way in ways]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    tell(told)
    sys.stdin.read()


def tell(value: dict[str, Any]) -> None:
    """One line of JSON."""
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
