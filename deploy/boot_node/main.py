"""The program's start: rank 0 looks after the pair, every other rank answers it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from .engine import Engine
from .facts import VERSION, Config
from .head import Head
from .journal import say, say_once
from .wire import Answering

if TYPE_CHECKING:
    from pathlib import Path


def main(folder: Path) -> None:
    """Never returns."""
    config = Config.read((folder / "boot.json").read_text())
    secret = (folder / "secret").read_bytes()
    engine = Engine(config)
    say(f"version {VERSION}, cluster {config.cluster}, rank {config.rank} of {len(config.peers)}")
    if config.rank == 0:
        Head(config, engine, secret).run()
    while True:
        try:
            with Answering(config, engine, secret) as server:
                say_once(config, f"answers rank 0 on {config.peers[config.rank][1]}")
                server.serve_forever()
        except OSError as error:  # the fabric's address may come later than we do
            say_once(config, f"waits for its fabric address: {error}")
            time.sleep(config.poll_s)
