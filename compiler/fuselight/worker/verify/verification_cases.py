"""Further calls of a target, derived from a call that is known: other sizes, modes, dtypes and values.

Invariant: the cases of a call depend on the call alone, so that the old and the new text get the same ones, in the same
order, the most ordinary first. Whether the target accepts a case is not known here: the old text decides.
"""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch

from fuselight.capture.calls.calls import Prepared
from fuselight.capture.calls.tensors import tensors_in, with_tensors
from fuselight.measure.measured_call import modules_of, with_inputs
from fuselight.shared.report import CaseFamily

_FLOATS = (torch.float64, torch.float32, torch.float16, torch.bfloat16)
_INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
_MASKS = (torch.uint8, torch.int64, torch.float32)
"""Types that masks may have in place of bool."""
_TRUTHS = ((True, False), (False, True), (True, True), (False, False))
"""Values of the even and of the odd elements: a condition on bools may take either side."""
_MOST_GROUPS = 6
"""Most sizes of the inputs that are varied."""
_MOST_ALONE = 3
"""Most inputs that are varied alone."""
_MOST_TRAINED = 8
"""Most cases that are made in training, too."""
_MOST_COMPILED_SIZES = 3
"""Most sizes that are compiled, too."""
_MOST_COMPILED_RANKS = 15
"""Most numbers of dimensions that are compiled, too, of those that the target accepts."""
_REPEATS = 3
_MODERATE = 30
"""An integer whose powers are large."""

_DIFFERENTIATED = frozenset({CaseFamily.SIZE, CaseFamily.VALUES, CaseFamily.DTYPE, CaseFamily.NONFINITE})
"""Families whose calls are made with gradients of the inputs, too."""

_TELLING = ("bool", "float32", "float64", "int64")
"""Starts of the names of the dtypes that are compiled first: symbolic numbers differ by these kinds."""
_MOST_OF_DTYPE = 2
"""Most cases of one dtype that are compiled for a setting."""
_SMALL = range(2, 10)
"""Sizes with which a division or an index of the target may raise an exception."""

_NEGATED = frozenset({CaseFamily.SIZE, CaseFamily.DTYPE})
"""Families whose calls are made with negated inputs, too: a branch may take its other side."""

Change = Callable[[torch.Tensor], torch.Tensor]


@dataclass(frozen=True)
class Case:
    """One further call."""

    name: str
    """In words that follow `except for`: `float16 inputs`."""
    family: CaseFamily
    change: Callable[[Prepared], Prepared] = lambda prepared: prepared
    """Gives the call its inputs."""
    training: bool | None = None
    """Mode of the modules; None: that of the known call."""
    grad: bool | None = None
    """Whether gradients are on, and backward runs; None: as in the known call."""
    around: Callable[[], contextlib.AbstractContextManager[Any]] = contextlib.nullcontext
    """What is in force during the call."""
    repeats: int = 1
    """Calls that follow each other on one object; the results of the last one count."""
    differentiates_twice: bool = False
    """Whether backward runs through the gradients, too."""
    has_variants: bool = True
    """Whether the same is called with negated inputs and with gradients, too, if its family is."""
    is_variant: bool = False
    """Whether it is such a call of another case."""


def cases_of(prepared: Prepared, *, settings: bool = False) -> list[Case]:
    """All cases of a call, the most ordinary first. `settings`: those of a change that only compiled calls show."""
    inputs = [tensor for tensor in tensors_in([prepared.args, prepared.kwargs]) if is_plain(tensor)]
    sizes = list(_sizes(inputs))
    plain = [*sizes[:2], *_values(inputs), *sizes[2:]]
    several = [
        *plain,
        *_options(prepared),
        *_empty(inputs),
        *_dtypes(inputs),
        *_not_finite(inputs),
        *_layouts(inputs),
        *_ranks(inputs),
        *_kinds(inputs),
        *(_small_sizes(inputs) if settings else ()),
        *_extremes(inputs),
    ]
    is_trained = any(True for _ in modules_of(prepared))
    differentiable = any(tensor.is_floating_point() for tensor in inputs)
    cases = [*_modes(prepared), Case("later calls", CaseFamily.REPEATED, repeats=_REPEATS)]
    if differentiable:
        cases.append(_second_gradients(prepared))
    cases += [_in_training(case) for case in plain[:_MOST_TRAINED] if is_trained]
    for case in several:
        cases.append(case)
        if not case.has_variants:
            continue
        if case.family in _NEGATED and any(map(_is_signed, inputs)):
            cases.append(replace(case, change=_and_negated(case.change), is_variant=True))
        if differentiable and case.family in _DIFFERENTIATED:
            change = _and_gradients(case.change)
            cases.append(replace(case, grad=True, change=change, is_variant=True))
    return cases


