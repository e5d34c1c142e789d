"""The guards of a compile, to Guards, and the time that one check of them takes.

Invariant: reading guards changes none of them; the latency is measured on the check that each later call makes.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from fuselight import torch_api
from fuselight.dynamo import sources, stacks
from fuselight.report import Guard, Stack

_CHECKS = 5
"""Checks per measurement, the fastest counts: the first fills caches that a running program finds filled."""


@dataclass(frozen=True)
class Births:
    """Where the guards of one cache entry were born, for the day on which they fail."""

    by_code: dict[str, Stack]
    by_source: dict[str, Stack]
    objects: dict[int, str]
    """`id` at compile time of each object that is guarded by identity, to what it was, in words."""


def read_guards(manager: Any, output_graph: Any) -> tuple[tuple[Guard, ...], Births]:
    """The guards of one compile, and the table for when they fail."""
    out = []
    births = Births({}, {}, {})
    for guard in torch_api.guards_of(output_graph):
        stack = stacks.from_summaries(guard.user_stack or ())
        code = tuple(str(part) for part in guard.code_list or ())
        kind, name = guard.create_fn_name(), guard.name
        for part in code:
            births.by_code.setdefault(part, stack)
        if stack:
            births.by_source.setdefault(name, stack)
        _note_object(guard, births.objects)
        source = "" if sources.is_global_state(name) else sources.in_user_words(name)
        out.append(Guard(kind=kind, source=source, code=code, born=stack))
    return tuple(out), births


def _note_object(guard: Any, objects: dict[int, str]) -> None:
    reference = guard.obj_weakref
    value = reference() if callable(reference) else None
    name = getattr(value, "__qualname__", None)
    if isinstance(name, str):
        objects[id(value)] = f"{getattr(value, '__module__', '')}.{name}".lstrip(".").removeprefix(
            "builtins."
        )


def check_latency(manager: Any, output_graph: Any) -> float | None:
    """Microseconds of one full check of the guards, None where they cannot be checked here."""
    scope = torch_api.local_scope(output_graph)
    if scope is None:
        return None
    best = float("inf")
    for _ in range(_CHECKS):
        start = time.perf_counter_ns()
        manager.check(scope)
        best = min(best, time.perf_counter_ns() - start)
    return best / 1000
