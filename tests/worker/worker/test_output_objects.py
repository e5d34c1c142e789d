"""Whatever a call returns is compared, or named as what cannot be: nothing is ignored."""

from __future__ import annotations

import collections
import dataclasses
import enum
import functools
import io
import random
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

from fuselight.capture.calls.calls import Prepared
from fuselight.shared.report import Difference
from fuselight.worker.live.call_records import CallRecord, RecordingStream, load_record, record_call
from fuselight.worker.live.record_comparison import compare_records

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore:Sparse|torch.quantize_per_tensor")]


class Color(enum.Enum):
    RED = 1
    BLUE = 2


class Pair(NamedTuple):
    first: Any
    second: Any


@dataclasses.dataclass
class Result:
    value: Any
    note: str = "a"


class Held:
    def __init__(self, value: Any) -> None:
        self.value = value

    def double(self) -> Any:
        return 2 * self.value


class Slotted:
    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


class Marked(torch.Tensor):
    pass


class Named(dict[str, Any]):
    pass


def dense(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float32)


def closing(value: Any) -> Callable[[], Any]:
    return lambda: value


def marked(text: str) -> Named:
    named_mapping = Named(a=1)
    named_mapping.text = text  # type: ignore[attr-defined]
    return named_mapping


def linear(value: float) -> torch.nn.Module:
    layer = torch.nn.Module()
    layer.weight = torch.nn.Parameter(torch.tensor([value]))
    return layer


def nested(depth: int) -> list[Any]:
    return [nested(depth - 1)] if depth else []


