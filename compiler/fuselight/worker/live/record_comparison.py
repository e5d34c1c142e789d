"""The comparison of the effects of two calls.

Invariant: values are compared bit by bit first, then by what rounding does (rounding); NaN equals NaN, and equals
nothing else.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import torch

from fuselight.measure.accuracy.results import CHANGED, Value
from fuselight.shared.report import Aspect, Difference
from fuselight.shared.report.verification import OTHER_ORDER
from fuselight.worker.live.call_records import CallRecord
from fuselight.worker.live.call_traits import (
    GRADIENT,
    MEMORY,
    STRIDES,
)
from fuselight.worker.live.rounding import (
    agrees_in_float64,
    is_measured_rounding,
    is_near,
    is_within_tolerance,
    largest_of,
    vanishes,
    vanishing_agree,
)

_SHOWN = 80
_SINGLE, _DOUBLE = "torch.float32", "torch.float64"


@dataclass(frozen=True)
class MeasuredRounding:
    """The same call of the old text in both modes: how far compiling moves its values."""

    eager: CallRecord
    compiled: CallRecord
    is_near: bool = False
    """Whether a difference counts that is only near that: what a comparison in float64 then decides."""

    def explains(self, new: Value, old: Value) -> bool:
        """Whether it explains the distance of two values that have one name, dtype and shape."""
        if self.is_near and old.dtype != _SINGLE:
            return replace(self, is_near=False).explains(new, old)
        eager, compiled = (_value_of(record, old) for record in (self.eager, self.compiled))
        ours, theirs = _flat(new.tensor), _flat(old.tensor)
        if self.is_near and is_near(ours, theirs):
            return True
        if eager is None or compiled is None:
            return False
        moved = _flat(eager.tensor), _flat(compiled.tensor)
        return is_measured_rounding(ours, theirs, *moved, old.dtype, is_near=self.is_near)


def has_float32(record: CallRecord) -> bool:
    """Whether a call gives float32 results, which the same call in float64 can explain."""
    return any(value.dtype == _SINGLE for value in record.results.values)


def agree_in_float64(
    new: CallRecord, old: CallRecord, single: CallRecord, *, vanishing_only: bool = False
) -> bool:
    """Whether each float32 result of a call is the same before and after a change when it is computed in float64.

    `single`: the call as it is. A result that is not float64 then has constants or conversions of float32: no answer.
    `vanishing_only`: whether only the elements of gradients that may be zero but for rounding are looked at.
    """
    if new.raised or old.raised:
        return False
    largest = _largest_gradient(old)
    for value in single.results.values:
        vanishing = _vanishing(value, single)
        is_whole = value.dtype == _SINGLE and not vanishing_only
        if not is_whole and not bool(vanishing.any()):
            continue
        wanted = replace(value, dtype=_DOUBLE)
        ours, theirs = (_value_of(record, wanted) for record in (new, old))
        if ours is None or theirs is None:
            return False
        flat = [_flat(known.tensor) for known in (ours, theirs, value)]
        if not vanishing_agree(flat[0][vanishing], flat[1][vanishing], largest):
            return False
        if is_whole and not agrees_in_float64(*flat):
            return False
    return True


def has_vanishing_gradients(record: CallRecord) -> bool:
    """Whether elements of gradients may be zero but for rounding, which the same call in float64 can show."""
    for value in filter(_is_gradient, record.results.values):
        vanishing = _vanishing(value, record)
        # Single zeros say nothing, as those of the rows of an embedding.
        if bool(vanishing.all()) or bool(_flat(value.tensor)[vanishing].any()):
            return True
    return False


def _vanishing(value: Value, record: CallRecord) -> torch.Tensor:
    """Which elements of a gradient may be zero but for rounding; none of any other value."""
    flat = _flat(value.tensor)
    if not _is_gradient(value):
        return torch.zeros_like(flat, dtype=torch.bool)
    return vanishes(flat, _largest_gradient(record), value.dtype)


def _largest_gradient(record: CallRecord) -> float:
    gradients = filter(_is_gradient, record.results.values)
    return max((largest_of(_flat(value.tensor)) for value in gradients), default=0.0)


def _is_gradient(value: Value) -> bool:
    return _aspect(value.name) is Aspect.GRADIENT and value.tensor.is_floating_point()


def _value_of(record: CallRecord, wanted: Value) -> Value | None:
    """The value of the same name; None if it has another dtype or shape."""
    kind = wanted.name, wanted.dtype, wanted.shape
    return next(
        (value for value in record.results.values if (value.name, value.dtype, value.shape) == kind), None
    )


def compare_records(
    new: CallRecord,
    old: CallRecord,
    *,
    compiled: bool,
    measured: MeasuredRounding | None = None,
    vanish: bool = False,
) -> tuple[Difference, ...]:
    """List the first difference of each aspect.

    `compiled`: `new` ran compiled, so that torch may print more. `measured`: for such a call, the rounding of the old
    text. `vanish`: whether elements of gradients that are near zero in both calls are rounding, which float64 decides.

    Without `measured`, a compiled call would be refused for adding in another order than both calls of the old text. It
    may be twice as far from the old text as the compiled and eager calls of that are from each other, the rule of
    torch's benchmark suite.
    """
    if new.raised != old.raised:
        return (Difference(Aspect.EXCEPTION, _exceptions(new, old)),)
    differences: list[Difference] = []
    if not new.raised:
        differences += _values(new, old, measured, _largest_gradient(old) if vanish else 0.0)
        differences += _described_differences(new, old)
        differences += _gradient_differences(new, old)
        differences += _unused_differences(new, old)
        differences += _kind_differences(new, old)
        differences += () if compiled else _trait_differences(new, old)
    differences += _number_differences(new, old)
    differences += _change_differences(new.reached, old.reached)
    for name in sorted(new.random.keys() & old.random.keys()):
        if new.random[name] != old.random[name]:
            differences.append(Difference(Aspect.RANDOM, f"the state of {name} differs after the call"))
    printed = _first_line_that_differs(old.stdout, new.stdout)
    if not printed and compiled:
        missing = _missing_line(old.stderr, new.stderr)
        printed = f"no longer prints `{missing}`" if missing else ""
    elif not printed:
        printed = _first_line_that_differs(old.stderr, new.stderr)
    if printed:
        differences.append(Difference(Aspect.PRINTED, printed))
    return tuple(_first_of_each_aspect(differences))


def _first_of_each_aspect(differences: list[Difference]) -> Iterator[Difference]:
    """Keep the first real difference of each aspect, else the first that is rounding."""
    kept: dict[Aspect, Difference] = {}
    for difference in sorted(differences, key=lambda difference: difference.rounding):
        kept.setdefault(difference.aspect, difference)
    yield from kept.values()


def _exceptions(new: CallRecord, old: CallRecord) -> str:
    if not new.raised:
        return f"no longer raises {old.raised}"
    raised = f"raises {new.raised}: {new.message}"
    return f"{raised}, instead of {old.raised}" if old.raised else raised


def _values(
    new: CallRecord, old: CallRecord, measured: MeasuredRounding | None, largest_gradient: float
) -> Iterator[Difference]:
    ours = {value.name: value for value in new.results.values}
    theirs = {value.name: value for value in old.results.values}
    numbers = [name for name, kind in old.kinds.items() if kind == "a number"]
    as_number = {f"{owner}{name}{CHANGED}" for name in (*numbers, *old.numbers) for owner in ("", "buffer ")}
    for name, value in theirs.items():
        if name not in ours:
            yield Difference(Aspect.STRUCTURE, f"{name} is missing")
            continue
        difference = _compare_values(ours[name], value, measured, largest_gradient)
        if difference is not None:
            yield difference
    for name in ours:
        if name not in theirs and name not in as_number:
            yield Difference(Aspect.STRUCTURE, f"{name} is new")
    if new.results.skipped != old.results.skipped:
        lists = (", ".join(record.results.skipped) or "none" for record in (old, new))
        yield Difference(Aspect.STRUCTURE, "values of other types were {}, are {}".format(*lists))


def _compare_values(
    new: Value, old: Value, measured: MeasuredRounding | None, largest_gradient: float
) -> Difference | None:
    """Compare one tensor or number; None if every bit is equal, except for the payload of a NaN.

    `largest_gradient`: next to it, elements of gradients that are near zero are rounding.
    """
    aspect = _aspect(old.name)
    if (new.dtype, new.shape) != (old.dtype, old.shape):
        return Difference(Aspect.STRUCTURE, f"{old.name} was {_kind(old)}, is {_kind(new)}")
    ours, theirs = _flat(new.tensor), _flat(old.tensor)
    if torch.equal(ours, theirs) and (
        not ours.is_floating_point() or torch.equal(ours.signbit(), theirs.signbit())
    ):
        return None
    if not ours.is_floating_point():
        return Difference(aspect, _first_element(old, ours, theirs, ours != theirs))
    equal = (ours == theirs) & (ours.signbit() == theirs.signbit()) | ours.isnan() & theirs.isnan()
    if bool(equal.all()):
        return None
    close = is_within_tolerance(ours, theirs, old.dtype) | equal
    if _is_gradient(old) and largest_gradient:
        near_zero = (vanishes(gradient, largest_gradient, old.dtype) for gradient in (ours, theirs))
        close |= functools.reduce(torch.logical_and, near_zero)
    rounding = bool(close.all()) or (measured is not None and measured.explains(new, old))
    return Difference(aspect, _first_element(old, ours, theirs, ~equal if rounding else ~close), rounding)


def _aspect(name: str) -> Aspect:
    if name.startswith("gradient of "):
        return Aspect.GRADIENT
    return Aspect.STATE if name.endswith(CHANGED) else Aspect.OUTPUT


def _flat(tensor: torch.Tensor) -> torch.Tensor:
    """The elements in one dimension: floating-point ones in float64, pairs of numbers for complex ones."""
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor.to(torch.complex128))
    return (tensor.double() if tensor.is_floating_point() else tensor).reshape(-1)


def _first_element(value: Value, ours: torch.Tensor, theirs: torch.Tensor, wrong: torch.Tensor) -> str:
    index = int(wrong.nonzero()[0])
    was, now = (_element(tensor[index]) for tensor in (theirs, ours))
    count, total = int(wrong.sum()), wrong.numel()
    place = ""
    if value.sampled:
        place = "a sampled element "
    elif value.shape:
        place = f"element {list(_position(index * math.prod(value.shape) // total, value.shape))} "
    more = f" ({count:,} of {total:,} differ)" if total > 1 else ""
    return f"{value.name}: {place}was {was}, is {now}{more}"


def _position(index: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The index of an element, by dimension."""
    positions: list[int] = []
    for size in reversed(shape):
        index, last = divmod(index, size)
        positions.append(last)
    return tuple(reversed(positions))