def _and_negated(change: Callable[[Prepared], Prepared]) -> Callable[[Prepared], Prepared]:
    return lambda prepared: _each(lambda tensor: -tensor if _is_signed(tensor) else tensor)(change(prepared))


def _in_training(case: Case) -> Case:
    change = _and_gradients(case.change)
    return replace(case, name=f"{case.name} in training", training=True, grad=True, change=change)


def in_float64(case: Case) -> Case:
    """The case with floating-point inputs and modules in float64, in which rounding is far less."""
    convert = _converting(_to(torch.float64, floats=True), torch.float64)
    return replace(case, change=lambda prepared: convert(case.change(prepared)))


def compiled_cases(cases: list[Case], *, settings: bool = False) -> list[Case]:
    """The cases that are compiled, too: few modes and sizes, as a compile takes long, and values, which share code.

    `settings`: and each dtype once, options, no rows and extreme values, which eager calls do not compare.
    """
    modes = [case for case in cases if case.family in {CaseFamily.MODE, CaseFamily.GRADIENTS}][:2]
    modes += [case for case in cases if case.family in {CaseFamily.FROZEN, CaseFamily.SECOND}]
    sizes = [case for case in cases if case.family is CaseFamily.SIZE and case.grad is None][
        :_MOST_COMPILED_SIZES
    ]
    values = [case for case in cases if case.family is CaseFamily.VALUES]
    trained = [case for case in values if case.training] or [case for case in values if case.grad]
    special = [case for case in cases if case.family is CaseFamily.NONFINITE and case.grad is None]
    ranks = [case for case in cases if case.family is CaseFamily.RANK and case.grad is None][
        :_MOST_COMPILED_RANKS
    ]
    if not settings:
        return [*modes, *trained, *special, *sizes, *ranks]
    dtypes = _first_of_each(_MOST_OF_DTYPE, cases, CaseFamily.DTYPE)
    telling = [case for case in dtypes if case.name.startswith(_TELLING)]
    others = [case for case in dtypes if not case.name.startswith(_TELLING)]
    options = [case for case in cases if case.family is CaseFamily.OPTION]
    options += _first_of_each(1, cases, CaseFamily.EMPTY)
    extremes = _first_of_each(_MOST_OF_DTYPE, cases, CaseFamily.EXTREME)
    return [*modes, *trained, *special, *sizes, *options, *telling, *ranks, *others, *extremes]


def _first_of_each(most: int, cases: list[Case], family: CaseFamily) -> list[Case]:
    """The first cases of each name in a family: floats and integers become one dtype in two cases."""
    by_name: dict[str, list[Case]] = {}
    for case in cases:
        if case.family is family and not case.is_variant:
            by_name.setdefault(case.name, []).append(case)
    return [case for group in by_name.values() for case in group[:most]]


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


# Modes


def _modes(prepared: Prepared) -> Iterator[Case]:
    trains = prepared.options.train
    if trains:
        yield Case("inference", CaseFamily.MODE, training=False, grad=False)
    else:
        yield Case("training", CaseFamily.MODE, training=True, grad=True)
    yield Case("gradients of the inputs", CaseFamily.GRADIENTS, _with_gradients, training=trains, grad=True)
    if any(any(True for _ in module.parameters()) for _, module in modules_of(prepared)):
        yield Case("frozen parameters", CaseFamily.FROZEN, _frozen, training=True, grad=True)
    yield Case("evaluation with gradients", CaseFamily.GRADIENTS, _with_gradients, training=False, grad=True)
    yield Case("calls without gradients", CaseFamily.GRADIENTS, training=trains, grad=False)
    yield Case("training mode without gradients", CaseFamily.MODE, training=True, grad=False)


def _second_gradients(prepared: Prepared) -> Case:
    """A call whose gradients are differentiated again: eager code can do that, compiled code cannot."""
    return Case(
        "gradients of gradients",
        CaseFamily.SECOND,
        _with_gradients,
        training=prepared.options.train,
        grad=True,
        differentiates_twice=True,
    )


def _frozen(prepared: Prepared) -> Prepared:
    for _, module in modules_of(prepared):
        module.requires_grad_(requires_grad=False)
    return prepared


def _with_gradients(prepared: Prepared) -> Prepared:
    return with_inputs(prepared, _gradient_input)


