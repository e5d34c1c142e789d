"""Whether two floating-point results of one call differ by rounding alone.

The tolerance of a dtype holds for any two results. A compiled call of the new text may differ by more: compiled code
adds in another order than eager code, and the distance of the old text's compiled call from its eager call measures how
much that moves each tensor. Invariant: what is not finite must be equal, and nothing is measured where the two calls of
the old text differ by more than rounding.
"""

from __future__ import annotations

import torch

_EPSILONS = {
    "torch.float64": 2.0**-52,
    "torch.complex128": 2.0**-52,
    "torch.float16": 2.0**-10,
    "torch.bfloat16": 2.0**-7,
    "float": 2.0**-52,
    "complex": 2.0**-52,
}
_EPSILON = 2.0**-23
"""Of float32, and of any other dtype."""
_UNITS, _UNITS_OF_HALF = 16, 2
"""Units in the last place that are rounding: sums in another order. Half precision is computed in float32."""
_UNITS_OF_LARGEST = 4
"""The same, of the largest element of the tensor: an element may be the difference of such."""
_MULTIPLES = ((10, 10.0), (1000, 3.0))
_MULTIPLE = 2.0
"""How many times the measured rounding a difference may be, as in torch's benchmark suite (`torch._dynamo.utils.same`):
twice, and more for a tensor of at most 10 elements or 1,000, of which one measurement says less."""
_MULTIPLE_OF_LARGEST = 2.0
"""How many times as much the largest distance of an element may be: it varies more by order than the mean."""
_RELATIVE = {"torch.float64": 1e-7, "torch.complex128": 1e-7, "torch.float16": 1e-3, "torch.bfloat16": 1e-2}
_RELATIVE_OF_FLOAT32 = 1e-4
"""Most that rounding may be of the root mean square of a tensor: torch's benchmark suite, and `torch.testing` for
float64. A Python number may come from a float32 tensor."""
_ABSOLUTE = 1e-5
_ABSOLUTE_OF_FLOAT64 = 1e-7
"""Most that it may be beyond that, as in `torch.testing`: a gradient that is zero may be pure rounding."""


_NEAR = 10.0
"""How many times the rounding of a tensor a difference may be that a comparison in float64 still decides."""
_SAME_IN_FLOAT64 = 1e-9
"""Most that float64 results may differ, of the largest float32 element: rounding of float64 is far less, and what two
formulas of float32 differ by is more."""
_HALF = frozenset({"torch.float16", "torch.bfloat16"})


def is_within_tolerance(ours: torch.Tensor, theirs: torch.Tensor, dtype: str) -> torch.Tensor:
    """Which elements differ by no more than another order of the same operations moves them, by their dtype."""
    epsilon = _EPSILONS.get(dtype, _EPSILON)
    units = _UNITS_OF_HALF if dtype in _HALF else _UNITS
    finite = torch.nan_to_num(theirs.abs(), nan=0.0, posinf=0.0)
    largest = largest_of(theirs)
    return (ours - theirs).abs() <= epsilon * (units * finite + min(units, _UNITS_OF_LARGEST) * largest)


def is_near(new: torch.Tensor, old: torch.Tensor) -> bool:
    """Whether float32 results, given in float64, may differ by rounding: sums of many terms that cancel each other.

    That says nothing about each element. It must be shown in float64 (agrees_in_float64).
    """
    most = _NEAR * _EPSILON * (_UNITS + _UNITS_OF_LARGEST)
    return _differs_at_most(new, old, most * largest_of(old))


def agrees_in_float64(new: torch.Tensor, old: torch.Tensor, single: torch.Tensor) -> bool:
    """Whether a call made in float64 before and after a change computes the same. `single`: its result in float32."""
    return _differs_at_most(new, old, _SAME_IN_FLOAT64 * largest_of(single))


def vanishes(gradient: torch.Tensor, largest: float, dtype: str) -> torch.Tensor:
    """Which elements of a gradient may be zero but for rounding, next to the largest element of all gradients.

    Of a bias that a softmax or a normalization takes out again, a gradient is rounding alone. One that is as small and
    right looks the same, so that it must be shown in float64 (vanishing_agree).
    """
    units = _UNITS_OF_HALF if dtype in _HALF else _UNITS
    return gradient.abs() <= units * _EPSILONS.get(dtype, _EPSILON) * largest


def vanishing_agree(new: torch.Tensor, old: torch.Tensor, largest: float) -> bool:
    """Whether such elements, computed in float64 before and after a change, are the same.

    `largest`: the largest element of all gradients in float64.
    """
    most = _UNITS * _EPSILONS["torch.float64"] * largest + _SAME_IN_FLOAT64 * old.abs()
    return bool(((new - old).abs() <= most).all())


def _differs_at_most(new: torch.Tensor, old: torch.Tensor, most: float) -> bool:
    finite = old.isfinite()
    if not torch.equal(new.isfinite(), finite):
        return False
    if not torch.equal(new[~finite].nan_to_num(), old[~finite].nan_to_num()):
        return False
    return bool(((new - old)[finite].abs() <= most).all())


def largest_of(values: torch.Tensor) -> float:
    """The largest finite element, without its sign; 0 without any."""
    finite = torch.nan_to_num(values.abs(), nan=0.0, posinf=0.0)
    return float(finite.max()) if finite.numel() else 0.0


def is_measured_rounding(
    new: torch.Tensor,
    old: torch.Tensor,
    eager: torch.Tensor,
    compiled: torch.Tensor,
    dtype: str,
    *,
    is_near: bool = False,
) -> bool:
    """Whether the distance of `new` from `old` is rounding, by the distance of the old text's two calls.

    All in float64 and of one shape. `eager`, `compiled`: the calls of the old text, of which `old` is one.
    `is_near`: whether the distance is near rounding, so that a comparison in float64 must decide.
    """
    finite = old.isfinite()
    if not all(torch.equal(tensor.isfinite(), finite) for tensor in (new, eager, compiled)):
        return False
    if not bool(finite.any()) or not torch.equal(new[~finite].nan_to_num(), old[~finite].nan_to_num()):
        return False
    noise, error = (compiled - eager)[finite], (new - old)[finite]
    count, level = noise.numel(), _root_mean_square(noise)
    if level > _most(_root_mean_square(eager[finite]), dtype):
        return False
    multiple = next((multiple for most, multiple in _MULTIPLES if count <= most), _MULTIPLE)
    multiple *= _NEAR if is_near else 1.0
    if _root_mean_square(error) > multiple * level:
        return False
    return bool(error.abs().max() <= _MULTIPLE_OF_LARGEST * multiple * noise.abs().max())


def _most(size: float, dtype: str) -> float:
    """The most that a measured distance may be to count as rounding."""
    absolute = _ABSOLUTE_OF_FLOAT64 if dtype in {"torch.float64", "torch.complex128"} else _ABSOLUTE
    return _RELATIVE.get(dtype, _RELATIVE_OF_FLOAT32) * size + absolute


def _root_mean_square(values: torch.Tensor) -> float:
    return float(values.square().mean().sqrt())
