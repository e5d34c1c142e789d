"""Reads the guards of a compile and measures how long one check of them takes.

Invariant: reading changes no guard. The latency is that of the same check that each later call makes.
"""

from __future__ import annotations

import collections
import sys
import time
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from fuselight.adapters.torch_api.inductor import artifacts
from fuselight.capture.dynamo import guard_differences, stacks, value_words
from fuselight.capture.dynamo.variable_names import with_variable_names
from fuselight.shared import torch_texts
from fuselight.shared.report import Guard, GuardPlace, Location, Stack

_CHECKS = 5
"""Checks per measurement, the fastest counts: the first fills caches that a running program finds filled."""
_KEPT = 200
"""Guards kept per compile. A 12-layer GPT-2 has 2,969, which are 5 MB of JSON and half a second to decode."""
_CODES = 8
_PLACES = 50
_MACHINERY = frozenset(
    {
        "EMPTY_NN_MODULE_HOOKS_DICT",
        "NOT_PRESENT_IN_GENERIC_DICT",
        "MODULE_MATCH",
        "BUILTIN_MATCH",
        "CLOSURE_MATCH",
        "CLASS_MATCH",
        "DICT_NOT_CONTAINS",
        "HASATTR",
        "TYPE_MATCH",
    }
)
"""Kinds that mostly check the workings of nn.Module and of Python, which nobody changes between two calls."""


@dataclass(frozen=True)
class GuardedOwner:
    """The object that a compiled function belongs to: `self`, or the module that a library's wrapper calls."""

    name: str
    reference: weakref.ref[object]

    def is_other(self, f_locals: Mapping[str, object]) -> bool:
        """Whether the function belongs to another object in a new call."""
        return self.name in f_locals and f_locals[self.name] is not self.reference()


@dataclass(frozen=True)
class Births:
    """Where the guards of one cache entry were created: shown when a guard fails."""

    by_code: dict[str, Stack]
    by_source: dict[str, Stack]
    objects: dict[int, str]
    """`id` at compile time of each object that is guarded by identity, to what it was, in words."""
    paths: set[str]
    """Every file of a stack above: a guard on symbolic shapes names its own by the end of the path alone."""
    owner: GuardedOwner | None = None
    """The object that the compiled function belongs to."""
    inference: set[str] = field(default_factory=set)
    """Sources of the tensors that were inference tensors."""
    metadata: dict[str, str | None] = field(default_factory=dict)
    """What `__tensor_flatten__` of a tensor's own class returned besides tensors, in words, by source."""
    dropped: Stack = ()
    """Where an object that the entry was compiled for was freed."""
    inner_function: tuple[str, Location] | None = None
    """The function that the compiled wrapper called, as Callee has it."""
    lengths: dict[str, int] = field(default_factory=dict)
    """How many keys each dict had whose keys are guarded in their order, by source: no leaf guard says it."""


@dataclass(frozen=True)
class Guards:
    """The guards of one compile as a Report has them."""

    kept: tuple[Guard, ...]
    count: int
    places: tuple[GuardPlace, ...]


@dataclass(frozen=True)
class _Names:
    """The variables of a compiled function."""

    globals: Mapping[str, object]
    local: Mapping[str, object]


def read_guards(manager: Any, output_graph: Any, roots: Sequence[str]) -> tuple[Guards, Births]:
    """The guards of one compile, and the table for when they fail."""
    rows = []
    places: collections.Counter[Stack] = collections.Counter()
    scope = artifacts.local_scope(output_graph) or {}
    names = _Names(artifacts.global_scope(output_graph), scope)
    births = Births({}, {}, {}, set(), _owner(scope), lengths=artifacts.dict_lengths(manager, scope))
    for guard in artifacts.guards_of(output_graph):
        stack = stacks.from_summaries(guard.user_stack or ())
        code = tuple(str(part) for part in guard.code_list or ())
        kind, name = guard.create_fn_name(), artifacts.source_name(guard)
        for part in code:
            births.by_code.setdefault(part, stack)
        if stack:
            births.by_source.setdefault(name, stack)
            places[stack] += 1
            births.paths.update(place.path for place in stack)
        _note_object(guard, births.objects, scope)
        if artifacts.is_inference(guard):
            births.inference.add(name)
        if artifacts.is_subclass(guard) and name not in births.metadata:
            births.metadata[name] = guard_differences.metadata_of(guard.obj_weakref())
        rows.append((kind, name, code, stack))
    kept = sorted(range(len(rows)), key=lambda i: (rows[i][0] in _MACHINERY, i))[:_KEPT]
    guards = tuple(_guard(*rows[index], names=names) for index in sorted(kept))
    return Guards(guards, len(rows), _places(places, roots)), births


def _owner(scope: Mapping[str, object]) -> GuardedOwner | None:
    modules = [name for name, value in scope.items() if isinstance(value, torch.nn.Module)]
    name = "self" if "self" in scope else modules[0] if len(modules) == 1 else None
    if name is None:
        return None
    try:
        return GuardedOwner(name, weakref.ref(scope[name]))
    except TypeError:  # an object without weak references
        return None


def _guard(kind: str, name: str, code: tuple[str, ...], born: Stack, names: _Names) -> Guard:
    source = "" if torch_texts.is_global_state(name) else torch_texts.in_user_words(name)
    source = with_variable_names(source, names.globals, names.local)
    return Guard(
        kind=kind,
        source=source,
        code=code[:_CODES],
        born=tuple(place for place in born if stacks.is_shown(place.path)),
        is_numpy_number=kind == "TENSOR_MATCH" and _is_numpy_number(names.local.get(source)),
    )


def _is_numpy_number(value: object) -> bool:
    """Whether a value is a scalar of NumPy, if that is loaded."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, numpy.generic)


def _places(counts: collections.Counter[Stack], roots: Sequence[str]) -> tuple[GuardPlace, ...]:
    merged: collections.Counter[Stack] = collections.Counter()
    for stack, count in counts.items():
        merged[tuple(place for place in stack if stacks.is_user_code(place.path, roots)) or stack[:1]] += (
            count
        )
    return tuple(GuardPlace(stack, count) for stack, count in merged.most_common(_PLACES))


def _note_object(guard: Any, objects: dict[int, str], scope: Mapping[str, object]) -> None:
    reference = guard.obj_weakref
    value = reference() if callable(reference) else None
    if value is None:  # an enum's member has no weak reference; an argument of the frame can be looked up
        value = scope.get(artifacts.local_name(guard) or "")
    name = None if value is None else value_words.object_name(value)
    if name is None:
        return
    objects[id(value)] = name
    code = getattr(value, "__code__", None)
    if code is not None:  # functions are compared by their code
        objects[id(code)] = name


def check_latency(manager: Any, output_graph: Any) -> float | None:
    """Microseconds of one full check of the guards, None where they cannot be checked here."""
    scope = artifacts.local_scope(output_graph)
    if scope is None:
        return None
    best = float("inf")
    for _ in range(_CHECKS):
        start = time.perf_counter_ns()
        manager.check(scope)
        best = min(best, time.perf_counter_ns() - start)
    return best / 1000
