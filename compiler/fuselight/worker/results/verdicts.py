"""Whether what a compiled call does is what the same call does in eager mode.

Numbers are judged by the rules of torch's benchmark suite, next to float64. A difference is none of the compiler's if
eager mode itself moves as far when each of its operators rounds the other way (rounding_noise).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch

from fuselight.adapters.torch_api.dynamo import errors
from fuselight.measure.accuracy import rules
from fuselight.measure.accuracy.results import CallResults, Value
from fuselight.measure.accuracy.rounding import with_rounding, with_small_values
from fuselight.shared.report import Accuracy, Difference
from fuselight.worker.live.call_records import CallRecord
from fuselight.worker.results.other_differences import other_differences

_EAGER_VARIES = (
    "eager's results differ between two calls: memory that nobody wrote is read, kernels add in another order each "
    "time, or the call keeps state that cannot be put back, as in a cache of functools"
)
_RANDOM = "the call draws random numbers, and compiled code draws others with the same seed"
_OTHER_DRAWS = "the call in float64 draws other random numbers"
_SAME_DRAW = 0.05
"""Of the size of a result: farther than that is no rounding, even in bfloat16."""
_NO_MEMORY = frozenset({"MemoryError", "OutOfMemoryError"})
_NO_MEMORY_WORDS = ("DefaultCPUAllocator", "out of memory")
"""In a message of torch, whose exception for the memory of the CPU has no type of its own."""


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
    compared: CallRecord | None = None
    """What the call is compared with in place of eager mode: what it does in another configuration."""
    changed_caches: tuple[str, ...] = ()
    """Functions whose caches of functools eager mode changes, and compiled code does not."""

    def other_rounding(self, seed: int) -> CallResults | None:
        """The results of the call with other rounding; None if it raises."""
        record = self.noise(seed)
        return None if record.raised else record.results


def judged(
    compiled: CallRecord, references: References, *, training: bool
) -> tuple[Accuracy, tuple[Difference, ...]]:
    """The verdict on a compiled call: on its numbers, and on what else it does."""
    eager = references.eager
    expected = references.compared or eager
    others = other_differences(compiled, expected)
    if compiled.raised or expected.raised:
        why = _why_undecided(compiled, expected)
        if why:
            return rules.not_compared(why), ()
        same = "it raises in eager mode, too" if not others else ""
        return replace(rules.not_compared(same), passed=True if same else None), others
    others = tuple(
        difference for difference in others if difference not in other_differences(references.again, eager)
    )
    varying = varying_names(eager.results, references.again.results)
    if varying and len(varying) == len(eager.results.values):
        return rules.not_compared(_EAGER_VARIES), others
    float64, why_none = references.float64, references.why_no_float64
    if references.is_random and float64 is not None and not is_near(eager.results, float64, _SAME_DRAW):
        float64, why_none = None, _OTHER_DRAWS  # any numbers are as near to them as eager's
    verdict = rules.compare_results(
        without_names(compiled.results, varying),
        without_names(expected.results, varying),
        float64,
        training=training,
        no_float64=why_none,
    )
    if not eager.results.values:
        verdict = replace(verdict, passed=True if not others else None)
    elif verdict.passed:
        verdict = with_small_values(verdict, compiled.results, expected.results, float64)
    if references.is_random and _is_other_draw(verdict, compiled, references):
        verdict = replace(rules.not_compared(_RANDOM), compared=verdict.compared)
    if verdict.passed is False:
        verdict = with_rounding(
            verdict, compiled.results, eager.results, references.other_rounding, expected.results
        )
    if varying:
        verdict = rules.with_note(
            verdict, f"not compared: {', '.join(sorted(varying)[:3])} ({_EAGER_VARIES})"
        )
    return verdict, others


def _is_other_draw(verdict: Accuracy, compiled: CallRecord, references: References) -> bool:
    """Whether a verdict on a call that draws random numbers is one on numbers that differ anyway."""
    if references.draws_as_eager and compiled.random == references.eager.random:
        return False
    return verdict.passed is False or not is_near(
        references.eager.results, compiled.results, verdict.tolerance or 0.0
    )


def is_near(results: CallResults, others: CallResults, part: float) -> bool:
    """Whether each value that both have is within a part of its size."""
    there = {value.name: value for value in others.values}
    return all(
        value.tensor.shape == there[value.name].tensor.shape
        and _distance(value.tensor, there[value.name].tensor) <= part
        for value in results.values
        if value.name in there
    )


def _distance(ours: torch.Tensor, theirs: torch.Tensor) -> float:
    """The root mean square difference of finite elements, by the size of the expected ones."""
    mine, other = (tensor.detach().to(torch.complex128).reshape(-1) for tensor in (ours, theirs))
    finite = mine.isfinite() & other.isfinite()
    if not bool(finite.any()):
        return 0.0
    far = float((mine - other)[finite].abs().square().mean().sqrt())
    size = float(other[finite].abs().square().mean().sqrt())
    return far / size if size else far


def _why_undecided(compiled: CallRecord, eager: CallRecord) -> str:
    """Why exceptions show nothing of the results: a lack of memory, a compile that fails; empty if they do."""
    for record in (compiled, eager):
        if record.raised in _NO_MEMORY or any(words in record.message for words in _NO_MEMORY_WORDS):
            return f"there is not enough memory to make the call again: {record.raised}: {record.message}"
    if not eager.raised and errors.is_of_compiler(compiled.raised):
        return f"the compiler fails: {compiled.raised}: {compiled.message}"
    return ""


def varying_names(eager: CallResults, again: CallResults) -> frozenset[str]:
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


def without_names(results: CallResults, names: frozenset[str]) -> CallResults:
    """The results without the values of these names."""
    return replace(results, values=tuple(value for value in results.values if value.name not in names))
