"""A positional argument of a task that may be left out, as in `inv rollback [N]`.

Invoke (3.0) knows only positional arguments that must be given. It asks for those that miss in one
place, when a task's words have ended, and there ours are taken as given and empty.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from invoke.parser import Argument
from invoke.parser.parser import ParseMachine
from invoke.tasks import Task

if TYPE_CHECKING:
    from collections.abc import Callable

_COMPLETE: Callable[[Any], None] = ParseMachine.complete_context


class LeftOut(Argument):
    """A positional argument whose value is the empty text when it is left out."""


class TaskWithOptional(Task):  # type: ignore[type-arg] # invoke is partly untyped
    """A task whose positional arguments may all be left out; for `@task(klass=...)`."""

    def get_arguments(self, *args: Any, **kwargs: Any) -> list[Argument]:  # noqa: ANN401 - invoke's
        """The arguments, the positional ones of our kind."""
        found = super().get_arguments(*args, **kwargs)
        for argument in found:
            if argument.positional:
                argument.__class__ = LeftOut
        return list(found)


def _complete_context(machine: Any) -> None:  # noqa: ANN401 - invoke's parser
    context = machine.context
    for argument in context.missing_positional_args if context else ():
        if isinstance(argument, LeftOut):
            argument.default = ""
    _COMPLETE(machine)


ParseMachine.complete_context = _complete_context  # type: ignore[method-assign,assignment]
