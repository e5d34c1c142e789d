"""Further calls of a target, derived from a call that is known: other sizes, modes, dtypes and values.

Invariant: the cases of a call depend on the call alone, so that the old and the new text get the same ones, in the same
order, the most ordinary first. Whether the target accepts a case is not known here: the old text decides.
"""

from __future__ import annotations

import contextlib
import functools
import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch

from fuselight.capture.calls.calls import Prepared
from fuselight.capture.calls.tensors import tensors_in
from fuselight.measure.measured_call import modules_of
from fuselight.shared.report import CaseFamily
from fuselight.shared.report.verification import SCALAR
from fuselight.worker.verify.eager_mode import DoubleConversions
from fuselight.worker.verify.input_changes import (
    CallChange,
    GradientHooks,
    add_dimension,
    as_complex,
    as_truth,
    as_two_rows,
    call_in_float64,
    change_each,
    change_one,
    convert_call,
    extreme,
    fill_mask,
    freeze_parameters,
    is_number,
    is_plain,
    is_signed,
    mask_to,
    put_number,
    replace_argument,
    require_gradients,
    resize,
    share_number,
    share_tensors,
    spread,
    then_negate,
    then_require_gradients,
    to_dtype,
    to_scalar,
    to_small_sum,
)

_FLOATS = (torch.float64, torch.float32, torch.float16, torch.bfloat16)
_INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
_MASKS = (torch.uint8, torch.int64, torch.float32)
"""Types that masks may have in place of bool."""
_TRUTHS = ((True, False), (False, True), (True, True), (False, False))
"""Values of the even and of the odd elements: a condition on bools may take either side."""
_MAX_GROUPS = 6
"""Most sizes of the inputs that are varied."""
_MAX_ALONE = 3
"""Most inputs that are varied alone."""
_MAX_TRAINED = 8
"""Most cases that are made in training, too."""
_MAX_COMPILED_SIZES = 3
"""Most sizes that are compiled, too."""
_MAX_COMPILED_RANKS = 15
"""Most numbers of dimensions that are compiled, too, of those that the target accepts."""
_REPEATS = 3
_MODERATE = 30
"""An integer whose powers are large."""

_DIFFERENTIATED = frozenset({CaseFamily.SIZE, CaseFamily.VALUES, CaseFamily.DTYPE, CaseFamily.NONFINITE})
"""Families whose calls are made with gradients of the inputs, too."""

_TELLING = ("bool", "float32", "float64", "int64")
"""Starts of the names of the dtypes that are compiled first: symbolic numbers differ by these kinds."""
_MAX_OF_DTYPE = 2
"""Most cases of one dtype that are compiled for a setting."""
_SMALL = range(2, 10)
"""Sizes with which a division or an index of the target may raise an exception."""

_NEGATED = frozenset({CaseFamily.SIZE, CaseFamily.DTYPE})
"""Families whose calls are made with negated inputs, too: a branch may take its other side."""


@dataclass(frozen=True)
class Case:
    """One further call."""

    name: str
    """In words that follow `except for`: `float16 inputs`."""
    family: CaseFamily
    change: CallChange = lambda prepared: prepared
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
    around_build: Callable[[], contextlib.AbstractContextManager[Any]] = contextlib.nullcontext
    """What is in force from before the build to the end of the call."""
    varies: str = ""
    """The name whose value differs."""


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
    hooked = _hooked(prepared) if settings else ()
    cases = [*_modes(prepared), *hooked, Case("later calls", CaseFamily.REPEATED, repeats=_REPEATS)]
    if differentiable:
        cases.append(_second_gradients(prepared))
    cases += [_in_training(case) for case in plain[:_MAX_TRAINED] if is_trained]
    for case in several:
        cases.append(case)
        if not case.has_variants:
            continue
        if case.family in _NEGATED and any(map(is_signed, inputs)):
            cases.append(replace(case, change=then_negate(case.change), is_variant=True))
        if differentiable and case.family in _DIFFERENTIATED:
            change = then_require_gradients(case.change)
            cases.append(replace(case, grad=True, change=change, is_variant=True))
    return cases


def _in_training(case: Case) -> Case:
    change = then_require_gradients(case.change)
    return replace(case, name=f"{case.name} in training", training=True, grad=True, change=change)


def in_float64(case: Case, *, compiled: bool = False) -> Case:
    """The case with floating-point inputs and modules in float64, in which rounding is far less.

    `compiled`: nothing else may be in force, as Dynamo would trace it.
    """

    @contextlib.contextmanager
    def around() -> Iterator[None]:
        with case.around(), contextlib.nullcontext() if compiled else DoubleConversions():
            yield

    return replace(case, change=lambda prepared: call_in_float64(case.change(prepared)), around=around)


