"""Whether rounding is what makes results differ: by how far eager mode moves when its operators round the other way.

Invariant: another dtype or shape is never excused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch

from fuselight.measure.accuracy.results import CallResults, Value
from fuselight.shared.report import Accuracy

Noise = Callable[[int], "CallResults | None"]
"""Makes the call in eager mode with other rounding, by a seed (rounding_noise); None if it raises."""
_AS_FAR = 0.25
"""The part of a difference that eager mode has to move by other rounding, for the difference to be rounding."""
_NOISES = 4
"""Calls with other rounding."""
_EDGE = "a value on a rounding edge: eager mode itself gives the other result when its operators round the other way"


def with_rounding(verdict: Accuracy, compiled: CallResults, eager: CallResults, noise: Noise) -> Accuracy:
    """The verdict, passed if other rounding moves eager mode as far wherever compiled code differs."""
    failed = {tensor.what for tensor in verdict.tensors if not tensor.passed}
    expected = {value.name: value for value in eager.values}
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
            if value.name in failed:
                moved[value.name] = max(moved[value.name], _distance(value, expected[value.name]))
    if all(moved[name] >= _AS_FAR * distances[name] for name in failed):
        return replace(verdict, passed=True, why="; ".join((_EDGE, *_remarks_of(verdict))))
    return verdict


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
