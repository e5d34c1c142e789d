"""Changes that would make a training step need less memory: each is tried on fake tensors, and has the peak with it.

Invariant: a change that was not tried is not here, and one that saves nothing says so by its peak.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import torch
from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts

from fuselight.adapters.torch_api.operator_work import OperatorWork
from fuselight.adapters.torch_api.patching import patched
from fuselight.adapters.virtual_gpu.budgets import DEFAULT, BudgetCut, budget_of, forget_compiled
from fuselight.capture.calls.calls import module_of
from fuselight.shared.report import Device, Location, MemoryPeak, MemorySaving, SavingKind
from fuselight.worker.memory.peaks import calling_expression, user_line
from fuselight.worker.memory.steps import Step, StepObserver
from fuselight.worker.verify.eager_mode import eager_mode

BUDGETS = (DEFAULT, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0.0)
_MAX_POINTS = 8
"""Different cuts whose code is generated: each takes as long as the estimate itself."""
_MAX_REGIONS = 6
_COMPILED_REGIONS = 2
_SELECTIVE_REGIONS = 1
_PRODUCTS = (
    "mm", "addmm", "bmm", "baddbmm", "_scaled_dot_product_flash_attention", "_scaled_dot_product_efficient_attention",
    "_scaled_dot_product_cudnn_attention", "_scaled_dot_product_flash_attention_for_cpu",
)  # fmt: skip
"""Operators of ATen whose results a selective policy keeps: they take most time to compute again."""
_LEAST_LEAVES = 2
"""Modules without children in a region: a single operator has nothing to compute again between its ends."""
_SETTINGS = (
    ("torch._functorch.config", "donated_buffer", True),
    ("torch._inductor.config", "inplace_buffers", True),
    ("torch._inductor.config", "allow_buffer_reuse", True),
    ("torch._inductor.config", "reorder_for_peak_memory", True),
    ("torch._inductor.config", "comprehensive_padding", False),
)
"""Settings whose value decides what memory is written again, in what order and with what padding."""
_NAMED = 3
_LEAST_US = 0.1
"""A region is not free, although the time of an operator may not be known."""

Peak = Callable[[], tuple[MemoryPeak | None, str]]
"""The peak of the step, or None and why there is none."""


@dataclass(frozen=True)
class StepPeaks:
    """The step as it is at the time of the call, and as it was without a change."""

    step: Step
    device: Device
    roots: Sequence[str]
    eager: Peak
    compiled: Peak
    eager_before: MemoryPeak | None
    compiled_before: MemoryPeak | None
    is_padded: bool = False
    """Whether compiled code gives a buffer more memory than its elements need."""


@dataclass
class TrialTime:
    """How long changes may be tried."""

    until: float
    """As `time.monotonic()`."""
    show: Callable[[str], None] = lambda _text: None
    """Hears what is being tried."""
    untried: list[str] = field(default_factory=list)
    """Names of the changes for which there was no time."""

    def begins(self, name: str) -> bool:
        """Whether there is time to try a change."""
        if time.monotonic() < self.until:
            self.show(f"trying {name}")
            return True
        self.untried.append(name)
        return False


def tried(peaks: StepPeaks, cuts: Sequence[BudgetCut], trial_time: TrialTime) -> Iterator[MemorySaving]:
    """Try the changes, those first that are expected to save most. `cuts`: of the step without a change."""
    trials: list[_SavingTrial] = []
    points = different_cuts(cuts)
    known: dict[float, int] = {}
    regions = _regions_in_eager(peaks, trial_time)
    if points and peaks.compiled_before is not None:
        base = peaks.compiled_before
        known[points[0].budget] = base.bytes
        yield _saving_of_cut(points[0], base, "")
        for cut in points[1:]:
            less = points[0].saved_bytes - cut.saved_bytes
            name = f"activation_memory_budget = {cut.budget:g}"
            trials.append(
                _SavingTrial(less, cut.us == 0, name, _budget_point(cut, base, peaks.compiled, known))
            )
    trials += _setting_trials(peaks)
    for number, (region, eager, why_not) in enumerate(regions):
        less = peaks.eager_before.bytes - eager.bytes if peaks.eager_before and eager else 0
        if less > 0 and number < _COMPILED_REGIONS:
            again, plain = _compiled_region(region, eager, peaks.compiled), _saving_of_region(region, eager)
            trials.append(
                _SavingTrial(less, region.us == 0, f"checkpoint {region.name}, compiled", again, plain)
            )
        else:
            yield _saving_of_region(region, eager, why_not=why_not)
        if less > 0 and number < _SELECTIVE_REGIONS and region.multiplications:
            name = f"checkpoint {region.name}, which keeps products"
            keeping = _SavingTrial(
                less // 2, is_free=True, name=name, savings=_selective_region(region, peaks)
            )
            trials.append(keeping)
    for trial in sorted(trials, key=lambda trial: (trial.is_free, trial.less), reverse=True):
        if trial_time.begins(trial.name):
            yield from trial.savings
        elif trial.known is not None:
            yield trial.known


class _SavingTrial(NamedTuple):
    """A change whose code is generated if there is time."""

    less: int
    """The bytes that are expected to be kept no longer."""
    is_free: bool
    """Whether no multiplication is computed again."""
    name: str
    savings: Iterator[MemorySaving]
    known: MemorySaving | None = None
    """What is known without it."""


def different_cuts(cuts: Sequence[BudgetCut]) -> list[BudgetCut]:
    """The points of `activation_memory_budget` that differ: those between have the code of the next higher one."""
    if not any(cut.names for cut in cuts):
        return []
    points: dict[tuple[tuple[str, ...], ...], BudgetCut] = {}
    for cut in cuts:
        points.setdefault(tuple(cut.names), cut)
    return list(points.values())[:_MAX_POINTS]


def _budget_point(
    cut: BudgetCut, before: MemoryPeak, peak: Peak, known: dict[float, int]
) -> Iterator[MemorySaving]:
    """Generate the code of one point, unless it cannot need less than one that computes less again.

    When the backward begins, all that is saved is allocated, and what was before the step.
    """
    least = before.before + cut.saved_bytes
    if any(budget > cut.budget and bytes_ <= least for budget, bytes_ in known.items()):
        return
    forget_compiled()
    with budget_of(cut.budget):
        reached, why_not = peak()
    if reached is not None:
        known[cut.budget] = reached.bytes
    yield _saving_of_cut(cut, reached, why_not)


def _saving_of_cut(cut: BudgetCut, reached: MemoryPeak | None, why_not: str) -> MemorySaving:
    return MemorySaving(
        SavingKind.BUDGET,
        f"{cut.budget:g}",
        compiled=reached.bytes if reached is not None else None,
        saved=cut.saved_bytes,
        recomputed=cut.recomputed,
        multiplications=cut.multiplications,
        us=cut.us,
        why_not=why_not,
    )


def _setting_trials(peaks: StepPeaks) -> list[_SavingTrial]:
    """The settings that have another value, and whose effect there is something for."""
    trials = []
    for owner, name, value in _SETTINGS if peaks.compiled_before is not None else ():
        present = getattr(sys.modules.get(owner), name, value)
        if present is not value and (value or peaks.is_padded):
            text = f"{owner}.{name} = {value}"
            trial = _with_setting(owner, name, value, peaks)
            trials.append(_SavingTrial(0, is_free=True, name=text, savings=trial))
    return trials


def _with_setting(owner: str, name: str, value: bool, peaks: StepPeaks) -> Iterator[MemorySaving]:  # noqa: FBT001
    forget_compiled()
    with sys.modules[owner].patch({name: value}):
        compiled, why_not = peaks.compiled()
    reached = compiled.bytes if compiled is not None else None
    yield MemorySaving(SavingKind.SETTING, f"{owner}.{name} = {value}", compiled=reached, why_not=why_not)


@dataclass
class _Region:
    """The modules of a class."""

    name: str
    modules: list[tuple[str, torch.nn.Module]]
    us: float = 0.0
    """The estimated time of a forward of all of them."""
    product_us: float = 0.0
    """Part of it in multiplications and attention."""
    operators: int = 0
    multiplications: int = 0
    location: Location | None = None
    calls: dict[Location, None] = field(default_factory=dict)

    @property
    def label(self) -> str:
        names = [name for name, _ in self.modules]
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        return f"{self.name} ({', '.join(names[:_NAMED])}{more})"


_RegionPeak = tuple[_Region, "MemoryPeak | None", str]
"""Modules, the peak of eager mode with their calls checkpointed, and why there is none."""


def _regions_in_eager(peaks: StepPeaks, trial_time: TrialTime) -> list[_RegionPeak]:
    """Each class of modules with all of its calls checkpointed, in eager mode, which takes seconds: the best first."""
    module = module_of(peaks.step.prepared.function)
    regions = _regions(module) if module is not None else []
    if not regions:
        return []
    _measure_work(peaks.step, regions, peaks.device, peaks.roots)
    results = []
    for region in [region for region in regions if region.operators][:_MAX_REGIONS]:
        if trial_time.begins(f"checkpoint {region.name}"):
            with _checkpointed(region):
                results.append((region, *peaks.eager()))
    return sorted(results, key=lambda result: -_saved_again(peaks.eager_before, result[1], result[0].us))


def _compiled_region(region: _Region, eager: MemoryPeak | None, peak: Peak) -> Iterator[MemorySaving]:
    forget_compiled()
    with _checkpointed(region):
        compiled, why_not = peak()
    yield _saving_of_region(region, eager, compiled, why_not)


def _selective_region(region: _Region, peaks: StepPeaks) -> Iterator[MemorySaving]:
    """The same where results of multiplications are kept, in eager mode and compiled."""
    with _checkpointed(region, keeps_products=True):
        eager, _ = peaks.eager()
        forget_compiled()
        compiled, why_not = peaks.compiled()
    yield replace(
        _saving_of_region(region, eager, compiled, why_not),
        kind=SavingKind.SELECTIVE,
        recomputed=region.operators - region.multiplications,
        multiplications=0,
        us=region.us - region.product_us,
    )


def _saving_of_region(
    region: _Region, eager: MemoryPeak | None, compiled: MemoryPeak | None = None, why_not: str = ""
) -> MemorySaving:
    return MemorySaving(
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


def in_order(savings: Iterable[MemorySaving], before: MemoryPeak | None) -> tuple[MemorySaving, ...]:
    """The order in which they are shown: budgets from the highest on, settings, modules by what their time saves."""

    def rank(saving: MemorySaving) -> tuple[int, float]:
        if saving.kind is SavingKind.BUDGET:
            return 0, -float(saving.name)
        less = before.bytes - saving.eager if before is not None and saving.eager is not None else 0
        return 1 + (saving.kind is not SavingKind.SETTING), -less / max(saving.us, _LEAST_US)

    return tuple(sorted(savings, key=rank))


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
def _checkpointed(region: _Region, *, keeps_products: bool = False) -> Iterator[None]:
    """Inside, each call of the region's modules keeps its inputs alone, and is computed again in the backward.

    `keeps_products`: it also keeps the results of multiplications and of attention.
    """
    options: dict[str, Any] = {"use_reentrant": False}
    if keeps_products:
        kept = [getattr(torch.ops.aten, name).default for name in _PRODUCTS if hasattr(torch.ops.aten, name)]
        options["context_fn"] = functools.partial(create_selective_checkpoint_contexts, kept)
    with contextlib.ExitStack() as stack:
        for _, module in region.modules:

            def recomputing(*args: Any, _forward: Callable[..., Any] = module.forward, **named: Any) -> Any:
                return checkpoint(_forward, *args, **options, **named)

            stack.enter_context(patched(module, "forward", recomputing))
        yield


def _measure_work(step: Step, regions: Sequence[_Region], device: Device, roots: Sequence[str]) -> None:
    """Estimate the forward of each region in one step of eager mode."""
    open_regions: list[_Region] = []

    def count(us: float, *, multiplies: bool) -> None:
        for region in open_regions:
            region.operators += 1
            region.multiplications += multiplies
            region.us += us
            region.product_us += us if multiplies else 0.0

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
            step.make(step.prepared.function, StepObserver())
    finally:
        for handle in handles:
            handle.remove()