def compiled_cases(cases: list[Case], *, settings: bool = False) -> list[Case]:
    """The cases that are compiled, too: few modes and sizes, as a compile takes long, and values, which share code.

    `settings`: and each dtype once, options, no rows and extreme values, which eager calls do not compare.

    A setting of torch or an argument of torch.compile has no effect in eager calls, so a change of one shows in
    compiled calls alone.
    """
    modes = [case for case in cases if case.family in {CaseFamily.MODE, CaseFamily.GRADIENTS}][:2]
    others_of_gradients = {CaseFamily.FROZEN, CaseFamily.HOOKS, CaseFamily.SECOND}
    modes += [case for case in cases if case.family in others_of_gradients]
    sizes = [case for case in cases if case.family is CaseFamily.SIZE and case.grad is None][
        :_MAX_COMPILED_SIZES
    ]
    values = [case for case in cases if case.family is CaseFamily.VALUES]
    trained = [case for case in values if case.training] or [case for case in values if case.grad]
    special = [case for case in cases if case.family is CaseFamily.NONFINITE and case.grad is None]
    ranks = [case for case in cases if case.family is CaseFamily.RANK and case.grad is None][
        :_MAX_COMPILED_RANKS
    ]
    if not settings:
        return [*modes, *trained, *special, *sizes, *ranks]
    dtypes = _first_of_each(_MAX_OF_DTYPE, cases, CaseFamily.DTYPE)
    telling = [case for case in dtypes if case.name.startswith(_TELLING)]
    others = [case for case in dtypes if not case.name.startswith(_TELLING)]
    options = [case for case in cases if case.family is CaseFamily.OPTION]
    options += _first_of_each(1, cases, CaseFamily.EMPTY)
    extremes = _first_of_each(_MAX_OF_DTYPE, cases, CaseFamily.EXTREME)
    return [*modes, *trained, *special, *sizes, *options, *telling, *ranks, *others, *extremes]


def first_of_families(cases: list[Case], most: int) -> list[Case]:
    """At most `most` cases in their order: the first of each family, then the second ones, and so on."""
    seen: Counter[CaseFamily] = Counter()
    ranked: list[tuple[int, int]] = []
    for index, case in enumerate(cases):
        ranked.append((seen[case.family], index))
        seen[case.family] += 1
    kept = {index for _, index in sorted(ranked)[:most]}
    return [case for index, case in enumerate(cases) if index in kept]


def _first_of_each(most: int, cases: list[Case], family: CaseFamily) -> list[Case]:
    """The first cases of each name in a family: floats and integers become one dtype in two cases."""
    by_name: dict[str, list[Case]] = {}
    for case in cases:
        if case.family is family and not case.is_variant:
            by_name.setdefault(case.name, []).append(case)
    return [case for group in by_name.values() for case in group[:most]]


# Modes


def _modes(prepared: Prepared) -> Iterator[Case]:
    trains = prepared.options.train
    if trains:
        yield Case("inference", CaseFamily.MODE, training=False, grad=False)
    else:
        yield Case("training", CaseFamily.MODE, training=True, grad=True)
    yield Case("gradients of the inputs", CaseFamily.GRADIENTS, require_gradients, training=trains, grad=True)
    if any(any(True for _ in module.parameters()) for _, module in modules_of(prepared)):
        yield Case("frozen parameters", CaseFamily.FROZEN, freeze_parameters, training=True, grad=True)
    yield Case(
        "evaluation with gradients", CaseFamily.GRADIENTS, require_gradients, training=False, grad=True
    )
    yield Case("calls without gradients", CaseFamily.GRADIENTS, training=trains, grad=False)
    yield Case("training mode without gradients", CaseFamily.MODE, training=True, grad=False)


def _hooked(prepared: Prepared) -> Iterator[Case]:
    """A call whose backward runs hooks of parameters, which a backward inside of compiled code may leave out."""
    if any(any(True for _ in module.parameters()) for _, module in modules_of(prepared)):
        hooks = GradientHooks()
        yield Case(
            "hooks of parameters",
            CaseFamily.HOOKS,
            hooks.register,
            training=prepared.options.train,
            grad=True,
            around=hooks.registered,
        )


def _second_gradients(prepared: Prepared) -> Case:
    """A call whose gradients are differentiated again: eager code can do that, compiled code cannot."""
    return Case(
        "gradients of gradients",
        CaseFamily.SECOND,
        require_gradients,
        training=prepared.options.train,
        grad=True,
        differentiates_twice=True,
    )


