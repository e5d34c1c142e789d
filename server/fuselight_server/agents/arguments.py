"""The arguments of tools: declared once, for the schema that clients get and for the check of what they send.

Invariant: a tool sees only arguments that fit its declaration; whatever does not is an error that names the argument.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fuselight_server.agents.protocol.messages import has_lone_surrogate
from fuselight_server.commands.options import suggestion

_MAX_ITEMS = 256
_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "strings": (list,),
}
_NOUNS = {
    "string": "a string",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "strings": "a list of strings",
}


class ArgumentError(Exception):
    """An argument that does not fit, with what to do."""


@dataclass(frozen=True)
class Argument:
    """An argument of a tool."""

    name: str
    kind: str
    """One of `_TYPES`."""
    description: str
    is_required: bool = False
    default: Any = None
    choices: tuple[str, ...] = ()
    least: int | float | None = None
    most: int | float | None = None

    @property
    def absent(self) -> Any:
        """What tools take if it is not given."""
        return () if self.kind == "strings" else self.default

    def schema(self) -> dict[str, Any]:
        """Its JSON schema."""
        schema: dict[str, Any] = {"type": self.kind, "description": self.description}
        if self.kind == "strings":
            item = {"type": "string", **({"enum": list(self.choices)} if self.choices else {})}
            schema = {**schema, "type": "array", "items": item}
        elif self.choices:
            schema["enum"] = list(self.choices)
        if self.least is not None:
            schema["minimum"] = self.least
        if self.most is not None:
            schema["maximum"] = self.most
        if self.default is not None:
            schema["default"] = self.default
        return schema

    def read(self, value: object) -> Any:
        """The value as tools take it. Raises ArgumentError."""
        is_other = isinstance(value, bool) and self.kind != "boolean"
        if is_other or not isinstance(value, _TYPES[self.kind]):
            raise ArgumentError(f"`{self.name}` is not {_NOUNS[self.kind]}")
        if isinstance(value, list):
            return self._items(value)
        if isinstance(value, str):
            self._check_text(value)
        if isinstance(value, (int, float)) and self.kind != "boolean":
            self._check_range(value)
        return value

    def _items(self, values: list[Any]) -> tuple[str, ...]:
        if not all(isinstance(value, str) for value in values):
            raise ArgumentError(f"`{self.name}` is not a list of strings")
        if len(values) > _MAX_ITEMS:
            raise ArgumentError(f"`{self.name}` has more than {_MAX_ITEMS} items")
        for value in values:
            self._check_text(value)
        return tuple(values)

    def _check_text(self, value: str) -> None:
        if has_lone_surrogate(value):
            raise ArgumentError(
                f"`{self.name}` has a lone surrogate (`\\ud800` to `\\udfff`), which no file can hold. "
                "Send the whole character"
            )
        if self.choices and value not in self.choices:
            known = ", ".join(f"`{choice}`" for choice in self.choices)
            raise ArgumentError(f"`{self.name}` is `{value}`, which is none of {known}")

    def _check_range(self, value: float) -> None:
        is_inside = (self.least is None or value >= self.least) and (self.most is None or value <= self.most)
        if not is_inside:  # a NaN, too
            bounds = [
                f"{word} {bound:g}"
                for word, bound in (("at least", self.least), ("at most", self.most))
                if bound is not None
            ]
            raise ArgumentError(f"`{self.name}` is {value:g}: it has to be {' and '.join(bounds)}")


def input_schema(arguments: Sequence[Argument]) -> dict[str, Any]:
    """The JSON schema of a tool's arguments."""
    return {
        "type": "object",
        "properties": {argument.name: argument.schema() for argument in arguments},
        "required": [argument.name for argument in arguments if argument.is_required],
        "additionalProperties": False,
    }


def read_arguments(declared: Sequence[Argument], given: dict[str, Any]) -> dict[str, Any]:
    """The value of each declared argument. Raises ArgumentError."""
    names = {argument.name: argument for argument in declared}
    for name in given:
        if name not in names:
            known = ", ".join(f"`{name}`" for name in names)
            raise ArgumentError(
                f"there is no argument `{name}`{suggestion(name, names) or '.'} The arguments are {known}"
            )
    values: dict[str, Any] = {}
    for argument in declared:
        value = given.get(argument.name)
        if value is None and argument.is_required:
            raise ArgumentError(f"the argument `{argument.name}` is missing: {argument.description}")
        values[argument.name] = argument.absent if value is None else argument.read(value)
    for argument in declared:
        if argument.is_required and values[argument.name] == ():
            raise ArgumentError(f"`{argument.name}` is an empty list: {argument.description}")
    return values