def _element(tensor: torch.Tensor) -> str:
    value = tensor.item()
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _kind(value: Value) -> str:
    dtype = value.dtype.removeprefix("torch.")
    return f"{dtype}[{', '.join(map(str, value.shape))}]" if value.dtype.startswith("torch.") else dtype


def _described_differences(new: CallRecord, old: CallRecord) -> Iterator[Difference]:
    for words in (*old.uncompared, *new.uncompared):
        yield Difference(Aspect.STRUCTURE, f"{words}, which cannot be compared")
    for name in {**old.described, **new.described}:
        was, now = old.described.get(name), new.described.get(name)
        if was != now:
            was, now = ((text or "a number")[:_SHOWN] for text in (was, now))
            yield Difference(Aspect.OUTPUT, f"{name} was {was}, is {now}")


def _gradient_differences(new: CallRecord, old: CallRecord) -> Iterator[Difference]:
    for name in filter(new.traits.__contains__, old.traits):
        was, now = old.traits[name], new.traits[name]
        if name.endswith(GRADIENT) and was != now:
            yield Difference(
                Aspect.GRADIENT, f"the gradient of {name.removesuffix(GRADIENT)} was {was}, is {now}"
            )


def _unused_differences(new: CallRecord, old: CallRecord) -> Iterator[Difference]:
    for name in filter(new.unused.__contains__, old.unused):
        if old.unused[name] != new.unused[name]:
            was, now = ("None" if unused else "zeros" for unused in (old.unused[name], new.unused[name]))
            yield Difference(Aspect.UNUSED_GRADIENT, f"the gradient of {name} was {was}, is {now}")