# Sizes


def _sizes(inputs: list[torch.Tensor]) -> Iterator[Case]:
    """Each size of the inputs as 1 and as another number, together where they are equal, and each input alone."""
    sizes = [size for argument in inputs for size in argument.shape]
    for size in list(dict.fromkeys(sizes))[:_MAX_GROUPS]:
        for number in _other_sizes(size):
            words = f"size {number} in place of {size}"
            yield Case(words, CaseFamily.SIZE, resize({size: number}))
    first = [argument.shape[0] for argument in inputs if argument.dim()]
    if first and sizes.count(first[0]) > first.count(first[0]):
        for number in _other_sizes(first[0]):
            yield Case(f"a batch of {number}", CaseFamily.SIZE, resize({first[0]: number}, only=0))
    if len(inputs) > 1:
        for index, tensor in enumerate(inputs[:_MAX_ALONE]):
            for number in _other_sizes(tensor.shape[0]) if tensor.dim() else ():
                change = resize({tensor.shape[0]: number}, only=0, alone=index)
                yield Case(f"input {index} with a batch of {number}", CaseFamily.SIZE, change)


def _small_sizes(inputs: list[torch.Tensor]) -> Iterator[Case]:
    """Each size of the inputs as small numbers, to see which raise an exception."""
    for size in list(dict.fromkeys(size for argument in inputs for size in argument.shape))[:_MAX_GROUPS]:
        for number in _SMALL:
            if number not in {size, *_other_sizes(size)}:
                words = f"size {number} in place of {size}"
                yield Case(words, CaseFamily.SIZE, resize({size: number}), has_variants=False)


def _other_sizes(size: int) -> tuple[int, ...]:
    other = size + 1 if size % 2 == 0 else size + 2
    return (other, 1) if size > 1 else (other,)


def _empty(inputs: list[torch.Tensor]) -> Iterator[Case]:
    for size in list(dict.fromkeys(tensor.shape[0] for tensor in inputs if tensor.dim()))[:2]:
        if size:
            yield Case("empty inputs", CaseFamily.EMPTY, resize({size: 0}, only=0))


def _ranks(inputs: list[torch.Tensor]) -> Iterator[Case]:
    if not inputs:
        return
    floats = [argument for argument in inputs if argument.is_floating_point()]
    if floats and len(floats) < len(inputs):
        yield Case(
            "inputs with one more dimension than their masks",
            CaseFamily.RANK,
            change_each(lambda tensor: add_dimension(tensor) if tensor.is_floating_point() else tensor),
        )
    yield Case("inputs with one more dimension", CaseFamily.RANK, change_each(add_dimension))
    if all(argument.dim() > 1 for argument in inputs):
        yield Case("inputs without a batch", CaseFamily.RANK, change_each(lambda tensor: tensor[0]))
    for index, tensor in enumerate(inputs[:_MAX_ALONE] if len(inputs) > 1 else ()):
        for second in (-2, 0):
            words = f"rows of 1 and {second}, and one dimension {{}} of input {index}"
            if tensor.dim():
                change = as_two_rows(second, index, add_dimension)
                yield Case(words.format("more"), CaseFamily.RANK, change)
            if tensor.dim() > 1:
                change = as_two_rows(second, index, lambda tensor: tensor[..., 0])
                yield Case(words.format("fewer"), CaseFamily.RANK, change)


# Values


def _values(inputs: list[torch.Tensor]) -> Iterator[Case]:
    numbers = [tensor for tensor in inputs if tensor.dtype is not torch.bool]
    if numbers:
        yield Case("zeros", CaseFamily.VALUES, change_each(torch.zeros_like))
        yield Case(
            "negative values",
            CaseFamily.VALUES,
            change_each(lambda tensor: -tensor.abs() - 1 if is_signed(tensor) else tensor),
        )
        yield Case(
            "positive values",
            CaseFamily.VALUES,
            change_each(lambda tensor: tensor.abs() + 1 if is_number(tensor) else tensor),
        )
        yield Case("equal values", CaseFamily.VALUES, change_each(torch.ones_like))
        yield Case(
            "other magnitudes",
            CaseFamily.VALUES,
            change_each(lambda tensor: tensor * 1000 if tensor.is_floating_point() else tensor),
        )
        # Neither zero nor a sum of 1: the root and the logarithm of a number raise exceptions on either side.
        yield Case("values of a small sum", CaseFamily.VALUES, change_each(to_small_sum))
    if len(numbers) < len(inputs):
        for value in (True, False):
            name = f"masks that are all {value}"
            yield Case(name, CaseFamily.VALUES, change_each(functools.partial(fill_mask, value=value)))
        yield Case(
            "other masks",
            CaseFamily.VALUES,
            change_each(lambda tensor: ~tensor if tensor.dtype is torch.bool else tensor),
        )


