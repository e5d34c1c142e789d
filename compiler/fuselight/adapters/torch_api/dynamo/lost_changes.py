# ruff: noqa: SLF001 - private names are this package's business
"""Changes of sets, dicts and random generators that a trace has seen, and that generated code does not make.

Dynamo changes its model of a container while it traces, and generates code that makes the same change once the graph
has run. With torch 2.13 that code is missing for a set of objects and for a subclass of set; for other sets, what
`-=` removes stays, and a dict keeps its order after `move_to_end`. Code that draws from a `random.Random` begins with
the state of the compile in each call, and leaves the state after its first call. Invariant: a change is reported only
if the model differs from the container, and nothing was generated that makes the two equal.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

from fuselight.adapters.torch_api.dynamo import frames
from fuselight.adapters.torch_api.patching import wrapped

_MAX_CHANGES = 64
_MAX_ITEMS = 2000
ADDITION, REMOVAL, ORDER, DRAW = "addition", "removal", "order", "draw"


@dataclass(frozen=True)
class LostChange:
    """One line that changes a container or a generator in eager mode, and not in compiled code."""

    source: str
    """The container or the generator by torch's name: `L['self'].seen`."""
    kind: str
    """ADDITION, REMOVAL, ORDER or DRAW."""
    stack: tuple[Any, ...]
    """The traced frames, outermost first, as `traceback.FrameSummary`."""


@dataclass
class _Container:
    """The model of a container or a generator: its keys or its state before each change, and the line of the change."""

    variable: Any
    before: list[tuple[tuple[Any, ...], tuple[Any, ...]]] = field(default_factory=list)


@dataclass
class ContainerChanges:
    """What one trace has changed."""

    _trace: object = None
    _containers: dict[int, _Container] = field(default_factory=dict)

    def changing(self, side_effects: Any, variable: Any) -> None:
        """A trace is about to change a container or a generator that existed before it."""
        keys = _keys(variable)
        keys = _state(variable) if keys is None else keys
        if keys is None or getattr(variable, "source", None) is None or len(keys) > _MAX_ITEMS:
            return
        trace = _trace_of(side_effects)
        if trace is not self._trace:
            self._trace, self._containers = trace, {}
        container = self._containers.setdefault(id(variable), _Container(variable))
        if len(container.before) < _MAX_CHANGES:
            container.before.append((keys, tuple(frames.user_stack())))

    def lost(self, side_effects: Any, generated: set[int]) -> Iterator[LostChange]:
        """The changes that no generated code makes. `generated`: the `id` of what torch generated code for."""
        if _trace_of(side_effects) is not self._trace or not torch._dynamo.config.replay_side_effects:
            return
        for variable in list(side_effects.id_to_variable.values()):
            model = getattr(variable, "_base_vt", None) or variable
            container = self._containers.get(id(model))
            if container is None or container.variable is not model:
                continue
            name = _name(model.source)
            if _state(model) is not None:
                yield from (LostChange(name, DRAW, stack) for stack in _lost_draws(self._trace, container))
                continue
            kinds = _lost_kinds(side_effects, variable, model, generated)
            yield from (LostChange(name, kind, stack) for kind, stack in _lines(container) if kind in kinds)


def _trace_of(side_effects: Any) -> object:
    reference = getattr(side_effects, "output_graph_weakref", None)
    return side_effects if reference is None else reference()


def _name(source: Any) -> str:
    name = getattr(source, "name", "")
    return str(name() if callable(name) else name)


def _keys(variable: Any) -> tuple[Any, ...] | None:
    """The keys of a model that keeps what its container had; None for any other."""
    items = getattr(variable, "items", None)
    if not isinstance(items, dict) or not isinstance(getattr(variable, "original_items", None), dict):
        return None
    return tuple(items)


def _state(variable: Any) -> tuple[Any, ...] | None:
    """The state of the model of a `random.Random`; None for any other."""
    model = getattr(variable, "random", None)
    return model.getstate() if isinstance(model, random.Random) else None


def _lost_draws(trace: Any, container: _Container) -> Iterator[tuple[Any, ...]]:
    """The lines that draw from the state of the compile in each call: torch keeps that state in the function it calls.

    After a seed that the code sets itself, and where the code puts the state back, eager mode repeats itself too.
    """
    calls = [call[0] for call in getattr(trace, "random_calls", ())]
    if not all(map(inspect.isfunction, calls)):
        return  # torch 2.15 draws from the generator itself
    kept = [inspect.getclosurevars(function).nonlocals.get("state") for function in calls]
    if _state(container.variable) == container.before[0][0]:
        return
    for state, stack in container.before:
        if state not in kept:
            return
        yield stack


def _lost_kinds(side_effects: Any, variable: Any, model: Any, generated: set[int]) -> set[str]:
    before, after = tuple(model.original_items), tuple(model.items)
    if before == after:
        return set()
    if not side_effects.is_modified(variable) or (model is not variable and id(model) not in generated):
        return {ADDITION, REMOVAL, *([] if _is_set(model) else [ORDER])}
    if model.should_reconstruct_all:
        return set()  # the code empties the container first
    return {REMOVAL} if _is_set(model) else {REMOVAL, ORDER}


def _is_set(model: Any) -> bool:
    names = {kind.__name__ for kind in type(model).__mro__}
    return "SetVariable" in names and "OrderedSetVariable" not in names


def _lines(container: _Container) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """The lines that changed a container, and how."""
    ends = [keys for keys, _ in container.before[1:]] + [tuple(container.variable.items)]
    last = tuple(container.variable.items)
    original = tuple(container.variable.original_items)
    for (before, stack), after in zip(container.before, ends, strict=True):
        if any(key in last and key not in original for key in after if key not in before):
            yield ADDITION, stack
        if any(key in original and key not in last for key in before if key not in after):
            yield REMOVAL, stack
        if set(before) == set(after) and before != after:
            yield ORDER, stack


@contextlib.contextmanager
def generated_values(codegen: Any) -> Iterator[set[int]]:
    """Collect the `id` of each value for which a code generator generates code inside the block."""
    generated: set[int] = set()

    def generate(real: Callable[..., Any], self: Any, value: Any, *args: Any, **kwargs: Any) -> Any:
        generated.add(id(value))
        return real(self, value, *args, **kwargs)

    with wrapped(type(codegen), "__call__", generate):
        yield generated


def side_effects_class() -> Any:
    """The class that generates the code of changes; None if this torch has none."""
    with contextlib.suppress(ImportError):
        return getattr(importlib.import_module("torch._dynamo.side_effects"), "SideEffects", None)
    return None
