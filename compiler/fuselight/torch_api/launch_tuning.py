# ruff: noqa: SLF001 - private names are this package's business
"""Inductor's tuning of launch configurations by coordinate descent, in less time.

Inductor tunes each generated kernel at its first launch, and compiles what it times one after the other in that
process: 0.2 to 0.8 s for each configuration, next to other compiles, while its compile processes have nothing to do
(docs/internals.md). Here they compile what the descents of later kernels time first, which those find in Triton's
cache; and kernels that are too small to gain are not tuned. Invariant: what is timed of a kernel that is tuned, and
what is chosen, stays.
"""

from __future__ import annotations

import contextlib
import copy
import importlib
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from fuselight.torch_api.patching import wrapped

_DESCENT = re.compile(r"'coordinate_descent_tuning': True")
"""What Inductor writes into the source of a kernel that it tunes."""
_UNTUNED = ("TEMPLATE", "USER_AUTOTUNE", "FIXED")
"""Kinds of kernels that Inductor does not tune by coordinate descent."""
_MOST_STARTS = 2
"""Configurations of which the fastest is where the descent starts: with more, most of their neighbors are not timed."""
_SMALL_BYTES = 2 << 20
"""A kernel that moves less takes 2 to 3 us on an H100, most of it for its start: the 195 timings of the kernels of
regnet_b1, all of them small, gained 1% (docs/results/tuning.md)."""
_POINTER = re.compile(r"\*[a-z]*(\d+)")
"""A pointer in a kernel's signature, with the bits of an element: `*bf16`, `*i64`."""


@dataclass
class LaunchTuning:
    """The kernels of this process that Inductor tunes by coordinate descent, and what is compiled ahead for them."""

    _waiting: list[tuple[str, str]] = field(default_factory=list)
    """Names and sources of kernels that are compiled, before the first descent."""
    _compiling: list[Any] = field(default_factory=list)
    """Tasks of compile processes."""

    @contextlib.contextmanager
    def active(self) -> Iterator[None]:
        """Within the block, compile ahead, and leave small kernels as they are.

        The compile processes are to be forks of this process, which find this module.
        """
        compile_module: Any = importlib.import_module("torch._inductor.async_compile")
        heuristics: Any = importlib.import_module("torch._inductor.runtime.triton_heuristics")
        with (
            wrapped(compile_module.AsyncCompile, "triton", self._note),
            wrapped(heuristics.CachingAutotuner, "coordinate_descent_tuning", self._tune),
        ):
            yield

    def end(self) -> None:
        """Compile nothing more ahead: the kernels are tuned."""
        for task in self._compiling:
            task.cancel()
        self._compiling.clear()
        self._waiting.clear()

    def _note(self, real: Callable[..., Any], compiler: Any, *args: Any, **named: Any) -> Any:
        name, source = (
            named[key] if key in named else args[place]
            for place, key in enumerate(("kernel_name", "source_code"))
        )
        if _DESCENT.search(source):
            self._waiting.append((name, source))
        return real(compiler, *args, **named)

    def _tune(self, real: Callable[..., Any], kernel: Any, launcher: Any, *args: Any, **named: Any) -> Any:
        self._compile_ahead()
        if is_small(kernel):
            launcher.config.found_by_coordesc = True  # so that its next launch does not ask again
            return launcher
        return real(kernel, launcher, *args, **named)

    def _compile_ahead(self) -> None:
        """Have the compile processes compile for the kernels so far: now, as the kernels themselves are compiled."""
        waiting, self._waiting = self._waiting, []
        compiler: Any = importlib.import_module("torch._inductor.async_compile").AsyncCompile
        if waiting and compiler.use_process_pool():
            pool = compiler.process_pool()
            self._compiling += [pool.submit(compile_neighbors, name, source) for name, source in waiting]


def compile_neighbors(name: str, source: str) -> None:
    """In a compile process: compile what the descent of a generated kernel times first, for Triton's cache."""
    code: Any = importlib.import_module("torch._inductor.codecache")
    kernel = getattr(code.PyCodeCache.load(source), name)
    for config in () if is_small(kernel) else neighbors(kernel):
        with contextlib.suppress(Exception):  # the descent skips it, too
            kernel._precompile_config(config)


def is_small(kernel: Any) -> bool:
    """Whether a generated kernel moves too few bytes to gain by another launch configuration.

    The bytes are an upper bound: each pointer is read or written for every element of the kernel's sizes.
    """
    sizes = kernel.size_hints
    if not isinstance(sizes, Mapping):
        return False
    pointers = (_POINTER.fullmatch(str(one)) for one in kernel.triton_meta.get("signature", {}).values())
    width = sum(max(1, int(one[1]) // 8) for one in pointers if one)
    return 0 < math.prod(sizes.values()) * width < _SMALL_BYTES


def neighbors(kernel: Any) -> list[Any]:
    """The configurations that a descent from those of a kernel times first: one number doubled or halved."""
    if not kernel.inductor_meta.get("coordinate_descent_tuning"):
        return []
    if getattr(kernel.heuristic_type, "name", "") in _UNTUNED:
        return []
    starts = kernel.configs or [one.config for one in kernel.compile_results]
    if len(starts) > _MOST_STARTS or any(getattr(one, "found_by_coordesc", False) for one in starts):
        return []
    tuning: Any = importlib.import_module("torch._inductor.runtime.coordinate_descent_tuner")
    tuner, found = kernel.coordesc_tuner, dict[Any, Any]()
    for start in starts:
        for name in tuner.tunable_fields:
            value = tuning.get_field(start, name)
            for other in tuner.get_neighbour_values(name, value) if value is not None else ():
                config = copy.deepcopy(start)
                tuning.set_field(config, name, other)
                found.setdefault(_numbers(config), config)
    return [config for numbers, config in found.items() if numbers not in map(_numbers, starts)]


def _numbers(config: Any) -> tuple[Any, ...]:
    return (*sorted(config.kwargs.items()), config.num_warps, config.num_stages)
