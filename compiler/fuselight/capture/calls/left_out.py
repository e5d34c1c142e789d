"""Leaves a function of the user's out of compiled code, as the line `@torch.compiler.disable` above it would, or in.

Invariant: a function is replaced wherever a module or a class has it by name, or nowhere.
"""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import torch

from fuselight.adapters.torch_api.dynamo import targets
from fuselight.capture.calls.cured_calls import CureError
from fuselight.capture.dynamo import stacks
from fuselight.shared.report import CallCure


def leave_out(cure: CallCure) -> bool:
    """Replace the function that the cure names; returns True. Raises CureError if no module and no class has it."""
    members = [(owner, name, value) for owner, name, value in _members() if _is_at(value, cure.left_out)]
    for owner, name, value in members:
        kind = type(value) if isinstance(value, (staticmethod, classmethod)) else None
        disabled: Any = torch.compiler.disable(_plain(value))  # type: ignore[no-untyped-call]
        setattr(owner, name, kind(disabled) if kind is not None else disabled)
    if not members:
        raise CureError("no module and no class has the function by its name")
    return True


def take_in(cure: CallCure) -> bool:
    """Replace the marked functions that the cure names by what torch.compiler.disable got; returns True.

    Raises CureError as `leave_out` does.
    """
    marked = [
        (owner, name, value)
        for owner, name, value in _members()
        if getattr(_plain(value), "__qualname__", "") == cure.value
        and getattr(_plain(value), "_torchdynamo_disable", False)
        and inspect.isfunction(getattr(_plain(value), "__wrapped__", None))
    ]
    for owner, name, value in marked:
        kind = type(value) if isinstance(value, (staticmethod, classmethod)) else None
        wrapped = _plain(value).__wrapped__
        setattr(owner, name, kind(wrapped) if kind is not None else wrapped)
    if not marked:
        raise CureError("no module and no class has the function by its name")
    return True


def _members() -> Iterator[tuple[Any, str, Any]]:
    """What the modules of the user's and the classes in them have, with the owners."""
    waiting: list[Any] = [
        module
        for module in list(sys.modules.values())
        if isinstance(module, ModuleType) and stacks.is_shown(getattr(module, "__file__", None) or "<none>")
    ]
    seen = {id(owner) for owner in waiting}
    while waiting:
        owner = waiting.pop()
        for name, value in list(vars(owner).items()):
            yield owner, name, value
            if isinstance(value, type) and id(value) not in seen and value.__module__ in sys.modules:
                seen.add(id(value))
                waiting.append(value)


def _is_at(value: Any, place: tuple[str, int, int]) -> bool:
    """Whether a value is the function at a place, inside its decorators."""
    plain = _plain(value)
    code = targets.code_of(inspect.unwrap(plain)) if inspect.isfunction(plain) else None
    if code is None or not place[0].endswith(os.path.basename(code.co_filename)):  # the rest reads the file
        return False
    at = stacks.def_location(code)
    return (at.path, at.line) == place[:2]


def _plain(value: Any) -> Any:
    return value.__func__ if isinstance(value, (staticmethod, classmethod)) else value
