"""Rules of accuracy: computes a configuration's errors and a verdict by the rules of torch's benchmark suite.

The rules (benchmarks/dynamo, for a model without an exception of its own): `torch._dynamo.utils.same` of each tensor,
against eager within a tolerance, or no farther from the float64 result than a multiple of eager's own error; without a
float64 result, a cosine similarity of 0.99. One rule is stricter than the suite: without float64 the vector length must
agree within 10%, because an angle does not show a constant factor.

Invariant: non-finite elements are compared by position first, so that a NaN or an infinity excuses no other element.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import overload

import torch

from fuselight.adapters.torch_api.inductor import measurement
from fuselight.measure.accuracy import STATE
from fuselight.measure.accuracy.results import CallResults, Value
from fuselight.shared.report import Accuracy, TensorError

_SHOWN = 20
"""Maximum tensors in an Accuracy, and names in its message."""
_NAMED = 3
_TOLERANCE, _LOOSE_TOLERANCE = 1e-4, 1e-3
_LENGTH = 0.1
_OFF = 0.25
_BETTER = 4e-2
"""The suite's tolerance for a finite result where eager's is not finite."""
_WIDTH = {torch.float32: 1, torch.float64: 2, torch.complex64: 1, torch.complex128: 2}
"""Precision ranks for results of a float64 call. The target may round the last result to float32, but anything narrower
is no reference."""


def compare_results(
    results: CallResults,
    eager: CallResults,
    float64: CallResults | None,
    *,
    training: bool,
    no_float64: str = "",
    device: torch.device | None = None,
) -> Accuracy:
    """Compare a configuration's results with eager's; `no_float64` says why there is no float64 result.

    `device` computes the errors, in float64: on a GPU the gradients of a large model take seconds less. None: the CPU.
    """
    if not eager.values:
        left_out = f" ({', '.join(eager.skipped[:_NAMED])})" if eager.skipped else ""
        return not_compared(
            f"the function returns no tensor{left_out}, has no gradients and changes nothing in place: "
            "there is nothing to compare"
        )
    tolerance = tolerance_of(eager, training=training)
    off = _another_function(eager, float64)
    if off:
        float64, no_float64 = None, off
    there = {value.name: value for value in results.values}
    references = {} if float64 is None else {value.name: value for value in float64.values}
    compared = [
        _compare(
            _on(there[value.name], device),
            _on(value, device),
            _on(references.get(value.name), device),
            tolerance,
        )
        for value in eager.values
        if value.name in there
    ]
    failures = _structure(results, eager) + [
        tensor_comparison.words for tensor_comparison in compared if not tensor_comparison.error.passed
    ]
    floating = [tensor_comparison for tensor_comparison in compared if tensor_comparison.floating]
    doubled = [tensor_comparison for tensor_comparison in floating if tensor_comparison.doubled]
    against = "float64" if doubled else "eager"
    notes = _notes(eager, floating, no_float64)
    return Accuracy(
        passed=not failures,
        why="; ".join([*_bounded(failures), *notes]),
        tolerance=tolerance,
        against=against,
        tensors=tuple(
            tensor_comparison.error
            for tensor_comparison in sorted(
                compared,
                key=lambda tensor_comparison: (tensor_comparison.error.passed, -tensor_comparison.weight),
            )[:_SHOWN]
        ),
        compared=len(compared),
    )


def not_compared(why: str) -> Accuracy:
    """A verdict that says why nothing was compared."""
    return Accuracy(passed=None, why=why)


def is_random(first: CallResults, second: CallResults) -> bool:
    """Whether two eager calls with fresh inputs differ by more than rounding (reference.varies)."""
    if [value.name for value in first.values] != [value.name for value in second.values]:
        return True
    tolerance = tolerance_of(first, training=False)
    return not all(
        torch.equal(value.tensor, two.tensor)
        or _compare(two, value, None, tolerance, exact=True).error.passed
        for value, two in zip(first.values, second.values, strict=True)
    )


def varying(how: str, drawn: Sequence[str] = ()) -> Accuracy:
    """The verdict on a function whose results differ between calls: RANDOM or STATE.

    `drawn` names the functions of torch that draw random numbers, as far as they are known.
    """
    if how == STATE:
        return not_compared(
            "eager's results differ between calls, even with the same random numbers: the target keeps state between "
            "its calls, or its kernels add in another order each time, so there is no reference"
        )
    source = _some(drawn) or "random numbers"
    hint = "set the dropout to 0, or " if any("dropout" in name for name in drawn) else ""
    return not_compared(
        f"eager is nondeterministic ({source}), and the compiled code draws other numbers with the same seed: to "
        f"compare, {hint}draw the numbers outside and pass them in"
    )


def with_note(verdict: Accuracy, note: str) -> Accuracy:
    """The verdict with a further remark."""
    return replace(verdict, why="; ".join(filter(None, (verdict.why, note))))


def tolerance_of(eager: CallResults, *, training: bool) -> float:
    """Relative and absolute tolerance of torch's benchmark suite for results of these dtypes."""
    dtypes = {value.dtype for value in eager.values}
    mixed = "torch.bfloat16" in dtypes and "torch.float32" in dtypes  # as automatic mixed precision produces
    on_gpu = eager.device in {"cuda", "xpu"}
    loose = mixed or "torch.float16" in dtypes or (training and on_gpu)
    return _LOOSE_TOLERANCE if loose else _TOLERANCE


