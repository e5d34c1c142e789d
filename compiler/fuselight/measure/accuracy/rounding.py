"""Whether rounding is what makes results differ: by how far eager mode moves when its operators round the other way.

Torch's tolerances are absolute for small values; here an error also counts by the size of the tensor. Invariant:
another dtype or shape is never excused.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import torch

from fuselight.measure.accuracy.results import CallResults, Value
from fuselight.shared.report import Accuracy, TensorError

Noise = Callable[[int], "CallResults | None"]
"""Makes the call in eager mode with other rounding, by a seed (rounding_noise); None if it raises."""
_AS_FAR = 0.25
"""The part of a difference that eager mode has to move by other rounding, for the difference to be rounding."""
_NOISES = 4
"""Calls with other rounding."""
_RELATIVE = {"torch.float32": 1e-4, "torch.float16": 2e-2, "torch.bfloat16": 1e-1}
"""Errors next to the size of a tensor from which on they are looked at, by dtype."""
_TIMES_EAGER = 8
_NAMED = 3
_EDGE = "a value on a rounding edge: eager mode itself gives the other result when its operators round the other way"


def with_rounding(
    verdict: Accuracy,
    compiled: CallResults,
    eager: CallResults,
    noise: Noise,
    compared: CallResults | None = None,
) -> Accuracy:
    """The verdict, passed if other rounding moves eager mode as far wherever compiled code differs.

    `compared`: what compiled code differs from, if that is not eager mode.
    """
    failed = {tensor.what for tensor in verdict.tensors if not tensor.passed}
    expected = {value.name: value for value in (compared or eager).values}
    plain = {value.name: value for value in eager.values}
    ours = {value.name: value for value in compiled.values}
    if not failed or not (failed <= expected.keys() & ours.keys()):
        return verdict
    if any(_kind(ours[name]) != _kind(expected[name]) for name in failed):
        return verdict
    distances = {name: _distance(ours[name], expected[name]) for name in failed}
    moved = dict.fromkeys(failed, 0.0)
    for seed in range(_NOISES):
        results = noise(seed)
        for value in results.values if results is not None else ():
            if value.name in failed & plain.keys():
                moved[value.name] = max(moved[value.name], _distance(value, plain[value.name]))
    if all(moved[name] >= _AS_FAR * distances[name] for name in failed):
        return replace(verdict, passed=True, why="; ".join((_EDGE, *_remarks_of(verdict))))
    return verdict


def with_small_values(
    verdict: Accuracy, compiled: CallResults, eager: CallResults, float64: CallResults | None
) -> Accuracy:
    """The verdict, failed where a tensor of small values is off by far more than eager is, next to its size."""
    there = {value.name: value for value in compiled.values}
    exact = {value.name: value for value in float64.values} if float64 is not None else {}
    off: list[TensorError] = []
    for value in eager.values:
        limit = _RELATIVE.get(value.dtype)
        if limit is None or not {value.name} <= there.keys() & exact.keys():
            continue
        errors = _relative_errors(there[value.name], value, exact[value.name])
        if errors is not None and errors[0] > max(limit, _TIMES_EAGER * errors[1]):
            largest = float(
                (there[value.name].tensor.double() - exact[value.name].tensor.double()).abs().max()
            )
            off.append(TensorError(value.name, None, largest, errors[0], passed=False))
    if not off:
        return verdict
    names = {error.what for error in off}
    words = [
        f"{error.what} is off by {error.relative:.2g} of its root mean square, next to float64"
        for error in off[:_NAMED]
    ]
    others = (error for error in verdict.tensors if error.what not in names)
    return replace(
        verdict, passed=False, why="; ".join((*words, *_remarks_of(verdict))), tensors=(*off, *others)
    )


def _relative_errors(compiled: Value, eager: Value, exact: Value) -> tuple[float, float] | None:
    """Root mean square errors of both next to float64, as parts of its root mean square; None if they have no size."""
    if exact.tensor.dtype is not torch.float64 or compiled.shape != exact.shape or eager.shape != exact.shape:
        return None
    if exact.tensor.shape != compiled.tensor.shape or not bool(exact.tensor.isfinite().all()):
        return None
    size = float(exact.tensor.square().mean().sqrt())
    if not size or not math.isfinite(size):
        return None
    ours, theirs = (
        float((value.tensor.double() - exact.tensor).square().mean().sqrt()) / size
        for value in (compiled, eager)
    )
    return (ours, theirs) if math.isfinite(ours) and math.isfinite(theirs) else None


def _remarks_of(verdict: Accuracy) -> list[str]:
    """The remarks of a verdict, without what failed."""
    return [part for part in verdict.why.split("; ") if part.startswith(("there is no float64", "left out"))]


def _kind(value: Value) -> tuple[str, tuple[int, ...]]:
    return value.dtype, value.shape


def _distance(value: Value, other: Value) -> float:
    """The root mean square difference; infinite where the dtype, or the places of NaN and infinity, differ."""
    if _kind(value) != _kind(other):
        return float("inf")
    ours, theirs = (_flat(known.tensor) for known in (value, other))
    finite = ours.isfinite() & theirs.isfinite()
    places = (ours.isnan() == theirs.isnan()) & (ours.isinf() == theirs.isinf())
    if not bool(places.all()):
        return float("inf")
    if not bool(finite.any()):
        return 0.0
    return float((ours[finite] - theirs[finite]).square().mean().sqrt())


def _flat(tensor: torch.Tensor) -> torch.Tensor:
    wide = torch.view_as_real(tensor.to(torch.complex128)) if tensor.is_complex() else tensor.double()
    return wide.reshape(-1)
