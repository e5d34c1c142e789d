"""Whether the random numbers of compiled code have the distributions of eager mode's: both call with many seeds.

Of each result, the mean, the root mean square and the share of zeros of a call are one draw. Invariant: a difference is
named only if two samples of calls, with other seeds each, show it, each by many standard errors and by a part of the
size of the result, and if compiled code is farther from calls in float64 than eager mode: rounding moves a sum that
cancels.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from fuselight.adapters.torch_api.random_operators import RandomOperatorCalls
from fuselight.capture.calls.tensors import set_seeds
from fuselight.capture.dynamo import stacks
from fuselight.measure.accuracy.results import Value
from fuselight.shared.report import RandomDraws
from fuselight.worker.results.eager_calls import RepeatedCall

_CALLS = 8
"""In one sample of a mode."""
_STANDARD_ERRORS = 10.0
"""Two samples of 8 calls are as far apart by chance less than once in 10 million."""
_PART = 0.02
"""Of the size of a result: lower precision moves a mean, too."""
_NEAR = 1e-4
"""How far a result may be that is not random and is about zero, as the gradient of the bias of a key."""
_TIMES_EAGER = 2.0
_FIRST_SEED = 7001
Draws = dict[tuple[str, str], list[float]]
"""By value and statistic, the number of each call."""


@dataclass(frozen=True)
class _Shift:
    """A statistic of a result that differs between the modes."""

    name: str
    statistic: str
    eager: float
    compiled: float

    @property
    def words(self) -> str:
        return (
            f"{self.name} has another distribution: its {self.statistic} is {self.compiled:.3g} in {_CALLS} calls with "
            f"other seeds, in eager mode {self.eager:.3g}"
        )


def compared_draws(recorded: RepeatedCall, compiled: Callable[..., Any]) -> RandomDraws:
    """What calls with other seeds show; without a text if no distribution differs."""
    eager, ours = _sample(recorded, None, 0), _sample(recorded, compiled, 0)
    shifts = _shifts(eager, ours)
    if not shifts:
        return RandomDraws(compared=_compared(eager, ours))
    again = _shifts(_sample(recorded, None, _CALLS), _sample(recorded, compiled, _CALLS))
    confirmed = {(shift.name, shift.statistic) for shift in again}
    shifts = [shift for shift in shifts if (shift.name, shift.statistic) in confirmed]
    exact = _sample_in_float64(recorded) if shifts else {}
    texts = [shift.words for shift in shifts if not _is_rounding(shift, exact)]
    if not texts:
        return RandomDraws(compared=_compared(eager, ours))
    calls = RandomOperatorCalls(lambda: tuple(stacks.calling_frames()))
    recorded.eager(calls)
    places = [place for place in calls.places if place]
    if len(places) != 1:  # any of them may be the one
        return RandomDraws(texts[0])
    return RandomDraws(texts[0], places[0], calls.places[places[0]])


def _sample(recorded: RepeatedCall, compiled: Callable[..., Any] | None, first: int) -> Draws:
    """The statistics of calls with seeds that no other sample of the mode has."""
    draws: Draws = {}
    for number in range(first, first + _CALLS):

        def begin(seed: int = _FIRST_SEED + number) -> None:
            set_seeds(seed)

        record = (
            recorded.eager(begin=begin)
            if compiled is None
            else recorded.repeated(compiled, compiled=True, begin=begin)
        )
        for key, number_of_call in _statistics(() if record.raised else record.results.values):
            draws.setdefault(key, []).append(number_of_call)
    return draws


def _sample_in_float64(recorded: RepeatedCall) -> Draws:
    """The statistics of calls in float64, which draw other numbers of the same distribution."""
    draws: Draws = {}
    for number in range(_CALLS):
        results, _ = recorded.float64(functools.partial(set_seeds, _FIRST_SEED + number))
        for key, number_of_call in _statistics(results.values if results is not None else ()):
            draws.setdefault(key, []).append(number_of_call)
    return draws


def _is_rounding(shift: _Shift, exact: Draws) -> bool:
    """Whether eager mode itself is about as far from float64 as compiled code."""
    numbers = exact.get((shift.name, shift.statistic), [])
    if len(numbers) != _CALLS:
        return False
    middle = _mean(numbers)
    return abs(shift.compiled - middle) <= _TIMES_EAGER * abs(shift.eager - middle)


def _statistics(values: Sequence[Value]) -> Iterator[tuple[tuple[str, str], float]]:
    for value in values:
        numbers = _finite(value)
        if numbers.numel():
            yield (value.name, "mean"), float(numbers.mean())
            yield (value.name, "root mean square"), float(numbers.square().mean().sqrt())
            yield (value.name, "share of zeros"), float((numbers == 0).double().mean())


def _finite(value: Value) -> torch.Tensor:
    tensor = value.tensor
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor)
    numbers = tensor.reshape(-1).to(torch.float64)
    return numbers[numbers.isfinite()]


def _compared(eager: Draws, compiled: Draws) -> int:
    """The number of results, if both modes have each in all calls, and those that are not random are near."""
    for (name, statistic), numbers in eager.items():
        theirs = compiled.get((name, statistic), [])
        if len(numbers) != _CALLS or len(theirs) != _CALLS:
            return 0
        is_same = not _spread(numbers) and statistic != "share of zeros"
        distance = abs(_mean(numbers) - _mean(theirs))
        if is_same and distance > max(_PART * _size(eager, name, statistic), _NEAR):
            return 0
    return len({name for name, _ in eager})


def _shifts(eager: Draws, compiled: Draws) -> list[_Shift]:
    """The statistics that differ, of results that eager mode draws: what is the same in all calls is not random."""
    drawn = {name for (name, _), numbers in eager.items() if _spread(numbers) > 0}
    shifts = []
    for (name, statistic), ours in eager.items():
        theirs = compiled.get((name, statistic), [])
        if name not in drawn or len(ours) != _CALLS or len(theirs) != _CALLS:
            continue
        distance = abs(_mean(ours) - _mean(theirs))
        error = math.sqrt((_spread(ours) + _spread(theirs)) / _CALLS)
        if distance > _STANDARD_ERRORS * error and distance > _PART * _size(eager, name, statistic):
            shifts.append(_Shift(name, statistic, _mean(ours), _mean(theirs)))
    return shifts


def _size(draws: Draws, name: str, statistic: str) -> float:
    """What a part of a statistic is a part of."""
    return 1.0 if statistic == "share of zeros" else _mean(draws[name, "root mean square"])


def _mean(numbers: Sequence[float]) -> float:
    return math.fsum(numbers) / len(numbers)


def _spread(numbers: Sequence[float]) -> float:
    """The variance of the numbers of a sample."""
    middle = _mean(numbers)
    return math.fsum((number - middle) ** 2 for number in numbers) / max(1, len(numbers) - 1)
