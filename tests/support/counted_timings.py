"""Counts what Inductor times."""

from __future__ import annotations

import contextlib
import importlib
import inspect
from collections.abc import Callable, Iterator
from typing import Any

from fuselight.adapters.torch_api.patching import wrapped


@contextlib.contextmanager
def counting_timings() -> Iterator[list[str]]:
    """Count runs of Inductor's benchmarker: the list gets the name of each."""
    module: Any = importlib.import_module("torch._inductor.runtime.benchmarking")
    counted: list[str] = []

    def count(real: Callable[..., Any], *args: Any, **named: Any) -> Any:
        counted.append(real.__qualname__)
        return real(*args, **named)

    with contextlib.ExitStack() as stack:
        for kind in {
            variable
            for variable in vars(module).values()
            if inspect.isclass(variable) and variable.__module__ == module.__name__
        }:
            for name in ("benchmark_cpu", "benchmark_gpu"):
                if name in vars(kind):
                    stack.enter_context(wrapped(kind, name, count))
        yield counted
