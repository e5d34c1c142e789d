"""Comparisons of two objects by `is` that a trace makes, of which torch has a guard on one outcome alone.

Two objects that are the same at the compile have a guard that they are. Two that are different have none: a later call
in which they are one object runs the code for different ones. Invariant: no code of the user's runs.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any

from fuselight.adapters.torch_api.dynamo import frames
from fuselight.adapters.torch_api.inductor.artifacts import source_name

COMPARISON = ("torch._dynamo.variables.builtin", "vt_identity_compare")
"""The function with which a trace compares by `is`, where this torch has it."""


@dataclass(frozen=True)
class IdentityCheck:
    """Two objects that a trace compared, and that were different."""

    left: str
    """Where a call has the object, as torch names it: `L['self'].active`."""
    right: str
    stack: tuple[Any, ...]
    """The traced frames, outermost first, as `traceback.FrameSummary`."""


def read_check(left: Any, right: Any) -> IdentityCheck | None:
    """A comparison of torch's models of two objects; None where one is made by the trace, or both are one model."""
    left, right = _looked_at(left), _looked_at(right)
    sources = [getattr(variable, "source", None) for variable in (left, right)]
    if left is right or None in sources:
        return None
    return IdentityCheck(source_name(sources[0]), source_name(sources[1]), tuple(frames.user_stack()))


def comparing_module() -> Any:
    """The module of torch that compares by `is` while it traces; None if this torch has none."""
    module = importlib.import_module(COMPARISON[0])
    return module if hasattr(module, COMPARISON[1]) else None


def _looked_at(variable: Any) -> Any:
    """The model behind one that is lazy."""
    return getattr(getattr(variable, "_cache", None), "vt", None) or variable