def _not_finite(inputs: list[torch.Tensor]) -> Iterator[Case]:
    if not any(argument.is_floating_point() for argument in inputs):
        return
    for name, value in (("NaN", math.nan), ("infinity", math.inf), ("negative infinity", -math.inf)):
        yield Case(f"{name} in one element", CaseFamily.NONFINITE, change_each(put_number(value)))
    yield Case(
        "NaN in all elements", CaseFamily.NONFINITE, change_each(put_number(math.nan, everywhere=True))
    )
    # Python's max and min keep the first or the second of two numbers, by which of them is NaN.
    yield Case("NaN in the first element", CaseFamily.NONFINITE, change_each(put_number(math.nan, place=0)))
    for index, tensor in enumerate(inputs[:_MAX_ALONE] if len(inputs) > 1 else ()):
        if tensor.is_floating_point():
            yield Case(f"NaN in input {index}", CaseFamily.NONFINITE, change_one(index, put_number(math.nan)))
    shapes = [tensor.shape for tensor in inputs if tensor.is_floating_point()]
    for name, value in (("NaN", math.nan), ("infinity", math.inf)) if len(set(shapes)) < len(shapes) else ():
        change = functools.partial(share_number, value=value)
        yield Case(f"one tensor of {name} as several inputs", CaseFamily.NONFINITE, change)


