"""Log lines in vLLM's form: `(Worker_TP0 pid=7) INFO 01-30 12:00:00 [worker.py:42] text`."""

from __future__ import annotations

import logging
import os
import sys

_FORMAT = "%(levelname)s %(asctime)s [%(filename)s:%(lineno)d] %(message)s"
_process_name = ""


def set_process_name(name: str) -> None:
    """Name this process in all its further log lines."""
    global _process_name
    _process_name = name


def _prefix() -> str:
    return f"({_process_name} pid={os.getpid()}) " if _process_name else ""


class _Formatter(logging.Formatter):
    """Every line of a record, tracebacks included, carries the name of its process."""

    def __init__(self) -> None:
        super().__init__(_FORMAT, "%m-%d %H:%M:%S")

    def format(self, record: logging.LogRecord) -> str:
        plain = record.__dict__.get("uvicorn", False)
        text = f"{record.levelname}:     {record.getMessage()}" if plain else super().format(record)
        prefix = _prefix()
        return "\n".join(prefix + line for line in text.splitlines())


def init_logger(name: str) -> logging.Logger:
    """The logger of a module; the first call sets up the one handler, on standard output."""
    root = logging.getLogger("vllm")
    if not root.handlers:
        handler = logging.StreamHandler(sys.stdout)
        handler.setFormatter(_Formatter())
        root.addHandler(handler)
        root.setLevel(logging.INFO)
        root.propagate = False
    return logging.getLogger(name if name.startswith("vllm") else "vllm." + name)


def log_like_uvicorn(logger: logging.Logger, text: str) -> None:
    """A line of the HTTP server, in the form that vLLM's own HTTP server uvicorn gives it."""
    logger.info(text, extra={"uvicorn": True})
