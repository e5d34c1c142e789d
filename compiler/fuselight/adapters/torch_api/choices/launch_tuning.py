# ruff: noqa: SLF001 - private names are this package's business
"""Inductor's tuning of launch configurations by coordinate descent, in less time.

Inductor tunes each generated kernel at its first launch, and compiles what it times one after the other in that
process: 0.2 to 0.8 s for each configuration, next to other compiles, while its compile processes have nothing to do
(docs/internals.md). Here they compile what the descents of later kernels time first, which those find in Triton's
cache; and kernels that are too small to gain are not tuned. Invariant: what is timed of a kernel that is tuned stays,
and nothing is compiled ahead once the kernels are tuned.
"""

from __future__ import annotations

import contextlib
import copy
import importlib
import math
import os
import re
from collections.abc import Callable, Iterator, Mapping
from concurrent import futures
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fuselight.adapters.torch_api.patching import wrapped

_DESCENT = re.compile(r"'coordinate_descent_tuning': True")
"""What Inductor writes into the source of a kernel that it tunes."""
_UNTUNED = ("TEMPLATE", "USER_AUTOTUNE", "FIXED")
"""Kinds of kernels that Inductor does not tune by coordinate descent."""
_MAX_STARTS = 2
"""Configurations of which the fastest is where the descent starts: with more, most of their neighbors are not timed."""
_SMALL_BYTES = 2 << 20
"""A kernel that moves less takes 2 to 3 us on an H100, most of it for its start: the 195 timings of the kernels of
regnet_b1, nearly all of them small, gained 1%."""
_FEW_ROWS = 256
"""A reduction to fewer results does not fill a GPU, so that its configuration matters whatever it moves."""
_POINTER = re.compile(r"\*[a-z]*(\d+)")
"""A pointer in a kernel's signature, with the bits of an element: `*bf16`, `*i64`, `*fp8e4nv`."""
_END_SECONDS = 5.0
"""Longest wait for what is being compiled ahead when the kernels are tuned."""


@dataclass
class LaunchTuning:
    """The kernels of this process that Inductor tunes by coordinate descent, and what is compiled ahead for them."""

    _waiting: list[tuple[str, str]] = field(default_factory=list)
    """Names and sources of kernels for which nothing is compiled ahead yet."""
    _compiling: list[tuple[futures.Future[None], tuple[str, str]]] = field(default_factory=list)
    """Tasks of compile processes, and the kernel of each."""
    _end: str = ""
    """A file that is there once nothing more is to be compiled ahead; empty before the first task."""
    _ended: bool = False

    @contextlib.contextmanager
    def active(self) -> Iterator[None]:
        """Within the block, compile ahead, and leave small kernels as they are.

        To be entered before the compile processes are forked: they find this module, and the same assembler.
        """
        compile_module: Any = importlib.import_module("torch._inductor.async_compile")
        heuristics: Any = importlib.import_module("torch._inductor.runtime.triton_heuristics")
        _assemble_as_compile_processes()
        with (
            wrapped(compile_module.AsyncCompile, "triton", self._note),
            wrapped(heuristics.CachingAutotuner, "coordinate_descent_tuning", self._tune),
        ):
            yield

    def end(self) -> None:
        """Compile nothing more ahead, and wait for what is being compiled: the kernels are tuned, and timed next."""
        self._ended = True
        tasks = [task for task, _ in self._compiling if not task.cancel()]
        self._waiting.clear()
        self._compiling.clear()
        if tasks:
            with contextlib.suppress(OSError):
                Path(self._end).touch()
            futures.wait(tasks, _END_SECONDS)

    def _note(self, real: Callable[..., Any], compiler: Any, *args: Any, **named: Any) -> Any:
        """A kernel is compiled: it goes before what is compiled ahead of others."""
        self._waiting += [kernel for task, kernel in self._compiling if task.cancel()]
        self._compiling = [(task, kernel) for task, kernel in self._compiling if not task.cancelled()]
        name, source = (
            named[key] if key in named else args[place]
            for place, key in enumerate(("kernel_name", "source_code"))
        )
        if _DESCENT.search(source) and not self._ended:
            self._waiting.append((name, source))
        return real(compiler, *args, **named)

    def _tune(self, real: Callable[..., Any], kernel: Any, launcher: Any, *args: Any, **named: Any) -> Any:
        if self._waiting and not self._ended:
            # The pool may have ended: Inductor compiles by itself then.
            with contextlib.suppress(Exception):
                self._compile_ahead()
        if _is_tuned(kernel) and not is_small(kernel):
            return real(kernel, launcher, *args, **named)
        launcher.config.found_by_coordesc = True  # so that its next launch does not ask again
        return launcher

    def _compile_ahead(self) -> None:
        """Have the compile processes compile for the kernels so far: now, as the kernels themselves are compiled."""
        waiting, self._waiting = self._waiting, []
        compiler: Any = importlib.import_module("torch._inductor.async_compile").AsyncCompile
        pool = compiler.process_pool() if compiler.use_process_pool() else None
        if isinstance(pool, futures.ProcessPoolExecutor):  # others are no forks of this process
            cache: str = importlib.import_module("torch._inductor.runtime.cache_dir_utils").cache_dir()
            self._end = os.path.join(cache, f"tuned-{os.getpid()}")
            self._compiling += [(pool.submit(compile_neighbors, *pair, self._end), pair) for pair in waiting]


