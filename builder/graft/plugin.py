"""A distribution through which vLLM registers models by itself, made of names alone.

vLLM calls every entry point of the group `vllm.general_plugins` in each of its processes. A model
registered as "module:Class" is imported when it is first needed. Source: vLLM's documentation of
plugins; "Recording installed projects" and "Entry points" of the Python Packaging User Guide.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from builder.digest import canonical_json, digest_bytes, hex_of
from builder.graft.entries import literal_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from builder.digest import Digest, JsonValue

GROUP: Final = "vllm.general_plugins"
"""The entry points that vLLM calls when it starts."""


@dataclass(frozen=True, slots=True)
class OwnModule:
    """A file of the plugin's own, by its path from the site folder."""

    path: str
    digest: Digest
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Distribution:
    """A distribution as installers leave it; `files` by their path from the site folder."""

    name: str
    version: str
    files: Mapping[str, bytes]


def module_name(name: str) -> str:
    """The module of a distribution, which is also how installers write its name in a path."""
    return name.replace("-", "_")


def make_plugin(
    name: str, models: Mapping[str, str], own: Sequence[OwnModule] = ()
) -> Distribution:
    """The distribution that registers models, architecture by module:Class.

    `own` are files that come with it; its version is of its content, so that equal ones are equal.
    """
    content: dict[str, JsonValue] = {
        "models": dict(models),
        "own": {item.path: item.digest for item in own},
    }
    version = f"0+g{hex_of(digest_bytes(canonical_json(content)))[:12]}"
    module = module_name(name)
    info = f"{module}-{version}.dist-info"
    files = {
        f"{module}.py": _module(models),
        f"{info}/INSTALLER": b"sparklock\n",
        f"{info}/METADATA": _lines(
            "Metadata-Version: 2.1",
            f"Name: {name}",
            f"Version: {version}",
            "Summary: Registers models with vLLM; made by sparklock for one image",
        ),
        f"{info}/WHEEL": _lines(
            "Wheel-Version: 1.0",
            "Generator: sparklock",
            "Root-Is-Purelib: true",
            "Tag: py3-none-any",
        ),
        f"{info}/entry_points.txt": _lines(f"[{GROUP}]", f"{name} = {module}:register"),
    }
    recorded = {path: _record(path, digest_bytes(data), len(data)) for path, data in files.items()}
    recorded |= {item.path: _record(item.path, item.digest, item.size_bytes) for item in own}
    record = f"{info}/RECORD"
    recorded[record] = f"{record},,"
    files[record] = _lines(*(line for _, line in sorted(recorded.items())))
    return Distribution(name, version, dict(sorted(files.items())))


def _module(models: Mapping[str, str]) -> bytes:
    entries = (f"    {literal_text(key)}: {literal_text(value)}," for key, value in models.items())
    return _lines(
        '"""Registers models with vLLM. Made by sparklock from [[image.plugin]]."""',
        "",
        "MODELS = {",
        *entries,
        "}",
        "",
        "",
        "def register():",
        '    """Register every model by name; vLLM imports its module when it is first needed."""',
        "    from vllm import ModelRegistry",
        "",
        "    for architecture, model in MODELS.items():",
        "        ModelRegistry.register_model(architecture, model)",
    )


def _record(path: str, digest: Digest, size_bytes: int) -> str:
    """A line of RECORD, a CSV file."""
    hashed = base64.urlsafe_b64encode(bytes.fromhex(hex_of(digest))).rstrip(b"=").decode()
    quoted = '"' + path.replace('"', '""') + '"' if set(path) & set('",') else path
    return f"{quoted},sha256={hashed},{size_bytes}"


def _lines(*lines: str) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()
