"""Values for the parameters of a call that nobody has given inputs for, as the text of a directive.

Invariant: no user code runs. An annotation decides where it says enough; any other parameter is a tensor.
"""

from __future__ import annotations

import dataclasses
import enum
import inspect
import types
import typing
from collections.abc import Iterable, Mapping
from typing import Any

import torch

EXAMPLE_TENSOR = "f32[4, 8]"
_DEPTH = 3
"""Objects within objects that are written out."""
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_PLAIN: dict[object, str] = {
    int: "8",
    float: "0.5",
    bool: "True",
    str: '"text"',
    complex: "1j",
    torch.dtype: "torch.float32",
    torch.device: "torch.device('cpu')",
}
_CONTAINERS: dict[object, str] = {list: "[{}]", tuple: "({},)", dict: '{{"x": {}}}'}


def example_arguments(parameters: Iterable[inspect.Parameter], names: Mapping[str, Any]) -> list[str]:
    """A text for each parameter that has no default; `names`: those of the file, for annotations that are texts."""
    arguments = []
    for parameter in parameters:
        if parameter.default is inspect.Parameter.empty:
            value = _example_value(parameter.annotation, names, _DEPTH) or EXAMPLE_TENSOR
            if parameter.kind in _POSITIONAL:
                arguments.append(value)
            elif parameter.kind is inspect.Parameter.KEYWORD_ONLY:
                arguments.append(f"{parameter.name}={value}")
    return arguments


def _example_value(annotation: object, names: Mapping[str, Any], depth: int) -> str:
    """A value of an annotated type; empty where a tensor does."""
    if isinstance(annotation, str):
        annotation = names.get(annotation.partition("|")[0].strip())
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        annotation = next(iter(typing.get_args(annotation)), None)
    form = _CONTAINERS.get(typing.get_origin(annotation))
    if form is not None:
        return form.format(_of_last_argument(annotation, names, depth))
    if not inspect.isclass(annotation) or issubclass(annotation, torch.Tensor):
        return ""
    if annotation in _PLAIN:
        return _PLAIN[annotation]
    name = next((name for name, value in names.items() if value is annotation), "")
    if not name or not depth:
        return ""  # the file has no name for it
    if issubclass(annotation, enum.Enum):
        member = next(iter(annotation.__members__), "")
        return f"{name}.{member}" if member else ""
    return f"{name}({', '.join(_example_fields(annotation, names, depth - 1))})"


def _of_last_argument(annotation: object, names: Mapping[str, Any], depth: int) -> str:
    """An item of a container: `8` for `list[int]` and for `dict[str, int]`."""
    items = [argument for argument in typing.get_args(annotation) if argument is not ...]
    return (_example_value(items[-1], names, depth) if items else "") or EXAMPLE_TENSOR


def _example_fields(kind: type, names: Mapping[str, Any], depth: int) -> list[str]:
    """What a constructor cannot do without."""
    if dataclasses.is_dataclass(kind):
        given = [
            (field.name, field.type)
            for field in dataclasses.fields(kind)
            if field.init and field.default is field.default_factory is dataclasses.MISSING
        ]
    else:
        try:
            parameters = list(inspect.signature(kind).parameters.values())
        except (TypeError, ValueError):
            return []
        empty = inspect.Parameter.empty
        stars = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        given = [
            (parameter.name, parameter.annotation)
            for parameter in parameters
            if parameter.default is empty and parameter.kind not in stars
        ]
    return [f"{name}={_example_value(annotation, names, depth) or '8'}" for name, annotation in given]