def _and_gradients(change: Callable[[Prepared], Prepared]) -> Callable[[Prepared], Prepared]:
    return lambda prepared: _with_gradients(change(prepared))


def _gradient_input(tensor: torch.Tensor) -> torch.Tensor:
    if not is_plain(tensor) or not tensor.is_floating_point() or tensor.requires_grad:
        return tensor
    return tensor.detach().clone().requires_grad_()


# Sizes


def _sizes(inputs: list[torch.Tensor]) -> Iterator[Case]:
    """Each size of the inputs as 1 and as another number, together where they are equal, and each input alone."""
    sizes = [size for argument in inputs for size in argument.shape]
    for size in list(dict.fromkeys(sizes))[:_MOST_GROUPS]:
        for number in _other_sizes(size):
            words = f"size {number} in place of {size}"
            yield Case(words, CaseFamily.SIZE, _resizing({size: number}))
    first = [argument.shape[0] for argument in inputs if argument.dim()]
    if first and sizes.count(first[0]) > first.count(first[0]):
        for number in _other_sizes(first[0]):
            yield Case(f"a batch of {number}", CaseFamily.SIZE, _resizing({first[0]: number}, only=0))
    if len(inputs) > 1:
        for index, tensor in enumerate(inputs[:_MOST_ALONE]):
            for number in _other_sizes(tensor.shape[0]) if tensor.dim() else ():
                change = _resizing({tensor.shape[0]: number}, only=0, alone=index)
                yield Case(f"input {index} with a batch of {number}", CaseFamily.SIZE, change)


def _small_sizes(inputs: list[torch.Tensor]) -> Iterator[Case]:
    """Each size of the inputs as small numbers, to see which raise an exception."""
    for size in list(dict.fromkeys(size for argument in inputs for size in argument.shape))[:_MOST_GROUPS]:
        for number in _SMALL:
            if number not in {size, *_other_sizes(size)}:
                words = f"size {number} in place of {size}"
                yield Case(words, CaseFamily.SIZE, _resizing({size: number}), has_variants=False)


def _other_sizes(size: int) -> tuple[int, ...]:
    other = size + 1 if size % 2 == 0 else size + 2
    return (other, 1) if size > 1 else (other,)


def _resizing(
    sizes: dict[int, int], *, only: int | None = None, alone: int | None = None
) -> Callable[[Prepared], Prepared]:
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


def _empty(inputs: list[torch.Tensor]) -> Iterator[Case]:
    for size in list(dict.fromkeys(tensor.shape[0] for tensor in inputs if tensor.dim()))[:2]:
        if size:
            yield Case("empty inputs", CaseFamily.EMPTY, _resizing({size: 0}, only=0))


def _ranks(inputs: list[torch.Tensor]) -> Iterator[Case]:
    if not inputs:
        return
    floats = [argument for argument in inputs if argument.is_floating_point()]
    if floats and len(floats) < len(inputs):
        yield Case(
            "inputs with one more dimension than their masks",
            CaseFamily.RANK,
            _each(lambda tensor: _repeated(tensor) if tensor.is_floating_point() else tensor),
        )
    yield Case("inputs with one more dimension", CaseFamily.RANK, _each(_repeated))
    if all(argument.dim() > 1 for argument in inputs):
        yield Case("inputs without a batch", CaseFamily.RANK, _each(lambda tensor: _fresh(tensor[0], tensor)))
    for index, tensor in enumerate(inputs[:_MOST_ALONE] if len(inputs) > 1 else ()):
        for second in (-2, 0):
            words = f"rows of 1 and {second}, and one dimension {{}} of input {index}"
            if tensor.dim():
                change = _with_rows(second, index, _repeated)
                yield Case(words.format("more"), CaseFamily.RANK, change)
            if tensor.dim() > 1:
                change = _with_rows(second, index, lambda tensor: tensor[..., 0])
                yield Case(words.format("fewer"), CaseFamily.RANK, change)


def _with_rows(second: int, index: int, change: Change) -> Callable[[Prepared], Prepared]:
    """Give all inputs two rows, 1 and `second`, of sizes of 3, and one of them another number of dimensions.

    A mask that has fewer dimensions than what it selects from selects rows. Eager code may accept one row where it
    expects 3 numbers, and compiled code, which must be right for any number of rows, fails. Of the rows 1 and 0, or 1
    and -2, most conditions select one.
    """

    def with_rows(tensor: torch.Tensor) -> torch.Tensor:
        shape = [3 if place else 2 for place in range(tensor.dim())]
        rows = torch.ones(shape, dtype=tensor.dtype, device=tensor.device)
        if shape:
            rows[1] = second if _is_signed(tensor) else 0
        return rows

    return lambda prepared: _alone(index, change)(_each(with_rows)(prepared))