@overload
def _on(value: Value, device: torch.device | None) -> Value: ...


@overload
def _on(value: Value | None, device: torch.device | None) -> Value | None: ...


def _on(value: Value | None, device: torch.device | None) -> Value | None:
    """The value on a device; one tensor at a time has a bounded size."""
    return value if value is None or device is None else replace(value, tensor=value.tensor.to(device))


@dataclass(frozen=True)
class _Compared:
    """The comparison of one tensor."""

    error: TensorError
    words: str
    """Why the tensor failed."""
    floating: bool
    doubled: bool
    """Whether a float64 result was available."""
    weight: float = math.inf
    """Its largest error, as a multiple of the tolerance for its largest element."""


def _compare(
    value: Value, eager: Value, reference: Value | None, tolerance: float, *, exact: bool = False
) -> _Compared:
    """Compare one tensor. `exact`: use the tolerance alone, even without a float64 result."""
    name, floating = eager.name, _is_floating(eager.tensor)
    if value.dtype != eager.dtype or value.shape != eager.shape:
        words = f"{name} is {_kind(value)}, eager's is {_kind(eager)}"
        return _Compared(TensorError(name, None, None, None, passed=False), words, floating, doubled=False)
    ours, theirs = _plain(value.tensor), _plain(eager.tensor)
    double = _usable(reference, eager, theirs)
    kept, words = _by_place(ours, theirs, double)
    target = theirs if double is None else double
    cosine, absolute, relative = _errors(ours, target)
    if not words:
        by_cosine = floating and double is None and not exact
        words = _verdict(ours, theirs, double, kept, tolerance, cosine=by_cosine)
    words = words and f"{name} differs ({words}{_numbers(cosine, absolute, relative)})"
    error = TensorError(name, cosine, absolute, relative, passed=not words)
    weight = _weight(absolute, target, tolerance)
    return _Compared(error, words, floating, doubled=double is not None, weight=weight)


def _verdict(
    ours: torch.Tensor,
    theirs: torch.Tensor,
    double: torch.Tensor | None,
    kept: torch.Tensor | None,
    tolerance: float,
    *,
    cosine: bool,
) -> str:
    """Describe what is wrong; empty if nothing is."""
    if kept is not None:
        ours, theirs, double = ours[kept], theirs[kept], None if double is None else double[kept]
    try:
        passed = measurement.same(theirs, ours, double, tolerance=tolerance, cosine=cosine)
    except RuntimeError:  # a dtype that torch compares only for equality
        passed = torch.equal(theirs, ours)
    if passed and cosine and not torch.allclose(theirs, ours, rtol=tolerance, atol=tolerance):
        length = float(ours.double().norm()) / float(theirs.double().norm())
        return "" if abs(length - 1) <= _LENGTH else "another length"
    if passed:
        return ""
    if double is not None:
        errors = f"{_rmse(ours, double):.3g} from float64, where eager's is {_rmse(theirs, double):.3g}"
        return f"root mean square error {errors}"
    return "below 0.99" if cosine else f"beyond the tolerance of {tolerance:g}"


def _rmse(tensor: torch.Tensor, two: torch.Tensor) -> float:
    return float((tensor.double() - two.double()).square().mean().sqrt())


def _by_place(
    ours: torch.Tensor, theirs: torch.Tensor, double: torch.Tensor | None
) -> tuple[torch.Tensor | None, str]:
    """Compare non-finite elements by position. Returns the elements left to compare (None: all), and a message."""
    if not _is_floating(theirs):
        return None, ""
    finite, eager_finite = ours.isfinite(), theirs.isfinite()
    if bool(finite.all()) and bool(eager_finite.all()):
        return None, ""
    if bool((~finite & eager_finite).any()):
        what = "NaN" if bool((ours.isnan() & eager_finite).any()) else "infinity"
        return None, f"{what} where eager has a number"
    neither = ~finite & ~eager_finite
    equal = (ours == theirs) | (ours.isnan() & theirs.isnan())
    if bool((neither & ~equal).any()):
        return None, "another infinity, or NaN in the place of one"
    better = finite & ~eager_finite
    if bool(better.any()):
        close = double is not None and torch.allclose(
            ours[better].double(), double[better], rtol=_BETTER, atol=_BETTER
        )
        if not close:
            return None, "a number where eager has NaN or infinity"
    return finite & eager_finite, ""


