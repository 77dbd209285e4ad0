"""A table of cluster.toml: what all its models have in common."""

from __future__ import annotations

from typing import Any, Final

from pydantic import BaseModel, ConfigDict

_NOTHING: Final[tuple[object, ...]] = (None, (), {})


class Section(BaseModel):
    """A table of cluster.toml: immutable, and every unknown key is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, defer_build=True)

    def stated(self) -> dict[str, Any]:
        """All values as JSON, defaults too, but for those that by default stand for nothing.

        Nothing is None, or no items: so who does not set a new key of that kind has the JSON that
        it had. What is set to no items in place of None is stated.
        """
        return self.model_dump(mode="json", by_alias=True, exclude=_unstated(self))


def _unstated(value: object) -> dict[Any, Any]:
    """The fields of all sections in a value that stand for nothing, as pydantic excludes them."""
    match value:
        case Section():
            fields = type(value).model_fields
            parts = {name: getattr(value, name) for name in fields}
            return {
                name: (fields[name].default in _NOTHING and part == fields[name].default)
                or _unstated(part)
                for name, part in parts.items()
            }
        case dict():
            return {key: _unstated(item) for key, item in value.items()}
        case tuple():
            return dict(enumerate(map(_unstated, value)))
        case _:
            return {}
