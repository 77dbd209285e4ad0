"""Chat templates: the small part of Jinja that a prompt needs.

Text, `{{ value }}`, `{% for x in xs %}`, `{% if value %}`, `{% else %}` and comments; a value is a
name, a quoted text, or a name with keys: `message['role']`, `message.role`. As in Transformers, the
line break after a tag goes away. Anything else is refused when the server starts.
"""

from __future__ import annotations

import re
from typing import Any, Dict, List, Tuple, Union

_TAG = re.compile(r"(\{#.*?#\}\n?|\{%-?.*?-?%\}\n?|\{\{-?.*?-?\}\})", re.DOTALL)
_VALUE = re.compile(r"(\w+)((?:\.\w+|\[(?:'[^']*'|\"[^\"]*\")\])*)\Z")
_KEY = re.compile(r"\.(\w+)|\['([^']*)'\]|\[\"([^\"]*)\"\]")
_TEXT = re.compile(r"'([^']*)'\Z|\"([^\"]*)\"\Z")

Node = Union[str, "Value", "For", "If"]


class TemplateError(ValueError):
    """The template says something that is not in our part of Jinja."""


class Value:
    """A value to be looked up."""

    def __init__(self, text: str) -> None:
        literal, name = _TEXT.match(text), _VALUE.match(text)
        if not literal and not name:
            raise TemplateError(f"cannot read the value {text!r}")
        self.literal = literal[1] or literal[2] or "" if literal else None
        self.name = name[1] if name else ""
        self.keys = ["".join(found) for found in _KEY.findall(name[2])] if name else []

    def get(self, names: Dict[str, Any]) -> Any:
        """The value; an empty text for a name or key that is not there, as in Jinja."""
        if self.literal is not None:
            return self.literal
        value = names.get(self.name, "")
        for key in self.keys:
            value = value.get(key, "") if isinstance(value, dict) else ""
        return value


class For:
    """A body for each item of a list."""

    def __init__(self, name: str, items: Value) -> None:
        self.name = name
        self.items = items
        self.body: List[Node] = []


class If:
    """One body or the other."""

    def __init__(self, condition: Value) -> None:
        self.condition = condition
        self.body: List[Node] = []
        self.otherwise: List[Node] = []


class ChatTemplate:
    """A template, parsed once."""

    def __init__(self, source: str) -> None:
        self._nodes = _parse(source)

    def render(self, messages: List[Dict[str, str]], add_generation_prompt: bool = True) -> str:
        """The prompt for a conversation."""
        names = {"messages": messages, "add_generation_prompt": add_generation_prompt}
        return _render(self._nodes, names)


def _parse(source: str) -> List[Node]:
    root: List[Node] = []
    open_tags: List[Tuple[str, List[Node]]] = []
    here = root
    pieces = _TAG.split(source)
    for number, piece in enumerate(pieces):
        if number % 2 == 0:
            here.append(_trimmed(piece, pieces, number))
        elif piece.startswith("{{"):
            here.append(Value(piece.strip("{}-").strip()))
        elif piece.startswith("{%"):
            here = _statement(piece.strip("{}%-\n").strip(), here, open_tags)
    if open_tags:
        raise TemplateError(f"{{% {open_tags[-1][0]} %}} is never closed")
    return root


def _trimmed(text: str, pieces: List[str], number: int) -> str:
    """The text without what `-%}` before it, or `{%-` after it, takes away."""
    if number and pieces[number - 1].rstrip("\n").endswith(("-%}", "-}}")):
        text = text.lstrip()
    if number + 1 < len(pieces) and pieces[number + 1].startswith(("{%-", "{{-")):
        text = text.rstrip()
    return text


def _statement(text: str, here: List[Node], open_tags: List[Tuple[str, List[Node]]]) -> List[Node]:
    """The list that the nodes after this tag belong to."""
    word, _, rest = text.partition(" ")
    if word == "for":
        name, _, items = rest.partition(" in ")
        loop = For(name.strip(), Value(items.strip()))
        here.append(loop)
        open_tags.append(("for", here))
        return loop.body
    if word == "if":
        branch = If(Value(rest.strip()))
        here.append(branch)
        open_tags.append(("if", here))
        return branch.body
    if word == "else" and open_tags and open_tags[-1][0] == "if":
        branch_node = open_tags[-1][1][-1]
        assert isinstance(branch_node, If)
        return branch_node.otherwise
    if open_tags and word == f"end{open_tags[-1][0]}":
        return open_tags.pop()[1]
    raise TemplateError(f"cannot read {{% {text} %}}")


def _render(nodes: List[Node], names: Dict[str, Any]) -> str:
    parts: List[str] = []
    for node in nodes:
        if isinstance(node, str):
            parts.append(node)
        elif isinstance(node, Value):
            parts.append(str(node.get(names)))
        elif isinstance(node, For):
            for item in node.items.get(names):
                parts.append(_render(node.body, {**names, node.name: item}))
        else:
            chosen = node.body if node.condition.get(names) else node.otherwise
            parts.append(_render(chosen, names))
    return "".join(parts)
