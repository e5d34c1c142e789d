"""What a further call changes of the call that it is derived from: inputs, modules, numbers among the arguments.

Invariant: of the inputs, only plain tensors change, and each change gives the same values each time. A changed input
requires a gradient as the input before it does, where its dtype can.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import torch
from torch.utils.hooks import RemovableHandle

from fuselight.capture.calls.calls import Prepared
from fuselight.capture.calls.tensors import with_tensors
from fuselight.measure.measured_call import modules_of, with_inputs

Change = Callable[[torch.Tensor], torch.Tensor]
"""Of one input."""
CallChange = Callable[[Prepared], Prepared]


def call_in_float64(prepared: Prepared) -> Prepared:
    """The call with floating-point inputs and modules in float64."""
    return convert_call(to_dtype(torch.float64, floats=True), torch.float64)(prepared)


def is_plain(tensor: torch.Tensor) -> bool:
    """Whether values can be put into a tensor."""
    return (
        type(tensor) in (torch.Tensor, torch.nn.Parameter)
        and tensor.layout is torch.strided
        and not tensor.is_meta
        and not tensor.is_quantized
        and not tensor.is_complex()
        and (not tensor.is_floating_point() or tensor.element_size() > 1)
    )


def is_number(tensor: torch.Tensor) -> bool:
    """Whether a tensor has numbers, not bools."""
    return tensor.dtype is not torch.bool


def is_signed(tensor: torch.Tensor) -> bool:
    """Whether a tensor has numbers of a type with negative ones."""
    return is_number(tensor) and tensor.dtype.is_signed


def is_of_kind(tensor: torch.Tensor, *, floats: bool) -> bool:
    """Whether a tensor has floats, or else integers."""
    return is_number(tensor) and tensor.is_floating_point() == floats


# All inputs


def change_each(change: Change) -> CallChange:
    """Change each input that takes values."""
    return lambda prepared: with_inputs(prepared, lambda tensor: _changed(tensor, change))


def change_one(wanted: int, change: Change) -> CallChange:
    """Change one input."""

    def convert(prepared: Prepared) -> Prepared:
        count = iter(range(1 << 30))

        def converted(tensor: torch.Tensor) -> torch.Tensor:
            return _changed(tensor, change) if is_plain(tensor) and next(count) == wanted else tensor

        return with_inputs(prepared, converted)

    return convert


def _changed(tensor: torch.Tensor, change: Change) -> torch.Tensor:
    if not is_plain(tensor):
        return tensor
    changed = change(tensor.detach())
    return tensor if changed is tensor else _fresh(changed, tensor)


def _fresh(fresh: torch.Tensor, tensor: torch.Tensor) -> torch.Tensor:
    """A leaf that requires a gradient if `tensor` does and it can."""
    return fresh.detach().requires_grad_(tensor.requires_grad and fresh.is_floating_point())


# Gradients and modules


def require_gradients(prepared: Prepared) -> Prepared:
    """Let the floating-point inputs require gradients."""
    return with_inputs(prepared, _gradient_input)


def then_require_gradients(change: CallChange) -> CallChange:
    """Make the change, then let the inputs require gradients."""
    return lambda prepared: require_gradients(change(prepared))


def _gradient_input(tensor: torch.Tensor) -> torch.Tensor:
    if not is_plain(tensor) or not tensor.is_floating_point() or tensor.requires_grad:
        return tensor
    return tensor.detach().clone().requires_grad_()


def freeze_parameters(prepared: Prepared) -> Prepared:
    """Let no parameter require a gradient."""
    for _, module in modules_of(prepared):
        module.requires_grad_(requires_grad=False)
    return prepared


class GradientHooks:
    """Hooks that double the gradient of each parameter, until the call is over."""

    def __init__(self) -> None:
        """No parameter has one yet."""
        self._handles: list[RemovableHandle] = []

    def register(self, prepared: Prepared) -> Prepared:
        """Give each parameter that requires a gradient its hook."""
        parameters = {
            parameter: None for _, module in modules_of(prepared) for parameter in module.parameters()
        }
        self._handles += [
            parameter.register_hook(_doubled)  # type: ignore[no-untyped-call]
            for parameter in parameters
            if parameter.requires_grad
        ]
        return prepared

    @contextlib.contextmanager
    def registered(self) -> Iterator[None]:
        """Remove the hooks afterwards: a module that the file keeps takes part in the next call."""
        try:
            yield
        finally:
            while self._handles:
                self._handles.pop().remove()


def _doubled(gradient: torch.Tensor) -> torch.Tensor:
    return gradient * 2


def convert_call(change: Change, dtype: torch.dtype | None) -> CallChange:
    """Change the inputs, and give the modules the dtype, as `model.half()` does."""

    def convert(prepared: Prepared) -> Prepared:
        for _, module in modules_of(prepared) if dtype is not None else ():
            module.to(dtype)
        return change_each(change)(prepared)

    return convert


# Sizes and dimensions


def resize(sizes: dict[int, int], *, only: int | None = None, alone: int | None = None) -> CallChange:
    """Give dimensions other sizes: all, or those of index `only`; of all inputs, or of the input `alone`."""

    def change(prepared: Prepared) -> Prepared:
        generator = torch.Generator("cpu").manual_seed(0)
        count = iter(range(1 << 30))

        def resized(tensor: torch.Tensor) -> torch.Tensor:
            if not is_plain(tensor):
                return tensor
            index = next(count)
            shape = [
                sizes.get(size, size) if only in {None, place} else size
                for place, size in enumerate(tensor.shape)
            ]
            if shape == list(tensor.shape) or alone not in {None, index}:
                return tensor
            return _like(tensor, shape, generator)

        return with_inputs(prepared, resized)

    return change


def _like(tensor: torch.Tensor, shape: list[int], generator: torch.Generator) -> torch.Tensor:
    """A tensor of another shape with values like those of `tensor`."""
    flat = tensor.detach().reshape(-1).cpu()
    if flat.numel() == 0 or math.prod(shape) == 0:
        blank = torch.zeros(shape, dtype=tensor.dtype, device="cpu")
    elif tensor.is_floating_point():
        wide = flat.double()
        drawn = torch.randn(shape, generator=generator, dtype=torch.float64, device="cpu")
        blank = (drawn * (float(wide.std(correction=0)) or 1.0) + float(wide.mean())).to(tensor.dtype)
    else:
        picked = torch.randint(flat.numel(), shape, generator=generator, device="cpu")
        blank = flat[picked]
    return blank.to(tensor.device).requires_grad_(tensor.requires_grad)


def as_two_rows(second: int, index: int, change: Change) -> CallChange:
    """Give all inputs two rows, 1 and `second`, of sizes of 3, and one of them another number of dimensions.

    A mask that has fewer dimensions than what it selects from selects rows. Eager code may accept one row where it
    expects 3 numbers, and compiled code, which must be right for any number of rows, fails. Of the rows 1 and 0, or 1
    and -2, most conditions select one.
    """

    def with_rows(tensor: torch.Tensor) -> torch.Tensor:
        shape = [3 if place else 2 for place in range(tensor.dim())]
        rows = torch.ones(shape, dtype=tensor.dtype, device=tensor.device)
        if shape:
            rows[1] = second if is_signed(tensor) else 0
        return rows

    return lambda prepared: change_one(index, change)(change_each(with_rows)(prepared))


def add_dimension(tensor: torch.Tensor) -> torch.Tensor:
    """Repeat an input three times in a new last dimension, with other values each time."""
    steps = torch.arange(3, device=tensor.device).to(tensor.dtype)
    wide = tensor.detach().unsqueeze(-1)
    return wide & (steps < 2) if tensor.dtype is torch.bool else wide + steps  # noqa: PLR2004 - a mixture


# Values


def then_negate(change: CallChange) -> CallChange:
    """Make the change, then negate inputs whose type has a sign."""
    return lambda prepared: change_each(lambda tensor: -tensor if is_signed(tensor) else tensor)(
        change(prepared)
    )


def fill_mask(tensor: torch.Tensor, *, value: bool) -> torch.Tensor:
    """Give a mask one value."""
    return torch.full_like(tensor, value) if tensor.dtype is torch.bool else tensor


def put_number(value: float, *, everywhere: bool = False, place: int = -1) -> Change:
    """Put a number into an element of floating-point tensors, the last one unless `place` says so, or into all."""

    def put(tensor: torch.Tensor) -> torch.Tensor:
        if not tensor.is_floating_point() or tensor.numel() == 0:
            return tensor
        changed = tensor.detach().clone()
        if everywhere:
            return changed.fill_(value)
        changed[(place,) * changed.dim()] = value
        return changed

    return put


def to_small_sum(tensor: torch.Tensor) -> torch.Tensor:
    """Divide floating-point values, so that also their sum is near zero."""
    return tensor * (0.1 / max(tensor.numel(), 1)) if tensor.is_floating_point() else tensor


def extreme(dtype: torch.dtype, value: float, *, floats: bool, everywhere: bool = False) -> CallChange:
    """Give floating-point inputs, or else integers, a dtype, and put a number into the first element or into all."""

    def put(tensor: torch.Tensor) -> torch.Tensor:
        if not is_of_kind(tensor, floats=floats):
            return tensor
        changed = _as_dtype(tensor, dtype)
        if changed.numel() and everywhere:
            changed.fill_(value)
        elif changed.numel():
            changed[(0,) * changed.dim()] = value
        return changed

    return convert_call(put, dtype if floats else None)


# Dtypes


def to_dtype(dtype: torch.dtype, *, floats: bool) -> Change:
    """Convert floating-point inputs, or else integers."""

    def convert(tensor: torch.Tensor) -> torch.Tensor:
        return _as_dtype(tensor, dtype) if is_of_kind(tensor, floats=floats) else tensor

    return convert


def to_scalar(tensor: torch.Tensor, *, dtype: torch.dtype, floats: bool) -> torch.Tensor:
    """The first element of a floating-point input, or else of integers, as a tensor without dimensions."""
    if not is_of_kind(tensor, floats=floats) or not tensor.numel():
        return tensor
    return _as_dtype(tensor.reshape(-1)[0], dtype)


def _as_dtype(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    wide = tensor.detach()
    if tensor.is_floating_point() and not (dtype.is_floating_point or dtype.is_complex):
        wide = (wide * 3).round()
    if not dtype.is_signed:
        wide = wide.abs()
    return wide.to(dtype, copy=True)


def as_complex(tensor: torch.Tensor, *, factor: complex, floats: bool) -> torch.Tensor:
    """Multiply floating-point inputs, or else integers, by a complex number."""
    return (
        to_dtype(torch.complex64, floats=floats)(tensor) * factor
        if is_of_kind(tensor, floats=floats)
        else tensor
    )


def as_truth(tensor: torch.Tensor, *, truth: tuple[bool, bool], floats: bool) -> torch.Tensor:
    """Replace floating-point inputs, or else integers, by bools: of the even and of the odd elements."""
    if not is_of_kind(tensor, floats=floats):
        return tensor
    is_even = torch.arange(tensor.numel(), device=tensor.device) % 2 == 0
    return torch.where(is_even, *truth).reshape(tensor.shape)


def mask_to(tensor: torch.Tensor, *, dtype: torch.dtype) -> torch.Tensor:
    """Convert a mask."""
    return tensor.to(dtype) if tensor.dtype is torch.bool else tensor


# Arguments and layouts


def replace_argument(prepared: Prepared, *, key: int | str, value: object) -> Prepared:
    """Replace an argument by position or name."""
    if isinstance(key, str):
        return replace(prepared, kwargs={**prepared.kwargs, key: value})
    return replace(prepared, args=(*prepared.args[:key], value, *prepared.args[key + 1 :]))


def spread(tensor: torch.Tensor) -> torch.Tensor:
    """The same elements, each of which has another one beside it."""
    if tensor.dim() == 0:
        return tensor
    return tensor.repeat_interleave(2, dim=-1)[..., ::2]


def share_tensors(prepared: Prepared, *, converts: bool = False) -> Prepared:
    """Pass one tensor for all inputs of a shape and a dtype; `converts`: for all floating-point inputs of a shape."""
    first: dict[tuple[Any, ...], torch.Tensor] = {}

    def shared(tensor: torch.Tensor) -> torch.Tensor:
        is_any = converts and tensor.is_floating_point()
        key = (tuple(tensor.shape), None if is_any else tensor.dtype)
        return first.setdefault(key, tensor) if is_plain(tensor) else tensor

    inputs = with_tensors((prepared.args, prepared.kwargs), shared)
    return replace(prepared, args=inputs[0], kwargs=inputs[1])


def share_number(prepared: Prepared, *, value: float) -> Prepared:
    """Pass one tensor that holds a number alone: Python computes with it twice, compiled code may take it for equal."""
    return share_tensors(change_each(put_number(value, everywhere=True))(prepared), converts=True)