def _errors(ours: torch.Tensor, target: torch.Tensor) -> tuple[float | None, float | None, float | None]:
    """Cosine similarity, largest absolute and largest relative error; equal non-finite elements are ignored."""
    tensor, two = ours.reshape(-1).double(), target.reshape(-1).double()
    left = ~((tensor == two) & ~tensor.isfinite() | (tensor.isnan() & two.isnan()))
    if not bool(left.all()):
        tensor, two = tensor[left], two[left]
    if not tensor.numel():
        return None, None, None
    norms = float(tensor.norm()) * float(two.norm())
    cosine = float(tensor.dot(two)) / norms if norms else None
    difference = (tensor - two).abs()
    nonzero = two != 0
    relative = float((difference[nonzero] / two[nonzero].abs()).max()) if bool(nonzero.any()) else None
    return _number(cosine), _number(float(difference.max())), _number(relative)


def _weight(absolute: float | None, target: torch.Tensor, tolerance: float) -> float:
    """The error relative to the tolerance. Unlike the relative error, it is small for a gradient of pure rounding."""
    finite = target[target.isfinite()].double().abs()
    largest = float(finite.max()) if finite.numel() else 0.0
    return (absolute or 0.0) / (tolerance * (1 + largest))


def _number(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _usable(reference: Value | None, eager: Value, theirs: torch.Tensor) -> torch.Tensor | None:
    """The float64 result if it is usable: no narrower than eager's, of the same shape, and finite where eager is."""
    if reference is None or not _is_floating(eager.tensor) or not _is_floating(reference.tensor):
        return None
    ours, wide = reference.tensor.dtype, torch.promote_types(reference.tensor.dtype, torch.float64)
    enough = max(1, _WIDTH.get(eager.tensor.dtype, 0))
    if (
        _WIDTH.get(ours, 0) < enough
        or reference.shape != eager.shape
        or reference.tensor.shape != eager.tensor.shape
    ):
        return None
    double = _plain(reference.tensor.to(wide))
    return None if bool((~double.isfinite() & theirs.isfinite()).any()) else double


def _plain(tensor: torch.Tensor) -> torch.Tensor:
    """Convert to a dtype that torch compares: pairs of numbers for complex, float32 for 8-bit types."""
    if tensor.is_complex():
        return torch.view_as_real(
            tensor if tensor.dtype is not torch.complex32 else tensor.to(torch.complex64)
        )
    return tensor.float() if tensor.is_floating_point() and tensor.element_size() == 1 else tensor


def _another_function(eager: CallResults, float64: CallResults | None) -> str:
    """Explain a float64 call so far from eager that it computes another function and would excuse every error.

    Checks outputs only: a gradient may be pure rounding.
    """
    references = {value.name: value for value in float64.values} if float64 is not None else {}
    for value in eager.values:
        theirs = _plain(value.tensor)
        double = _usable(references.get(value.name), value, theirs)
        if double is None or not value.name.startswith("output"):
            continue
        finite = theirs.isfinite() & double.isfinite()
        size, error = float(double[finite].norm()), _rmse(theirs[finite], double[finite])
        if finite.any() and error > _OFF * size / math.sqrt(int(finite.sum())) and error > _LOOSE_TOLERANCE:
            return f"the call in float64 gives another {value.name}, off by {error:.3g}"
    return ""


def _is_floating(tensor: torch.Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()


def _structure(results: CallResults, eager: CallResults) -> list[str]:
    """List the results that only one of the two has."""
    ours, theirs = {value.name for value in results.values}, {value.name for value in eager.values}
    lacking = [value.name for value in eager.values if value.name not in ours]
    added = [value.name for value in results.values if value.name not in theirs]
    return [f"eager gives {name}, and this does not" for name in lacking] + [
        f"this gives {name}, and eager does not" for name in added
    ]


def _notes(eager: CallResults, floating: Sequence[_Compared], no_float64: str) -> list[str]:
    """Remarks that a reader of the verdict needs."""
    notes = []
    alone = [tensor_comparison.error.what for tensor_comparison in floating if not tensor_comparison.doubled]
    if alone:
        what = "there is no float64 result" + ("" if len(alone) == len(floating) else f" of {_some(alone)}")
        why = f" ({no_float64})" if no_float64 else ""
        notes.append(f"{what}{why}: compared with eager by cosine similarity (0.99 or more) and length")
    sampled = [value for value in eager.values if value.sampled]
    if sampled:
        numbers = f"{sampled[0].tensor.numel()} of {math.prod(sampled[0].shape)} elements"
        notes.append(f"of {_some([value.name for value in sampled])} a sample was compared ({numbers})")
    if eager.skipped:
        notes.append(f"left out: {_some(list(eager.skipped))}")
    return notes


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def _bounded(failures: Sequence[str]) -> list[str]:
    more = [f"and {len(failures) - _NAMED} more"] if len(failures) > _NAMED else []
    return [*failures[:_NAMED], *more]


def _kind(value: Value) -> str:
    """`torch.float32[3, 4]`."""
    return f"{value.dtype}[{', '.join(map(str, value.shape))}]"


def _numbers(cosine: float | None, absolute: float | None, relative: float | None) -> str:
    """Format the errors as a suffix of a message."""
    named = (("cosine similarity", cosine), ("largest error", absolute), ("relative", relative))
    shown = ", ".join(f"{name} {value:.6g}" for name, value in named if value is not None)
    return f"; {shown}" if shown else ""