def _repeated(tensor: torch.Tensor) -> torch.Tensor:
    steps = torch.arange(3, device=tensor.device).to(tensor.dtype)
    wide = tensor.detach().unsqueeze(-1)
    return _fresh(wide & (steps < 2) if tensor.dtype is torch.bool else wide + steps, tensor)  # noqa: PLR2004 - a mixture


# Values


def _values(inputs: list[torch.Tensor]) -> Iterator[Case]:
    numbers = [tensor for tensor in inputs if tensor.dtype is not torch.bool]
    if numbers:
        yield Case("zeros", CaseFamily.VALUES, _each(torch.zeros_like))
        yield Case(
            "negative values",
            CaseFamily.VALUES,
            _each(lambda tensor: -tensor.abs() - 1 if _is_signed(tensor) else tensor),
        )
        yield Case(
            "positive values",
            CaseFamily.VALUES,
            _each(lambda tensor: tensor.abs() + 1 if _is_number(tensor) else tensor),
        )
        yield Case("equal values", CaseFamily.VALUES, _each(torch.ones_like))
        yield Case(
            "other magnitudes",
            CaseFamily.VALUES,
            _each(lambda tensor: tensor * 1000 if tensor.is_floating_point() else tensor),
        )
    if len(numbers) < len(inputs):
        for value in (True, False):
            name = f"masks that are all {value}"
            yield Case(name, CaseFamily.VALUES, _each(functools.partial(_filled, value=value)))
        yield Case(
            "other masks",
            CaseFamily.VALUES,
            _each(lambda tensor: ~tensor if tensor.dtype is torch.bool else tensor),
        )


def _filled(tensor: torch.Tensor, *, value: bool) -> torch.Tensor:
    return torch.full_like(tensor, value) if tensor.dtype is torch.bool else tensor


def _is_number(tensor: torch.Tensor) -> bool:
    return tensor.dtype is not torch.bool


def _is_signed(tensor: torch.Tensor) -> bool:
    return _is_number(tensor) and tensor.dtype.is_signed


def _not_finite(inputs: list[torch.Tensor]) -> Iterator[Case]:
    if not any(argument.is_floating_point() for argument in inputs):
        return
    for name, value in (("NaN", math.nan), ("infinity", math.inf), ("negative infinity", -math.inf)):
        yield Case(f"{name} in one element", CaseFamily.NONFINITE, _each(_putting(value)))
    yield Case("NaN in all elements", CaseFamily.NONFINITE, _each(_putting(math.nan, everywhere=True)))
    # Python's max and min keep the first or the second of two numbers, by which of them is NaN.
    yield Case("NaN in the first element", CaseFamily.NONFINITE, _each(_putting(math.nan, place=0)))
    for index, tensor in enumerate(inputs[:_MOST_ALONE] if len(inputs) > 1 else ()):
        if tensor.is_floating_point():
            yield Case(f"NaN in input {index}", CaseFamily.NONFINITE, _alone(index, _putting(math.nan)))


def _putting(value: float, *, everywhere: bool = False, place: int = -1) -> Change:
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


def _extremes(inputs: list[torch.Tensor]) -> Iterator[Case]:
    """Values near the limits of each dtype, and integers whose products and powers exceed it."""
    if any(_is_number(tensor) and not tensor.is_floating_point() for tensor in inputs):
        for dtype in _INTEGERS:
            info = torch.iinfo(dtype)
            root = math.isqrt(info.max) + 1
            for value in (info.max, info.min, root, -root if info.min else root + 1, _MODERATE):
                yield _extreme(f"where {_name(dtype)} overflows", dtype, value, floats=False)
            yield _extreme(
                f"where {_name(dtype)} overflows", dtype, info.max // 2, floats=False, everywhere=True
            )
    if any(tensor.is_floating_point() for tensor in inputs):
        for float_type in _FLOATS:
            limits = torch.finfo(float_type)
            name = f"for {_name(float_type)} values near its limits"
            for number in (limits.max / 2, -limits.max / 2, limits.smallest_normal):
                yield _extreme(name, float_type, number, floats=True, everywhere=number > 1)


