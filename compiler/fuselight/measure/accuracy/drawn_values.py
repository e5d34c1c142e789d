"""Values that draw random numbers, compared by their distribution with draws of the operators that they stand for.

Statistics are bounded, so that the long tail of a distribution moves none of them. Invariant: what is said to have
another distribution is apart from two samples of draws, by many standard errors and by a part of its size.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from fuselight.measure.accuracy.drawn_numbers import generator_states

_DRAWS = 8
_MORE_DRAWS = 32
"""In the sample that confirms: the spread of 8 draws may be small by chance."""
_STANDARD_ERRORS = 10.0
_PART = 0.02
"""Of the size of a value: lower precision moves a mean, too."""
MIN_ELEMENTS = 64
"""With fewer elements, a rare number is no other distribution."""


class DrawnError(ValueError):
    """The value of an operator is another one each time that it runs."""


def once(run: Callable[[], Any]) -> Any:
    """What a function returns. Raises DrawnError if it draws random numbers; generators are then as before."""
    before = generator_states()
    result = run()
    if all(map(torch.equal, before, generator_states())):
        return result
    _restore(before)
    raise DrawnError


def other_distribution(value: torch.Tensor, draw: Callable[[], torch.Tensor]) -> str:
    """How a value is apart from draws, in words; empty if it may be one of them. Generators are as before."""
    before = generator_states()
    try:
        sample = [_numbers(draw()) for _ in range(_DRAWS)]
        scale = _scale(sample)
        if not _apart(_numbers(value), sample, scale):
            return ""
        return _apart(_numbers(value), [_numbers(draw()) for _ in range(_MORE_DRAWS)], scale)
    finally:
        _restore(before)


def _restore(states: Sequence[torch.Tensor]) -> None:
    torch.set_rng_state(states[0])
    for index, state in enumerate(states[1:]):
        torch.cuda.set_rng_state(state, index)


def _numbers(tensor: torch.Tensor) -> torch.Tensor:
    real = torch.view_as_real(tensor) if tensor.is_complex() else tensor
    numbers = real.detach().reshape(-1).double()
    return numbers[numbers.isfinite()]


def _scale(sample: Sequence[torch.Tensor]) -> float:
    """The middle of the absolute values that are not zero; 1 if there are none."""
    sizes = torch.cat([numbers[numbers != 0].abs() for numbers in sample])
    return float(sizes.median()) if sizes.numel() else 1.0


def _apart(value: torch.Tensor, sample: Sequence[torch.Tensor], scale: float) -> str:
    """The first statistic that is too far from those of the sample, in words; empty if none is."""
    drawn = [dict(_statistics(numbers, scale)) for numbers in sample]
    for name, number in _statistics(value, scale):
        known = [statistics[name] for statistics in drawn if name in statistics]
        if len(known) < len(sample):
            continue
        middle = math.fsum(known) / len(known)
        variance = math.fsum((each - middle) ** 2 for each in known) / (len(known) - 1)
        distance = abs(number - middle)
        if distance > _PART and distance > _STANDARD_ERRORS * math.sqrt(variance * (1 + 1 / len(known))):
            return f"{name} {number:.3g}, and {middle:.3g} in {len(known)} draws of its operators"
    return ""


def _statistics(numbers: torch.Tensor, scale: float) -> Iterator[tuple[str, float]]:
    if not numbers.numel():
        return
    yield "share of zeros", float((numbers == 0).double().mean())
    bounded = (numbers / scale).tanh()
    yield f"mean of tanh(x / {scale:.3g})", float(bounded.mean())
    yield f"mean of |tanh(x / {scale:.3g})|", float(bounded.abs().mean())
