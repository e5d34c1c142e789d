"""Values of the user's program in few words. Invariant: no text is longer than a line, and no address is in it."""

from __future__ import annotations

import collections
import enum
import re

import torch

_SHORT = 80
_ADDRESS = re.compile(r"^<.* at 0x[0-9a-fA-F]+>$", re.DOTALL)
_LARGE = (torch.Tensor, torch.nn.Module, list, tuple, dict, set, frozenset)
"""What a line has no place for inside a container."""


def short(value: object) -> str:
    """A value in few words: shapes for tensors, names for functions and classes, a bounded repr for the rest."""
    if isinstance(value, torch.Tensor):
        return f"a {str(value.dtype).removeprefix('torch.')} tensor of shape {list(value.shape)}"
    if isinstance(value, torch.nn.Module):
        return f"a {type(value).__name__}"
    name = object_name(value)
    if name is not None:
        return name
    if isinstance(value, (list, tuple, dict, set, frozenset, collections.deque)):
        items = value.values() if isinstance(value, dict) else value
        if len(value) > 4 or any(isinstance(item, _LARGE) for item in items):  # noqa: PLR2004 - more do not fit a line
            return f"a {type(value).__name__} of {len(value)}"
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - the user's __repr__
        text = object.__repr__(value)
    if _ADDRESS.search(text):  # which no reader knows, and which differs in each run
        return f"a {kind_name(value)}"
    return text if len(text) <= _SHORT and "\n" not in text else f"{text.splitlines()[0][: _SHORT - 3]}..."


def object_name(value: object) -> str | None:
    """The name of an object that is guarded by identity; None if it has no name."""
    if isinstance(value, enum.Enum):
        return str(value)
    qualname = getattr(value, "co_qualname", None) or getattr(value, "__qualname__", None)
    if not isinstance(qualname, str):
        name = getattr(value, "co_name", None)
        return name if isinstance(name, str) else None
    if qualname.startswith("_VariableFunctionsClass."):
        return f"torch.{qualname.partition('.')[2]}"
    return _as_in_source(getattr(value, "__module__", None), qualname)


def _as_in_source(module: str | None, qualname: str) -> str:
    """`make_net.<locals>.Net` as `Net`, the name that the function itself has for it."""
    *outer, name = qualname.split("<locals>.")
    return name if outer or module in {None, "builtins", "__main__"} else f"{module}.{name}"


def kind_name(value: object) -> str:
    """The type of a value, as `list` or `torch.nn.modules.linear.Linear`."""
    return _as_in_source(type(value).__module__, type(value).__qualname__)


def full_kind(value: object) -> str:
    """The type of a value as the text of a guard on it has it: `__main__.make_net.<locals>.Net`."""
    return f"{type(value).__module__}.{type(value).__qualname__}"
