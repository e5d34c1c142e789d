# ruff: noqa: SLF001 - private names are this package's business
"""Has Inductor's compile processes compile what a tuning of launch configurations by coordinate descent times first.

Inductor compiles each of these kernels in the process that times them, one after the other: 0.3 to 0.8 s each next to
other compiles, most of the time of the tuning (docs/internals.md). A compile process compiles them beside those of
other kernels, and the tuning finds them in Triton's cache. Invariant: what is timed, and what is chosen, stays.
"""

from __future__ import annotations

import contextlib
import copy
import importlib
from collections.abc import Callable, Iterator
from typing import Any

from fuselight.torch_api.patching import wrapped

_UNTUNED = ("TEMPLATE", "USER_AUTOTUNE", "FIXED")
"""Kinds of kernels that Inductor does not tune by coordinate descent."""
_MOST_STARTS = 2
"""Configurations of a kernel of which any may be where the descent starts; next to more, most compiles are wasted."""


@contextlib.contextmanager
def compiling_neighbors() -> Iterator[None]:
    """Within the block, compile processes that are forked compile the neighbors of each configuration, too."""
    heuristics: Any = importlib.import_module("torch._inductor.runtime.triton_heuristics")
    with wrapped(heuristics.CachingAutotuner, "precompile", _precompile):
        yield


def _precompile(
    real: Callable[..., Any],
    kernel: Any,
    warm_cache_only: bool = False,  # noqa: FBT001, FBT002 - torch's
    *args: Any,
    **named: Any,
) -> Any:
    found = real(kernel, warm_cache_only, *args, **named)
    if warm_cache_only:  # in a compile process
        for config in neighbors(kernel):
            with contextlib.suppress(Exception):  # the tuning skips it, too
                kernel._precompile_config(config)
    return found


def neighbors(kernel: Any) -> list[Any]:
    """The configurations that a descent from those of a compiled kernel tries first: one number doubled or halved."""
    if not kernel.inductor_meta.get("coordinate_descent_tuning"):
        return []
    if getattr(kernel.heuristic_type, "name", "") in _UNTUNED:
        return []
    starts = [one.config for one in kernel.compile_results]
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
