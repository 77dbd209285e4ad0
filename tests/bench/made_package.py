"""A package of the size of vLLM's, made: as many files, classes, calls and tables to read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MODULES: Final = 1990
"""With the package's own few files about 2000, as vLLM has at the end of 2026."""

NEW: Final = 5
FILES: Final = tuple(f"models/new_{number}.py" for number in range(NEW))
"""What only the newer version has."""

METHODS: Final = 24
"""So that a file is about 200 lines long."""


def write_package(folder: Path, *, newer: bool) -> None:
    """The package `vllm` with its metadata, below a folder; the newer one has FILES, too.

    Every class derives from one of another file and calls others; the newer version differs in
    every fourth file, as two releases of vLLM three months apart do in more.
    """
    package = folder / "vllm"
    models = package / "models"
    models.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (models / "__init__.py").write_text("")
    for number in range(MODULES):
        base = "" if number == 0 else f"{number // 2}"
        changed = newer and number % 4 == 0
        (models / f"model_{number}.py").write_text(_module(str(number), base, changed=changed))
    for number in range(NEW if newer else 0):
        base = str(MODULES - 1 - number)
        (models / f"new_{number}.py").write_text(_module(f"New{number}", base, changed=False))
    (package / "registry.py").write_text(_registry(newer=newer))
    info = folder / f"vllm-{2 if newer else 1}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Name: vllm\nVersion: {2 if newer else 1}\n")


def _module(name: str, base: str, *, changed: bool) -> str:
    return "\n".join(_lines(name, base, changed=changed)) + "\n"


def _lines(name: str, base: str, *, changed: bool) -> Iterator[str]:
    if base:
        yield f"from vllm.models.model_{base} import Model{base}, helper_{base}"
    yield f"def helper_{name}(value, scale=1, *, wide=False):"
    yield "    return value * scale if wide else value"
    yield f"class Model{name}({f'Model{base}' if base else ''}):"
    yield "    def __init__(self, config, prefix=''):"
    yield "        self.config = config"
    for number in range(METHODS):
        yield f"    def method_{number}(self, first, second={number}, *, wide=False):"
        yield f"        '''What step {number} gives.'''"
        yield "        found = [item for item in (first, second) if item is not None]"
        yield "        if not found or self.config is None:"
        yield "            raise ValueError(first)"
        yield f"        total = sum(found) + helper_{base or name}({number}, wide=wide)"
        yield "        return {'total': total, 'first': first, 'second': second}"
    if changed:
        yield "    def later(self): return self.config"


def _registry(*, newer: bool) -> str:
    names = [str(number) for number in range(MODULES)]
    entries = [f'    "Model{name}": ("model_{name}", "Model{name}"),' for name in names]
    if newer:
        entries += [f'    "ModelNew{n}": ("new_{n}", "ModelNew{n}"),' for n in range(NEW)]
    return "\n".join(["MODELS = {", *entries, "}", ""])
