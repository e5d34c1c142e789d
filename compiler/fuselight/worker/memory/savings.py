"""Changes that would make a training step need less memory: each is tried on fake tensors, and has the peak with it.

Invariant: a change that was not tried is not here, and one that saves nothing says so by its peak.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils.checkpoint import checkpoint

from fuselight.adapters.torch_api.operator_work import OperatorWork
from fuselight.adapters.virtual_gpu.budgets import (
    DEFAULT,
    BudgetCut,
    budget_of,
    forget_compiled,
    listing_cuts,
)
from fuselight.capture.calls.calls import module_of
from fuselight.shared.report import Device, Location, MemoryPeak, MemorySaving, SavingKind
from fuselight.worker.memory.peaks import calling_expression, user_line
from fuselight.worker.memory.steps import Step, Unobserved
from fuselight.worker.verify.eager_mode import eager_mode

BUDGETS = (DEFAULT, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0.0)
_MAX_POINTS = 8
"""Different cuts whose code is generated: each takes as long as the estimate itself."""
_MAX_REGIONS = 6
_COMPILED_REGIONS = 2
_LEAST_LEAVES = 2
"""Modules without children in a region: a single operator has nothing to compute again between its ends."""
_NAMED = 3
_LEAST_US = 0.1
"""A region is not free, although the time of an operator may not be known."""

Peak = Callable[[], tuple[MemoryPeak | None, str]]
"""The peak of the step, or None and why there is none."""


@dataclass(frozen=True)
class StepPeaks:
    """The step as it is at the time of the call."""

    eager: Peak
    compiled: Peak


def tried(step: Step, device: Device, roots: Sequence[str], peaks: StepPeaks) -> Iterator[MemorySaving]:
    """Try each change, those that are known to torch first."""
    yield from budget_points(device, peaks.compiled)
    yield from checkpoints(step, device, roots, peaks)


def budget_points(device: Device, peak: Peak) -> Iterator[MemorySaving]:
    """The points of `activation_memory_budget` that differ: those between have the code of the next higher one."""
    forget_compiled()
    with listing_cuts(device, BUDGETS) as cuts:
        base, why_not = peak()
    if base is None or not any(cut.names for cut in cuts):
        return
    points: dict[tuple[tuple[str, ...], ...], BudgetCut] = {}
    for cut in cuts:
        points.setdefault(tuple(cut.names), cut)
    for number, cut in enumerate(list(points.values())[:_MAX_POINTS]):
        if number:
            forget_compiled()
            with budget_of(cut.budget):
                base, why_not = peak()
        yield MemorySaving(
            SavingKind.BUDGET,
            f"{cut.budget:g}",
            compiled=base.bytes if base is not None else None,
            saved=cut.saved_bytes,
            recomputed=cut.recomputed,
            multiplications=cut.multiplications,
            us=cut.us,
            why_not=why_not,
        )


@dataclass
class _Region:
    """The modules of a class."""

    name: str
    modules: list[tuple[str, torch.nn.Module]]
    us: float = 0.0
    """The estimated time of a forward of all of them."""
    operators: int = 0
    multiplications: int = 0
    location: Location | None = None
    calls: dict[Location, None] = field(default_factory=dict)

    @property
    def label(self) -> str:
        names = [name for name, _ in self.modules]
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        return f"{self.name} ({', '.join(names[:_NAMED])}{more})"


def checkpoints(step: Step, device: Device, roots: Sequence[str], peaks: StepPeaks) -> Iterator[MemorySaving]:
    """Each class of modules, with all of its calls checkpointed: in eager mode, the best also compiled."""
    module = module_of(step.prepared.function)
    regions = _regions(module) if module is not None else []
    if not regions:
        return
    _measure_work(step, regions, device, roots)
    regions = [region for region in regions if region.operators]
    results = []
    for region in regions[:_MAX_REGIONS]:
        with _checkpointed(region):
            eager, why_not = peaks.eager()
        results.append((region, eager, why_not))
    whole, _ = peaks.eager()
    results.sort(key=lambda result: -_saved_again(whole, result[1], result[0].us))
    lowest = min((eager.bytes for _, eager, _ in results if eager is not None), default=0)
    for number, (region, eager, why_not_eager) in enumerate(results):
        compiled, why_not = None, why_not_eager
        is_compiled = number < _COMPILED_REGIONS or (eager is not None and eager.bytes == lowest)
        if is_compiled and eager is not None:
            forget_compiled()
            with _checkpointed(region):
                compiled, why_not = peaks.compiled()
        yield MemorySaving(
            SavingKind.CHECKPOINT,
            region.label,
            eager=eager.bytes if eager is not None else None,
            compiled=compiled.bytes if compiled is not None else None,
            saved=sum(row.bytes for row in eager.saved) if eager is not None else 0,
            recomputed=region.operators,
            multiplications=region.multiplications,
            us=region.us,
            location=region.location,
            calls=tuple(region.calls),
            why_not=why_not,
        )


def _saved_again(whole: MemoryPeak | None, eager: MemoryPeak | None, us: float) -> float:
    """The bytes that a region takes off the peak for each microsecond that it computes again."""
    if whole is None or eager is None:
        return float("-inf")
    return (whole.bytes - eager.bytes) / max(us, _LEAST_US)


def _regions(root: torch.nn.Module) -> list[_Region]:
    """The classes whose modules can be computed again: not the root, not a container, no single operator."""
    by_class: dict[type, _Region] = {}
    for name, module in root.named_modules():
        kind = type(module)
        leaves = sum(1 for part in module.modules() if not list(part.children()))
        is_container = kind in {torch.nn.ModuleList, torch.nn.ModuleDict}
        if name and leaves >= _LEAST_LEAVES and not is_container:
            by_class.setdefault(kind, _Region(kind.__name__, [])).modules.append((name, module))
    for region in by_class.values():  # a module within another of its class is computed again with it
        inner = {part for _, module in region.modules for part in module.modules() if part is not module}
        region.modules = [(name, module) for name, module in region.modules if module not in inner]
    return list(by_class.values())


@contextlib.contextmanager
def _checkpointed(region: _Region) -> Iterator[None]:
    """Inside, each call of the region's modules keeps its inputs alone, and is computed again in the backward."""
    with contextlib.ExitStack() as stack:
        for _, module in region.modules:
            forward = module.forward
            had_own = "forward" in vars(module)

            def recomputing(*args: Any, _forward: Callable[..., Any] = forward, **named: Any) -> Any:
                return checkpoint(_forward, *args, use_reentrant=False, **named)

            module.forward = recomputing
            stack.callback(_restore, module, forward if had_own else None)
        yield


def _restore(module: torch.nn.Module, own: Callable[..., Any] | None) -> None:
    if own is None:
        del module.forward
    else:
        module.forward = own


def _measure_work(step: Step, regions: Sequence[_Region], device: Device, roots: Sequence[str]) -> None:
    """Estimate the forward of each region in one step of eager mode."""
    open_regions: list[_Region] = []

    def count(us: float, *, multiplies: bool) -> None:
        for region in open_regions:
            region.operators += 1
            region.multiplications += multiplies
            region.us += us

    work = OperatorWork(device, count)
    handles = []
    for region in regions:
        for _, module in region.modules:

            def enter(_module: Any, _inputs: Any, region: _Region = region) -> None:
                region.location = region.location or user_line(tuple(roots))
                call = calling_expression(tuple(roots))
                region.calls |= {call: None} if call is not None else {}
                open_regions.append(region)

            def leave(_module: Any, _inputs: Any, _output: Any) -> None:
                open_regions.pop()

            handles += [module.register_forward_pre_hook(enter), module.register_forward_hook(leave)]
    try:
        with eager_mode(), work:
            step.make(step.prepared.function, Unobserved())
    finally:
        for handle in handles:
            handle.remove()
