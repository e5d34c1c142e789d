"""Compares what a target with Triton kernels returns with a PyTorch function that the directive names.

Invariant: rounding is not a difference. The reference says by itself how far the dtype is from float64.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from fuselight.capture.calls.calls import Prepared, call_mode
from fuselight.capture.calls.tensors import tensors_in, with_tensors

_TIMES_REFERENCE = 4.0
"""How much farther from the result in float64 than the reference a right kernel may be."""
_UNITS = 16.0
"""How many units in the last place of the dtype, at the largest value."""


class NoReferenceError(Exception):
    """The reference cannot be compared with; the message says why."""


@dataclass(frozen=True)
class ReferenceDifference:
    """One tensor that differs."""

    output: int
    """Position among the tensors that are returned."""
    index: tuple[int, ...]
    """The first element that differs too much."""
    value: float
    expected: float
    largest: float
    """The largest difference."""
    allowed: float
    count: int
    elements: int


def compare_with_reference(
    prepared: Prepared, outputs: Any, name: str, names: Mapping[str, Any]
) -> ReferenceDifference | None:
    """Call the function `name` of the file with the inputs of the call, and compare. None: no difference.

    Raises NoReferenceError where the function is missing, fails, or returns something else.
    """
    reference = _function(name, names)
    expected = _called(reference, prepared, None)
    exact = _exact(reference, prepared) or expected
    values = tensors_in(outputs)
    if len(values) != len(expected):
        raise NoReferenceError(f"`{name}` returns {len(expected)} tensors, and the target {len(values)}")
    for at, (value, wanted, best) in enumerate(zip(values, expected, exact, strict=True)):
        if value.shape != wanted.shape:
            raise NoReferenceError(
                f"tensor {at} of `{name}` has the shape {tuple(wanted.shape)}, that of the target {tuple(value.shape)}"
            )
        difference = _difference(at, value, wanted, best)
        if difference is not None:
            return difference
    return None


def _function(name: str, names: Mapping[str, Any]) -> Any:
    function: Any = None
    for at, part in enumerate(name.split(".")):
        function = names.get(part) if at == 0 else getattr(function, part, None)
    if not callable(function):
        raise NoReferenceError(f"the file has no function `{name}`")
    return function


def _called(reference: Any, prepared: Prepared, dtype: torch.dtype | None) -> list[torch.Tensor]:
    def changed(tensor: torch.Tensor) -> torch.Tensor:
        copy = tensor.detach().clone()
        return copy.to(dtype) if dtype is not None and copy.is_floating_point() else copy

    args, kwargs = with_tensors([prepared.args, prepared.kwargs], changed)
    try:
        with call_mode(prepared), torch.no_grad(), torch.compiler.set_stance("force_eager"):
            return tensors_in(reference(*args, **kwargs))
    except Exception as error:
        raise NoReferenceError(f"the reference raised {type(error).__name__}: {error}") from error


def _exact(reference: Any, prepared: Prepared) -> list[torch.Tensor] | None:
    """What the reference gives in float64; None where it refuses that."""
    try:
        return _called(reference, prepared, torch.float64)
    except NoReferenceError:
        return None


def _difference(
    at: int, value: torch.Tensor, expected: torch.Tensor, exact: torch.Tensor
) -> ReferenceDifference | None:
    if not value.numel():
        return None
    dtype = value.dtype
    left, right, best = (tensor.detach().to(torch.float64) for tensor in (value, expected, exact))
    finite = best.isfinite()
    scale = float(best[finite].abs().max()) if bool(finite.any()) else 0.0
    rounding = float((right - best)[finite].abs().max()) if bool(finite.any()) else 0.0
    unit = torch.finfo(dtype).eps if dtype.is_floating_point else 0.0
    allowed = max(_TIMES_REFERENCE * rounding, _UNITS * unit * scale)
    distance = (left - best).abs()
    same = (left == best) | (left.isnan() & best.isnan())
    wrong = ~same & ~(distance <= allowed)
    if not bool(wrong.any()):
        return None
    index = tuple(int(place) for place in wrong.nonzero()[0])
    return ReferenceDifference(
        at,
        index,
        float(left[index]),
        float(best[index]),
        float(distance[wrong].nan_to_num(float("inf")).max()),
        allowed,
        int(wrong.sum()),
        value.numel(),
    )
