"""Fuzzes one of the readers of what others wrote, guided by coverage.

    python -m venv /tmp/fuzz && /tmp/fuzz/bin/pip install -r requirements.txt atheris
    /tmp/fuzz/bin/python -m tests.fuzz tar --minutes 10

An input that is read neither to a right value nor to a SparklockError ends the run with status 1,
and lies in the corpus's folder as `crash-...` (or `oom-`, `timeout-`). Made small, it belongs into
tests/fuzz/found/TARGET/, where every run of the test suite reads it again.
Atheris is no dependency of the project's: it has wheels for few Pythons only.
"""

from __future__ import annotations

import argparse
import random
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
MAX_MIB: Final = 1024
ONE_INPUT_S: Final = 20


def main() -> None:
    """Never comes back: the fuzzer ends the process."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("target", help="what to fuzz; a wrong name lists all")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument(
        "--corpus", type=Path, default=ROOT / ".sparklock" / "fuzz", help="kept between runs"
    )
    options = parser.parse_args()
    try:
        import atheris  # noqa: PLC0415 - only who fuzzes needs it
    except ImportError:
        sys.exit(f"atheris is not installed for {sys.executable}: see --help")
    with atheris.instrument_imports(include=["builder", "deploy", "verify"]):
        from tests.fuzz.targets import TARGETS  # noqa: PLC0415 - instrumented while imported
    if options.target not in TARGETS:
        sys.exit(f"no target {options.target!r}: {', '.join(sorted(TARGETS))}")
    target = TARGETS[options.target]

    corpus = options.corpus / options.target
    corpus.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(target.seeds()):
        (corpus / f"seed-{number}").write_bytes(seed)
    words = corpus.parent / f"{options.target}.words"
    words.write_text("".join(f'"{_escaped(word)}"\n' for word in target.words))

    def mutate(data: bytes, max_size: int, seed: int) -> bytes:
        changed: bytes = atheris.Mutate(data, max_size)
        if random.Random(seed).random() < 0.9:  # noqa: S311 - no secret
            changed = target.repair(changed)
        return changed[:max_size]

    atheris.Setup(
        [
            sys.argv[0],
            str(corpus),
            f"-artifact_prefix={corpus.parent}/{options.target}-",
            *([f"-dict={words}"] if target.words else []),
            f"-max_total_time={round(options.minutes * 60)}",
            f"-max_len={target.max_bytes}",
            f"-rss_limit_mb={MAX_MIB}",
            f"-timeout={ONE_INPUT_S}",
            "-print_final_stats=1",
        ],
        target.one,
        custom_mutator=mutate,
    )
    atheris.Fuzz()


def _escaped(word: bytes) -> str:
    return "".join(f"\\x{byte:02x}" for byte in word)


if __name__ == "__main__":
    main()
