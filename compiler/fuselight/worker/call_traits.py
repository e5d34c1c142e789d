"""Effects of a call that no value shows: text, devices and shared memory of outputs; changed attributes.

Invariant: nothing here changes a value. What is read of modules is bounded.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import torch

from fuselight.measure.accuracy.results import elements_of, held_tensors
from fuselight.measure.measured_call import modules_of
from fuselight.target.calls import Prepared
from fuselight.torch_api.measurement import version_of

MEMORY = ", its memory"
"""Suffix of the name of what an output shares its memory with."""
GRADIENT = ", its gradient"
"""Suffix of the name of whether an output or an input requires a gradient."""
_INTERNAL = frozenset(vars(torch.nn.Module()))
"""Attributes that each module has."""
_ATTRIBUTES = 2000
"""Most attributes that are read."""
_LEAVES = 500
"""Most values of one attribute or of all outputs."""
_DEPTH = 8
_ADDRESS = re.compile(r"0x[0-9a-fA-F]{4,}")


def attributes_of(prepared: Prepared) -> Iterator[tuple[str, Any]]:
    """The plain attributes of all modules of a call: no parameters, buffers and submodules."""
    left = _ATTRIBUTES
    for prefix, module in modules_of(prepared):
        for path, one in module.named_modules(prefix=prefix):
            for name, value in list(vars(one).items()):
                if name not in _INTERNAL and left > 0:
                    left -= 1
                    yield (f"{path}.{name}" if path else name), value


class ChangedAttributes:
    """Which tensors and collections among the attributes a call changes. Created before the call."""

    def __init__(self, prepared: Prepared) -> None:
        """Keep what the attributes hold now."""
        self._prepared = prepared
        self._before = {name: _state(value) for name, value in _collections(prepared)}

    def changed(self) -> Iterator[tuple[str, Any]]:
        """The values of the attributes that differ now, collections element by element."""
        for name, value in _collections(self._prepared):
            before, now = self._before.get(name), _state(value)
            if before is None or len(before) != len(now) or not all(map(_is_same, before, now)):
                yield from _leaves(name, value)


def _collections(prepared: Prepared) -> Iterator[tuple[str, Any]]:
    for name, value in attributes_of(prepared):
        if isinstance(value, (torch.Tensor, list, tuple, dict)):
            yield name, value


_State = tuple[str, Any, "int | None"]


def _state(value: object) -> list[_State]:
    return [
        (name, one, version_of(one) if isinstance(one, torch.Tensor) else None)
        for name, one in _leaves("", value)
    ]


def _is_same(before: _State, now: _State) -> bool:
    if before[0] != now[0] or before[2] != now[2]:
        return False
    is_plain = isinstance(now[1], (int, float, str)) and type(before[1]) is type(now[1])
    return before[1] is now[1] or (is_plain and before[1] == now[1])


def _leaves(name: str, value: object) -> list[tuple[str, Any]]:
    """The values of nested collections with their names."""
    found: list[tuple[str, Any]] = []
    waiting = [(name, value, 0)]
    while waiting and len(found) < _LEAVES:
        path, one, depth = waiting.pop(0)
        below = None if isinstance(one, torch.Tensor) or depth >= _DEPTH else elements_of(one)
        if below is None:
            found.append((path, one))
        else:
            waiting += [(f"{path}{suffix}", item, depth + 1) for suffix, item in below]
    return found


def output_traits(prepared: Prepared, outputs: object) -> dict[str, str]:
    """What the values of the outputs do not show, by name."""
    owners: dict[int, list[str]] = {}
    traits = {}
    for name, tensor in held_tensors(prepared):
        address = _address(tensor)
        if name.startswith("input"):
            traits[f"{name}{GRADIENT}"] = _gradient(tensor)
        if address:
            owners.setdefault(address, []).append(name)
    for name, value in _leaves("output", outputs):
        if isinstance(value, (str, bytes)):
            traits[name] = _ADDRESS.sub("0x", repr(value))
        elif value is None:
            traits[name] = "None"
        elif isinstance(value, torch.Tensor):
            traits[name] = f"on {value.device.type}"
            traits[f"{name}{GRADIENT}"] = _gradient(value)
            shared = ", ".join(owners.get(_address(value), ()))
            traits[f"{name}{MEMORY}"] = shared or "no input"
    return traits


def _gradient(tensor: torch.Tensor) -> str:
    return "required" if tensor.requires_grad else "not required"


def _address(tensor: torch.Tensor) -> int:
    """The address of the elements; 0 without any."""
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter) or tensor.layout is not torch.strided:
        return 0
    return 0 if tensor.is_meta else tensor.untyped_storage().data_ptr()
