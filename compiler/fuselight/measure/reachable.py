"""Objects that a call can reach: its arguments, and the modules of its target, arguments, globals and closure."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from types import FunctionType
from typing import Any

import torch

from fuselight.target.calls import Prepared, module_of


def modules_of(prepared: Prepared) -> Iterator[tuple[str, torch.nn.Module]]:
    """Yield every module that the call can reach, with its name: the target, arguments, globals, closure."""
    seen: set[int] = set()
    module = module_of(prepared.function)
    named = [("", module)] if module is not None else []
    named += [(name, one) for name, one in arguments_of(prepared) if isinstance(one, torch.nn.Module)]
    named += _referred(prepared.function)
    for name, one in named:
        if id(one) not in seen:
            seen.add(id(one))
            yield name, one


def _referred(function: Any) -> list[tuple[str, torch.nn.Module]]:
    """Modules that a plain function refers to: globals and closure variables."""
    function = inspect.unwrap(getattr(function, "__func__", function))
    if not isinstance(function, FunctionType):
        return []
    found = {name: function.__globals__.get(name) for name in function.__code__.co_names}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        found[name] = _contents(cell)
    return [(name, value) for name, value in found.items() if isinstance(value, torch.nn.Module)]


def _contents(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # an empty closure cell
        return None


def arguments_of(prepared: Prepared) -> Iterator[tuple[str, Any]]:
    """Inputs by name: `input 0`, `input mask`."""
    yield from ((f"input {index}", value) for index, value in enumerate(prepared.args))
    yield from ((f"input {name}", value) for name, value in prepared.kwargs.items())
