"""Times generated kernels alone, one after the other, with nothing between them.

Invariant: an isolated time uses the arguments of a real call, which are recorded without changing what it computes. It
never replaces the in-run time, which includes the cache state and adjacent kernels of the program.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch

from fuselight.adapters.torch_api.patching import patched
from fuselight.capture.inductor import Compilation
from fuselight.measure import steady_state, timing
from fuselight.shared.report import Clock, GeneratedGraph, Profile

_SECONDS = 0.05
"""Seconds per kernel."""
_ROUNDS = 3


_Launch = tuple[str, Callable[[], object]]
"""A generated kernel's name, and a function that launches it again with the same arguments; what the launch changes in
place, it changes again."""


class _RecordedKernel:
    """Replaces a kernel: records each launch and forwards it."""

    def __init__(self, name: str, kernel: Any, note: Callable[[_Launch], None]) -> None:
        self._name, self._kernel, self._note = name, kernel, note

    def __getattr__(self, name: str) -> Any:
        return getattr(self._kernel, name)

    def __call__(self, *args: Any, **named: Any) -> Any:
        """A C++ kernel is called."""
        return self._launch(self._kernel, args, named)

    def run(self, *args: Any, **named: Any) -> Any:
        """A Triton kernel is run."""
        return self._launch(self._kernel.run, args, named)

    def _launch(self, launch: Callable[..., Any], args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        self._note((self._name, lambda: launch(*args, **named)))
        return launch(*args, **named)


def isolated_times(
    compilations: tuple[Compilation, ...],
    call: Callable[[], object],
    device: torch.device,
    *,
    cold_cache: bool,
) -> dict[tuple[int, int], float]:
    """Microseconds of each generated kernel by (graph, launch); graphs are numbered across all compilations.

    Makes one `call` to capture the launches. A graph that is replayed as a CUDA graph launches no kernel individually.
    """
    graphs = [graph for compilation in compilations for graph in compilation.graphs]
    modules = [module for compilation in compilations for module in compilation.modules]
    taken: dict[int, list[_Launch]] = {}
    with contextlib.ExitStack() as stack:
        seen: set[int] = set()  # equal graphs share a module: the first one has its launches
        for position, (graph, module) in enumerate(zip(graphs, modules, strict=True)):
            if module is not None and id(module) not in seen:
                seen.add(id(module))
                taken[position] = []
                names = {kernel.name for kernel in graph.kernels if kernel.text_key is not None}
                for name in names & vars(module).keys():
                    kernel = _RecordedKernel(name, vars(module)[name], taken[position].append)
                    stack.enter_context(patched(module, name, kernel))
        call()
    return {
        (position, launch): _alone(again, device, cold_cache=cold_cache)
        for position, launches in taken.items()
        for launch, again in _by_launch(graphs[position], launches).items()
    }


def _by_launch(graph: GeneratedGraph, taken: Sequence[_Launch]) -> dict[int, Callable[[], object]]:
    """The launches of a graph's first run by number: launches of one name follow the wrapper's order."""
    waiting: dict[str, list[int]] = {}
    for kernel in graph.kernels:
        if kernel.text_key is not None:
            waiting.setdefault(kernel.name, []).append(kernel.launch)
    launch: dict[int, Callable[[], object]] = {}
    for name, again in taken:
        if waiting.get(name):
            launch[waiting[name].pop(0)] = again
    return launch


def _alone(again: Callable[[], object], device: torch.device, *, cold_cache: bool) -> float:
    first = timing.once(lambda: again, device)
    calls = steady_state.calls_of_round(first, seconds=_SECONDS, rounds=_ROUNDS)
    clock = Clock.DEVICE if device.type == "cuda" else Clock.WALL
    rounds = [
        timing.round_of(lambda: again, calls, device, cold_cache=cold_cache, fresh=False)[clock].us
        for _ in range(_ROUNDS)
    ]
    steady_timing = steady_state.timing(clock, rounds, _ROUNDS * calls)
    return steady_timing.median_us if steady_timing is not None else first


def with_isolated(profile: Profile, times: dict[tuple[int, int], float]) -> Profile:
    """Add the isolated time of each kernel to the profile."""
    launches = tuple(
        replace(launch, isolated_us=times.get((launch.graph, launch.launch)))
        if launch.graph is not None and launch.launch is not None
        else launch
        for launch in profile.launches
    )
    return replace(profile, launches=launches)
