"""The kinds of text and number that cluster.toml and lockfile.json are made of.

Each refuses whatever a later stage could trip over, such as `..` in a path, a dash before an ssh
destination, a floating revision; and each says in words what it takes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import IPv4Address
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from pydantic import AfterValidator, Field, StringConstraints
from pydantic_core import core_schema

from builder.digest import Digest, parse_digest
from builder.oci.model import Platform
from builder.oci.reference import ImageReference
from builder.privileges import KERNEL_CAPABILITIES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
    from pydantic.json_schema import JsonSchemaValue

V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class Expected:
    """What a value must be, in words.

    The one text of every error of the value, and its description in the JSON Schema unless the
    field has its own.
    """

    text: str

    def __get_pydantic_core_schema__(
        self, source: type[Any], handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        """The value's schema, whose errors all say `text`."""
        return core_schema.custom_error_schema(
            handler(source), custom_error_type="expected", custom_error_message=self.text
        )

    def __get_pydantic_json_schema__(
        self, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """The value's JSON Schema with a description."""
        found = handler(schema)
        found.setdefault("description", self.text)
        return found


def _platform(text: str) -> str:
    Platform.parse(text)
    return text


_PLAIN_PART = re.compile(r"(?!\.{1,2}\Z)[^/\x00-\x1f\x7f]+\Z")


def _absolute(path: str) -> str:
    if not path.startswith("/"):
        raise ValueError(path)
    _relative(path[1:])
    return path


def _relative(path: str) -> str:
    """The path itself: there is one spelling of each, so equal places are equal texts."""
    if not all(_PLAIN_PART.match(part) for part in path.split("/")):
        raise ValueError(path)
    return path


def _reachable(path: str) -> str:
    """The path itself; steps up come first, since anywhere else they would respell another path."""
    below = path
    while below.startswith("../"):
        below = below.removeprefix("../")
    _relative(below)
    return path


def _folder(path: str) -> str:
    return path if path == "/" else _absolute(path)


_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
_KEY = r"[^\]\[\"'\\\x00-\x1f\x7f]+"
_TABLE_PATH = rf"""^{_NAME}(\.{_NAME})*(\["{_KEY}"\]|\['{_KEY}'\]|\[[0-9]{{1,4}}\])*$"""


def _capability(name: str) -> str:
    if name not in (*KERNEL_CAPABILITIES, "ALL"):
        raise ValueError(name)
    return name


def _double_quotes(path: str) -> str:
    """The path with one kind of quotes, since equal places are equal texts."""
    return path.replace("'", '"')


_ENGINE_IMAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/:@-]*\Z")


def _source(text: str) -> str:
    scheme, colon, location = text.partition(":")
    if colon and scheme in ("oci", "archive"):
        (_absolute if location.startswith("/") else _reachable)(location)
    elif colon and scheme == "docker":
        if not _ENGINE_IMAGE.match(location):
            raise ValueError(text)
    else:
        ImageReference.parse(text)
    return text


def sorted_table(table: Mapping[str, V]) -> dict[str, V]:
    """The table by key: TOML tables have no order, so none may reach an image or a command."""
    return dict(sorted(table.items()))


