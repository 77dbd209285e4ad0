"""Signatures of functions and calls as written, and whether the one takes the other."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True, slots=True)
class Parameter:
    """One named parameter; `required` means that it has no default."""

    name: str
    required: bool


@dataclass(frozen=True, slots=True)
class Signature:
    """What a function can be called with, without `self` or `cls`.

    `only_positional` go by position, `either` by position or name, `only_named` by name; `rest`
    and `named_rest` tell whether there are `*args` and `**kwargs`.
    """

    only_positional: tuple[Parameter, ...] = ()
    either: tuple[Parameter, ...] = ()
    only_named: tuple[Parameter, ...] = ()
    rest: bool = False
    named_rest: bool = False

    @classmethod
    def of(cls, arguments: ast.arguments, *, bound: bool) -> Signature:
        """The signature that a `def` states; `bound` drops its first positional parameter."""
        positional = [*arguments.posonlyargs, *arguments.args]
        required = len(positional) - len(arguments.defaults)
        found = tuple(Parameter(arg.arg, at < required) for at, arg in enumerate(positional))
        cut = len(arguments.posonlyargs)
        skip = 1 if bound else 0
        return cls(
            found[skip:cut],
            found[max(cut, skip) :],
            tuple(
                Parameter(arg.arg, default is None)
                for arg, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
            ),
            rest=arguments.vararg is not None,
            named_rest=arguments.kwarg is not None,
        )

    @property
    def positional(self) -> tuple[Parameter, ...]:
        """The parameters that a value by position can reach, in order."""
        return (*self.only_positional, *self.either)

    @property
    def named(self) -> tuple[Parameter, ...]:
        """The parameters that a value by name can reach."""
        return (*self.either, *self.only_named)

    def text(self) -> str:
        """The signature as Python writes it; a default is shown as `...`."""
        parts = [_text(item) for item in self.only_positional]
        parts += ["/"] if self.only_positional else []
        parts += [_text(item) for item in self.either]
        parts += ["*args"] if self.rest else ["*"] if self.only_named else []
        parts += [_text(item) for item in self.only_named]
        parts += ["**kwargs"] if self.named_rest else []
        return f"({', '.join(parts)})"


@dataclass(frozen=True, slots=True)
class Call:
    """The arguments of a call as written.

    `spread` and `named_spread` tell that `*values` or `**values` add others, of unknown number.
    """

    positional: int
    names: tuple[str, ...]
    spread: bool
    named_spread: bool

    @classmethod
    def of(cls, call: ast.Call) -> Call:
        """The arguments that a call passes."""
        plain = [arg for arg in call.args if not isinstance(arg, ast.Starred)]
        return cls(
            len(plain),
            tuple(item.arg for item in call.keywords if item.arg is not None),
            spread=len(plain) < len(call.args),
            named_spread=any(item.arg is None for item in call.keywords),
        )


def refusals(signature: Signature, call: Call) -> frozenset[str]:
    """Why a function of the signature refuses a call, one text for each reason; empty if not."""
    return frozenset(_refusals(signature, call))


def narrowings(override: Signature, callers: Signature) -> frozenset[str]:
    """Why a call that fits the signature `callers` can fail at `override`; empty if none can."""
    return frozenset(_narrowings(override, callers))


def _refusals(signature: Signature, call: Call) -> Iterator[str]:
    positional = signature.positional
    if call.positional > len(positional) and not signature.rest:
        yield f"takes {len(positional)} positional arguments, and {call.positional} are passed"
    given = {item.name for item in positional[: call.positional]}
    known = {item.name for item in signature.named}
    by_name = {item.name for item in signature.either}
    for name in call.names:
        if name not in known and not signature.named_rest:
            yield f"has no parameter {name}"
        elif name in given & by_name:
            yield f"takes {name} by position already"
    for item in (*positional, *signature.only_named):
        by_position = item in positional
        maybe = (call.spread and by_position) or (
            call.named_spread and item not in signature.only_positional
        )
        if item.required and not maybe and item.name not in given.union(call.names):
            yield f"requires {item.name}"


def _narrowings(override: Signature, callers: Signature) -> Iterator[str]:
    ours, theirs = override.positional, callers.positional
    if len(theirs) > len(ours) and not override.rest:
        yield f"takes {len(ours)} positional arguments of {len(theirs)}"
    names = {item.name for item in override.named}
    for item in callers.named:
        if item.name not in names and not override.named_rest:
            yield f"has no parameter {item.name}"
    yield from _newly_required(override, callers)
    if callers.rest and not override.rest:
        yield "has no *args"
    if callers.named_rest and not override.named_rest:
        yield "has no **kwargs"


def _newly_required(override: Signature, callers: Signature) -> Iterator[str]:
    """What the override cannot do without, and callers may leave out."""
    passed = {item.name for item in (*callers.positional, *callers.only_named) if item.required}
    by_position = sum(item.required for item in callers.positional)
    for at, item in enumerate(override.positional):
        if item.required and at >= by_position and item.name not in passed:
            yield f"requires {item.name}"
    for item in override.only_named:
        if item.required and item.name not in passed:
            yield f"requires {item.name} by name"


def _text(parameter: Parameter) -> str:
    return parameter.name if parameter.required else f"{parameter.name}=..."
