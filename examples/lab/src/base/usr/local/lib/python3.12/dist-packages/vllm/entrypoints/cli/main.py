"""`vllm serve MODEL ...` and `vllm --version`."""

from __future__ import annotations

from typing import Optional, Sequence

from vllm.engine.arg_utils import FlexibleArgumentParser, add_serve_args
from vllm.entrypoints.cli.serve import serve
from vllm.version import __version__


def main(argv: Optional[Sequence[str]] = None) -> int:
    """The exit code of the command."""
    parser = FlexibleArgumentParser(
        prog="vllm", description="A stand-in for vLLM, in pure Python; see the package's docstring."
    )
    parser.add_argument("-v", "--version", action="version", version=__version__)
    commands = parser.add_subparsers(required=True, dest="subparser", metavar="COMMAND")
    command = commands.add_parser("serve", help="serve a model over HTTP, on one node or several")
    add_serve_args(command)
    return serve(command, parser.parse_args(argv))


if __name__ == "__main__":
    raise SystemExit(main())