DigestText = Annotated[
    Digest,
    AfterValidator(parse_digest),
    Field(json_schema_extra={"pattern": "^sha256:[0-9a-f]{64}$"}),
    Expected("a digest: sha256: and 64 lower-case hex digits"),
]
PlatformText = Annotated[
    str, AfterValidator(_platform), Expected("os/architecture, such as linux/arm64")
]
AbsolutePath = Annotated[
    str,
    AfterValidator(_absolute),
    Expected("an absolute path without '..', '.', empty parts or a '/' at the end"),
]
RelativePath = Annotated[
    str,
    AfterValidator(_relative),
    Expected("a relative path without '..', '.', empty parts or a '/' at the end"),
]
ReachablePath = Annotated[
    str,
    AfterValidator(_reachable),
    Expected(
        "a path relative to the manifest's folder, without '.', empty parts or a '/' at the end; "
        "'..' only to begin"
    ),
]
SourceText = Annotated[
    str,
    AfterValidator(_source),
    Expected("oci:DIR, archive:FILE, docker:NAME or a registry's HOST[:PORT]/NAME[:TAG]"),
]
Name = Annotated[
    str,
    StringConstraints(pattern=r"^[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?$"),
    Expected("at most 63 of a-z, 0-9, '.' and '-', with a letter or digit at both ends"),
]
Mode = Annotated[
    str,
    StringConstraints(pattern=r"^0[0-7]{3}$"),
    Expected('an octal mode such as "0755", without setuid, setgid and sticky bit'),
]
DirMode = Annotated[
    str,
    StringConstraints(pattern=r"^[0-7]{4}$"),
    Expected('an octal mode of four digits, such as "1777"'),
]
RepoName = Annotated[
    str,
    StringConstraints(pattern=r"^[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+$"),
    Expected("a repository of the Hub, as ORGANISATION/NAME"),
]
Revision = Annotated[
    str,
    StringConstraints(pattern=r"^[0-9a-f]{40}$"),
    Expected("a commit: 40 lower-case hex digits, no branch or tag, which can move"),
]
PackageName = Annotated[
    str, StringConstraints(pattern=rf"^{_NAME}$"), Expected("a Python identifier")
]
ClassPlace = Annotated[
    str,
    StringConstraints(pattern=rf"^{_NAME}(\.{_NAME})*:{_NAME}$"),
    Expected("module:Class, such as my_models.tiny:TinyForCausalLM"),
]
DottedName = Annotated[
    str,
    StringConstraints(pattern=rf"^{_NAME}(\.{_NAME})*$"),
    Expected("a Python name, such as AConfig or configs.AConfig"),
]
DistributionName = Annotated[
    str,
    StringConstraints(pattern=r"^[a-z][a-z0-9]*(-[a-z0-9]+)*$"),
    Expected("a name in lower case, such as our-models"),
]
FolderPath = Annotated[
    str,
    AfterValidator(_folder),
    Expected("/, or an absolute path without '..', '.', empty parts or a '/' at the end"),
]
TablePath = Annotated[
    str,
    StringConstraints(pattern=_TABLE_PATH),
    AfterValidator(_double_quotes),
    Expected('a Python name such as _MODELS, or a table inside of one: _TABLES["text"]'),
]
Text = Annotated[
    str,
    StringConstraints(min_length=1, pattern=r"^[^\x00-\x1f\x7f]*$"),
    Expected("text in quotes, not empty, without control characters"),
]
Reason = Annotated[
    str,
    StringConstraints(pattern=r"^[^\x00-\x1f\x7f]*[^\s\x00-\x1f\x7f][^\x00-\x1f\x7f]*$"),
    Expected("a reason in words, for whoever reviews the lock"),
]
EnvName = Annotated[
    str,
    StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$"),
    Expected("a variable's name: letters, digits and '_', no digit first"),
]
EnvText = Annotated[
    str,
    StringConstraints(pattern=r"^[^\x00]*$"),
    Expected("text in quotes, without NUL characters"),
]
Environment = Annotated[dict[EnvName, EnvText], AfterValidator(sorted_table)]
Port = Annotated[int, Field(ge=1, le=65_535), Expected("a port, a whole number from 1 to 65535")]
Positive = Annotated[int, Field(ge=1), Expected("a whole number from 1 on")]
Deadline = Annotated[
    int, Field(ge=1, le=86_400), Expected("whole seconds, from 1 to 86400 (one day)")
]
Capability = Annotated[
    str,
    AfterValidator(_capability),
    Expected("a Linux capability without CAP_, such as SYS_PTRACE, or ALL"),
]
UserText = Annotated[
    str,
    StringConstraints(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]*(:[A-Za-z0-9_][A-Za-z0-9_.-]*)?$"),
    Expected('a user of the image, and a group if need be: "1000:1000"'),
]
UlimitName = Annotated[
    str,
    StringConstraints(
        pattern=r"^(core|cpu|data|fsize|locks|memlock|msgqueue|nice|nofile|nproc|rss|rtprio|rttime"
        r"|sigpending|stack)$"
    ),
    Expected("a limit's name as docker has it, such as stack"),
]
Ulimit = Annotated[int, Field(ge=-1), Expected("a whole number; -1 is no limit")]
ArgName = Annotated[
    str,
    StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$"),
    Expected("an option's name without dashes before it, such as max-model-len"),
]
Address = Annotated[IPv4Address, Expected("an IPv4 address, such as 192.168.200.12")]
Netdev = Annotated[
    str,
    StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,14}$"),
    Expected("a network interface's name, such as enp1s0f1np1 (at most 15 characters)"),
]
Hca = Annotated[
    str,
    StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,62}$"),
    Expected("an RDMA device's name, such as rocep1s0f1"),
]
