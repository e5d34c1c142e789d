"""Sums in another order round by what compiling the old text rounds; a changed formula is no rounding."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch

from fuselight.measure.accuracy.results import CallResults, Value
from fuselight.worker.live.call_records import CallRecord
from fuselight.worker.live.record_comparison import MeasuredRounding, agree_in_float64, compare_records

pytestmark = pytest.mark.torch

WIDTH = 64


@dataclass(frozen=True)
class Layer:
    """A normalization, a multiplication and an activation, whose sums have an order."""

    order: int = 0
    depth: int = 1
    gain: float = 1.0
    scale: float = 1.0
    epsilon: float = 1e-5
    is_inside: bool = True
    approximate: str = "none"
    accumulates: torch.dtype = torch.float32

    def __call__(self) -> torch.Tensor:
        generator = torch.Generator().manual_seed(0)
        x = torch.randn(32, WIDTH, generator=generator)
        for _ in range(self.depth):
            weight = torch.randn(WIDTH, WIDTH, generator=generator) * (self.gain / math.sqrt(WIDTH))
            x = self.step(x, weight)
        return x * self.scale

    def step(self, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        places = torch.randperm(WIDTH, generator=torch.Generator().manual_seed(self.order))
        places = places if self.order else torch.arange(WIDTH)
        size = x[:, places].square().mean(-1, keepdim=True)
        root = (size + self.epsilon).sqrt() if self.is_inside else size.sqrt() + self.epsilon
        product = (x / root)[:, places].to(self.accumulates) @ weight[places].to(self.accumulates)
        return torch.nn.functional.gelu(product.float(), approximate=self.approximate)


def record(*tensors: torch.Tensor, dtype: str = "") -> CallRecord:
    values = (
        Value(f"output[{index}]", tensor, dtype or str(tensor.dtype), tuple(tensor.shape))
        for index, tensor in enumerate(tensors)
    )
    return CallRecord(CallResults(tuple(values)))


def is_rounding(
    new: torch.Tensor, eager: torch.Tensor, compiled: torch.Tensor | None, *, dtype: str = ""
) -> bool:
    """Whether a compiled call of a new text differs from the eager call by rounding alone."""
    old = record(eager, dtype=dtype)
    measured = None if compiled is None else MeasuredRounding(old, record(compiled, dtype=dtype))
    differences = compare_records(record(new, dtype=dtype), old, compiled=True, measured=measured)
    return all(difference.rounding for difference in differences)


def deep(order: int = 0, accumulates: torch.dtype = torch.float32) -> torch.Tensor:
    """The results of a network that amplifies rounding beyond the tolerance of its dtype."""
    return Layer(order=order, depth=24, gain=4.0, accumulates=accumulates)()


@pytest.mark.parametrize("order", range(2, 8))
@pytest.mark.parametrize("accumulates", [torch.float32, torch.float64])
def test_another_order_of_sums_is_rounding(order: int, accumulates: torch.dtype) -> None:
    eager, compiled = deep(), deep(1)
    new = deep(order, accumulates)
    assert not is_rounding(new, eager, None), "the tolerance of the dtype alone does not cover it"
    assert is_rounding(new, eager, compiled)
    assert not is_rounding(new, eager, eager), "an old text that compiling does not move allows nothing more"


CHANGES: dict[str, Callable[..., Layer]] = {
    "a factor close to one": lambda **kept: Layer(scale=1.00001, **kept),
    "no epsilon": lambda **kept: Layer(epsilon=0.0, **kept),
    "an epsilon outside of the root": lambda **kept: Layer(is_inside=False, **kept),
    "an approximate activation": lambda **kept: Layer(approximate="tanh", **kept),
    "sums in float16": lambda **kept: Layer(accumulates=torch.float16, **kept),
    "sums in bfloat16": lambda **kept: Layer(accumulates=torch.bfloat16, **kept),
}


@pytest.mark.parametrize("change", CHANGES)
def test_another_formula_is_no_rounding_in_either_mode(change: str) -> None:
    eager, compiled = Layer()(), Layer(order=1)()
    (difference,) = compare_records(record(CHANGES[change]()()), record(eager), compiled=False)
    assert not difference.rounding
    for order in range(4):
        assert not is_rounding(CHANGES[change](order=order)(), eager, compiled)
        assert is_rounding(Layer(order=order)(), eager, compiled)


def test_what_the_old_text_computes_otherwise_measures_nothing() -> None:
    eager, compiled = deep(), deep(1)
    new = deep(2)
    assert is_rounding(new, eager, compiled)
    assert not is_rounding(new, eager, compiled * 1.001), "other random numbers, or another formula"
    assert not is_rounding(new * 1.001, eager, compiled * 1.001)


def test_a_gradient_of_pure_rounding_may_be_any_such() -> None:
    generator = torch.Generator().manual_seed(0)
    eager, compiled, new = (torch.randn(1000, generator=generator) * 1e-7 for _ in range(3))
    assert not is_rounding(new, eager, None)
    assert is_rounding(new, eager, compiled)
    assert not is_rounding(new * 100, eager, compiled)


def test_the_distance_of_one_element_is_not_hidden_by_many() -> None:
    eager, compiled = deep(), deep(1)
    largest = float((compiled - eager).abs().max())
    new = compiled.clone()
    new[0, 0] = eager[0, 0] + 8 * largest
    assert not is_rounding(new, eager, compiled)


@pytest.mark.parametrize(
    ("new", "compiled"),
    [
        (math.nan, 1.0),
        (math.inf, 1.0),
        (1.0, math.nan),
        (1.0, math.inf),
        (-math.inf, math.inf),
        (math.nan, math.inf),
    ],
)
def test_what_is_not_finite_must_be_equal(new: float, compiled: float) -> None:
    eager, moved, other = (deep(order) for order in range(3))
    moved[0, 0], other[0, 0] = compiled, new
    if not math.isfinite(compiled) and not math.isfinite(new):
        eager[0, 0] = compiled
    assert not is_rounding(other, eager, moved)
    eager[0, 0] = moved[0, 0] = other[0, 0] = math.nan
    assert is_rounding(other, eager, moved)


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool])
def test_integers_never_round(dtype: torch.dtype) -> None:
    eager, compiled = torch.tensor([1, 0, 3]).to(dtype), torch.tensor([0, 0, 3]).to(dtype)
    assert not is_rounding(compiled, eager, compiled)


def test_shape_and_dtype_never_round() -> None:
    eager, compiled = deep(), deep(1)
    assert not is_rounding(eager.double(), eager, compiled)
    assert not is_rounding(eager[:1], eager, compiled)


def test_a_number_of_python_may_come_from_float32() -> None:
    eager, compiled, new = (torch.tensor(value, dtype=torch.float64) for value in (0.5, 0.5000001, 0.4999999))
    assert is_rounding(new, eager, compiled, dtype="float")
    assert not is_rounding(new, eager, eager, dtype="float")
    assert not is_rounding(new, eager, None, dtype="float")


@dataclass(frozen=True)
class Total:
    """Sums of many terms, normalized: in float32, each order gives others."""

    order: int = 0
    factor: float = 1.0
    epsilon: float = 1e-6
    term: float = 1e-6

    def __call__(self, dtype: torch.dtype = torch.float32) -> CallRecord:
        terms = torch.randn(20000, 16, generator=torch.Generator().manual_seed(0)).to(dtype)
        places = torch.randperm(20000, generator=torch.Generator().manual_seed(self.order))
        total = functools.reduce(torch.Tensor.add, terms[places].unbind()) / 500
        return record(total / (total.norm() + self.epsilon) * self.factor + self.term)


def test_many_terms_in_another_order_are_the_same_in_float64() -> None:
    old, new = Total(), Total(order=1)
    single = old()
    measured = MeasuredRounding(single, single)
    near = replace(measured, is_near=True)
    (strict,) = compare_records(new(), single, compiled=True, measured=measured)
    (rounded,) = compare_records(new(), single, compiled=True, measured=near)
    assert (strict.rounding, rounded.rounding) == (False, True)
    double = old(torch.float64)
    assert agree_in_float64(new(torch.float64), double, single)
    for changed in (
        Total(order=1, factor=1.000001),
        Total(order=1, epsilon=0.0),
        Total(order=1, term=0.0),
    ):
        assert not agree_in_float64(changed(torch.float64), double, single)
    assert not agree_in_float64(new(), double, single), "a result that stays float32 shows nothing"
    assert not agree_in_float64(CallRecord(CallResults(), raised="TypeError"), double, single)


def test_what_is_far_from_rounding_is_not_near_it() -> None:
    single = Total()()
    measured = MeasuredRounding(single, single, is_near=True)
    for changed in (Total(factor=1.0001), Total(term=1e-4), Total(factor=math.nan)):
        (difference,) = compare_records(changed(), single, compiled=True, measured=measured)
        assert not difference.rounding


def test_each_value_has_its_rounding() -> None:
    eager, compiled, new = (deep(order) for order in range(3))
    shared: Any = torch.ones(4)
    old = record(eager, shared)
    measured = MeasuredRounding(old, record(compiled, shared))
    assert all(
        record.rounding
        for record in compare_records(record(new, shared), old, compiled=True, measured=measured)
    )
    (difference,) = compare_records(record(new, shared * 1.00001), old, compiled=True, measured=measured)
    assert not difference.rounding
    assert difference.text.startswith("output[1]: element [0] was 1")