def _assemble_as_compile_processes() -> None:
    """Use the assembler of the compile processes: torch has one of its own, and Triton's cache knows its version."""
    tasks: Any = importlib.import_module("torch._inductor.runtime.compile_tasks")
    choose = getattr(tasks, "_set_triton_ptxas_path", None)
    if choose is not None:
        choose()


def compile_neighbors(name: str, source: str, end: str) -> None:
    """In a compile process: compile what the descent of a generated kernel times first, for Triton's cache.

    Ends early once there is a file `end`.
    """
    code: Any = importlib.import_module("torch._inductor.codecache")
    kernel = getattr(code.PyCodeCache.load(source), name)
    for config in () if is_small(kernel) else neighbors(kernel):
        if os.path.exists(end):
            return
        with contextlib.suppress(Exception):  # the descent skips it, too
            kernel._precompile_config(config)


def is_small(kernel: Any) -> bool:
    """Whether a generated kernel moves too few bytes to gain by another launch configuration.

    The bytes are an estimate: each pointer is read or written once for every element of the kernel's sizes. Combined
    kernels have the sizes of one of them, so they are not small; nor are reductions to few results.
    """
    sizes = kernel.size_hints
    if not isinstance(sizes, Mapping) or "combo_grid_meta" in kernel.inductor_meta:
        return False
    results = math.prod(size for name, size in sizes.items() if not name.startswith("r"))
    if results < math.prod(sizes.values()) and results < _FEW_ROWS:
        return False
    width = 0
    for name, kind in kernel.triton_meta.get("signature", {}).items():
        if match := _POINTER.match(str(kind)):
            width += max(1, int(match[1]) // 8) * (2 if str(name).startswith("in_out") else 1)
    return 0 < math.prod(sizes.values()) * width < _SMALL_BYTES


def _is_tuned(kernel: Any) -> bool:
    return getattr(kernel.heuristic_type, "name", "") not in _UNTUNED


def neighbors(kernel: Any) -> list[Any]:
    """The configurations that a descent from those of a kernel times first: one number is larger or smaller."""
    if not kernel.inductor_meta.get("coordinate_descent_tuning") or not _is_tuned(kernel):
        return []
    starts = kernel.configs or [compile_result.config for compile_result in kernel.compile_results]
    if len(starts) > _MAX_STARTS or any(getattr(start, "found_by_coordesc", False) for start in starts):
        return []
    tuning: Any = importlib.import_module("torch._inductor.runtime.coordinate_descent_tuner")
    tuner, configurations = kernel.coordesc_tuner, dict[Any, Any]()
    for start in starts:
        for name in tuner.tunable_fields:
            value = tuning.get_field(start, name)
            for other in tuner.get_neighbour_values(name, value) if value is not None else ():
                config = copy.deepcopy(start)
                tuning.set_field(config, name, other)
                configurations.setdefault(_numbers(config), config)
    is_valid = getattr(tuner, "is_valid_config", lambda _: True)
    known = [*map(_numbers, starts)]
    return [config for numbers, config in configurations.items() if numbers not in known and is_valid(config)]


def _numbers(config: Any) -> tuple[Any, ...]:
    return (*sorted(config.kwargs.items()), config.num_warps, config.num_stages)