def _extreme(name: str, dtype: torch.dtype, value: float, *, floats: bool, everywhere: bool = False) -> Case:
    def put(tensor: torch.Tensor) -> torch.Tensor:
        if not _is_number(tensor) or tensor.is_floating_point() != floats:
            return tensor
        changed = _as_dtype(tensor, dtype)
        if changed.numel() and everywhere:
            changed.fill_(value)
        elif changed.numel():
            changed[(0,) * changed.dim()] = value
        return changed

    return Case(name, CaseFamily.EXTREME, _converting(put, dtype if floats else None))


# Dtypes


def _dtypes(inputs: list[torch.Tensor]) -> Iterator[Case]:
    floats = [argument for argument in inputs if argument.is_floating_point()]
    integers = [argument for argument in inputs if _is_number(argument) and not argument.is_floating_point()]
    for dtype in _FLOATS if floats else ():
        change = _converting(_to(dtype, floats=True), dtype)
        yield Case(f"{_name(dtype)} inputs", CaseFamily.DTYPE, change)
    for dtype in _INTEGERS if integers else ():
        yield Case(f"{_name(dtype)} inputs", CaseFamily.DTYPE, _each(_to(dtype, floats=False)))
    if floats:
        device = floats[0].device.type
        yield Case("autocast", CaseFamily.DTYPE, around=functools.partial(_autocast, device))
    if integers:
        yield Case("float32 inputs", CaseFamily.DTYPE, _each(_to(torch.float32, floats=False)))
    for kind in _number_kinds(inputs):
        for truth in _TRUTHS:
            change = _each(functools.partial(_as_truth, truth=truth, floats=kind))
            yield Case("bool inputs", CaseFamily.DTYPE, change, has_variants=False)
    for dtype in _MASKS if any(argument.dtype is torch.bool for argument in inputs) else ():
        yield Case(f"{_name(dtype)} masks", CaseFamily.DTYPE, _each(functools.partial(_mask_to, dtype=dtype)))
    for index, tensor in enumerate(inputs[:_MOST_ALONE] if len(inputs) > 1 else ()):
        yield from _dtypes_alone(index, tensor)


def _dtypes_alone(index: int, tensor: torch.Tensor) -> Iterator[Case]:
    """Another dtype of one input of several."""
    floats = tensor.is_floating_point()
    for dtype in (torch.float64, torch.float16, torch.int64) if floats else _INTEGERS[:2]:
        if tensor.dtype is not dtype:
            name = f"{_name(dtype)} for input {index}"
            yield Case(name, CaseFamily.DTYPE, _alone(index, _to(dtype, floats=floats)))
    for truth in _TRUTHS[:2] if _is_number(tensor) else ():
        change = _alone(index, functools.partial(_as_truth, truth=truth, floats=floats))
        yield Case(f"bool for input {index}", CaseFamily.DTYPE, change, has_variants=False)


def _kinds(inputs: list[torch.Tensor]) -> Iterator[Case]:
    """Integers and complex numbers in place of floats, other floats and complex numbers in place of integers.

    A sum of integers that are narrower than 64 bits is int64. The integers come with both signs and as zeros, because
    the dtype may differ on one side of a branch alone. Most targets of floats refuse all of these.
    """
    kinds = _number_kinds(inputs)
    for dtype in _INTEGERS if True in kinds else ():
        for change in _signs(_each(_to(dtype, floats=True)), dtype):
            yield Case(f"{_name(dtype)} inputs", CaseFamily.DTYPE, change, has_variants=False)
    if False in kinds:
        yield Case("float64 inputs", CaseFamily.DTYPE, _each(_to(torch.float64, floats=False)))
    for floats in kinds:
        for factor in (1 + 0.5j, 1j):
            change = _each(functools.partial(_as_complex, factor=factor, floats=floats))
            yield Case("complex64 inputs", CaseFamily.DTYPE, change, has_variants=False)


def _number_kinds(inputs: list[torch.Tensor]) -> list[bool]:
    """Whether there are floats (True), and integers (False)."""
    return list(dict.fromkeys(tensor.is_floating_point() for tensor in inputs if _is_number(tensor)))


def _signs(
    change: Callable[[Prepared], Prepared], dtype: torch.dtype
) -> Iterator[Callable[[Prepared], Prepared]]:
    """The change, then with the values negated if the dtype has a sign, and as zeros."""
    yield change
    if dtype.is_signed:
        yield _and_negated(change)
    yield lambda prepared: _each(torch.zeros_like)(change(prepared))


