"""Effects of a call that no value shows: strides and shared memory of outputs; changed attributes.

Invariant: nothing here changes a value. What is read of modules is bounded.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import torch

from fuselight.adapters.torch_api.inductor.measurement import version_of
from fuselight.adapters.torch_api.storages import storage_address
from fuselight.capture.calls.calls import Prepared
from fuselight.measure.accuracy.results import elements_of, held_tensors
from fuselight.measure.measured_call import modules_of

MEMORY = ", its memory"
"""Suffix of the name of what an output shares its memory with."""
GRADIENT = ", its gradient"
"""Suffix of the name of whether an output or an input requires a gradient."""
STRIDES = ", its strides"
"""Suffix of the name of the strides of an output."""
_INTERNAL = frozenset(vars(torch.nn.Module()))
"""Attributes that each module has."""
_ATTRIBUTES = 2000
"""Most attributes that are read."""
_LEAVES = 500
"""Most values of one attribute or of all outputs."""
_DEPTH = 8
_HOOKS = ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks")


def attributes_of(prepared: Prepared) -> Iterator[tuple[str, Any]]:
    """The plain attributes of all modules of a call: no parameters, buffers and submodules."""
    left = _ATTRIBUTES
    for prefix, module in modules_of(prepared):
        for path, result in module.named_modules(prefix=prefix):
            for name, value in list(vars(result).items()):
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
        (name, result, version_of(result) if isinstance(result, torch.Tensor) else None)
        for name, result in _leaves("", value)
    ]


def _is_same(before: _State, now: _State) -> bool:
    if before[0] != now[0] or before[2] != now[2]:
        return False
    is_plain = isinstance(now[1], (int, float, str)) and type(before[1]) is type(now[1])
    return before[1] is now[1] or (is_plain and before[1] == now[1])


def _leaves(name: str, value: object) -> list[tuple[str, Any]]:
    """The values of nested collections with their names."""
    leaves: list[tuple[str, Any]] = []
    waiting = [(name, value, 0)]
    while waiting and len(leaves) < _LEAVES:
        path, leaf, depth = waiting.pop(0)
        below = None if isinstance(leaf, torch.Tensor) or depth >= _DEPTH else elements_of(leaf, _LEAVES)
        if below is None:
            leaves.append((path, leaf))
        else:
            waiting += [(f"{path}{suffix}", item, depth + 1) for suffix, item in below]
    return leaves


def output_traits(prepared: Prepared, outputs: object) -> dict[str, str]:
    """What the values of tensors do not show, by name: strides, gradients and shared memory."""
    owners: dict[int, list[str]] = {}
    traits = {}
    for name, tensor in held_tensors(prepared):
        address = storage_address(tensor)
        if name.startswith("input"):
            traits[f"{name}{GRADIENT}"] = _gradient(tensor)
        if address:
            owners.setdefault(address, []).append(name)
    for name, value in _leaves("output", outputs):
        if isinstance(value, torch.Tensor):
            traits[f"{name}{STRIDES}"] = _strides(value)
            traits[f"{name}{GRADIENT}"] = _gradient(value)
            shared = ", ".join(owners.get(storage_address(value), ()))
            traits[f"{name}{MEMORY}"] = shared or "no input"
    return traits


def unused_gradients(prepared: Prepared) -> dict[str, bool]:
    """Of each parameter and input that may have a gradient after a call in training, whether it has none."""
    return {
        name: tensor.grad is None
        for name, tensor in held_tensors(prepared)
        if tensor.requires_grad and tensor.is_leaf
    }


def kinds_of(prepared: Prepared) -> dict[str, str]:
    """Which attributes of modules are numbers, and which are tensors."""
    kinds = (
        (name, "a tensor" if isinstance(value, torch.Tensor) else "a number")
        for name, value in attributes_of(prepared)
        if isinstance(value, (int, float, torch.Tensor))
    )
    return {
        **dict(kinds),
        **{name: "a tensor" for name, _ in held_tensors(prepared) if not name.startswith("input ")},
    }


class HookCounts:
    """How often the hooks that the user registered on modules run in a call."""

    def __init__(self, prepared: Prepared) -> None:
        """Count from here on."""
        self.counts: dict[str, int] = {}
        self._undo: list[tuple[dict[int, Any], int, Any]] = []
        for path, module in modules_of(prepared):
            for prefix, value in module.named_modules(prefix=path):
                for kind in _HOOKS:
                    self._count(prefix or "the module", vars(value).get(kind, {}))

    def _count(self, owner: str, hooks: dict[int, Any]) -> None:
        for key, hook in list(hooks.items()):
            name = f"the runs of the hook {getattr(hook, '__name__', '')} of {owner}"
            self._undo.append((hooks, key, hook))
            hooks[key] = self._counting(name, hook)

    def _counting(self, name: str, hook: Any) -> Any:
        @functools.wraps(hook)
        def counted(*args: Any, **kwargs: Any) -> Any:
            self.counts[name] = self.counts.get(name, 0) + 1
            return hook(*args, **kwargs)

        return counted

    def stop(self) -> None:
        """Put the hooks back."""
        for hooks, key, hook in reversed(self._undo):  # a module may have been found below two others
            if key in hooks:  # a hook may remove itself
                hooks[key] = hook


def _strides(tensor: torch.Tensor) -> str:
    """The strides of dimensions with several elements; those of others mean nothing."""
    if (
        type(tensor) not in (torch.Tensor, torch.nn.Parameter)
        or tensor.layout is not torch.strided
        or not tensor.numel()
    ):
        return ""
    return str([step for step, size in zip(tensor.stride(), tensor.shape, strict=True) if size > 1])


def _gradient(tensor: torch.Tensor) -> str:
    return "required" if tensor.requires_grad else "not required"
