"""What each knob could gain at most, from the measured division of a call of `default`.

Invariant: a ceiling is an upper bound: the speed-up if a knob removed all of the part that it acts on. A part that was
not measured has no ceiling, and a knob without one is never skipped for it.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace

from fuselight.shared.codec import read_table
from fuselight.shared.report import Kernel, KernelKind, LaunchKind, MeasuredConfiguration, MeasuredLaunch
from fuselight.shared.report.tuned import Knob, KnobBound, Skip
from fuselight.tune.knobs import KNOBS, KnobSetting, Trait, Unsuitable

_ATTENTION = re.compile(r"scaled_dot_product|(flash|efficient|flex|cudnn)_attention|fmha|flash_fwd|flash_bwd")
_DECOMPOSED_ATTENTION = "_safe_softmax"
"""The operator of which torch composes attention, with matrix multiplications, where no attention kernel fits."""
_CONVOLUTION = re.compile(r"conv(?!ert)|implicit_gemm|fprop|dgrad|wgrad")
_MATMUL = re.compile(r"(^|[._:])(addmm|mm|bmm|baddbmm)([._]|$)|linear|matmul|gemm|nvjet|cutlass|splitk")
_LIBRARY = (
    (_ATTENTION, (KnobBound.ATTENTION,)),
    (_CONVOLUTION, (KnobBound.CONVOLUTION, KnobBound.DENSE, KnobBound.LAYOUT)),
    (_MATMUL, (KnobBound.MATMUL, KnobBound.DENSE)),
)
"""Names of library kernels and templates, and the bounds that they belong to; the first match counts."""
_TRITON = re.compile(r"^triton_|cpp_fused")
_OPTIMIZER = re.compile(r"aten::(_foreach_|_fused_|\w+_$)")
"""Operators of an optimizer's step outside of graphs: over lists of parameters, or in place on one parameter."""
_ALWAYS = {
    LaunchKind.COPY: (KnobBound.LAYOUT, KnobBound.KERNELS),
    LaunchKind.INPUTS: (KnobBound.IDLE,),
}
_GENERATED = frozenset({KernelKind.TRITON, KernelKind.CPP, KernelKind.USER_TRITON})
_WORDS = read_table(dict[str, tuple[str, str]], __file__)
"""By bound: what was counted of it, and what it says if there is nothing of it."""
_UNKNOWN_SHARE = 0.1
"""The part of a call that an unknown bound is taken for, for the order of trials."""


@dataclass(frozen=True)
class CallParts:
    """The division of one call by what knobs act on. Parts overlap: a convolution is part of several."""

    us: float
    """One call, microseconds."""
    parts: dict[KnobBound, float]
    """Microseconds, at most `us`; a bound without work is missing."""
    counts: dict[KnobBound, int]
    """Launches that each part consists of."""


def ceilings(
    default: MeasuredConfiguration,
    *,
    noise: float,
    us: float | None = None,
    unsuitable: Callable[[KnobSetting], Unsuitable | None] = lambda _: None,
) -> tuple[Knob, ...]:
    """The bound of every knob of the catalog, largest ceiling first; unknown ceilings and skipped knobs come last.

    `noise` is the relative difference that is lost in the spread of the timings: a knob with a smaller ceiling is
    skipped. `us` is the time of a call that the ceilings refer to, where a faster configuration than `default` is the
    base: its kernels are taken to need what those of `default` need. `unsuitable` says which knobs cannot apply.
    """
    divided = call_parts(default, us=us)
    knobs = [_knob(setting, divided, noise, unsuitable(setting)) for setting in KNOBS]
    return tuple(sorted(knobs, key=lambda knob: (knob.skipped is not None, -(knob.ceiling or 0.0))))


def promise(setting: KnobSetting, knob: Knob) -> float:
    """The speed-up to expect if the knob removes the typical share of its bound. For the order of trials only."""
    part = _UNKNOWN_SHARE if knob.ceiling is None else 1 - 1 / knob.ceiling
    return 1 / (1 - setting.share * part)


def traits(default: MeasuredConfiguration) -> frozenset[Trait]:
    """The traits of a target that its measurement shows; the others are not known here.

    A kernel in eager mode is not among the generated ones: without any, or with breaks, a target may have these traits.
    """
    kernels = [kernel for graph in default.generated for kernel in graph.kernels]
    dtypes = {kernel.dtype for kernel in kernels if kernel.dtype}
    traits = {Trait.FLOAT32} if not dtypes or "f32" in dtypes else set()
    unseen = not kernels or bool(default.graph_breaks)
    texts = [_text_of(kernel) for kernel in kernels]
    if unseen or any(map(_CONVOLUTION.search, texts)):
        traits.add(Trait.CONVOLUTIONS)
    if unseen or _decomposed_attention(default) or any(map(_ATTENTION.search, texts)):
        traits.add(Trait.ATTENTION)
    return frozenset(traits | ({Trait.RECOMPILATIONS} if default.recompiles else set()))


def _text_of(kernel: Kernel) -> str:
    """The names of a kernel and of its operators, in which library kernels are recognized."""
    return " ".join([kernel.name, *(operator.name for operator in kernel.operators)]).lower()