def _kind_differences(new: CallRecord, old: CallRecord) -> Iterator[Difference]:
    for name in filter(new.kinds.__contains__, old.kinds):
        if old.kinds[name] != new.kinds[name]:
            yield Difference(Aspect.KIND, f"{name} was {old.kinds[name]}, is {new.kinds[name]}")


def _trait_differences(new: CallRecord, old: CallRecord) -> Iterator[Difference]:
    for name in filter(new.traits.__contains__, old.traits):
        was, now = old.traits[name], new.traits[name]
        if was != now and not name.endswith(GRADIENT):
            was, now = was[:_SHOWN], now[:_SHOWN]
            if name.endswith(MEMORY):
                words = f"{name.removesuffix(MEMORY)} shared memory with {was}, and now with {now}"
                yield Difference(Aspect.MEMORY, words)
            else:
                output = name.removesuffix(STRIDES)
                yield Difference(Aspect.STRIDES, f"the strides of {output} were {was}, are {now}")


def _number_differences(new: CallRecord, old: CallRecord) -> Iterator[Difference]:
    buffers = {value.name for value in new.results.values}
    became = {name for name in old.numbers if f"buffer {name}{CHANGED}" in buffers}
    before = {
        name: change for name, change in old.numbers.items() if name in new.numbers or name not in became
    }
    yield from _change_differences(new.numbers, before)


def _change_differences(new: Mapping[str, str], old: Mapping[str, str]) -> Iterator[Difference]:
    for name in {**old, **new}:
        was, now = old.get(name), new.get(name)
        if was == now:
            continue
        words = [change_words(text) for text in (was, now)]
        yield Difference(Aspect.STATE, f"{name} {words[0]} in the old text, {words[1]} in the new text")


def change_words(change: str | None) -> str:
    """`changes by +1`, `becomes a tensor`, `stays as it is` without a change."""
    if not change:
        return "stays as it is"
    return f"changes by {change}" if change[0] in "+-" else f"becomes {change}"


def _first_line_that_differs(old: str, new: str) -> str:
    if old == new:
        return ""
    was, now = old.splitlines(), new.splitlines()
    if was != now and sorted(was) == sorted(now):
        return OTHER_ORDER
    for number in range(max(len(was), len(now))):
        before, after = (lines[number] if number < len(lines) else None for lines in (was, now))
        if before == after:
            continue
        if after is None:
            return f"no longer prints `{_short(before)}`"
        if before is None:
            return f"also prints `{_short(after)}`"
        return f"printed `{_short(before)}`, prints `{_short(after)}`"
    return "prints other line ends"


def _missing_line(old: str, new: str) -> str:
    left = new.splitlines()
    for line in old.splitlines():
        if line not in left:
            return _short(line)
        left.remove(line)
    return ""


def _short(line: str | None) -> str:
    return (line or "")[:_SHOWN]
