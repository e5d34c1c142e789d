"""Whether what a compiled call does is what the same call does in eager mode.

Numbers are judged by the rules of torch's benchmark suite, next to float64. A difference is none of the compiler's if
eager mode itself moves as far when each of its operators rounds the other way (rounding_noise).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch

from fuselight.measure.accuracy import rules
from fuselight.measure.accuracy.results import CallResults, Value
from fuselight.shared.report import Accuracy, Difference
from fuselight.worker.live.call_records import CallRecord
from fuselight.worker.results.other_differences import other_differences

_AS_FAR = 0.25
"""The part of a difference that eager mode has to move by other rounding, for the difference to be rounding."""
_NOISES = 4
"""Calls with other rounding."""
_EAGER_VARIES = (
    "eager's results differ between two calls from the same state: memory that nobody wrote is read, or kernels add in "
    "another order each time"
)
_RANDOM = "the call draws random numbers, and compiled code draws others with the same seed"
_EDGE = "a value on a rounding edge: eager mode itself gives the other result when its operators round the other way"


@dataclass(frozen=True)
class References:
    """What the same call does in eager mode."""

    eager: CallRecord
    again: CallRecord
    float64: CallResults | None
    why_no_float64: str
    is_random: bool
    draws_as_eager: bool
    """Whether compiled code is asked to draw the random numbers of eager mode."""
    noise: Callable[[int], CallRecord]
    """The call with other rounding, by a seed."""


def judged(
    compiled: CallRecord, references: References, *, training: bool
) -> tuple[Accuracy, tuple[Difference, ...]]:
    """The verdict on a compiled call: on its numbers, and on what else it does."""
    eager = references.eager
    others = other_differences(compiled, eager)
    if compiled.raised or eager.raised:
        same = "it raises in eager mode, too" if not others else ""
        return replace(rules.not_compared(same), passed=True if same else None), others
    others = tuple(
        difference for difference in others if difference not in other_differences(references.again, eager)
    )
    varying = _varying(eager.results, references.again.results)
    if varying and len(varying) == len(eager.results.values):
        return rules.not_compared(_EAGER_VARIES), others
    verdict = rules.compare_results(
        _without(compiled.results, varying),
        _without(eager.results, varying),
        references.float64,
        training=training,
        no_float64=references.why_no_float64,
    )
    if not eager.results.values:
        verdict = replace(verdict, passed=True if not others else None)
    is_same_draw = references.draws_as_eager and compiled.random == eager.random
    if verdict.passed is False and references.is_random and not is_same_draw:
        verdict = replace(rules.not_compared(_RANDOM), compared=verdict.compared)
    if verdict.passed is False:
        verdict = _with_rounding(verdict, compiled.results, references)
    if varying:
        verdict = rules.with_note(
            verdict, f"not compared: {', '.join(sorted(varying)[:3])} ({_EAGER_VARIES})"
        )
    return verdict, others


def _varying(eager: CallResults, again: CallResults) -> frozenset[str]:
    """Names of what differs between two calls in eager mode."""
    there = {value.name: value for value in again.values}
    return frozenset(
        value.name
        for value in eager.values
        if value.name not in there or not _is_equal(value, there[value.name])
    )


def _is_equal(value: Value, other: Value) -> bool:
    if (value.dtype, value.shape) != (other.dtype, other.shape):
        return False
    if value.tensor.is_floating_point() or value.tensor.is_complex():
        return torch.allclose(
            value.tensor.to(torch.complex128), other.tensor.to(torch.complex128), equal_nan=True
        )
    return torch.equal(value.tensor, other.tensor)


def _without(results: CallResults, names: frozenset[str]) -> CallResults:
    return replace(results, values=tuple(value for value in results.values if value.name not in names))


def _with_rounding(verdict: Accuracy, compiled: CallResults, references: References) -> Accuracy:
    """The verdict, passed if other rounding moves eager mode as far wherever compiled code differs."""
    failed = {tensor.what for tensor in verdict.tensors if not tensor.passed}
    eager = {value.name: value for value in references.eager.results.values}
    ours = {value.name: value for value in compiled.values}
    if not failed or not (failed <= eager.keys() & ours.keys()):
        return verdict
    distances = {name: _distance(ours[name], eager[name]) for name in failed}
    if any(ours[name].dtype != eager[name].dtype or ours[name].shape != eager[name].shape for name in failed):
        return verdict
    moved: dict[str, float] = dict.fromkeys(failed, 0.0)
    for seed in range(_NOISES):
        record = references.noise(seed)
        if record.raised:
            continue
        for value in record.results.values:
            if value.name in failed:
                moved[value.name] = max(moved[value.name], _distance(value, eager[value.name]))
    if all(moved[name] >= _AS_FAR * distances[name] for name in failed):
        return replace(verdict, passed=True, why="; ".join(filter(None, (_EDGE, *_notes_of(verdict)))))
    return verdict


def _notes_of(verdict: Accuracy) -> list[str]:
    """The remarks of a verdict, without what failed."""
    return [part for part in verdict.why.split("; ") if part.startswith(("there is no float64", "left out"))]


def _distance(value: Value, other: Value) -> float:
    """The root mean square difference; infinite where dtypes or the places of NaN and infinity differ."""
    if (value.dtype, value.shape) != (other.dtype, other.shape):
        return (
            float("inf")
            if value.shape != other.shape
            else _distance(replace(value, dtype=other.dtype), other)
        )
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