def call_parts(measured: MeasuredConfiguration, *, us: float | None = None) -> CallParts | None:
    """Divide a call; None if it was not profiled or not timed.

    On a GPU the device's clock counts: a profiled call waits longer for the host than a call of a program does.
    `us` is as in `ceilings`.

    Counts are of launches, not of the device kernels that one library call makes. Attention that torch composed of
    multiplications and a softmax has no kernel with that name: its line decides.
    """
    profile, timing = measured.profile, measured.device or measured.wall
    if profile is None or timing is None or profile.wall_us <= 0:
        return None
    if measured.device is not None:
        busy = min(profile.kernel_us, timing.median_us)
    else:  # the profiler slows down kernels and gaps alike
        busy = timing.median_us * profile.kernel_us / profile.wall_us
    us = us or timing.median_us
    launched = sum(launch.us for launch in profile.launches)
    parts: defaultdict[KnobBound, float] = defaultdict(float)
    counts: Counter[KnobBound] = Counter()
    attention = _decomposed_attention(measured)
    for launch in profile.launches:
        kernel = _kernel_of(launch, measured)
        bounds = set(_bounds_of(launch, kernel))
        if kernel is not None and _lines_of(kernel) & attention:
            bounds.add(KnobBound.ATTENTION)
        for bound in bounds:
            parts[bound] += launch.us * busy / launched if launched else 0.0
            counts[bound] += 1 if launch.kind is LaunchKind.KERNEL else max(1, round(launch.count))
    idle = max(0.0, us - busy)
    parts[KnobBound.IDLE] += idle
    counts[KnobBound.IDLE] = sum(max(1, round(launch.count)) for launch in profile.launches)
    parts[KnobBound.CALL] = us
    if KnobBound.OPTIMIZER in parts:
        parts[KnobBound.OPTIMIZER] += idle  # the device may wait for its launches
    if measured.graph_breaks or measured.recompiles:
        parts[KnobBound.BREAKS] += idle  # each break has guards, a wrapper and waits
    else:
        parts.pop(KnobBound.BREAKS, None)
    return CallParts(us, {bound: min(part, us) for bound, part in parts.items()}, dict(counts))


def _decomposed_attention(measured: MeasuredConfiguration) -> set[tuple[str, int]]:
    """Lines that call attention which torch composed of other operators: their kernels are attention's."""
    return {
        (operator.stack[-1].path, operator.stack[-1].line)
        for graph in measured.generated
        for kernel in graph.kernels
        for operator in kernel.operators
        if operator.stack and _DECOMPOSED_ATTENTION in f"{operator.name} {operator.original}"
    }


def _lines_of(kernel: Kernel) -> set[tuple[str, int]]:
    return {
        (operator.stack[-1].path, operator.stack[-1].line) for operator in kernel.operators if operator.stack
    }


def _kernel_of(launch: MeasuredLaunch, measured: MeasuredConfiguration) -> Kernel | None:
    if launch.graph is None or launch.launch is None or launch.graph >= len(measured.generated):
        return None
    kernels = measured.generated[launch.graph].kernels
    return kernels[launch.launch] if launch.launch < len(kernels) else None


def _bounds_of(launch: MeasuredLaunch, kernel: Kernel | None) -> tuple[KnobBound, ...]:
    """Every bound that a launch is a part of."""
    if launch.kind in _ALWAYS:
        return _ALWAYS[launch.kind]
    if launch.kind is LaunchKind.EAGER:
        return (KnobBound.OPTIMIZER if _OPTIMIZER.search(launch.operator) else KnobBound.BREAKS,)
    copies = kernel is not None and kernel.copies
    if _TRITON.search(launch.name) if kernel is None else kernel.kind in _GENERATED:
        return (KnobBound.GENERATED, KnobBound.KERNELS, *[KnobBound.LAYOUT] * copies)
    text = f"{launch.name} {launch.operator} {_text_of(kernel) if kernel is not None else ''}".lower()
    bounds = next((bounds for pattern, bounds in _LIBRARY if pattern.search(text)), ())
    return (*bounds, KnobBound.KERNELS)


def _knob(setting: KnobSetting, divided: CallParts | None, noise: float, reason: Unsuitable | None) -> Knob:
    knob = Knob(setting.name, setting.bound)
    if divided is not None:
        part = divided.parts.get(setting.bound, 0.0)
        ceiling = divided.us / (divided.us - part) if part < divided.us else None
        detail = _WORDS[setting.bound.value][0].format(divided.counts.get(setting.bound, 0))
        knob = replace(knob, bound_us=part, ceiling=ceiling, detail=detail)
    if reason is not None:
        return replace(knob, skipped=reason.skip, detail=reason.detail)
    if knob.bound_us == 0:
        return replace(knob, skipped=Skip.ABSENT, detail=_WORDS[setting.bound.value][1])
    if knob.ceiling is not None and knob.ceiling < 1 + noise:
        return replace(knob, skipped=Skip.NOISE)
    return knob