def _extremes(inputs: list[torch.Tensor]) -> Iterator[Case]:
    """Values near the limits of each dtype, and integers whose products and powers exceed it."""
    if any(is_number(tensor) and not tensor.is_floating_point() for tensor in inputs):
        for dtype in _INTEGERS:
            info = torch.iinfo(dtype)
            root = math.isqrt(info.max) + 1
            for value in (info.max, info.min, root, -root if info.min else root + 1, _MODERATE):
                yield Case(
                    f"where {_name(dtype)} overflows", CaseFamily.EXTREME, extreme(dtype, value, floats=False)
                )
            yield Case(
                f"where {_name(dtype)} overflows",
                CaseFamily.EXTREME,
                extreme(dtype, info.max // 2, floats=False, everywhere=True),
            )
    if any(tensor.is_floating_point() for tensor in inputs):
        for float_type in _FLOATS:
            limits = torch.finfo(float_type)
            name = f"for {_name(float_type)} values near its limits"
            for number in (limits.max / 2, -limits.max / 2, limits.smallest_normal):
                yield Case(
                    name, CaseFamily.EXTREME, extreme(float_type, number, floats=True, everywhere=number > 1)
                )


# Dtypes


def _dtypes(inputs: list[torch.Tensor]) -> Iterator[Case]:
    floats = [argument for argument in inputs if argument.is_floating_point()]
    integers = [argument for argument in inputs if is_number(argument) and not argument.is_floating_point()]
    for dtype in _FLOATS if floats else ():
        change = convert_call(to_dtype(dtype, floats=True), dtype)
        yield Case(f"{_name(dtype)} inputs", CaseFamily.DTYPE, change)
    for dtype in _INTEGERS if integers else ():
        yield Case(f"{_name(dtype)} inputs", CaseFamily.DTYPE, change_each(to_dtype(dtype, floats=False)))
    yield from _scalars(inputs, floats or integers)
    if floats:
        device = floats[0].device.type
        yield Case("autocast", CaseFamily.DTYPE, around=functools.partial(_autocast, device))
    if integers:
        yield Case("float32 inputs", CaseFamily.DTYPE, change_each(to_dtype(torch.float32, floats=False)))
    for kind in _number_kinds(inputs):
        for truth in _TRUTHS:
            change = change_each(functools.partial(as_truth, truth=truth, floats=kind))
            yield Case("bool inputs", CaseFamily.DTYPE, change, has_variants=False)
    for dtype in _MASKS if any(argument.dtype is torch.bool for argument in inputs) else ():
        yield Case(
            f"{_name(dtype)} masks", CaseFamily.DTYPE, change_each(functools.partial(mask_to, dtype=dtype))
        )
    for index, tensor in enumerate(inputs[:_MAX_ALONE] if len(inputs) > 1 else ()):
        yield from _dtypes_alone(index, tensor)


def _scalars(inputs: list[torch.Tensor], numbers: list[torch.Tensor]) -> Iterator[Case]:
    """Inputs without dimensions: of two such tensors, the wider dtype counts, as it does not next to others.

    `numbers`: the floating-point inputs, or else the integers.
    """
    if not numbers or not any(tensor.dim() for tensor in inputs):
        return
    floats = numbers[0].is_floating_point()
    for dtype in dict.fromkeys(
        (torch.float16, torch.int8, numbers[0].dtype) if floats else (torch.int8, numbers[0].dtype)
    ):
        first = functools.partial(to_scalar, dtype=dtype, floats=floats)
        change = convert_call(first, dtype if dtype.is_floating_point else None)
        yield Case(f"{_name(dtype)} inputs {SCALAR}", CaseFamily.DTYPE, change, has_variants=False)


def _dtypes_alone(index: int, tensor: torch.Tensor) -> Iterator[Case]:
    """Another dtype of one input of several."""
    floats = tensor.is_floating_point()
    for dtype in (torch.float64, torch.float16, torch.int64) if floats else _INTEGERS[:2]:
        if tensor.dtype is not dtype:
            name = f"{_name(dtype)} for input {index}"
            yield Case(name, CaseFamily.DTYPE, change_one(index, to_dtype(dtype, floats=floats)))
    for truth in _TRUTHS[:2] if is_number(tensor) else ():
        change = change_one(index, functools.partial(as_truth, truth=truth, floats=floats))
        yield Case(f"bool for input {index}", CaseFamily.DTYPE, change, has_variants=False)


def _kinds(inputs: list[torch.Tensor]) -> Iterator[Case]:
    """Integers and complex numbers in place of floats, other floats and complex numbers in place of integers.

    A sum of integers that are narrower than 64 bits is int64. The integers come with both signs and as zeros, because
    the dtype may differ on one side of a branch alone. Most targets of floats refuse all of these.
    """
    kinds = _number_kinds(inputs)
    for dtype in _INTEGERS if True in kinds else ():
        for change in _signs(change_each(to_dtype(dtype, floats=True)), dtype):
            yield Case(f"{_name(dtype)} inputs", CaseFamily.DTYPE, change, has_variants=False)
    if False in kinds:
        yield Case("float64 inputs", CaseFamily.DTYPE, change_each(to_dtype(torch.float64, floats=False)))
    for floats in kinds:
        for factor in (1 + 0.5j, 1j):
            change = change_each(functools.partial(as_complex, factor=factor, floats=floats))
            yield Case("complex64 inputs", CaseFamily.DTYPE, change, has_variants=False)


def _number_kinds(inputs: list[torch.Tensor]) -> list[bool]:
    """Whether there are floats (True), and integers (False)."""
    return list(dict.fromkeys(tensor.is_floating_point() for tensor in inputs if is_number(tensor)))


def _signs(change: CallChange, dtype: torch.dtype) -> Iterator[CallChange]:
    """The change, then with the values negated if the dtype has a sign, and as zeros."""
    yield change
    if dtype.is_signed:
        yield then_negate(change)
    yield lambda prepared: change_each(torch.zeros_like)(change(prepared))


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _autocast(device: str) -> contextlib.AbstractContextManager[Any]:
    manager: contextlib.AbstractContextManager[Any] = torch.autocast(device, dtype=torch.bfloat16)
    return manager


# Options and layouts


def _options(prepared: Prepared) -> Iterator[Case]:
    """Each number and flag among the arguments as another."""
    named: list[tuple[int | str, Any]] = [*enumerate(prepared.args), *prepared.kwargs.items()]
    for key, value in named[: 2 * _MAX_ALONE]:
        for other in _other_numbers(value):
            shown = f"argument {key} = {other!r}"
            change = functools.partial(replace_argument, key=key, value=other)
            yield Case(shown, CaseFamily.OPTION, change)


def _other_numbers(value: object) -> tuple[bool | float, ...]:
    if isinstance(value, bool):
        return (not value,)
    if isinstance(value, int):
        return (value + 1, 0)
    if isinstance(value, float):  # an integer stands for a float, too
        return (value * 0.5 + 0.1, 0.0, 2)
    return ()


def _layouts(inputs: list[torch.Tensor]) -> Iterator[Case]:
    if any(tensor.dim() for tensor in inputs):
        yield Case("inputs that are not contiguous", CaseFamily.LAYOUT, change_each(spread))
    kinds = [(tensor.shape, tensor.dtype) for tensor in inputs]
    if len(set(kinds)) < len(kinds):
        yield Case("one tensor as several inputs", CaseFamily.LAYOUT, share_tensors)