PAIRS: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
    "a list and a tuple": (lambda: [dense(1)], lambda: (dense(1),)),
    "a named tuple": (lambda: Pair(dense(1), 2), lambda: Pair(dense(1), 3)),
    "a named tuple and a tuple": (lambda: Pair(dense(1), 2), lambda: (dense(1), 2)),
    "a dataclass": (lambda: Result(dense(1), "a"), lambda: Result(dense(1), "b")),
    "an attribute of a dict": (lambda: marked("a"), lambda: marked("b")),
    "the order of keys": (lambda: {"a": 1, "b": 2}, lambda: {"b": 2, "a": 1}),
    "a tensor as a key": (lambda: {dense(1): 1}, lambda: {dense(2): 1}),
    "the length of an empty list": (lambda: [[], dense(1)], lambda: [(), dense(1)]),
    "an object": (lambda: Held(dense(1)), lambda: Held(dense(2))),
    "the flag of a tensor in an object": (lambda: Held(dense(1)), lambda: Held(dense(1).requires_grad_())),
    "a number in an object": (lambda: Held([1, 2.5]), lambda: Held([1, 2.0])),
    "slots": (lambda: Slotted(dense(1)), lambda: Slotted(dense(2))),
    "an object in an object": (lambda: Held(Held("a")), lambda: Held(Held("b"))),
    "a set": (lambda: {1, 2}, lambda: {1, 3}),
    "a tensor in a set": (lambda: {dense(1)}, lambda: {dense(2)}),
    "a deque": (lambda: collections.deque([dense(1)]), lambda: collections.deque([dense(2)])),
    "an enum": (lambda: Color.RED, lambda: Color.BLUE),
    "a class": (lambda: Held, lambda: Slotted),
    "a dtype": (lambda: torch.float32, lambda: torch.float64),
    "a long text": (lambda: "a" * 500 + "b", lambda: "a" * 500 + "c"),
    "a large integer": (lambda: 1 << 70, lambda: 1 << 71),
    "an array": (lambda: np.ones(3), lambda: np.zeros(3)),
    "the dtype of an array": (lambda: np.ones(3), lambda: np.ones(3, dtype=np.float32)),
    "a number of NumPy": (lambda: np.float32(1.0), lambda: np.float32(2.0)),
    "text in an array": (lambda: np.array(["a"]), lambda: np.array(["b"])),
    "a module": (lambda: linear(1.0), lambda: linear(2.0)),
    "a mode": (lambda: linear(1.0), lambda: linear(1.0).eval()),
    "what a function closes over": (lambda: closing(dense(1)), lambda: closing(dense(2))),
    "the code of a function": (lambda: lambda x: x + 1, lambda: lambda x: x + 2),
    "the object of a method": (lambda: Held(1).double, lambda: Held(2).double),
    "a partial": (lambda: functools.partial(torch.add, 1), lambda: functools.partial(torch.add, 2)),
    "a function of torch": (lambda: torch.relu, lambda: torch.tanh),
    "a generator of random numbers": (lambda: random.Random(1), lambda: random.Random(2)),  # noqa: S311 - compared
    "an exception": (lambda: ValueError("a"), lambda: ValueError("b")),
    "meta and cpu": (lambda: torch.ones(2, device="meta"), lambda: torch.ones(2)),
    "the shape of a meta tensor": (
        lambda: torch.ones(2, device="meta"),
        lambda: torch.ones(3, device="meta"),
    ),
    "the dtype of a meta tensor": (
        lambda: torch.ones(2, device="meta"),
        lambda: torch.ones(2, device="meta", dtype=torch.float64),
    ),
    "cpu beside meta": (
        lambda: (torch.ones(2, device="meta"), dense(1)),
        lambda: (torch.ones(2, device="meta"), dense(2)),
    ),
    "sparse and dense": (lambda: dense(0, 1).to_sparse(), lambda: dense(0, 1)),
    "a sparse tensor": (lambda: dense(0, 1).to_sparse(), lambda: dense(0, 2).to_sparse()),
    "a zero that is stored": (
        lambda: torch.sparse_coo_tensor(torch.tensor([[0, 1]]), dense(0, 1), (2,)),
        lambda: dense(0, 1).to_sparse(),
    ),
    "rows of a sparse tensor": (
        lambda: torch.eye(2).to_sparse_csr(),
        lambda: torch.full((2, 2), 2.0).to_sparse_csr(),
    ),
    "a quantized tensor": (
        lambda: torch.quantize_per_tensor(dense(1, 2), 0.1, 0, torch.qint8),
        lambda: torch.quantize_per_tensor(dense(1, 3), 0.1, 0, torch.qint8),
    ),
    "a subclass": (lambda: dense(1).as_subclass(Marked), lambda: dense(2).as_subclass(Marked)),
    "a subclass and a tensor": (lambda: dense(1).as_subclass(Marked), lambda: dense(1)),
    "text and None": (lambda: ["a", dense(1)], lambda: [None, dense(1)]),
    "one object twice": (lambda: [held_worker := Held(1), held_worker], lambda: [Held(1), Held(1)]),
}
"""Outputs that differ; each equals itself."""
UNCOMPARED: dict[str, Callable[[], Any]] = {
    "a generator": lambda: (number for number in [1]),
    "an iterator": lambda: [dense(1), iter([1])],
    "a lock": lambda: Held(threading.Lock()),
    "a file": lambda: io.StringIO("a"),
    "several objects in a set": lambda: {Held(1), Held(2)},
    "keys of one text": lambda: {dense(1): 1, dense(1): 2},
    "too deep": lambda: nested(20),
}


def record(make: Callable[[], Any], path: Any) -> CallRecord:
    streams = RecordingStream(io.StringIO()), RecordingStream(io.StringIO())
    call_record, error = record_call(Prepared(lambda: None, (), {}), {}, streams, make)
    assert error is None
    call_record.save(str(path))
    return load_record(str(path))


def differences(
    old: Callable[[], Any], new: Callable[[], Any], folder: Any, *, compiled: bool
) -> tuple[Difference, ...]:
    return compare_records(record(new, folder / "new"), record(old, folder / "old"), compiled=compiled)


@pytest.mark.parametrize("case", PAIRS)
@pytest.mark.parametrize("compiled", [False, True])
def test_outputs_of_any_type_are_compared(case: str, tmp_path: Any, *, compiled: bool) -> None:
    old, new = PAIRS[case]
    assert any(not difference.rounding for difference in differences(old, new, tmp_path, compiled=compiled))
    for function in (old, new):
        assert differences(function, function, tmp_path, compiled=compiled) == ()


@pytest.mark.parametrize("case", UNCOMPARED)
def test_an_output_that_cannot_be_compared_is_a_difference(case: str, tmp_path: Any) -> None:
    make = UNCOMPARED[case]
    (difference,) = differences(make, make, tmp_path, compiled=False)
    assert difference.text.endswith(", which cannot be compared")