def _as_complex(tensor: torch.Tensor, *, factor: complex, floats: bool) -> torch.Tensor:
    return _to(torch.complex64, floats=floats)(tensor) * factor if _fits(tensor, floats=floats) else tensor


def _as_truth(tensor: torch.Tensor, *, truth: tuple[bool, bool], floats: bool) -> torch.Tensor:
    if not _fits(tensor, floats=floats):
        return tensor
    is_even = torch.arange(tensor.numel(), device=tensor.device) % 2 == 0
    return torch.where(is_even, *truth).reshape(tensor.shape)


def _mask_to(tensor: torch.Tensor, *, dtype: torch.dtype) -> torch.Tensor:
    return tensor.to(dtype) if tensor.dtype is torch.bool else tensor


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _autocast(device: str) -> contextlib.AbstractContextManager[Any]:
    manager: contextlib.AbstractContextManager[Any] = torch.autocast(device, dtype=torch.bfloat16)
    return manager


def _to(dtype: torch.dtype, *, floats: bool) -> Change:
    def convert(tensor: torch.Tensor) -> torch.Tensor:
        return _as_dtype(tensor, dtype) if _fits(tensor, floats=floats) else tensor

    return convert


def _fits(tensor: torch.Tensor, *, floats: bool) -> bool:
    """Whether a tensor has floats, or else integers."""
    return _is_number(tensor) and tensor.is_floating_point() == floats


def _as_dtype(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    wide = tensor.detach()
    if tensor.is_floating_point() and not (dtype.is_floating_point or dtype.is_complex):
        wide = (wide * 3).round()
    if not dtype.is_signed:
        wide = wide.abs()
    return wide.to(dtype, copy=True)


def _converting(change: Change, dtype: torch.dtype | None) -> Callable[[Prepared], Prepared]:
    """Change the inputs, and give the modules the dtype, as `model.half()` does."""

    def convert(prepared: Prepared) -> Prepared:
        for _, module in modules_of(prepared) if dtype is not None else ():
            module.to(dtype)
        return _each(change)(prepared)

    return convert


# Options and layouts


def _options(prepared: Prepared) -> Iterator[Case]:
    """Each number and flag among the arguments as another."""
    named: list[tuple[int | str, Any]] = [*enumerate(prepared.args), *prepared.kwargs.items()]
    for key, value in named[: 2 * _MOST_ALONE]:
        for other in _other_numbers(value):
            shown = f"argument {key} = {other!r}"
            change = functools.partial(_with_argument, key=key, value=other)
            yield Case(shown, CaseFamily.OPTION, change)


def _other_numbers(value: object) -> tuple[bool | float, ...]:
    if isinstance(value, bool):
        return (not value,)
    if isinstance(value, int):
        return (value + 1, 0)
    if isinstance(value, float):  # an integer stands for a float, too
        return (value * 0.5 + 0.1, 0.0, 2)
    return ()


def _with_argument(prepared: Prepared, *, key: int | str, value: object) -> Prepared:
    if isinstance(key, str):
        return replace(prepared, kwargs={**prepared.kwargs, key: value})
    return replace(prepared, args=(*prepared.args[:key], value, *prepared.args[key + 1 :]))


def _layouts(inputs: list[torch.Tensor]) -> Iterator[Case]:
    if any(tensor.dim() for tensor in inputs):
        yield Case("inputs that are not contiguous", CaseFamily.LAYOUT, _each(_spread))
    kinds = [(tensor.shape, tensor.dtype) for tensor in inputs]
    if len(set(kinds)) < len(kinds):
        yield Case("one tensor as several inputs", CaseFamily.LAYOUT, _shared)


def _spread(tensor: torch.Tensor) -> torch.Tensor:
    """The same elements, each of which has another one beside it."""
    if tensor.dim() == 0:
        return tensor
    return tensor.repeat_interleave(2, dim=-1)[..., ::2]


def _shared(prepared: Prepared) -> Prepared:
    first: dict[tuple[Any, ...], torch.Tensor] = {}
    inputs = with_tensors(
        (prepared.args, prepared.kwargs),
        lambda tensor: (
            first.setdefault((tuple(tensor.shape), tensor.dtype), tensor) if is_plain(tensor) else tensor
        ),
    )
    return replace(prepared, args=inputs[0], kwargs=inputs[1])


# All inputs


def _each(change: Change) -> Callable[[Prepared], Prepared]:
    """Change each input that takes values."""
    return lambda prepared: with_inputs(prepared, lambda tensor: _changed(tensor, change))


def _alone(wanted: int, change: Change) -> Callable[[Prepared], Prepared]:
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
