"""Everything that a call can reach is given back what it held, by changing the same objects."""

from __future__ import annotations

import collections
import functools
import itertools
import random
import sys
from types import ModuleType, SimpleNamespace
from typing import Any, NoReturn

import numpy as np
import pytest
import torch
from torch.testing._internal.two_tensor import TwoTensor

from fuselight.worker.results import saved_state
from fuselight.worker.results.saved_state import SavedState, UnsavedError

pytestmark = pytest.mark.torch


class Slotted:
    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 1


class Holder:
    total = 0
    seen: list[int] = []  # noqa: RUF012 - what a class of a user's may have

    def __init__(self) -> None:
        self.items = [1, 2]
        self.named = {"a": [1]}

    @property
    def refused(self) -> NoReturn:
        raise RuntimeError("no property is read")


def state_of(*reached: Any, names: dict[str, Any] | None = None) -> SavedState:
    return SavedState(list(reached), [] if names is None else [names], lambda path: path == __file__)


def test_containers_get_their_items_back_in_order() -> None:
    nested = [2]
    mapping, items, window, kinds = {"a": 1, "b": 2}, [1, nested], collections.deque([1, 2], maxlen=2), {1, 2}
    ordered, counts = collections.OrderedDict(a=1, b=2), collections.defaultdict(int, a=1)
    state = state_of((mapping, items), {"inner": (window, kinds)}, ordered, counts)
    mapping.clear()
    mapping["c"] = 3
    nested.append(9)
    items.insert(0, 0)
    window.append(3)
    kinds.add(3)
    ordered.move_to_end("a")
    counts["new"] += 1
    state.restore()
    assert (mapping, items, window, kinds) == ({"a": 1, "b": 2}, [1, [2]], collections.deque([1, 2]), {1, 2})
    assert (list(ordered), dict(counts), counts["absent"]) == (["a", "b"], {"a": 1}, 0)


def test_objects_classes_closures_and_globals() -> None:
    holder, slotted, space = Holder(), Slotted(), SimpleNamespace(scale=1.0)
    count = 0

    def step() -> int:
        nonlocal count
        count += 1
        return count

    names: dict[str, Any] = {"number": 1, "holder": holder}
    state = state_of(step, slotted, space, Holder, names=names)
    step()
    holder.items.append(3)
    holder.named["a"].append(2)
    holder.extra = 1  # type: ignore[attr-defined]
    Holder.total = 5
    Holder.seen.append(1)
    slotted.count = 9
    space.scale = 2.0
    names["number"], names["added"] = 2, 3
    state.restore()
    assert (count, holder.items, holder.named, set(vars(holder))) == (
        0,
        [1, 2],
        {"a": [1]},
        {"items", "named"},
    )
    assert (Holder.total, Holder.seen, slotted.count, space.scale) == (0, [], 1, 1.0)
    assert names == {"number": 1, "holder": holder}


def test_tensors_of_one_memory_gradients_and_modules() -> None:
    base = torch.arange(6.0)
    view, net = base[2:4], torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2))
    optimizer = torch.optim.Adam(net.parameters())
    net(torch.rand(4, 2)).sum().backward()
    optimizer.step()
    kept = {name: value.clone() for name, value in net.state_dict().items()}
    gradients = [parameter.grad for parameter in net.parameters()]
    moments = {key: value["exp_avg"].clone() for key, value in optimizer.state.items()}
    state = state_of(view, base, net, optimizer)
    view.fill_(9)
    net.eval()
    optimizer.zero_grad()
    net.train()
    net(torch.rand(4, 2)).square().sum().backward()
    optimizer.step()
    state.restore()
    assert base.tolist() == [0, 1, 2, 3, 4, 5]
    assert all(torch.equal(value, kept[name]) for name, value in net.state_dict().items())
    assert all(parameter.grad is grad for parameter, grad in zip(net.parameters(), gradients, strict=True))
    assert all(torch.equal(value["exp_avg"], moments[key]) for key, value in optimizer.state.items())


def test_a_tensor_that_is_made_of_others_is_given_back_by_them() -> None:
    inner = TwoTensor(torch.ones(2), torch.zeros(2))  # type: ignore[no-untyped-call]
    state = state_of(inner)
    inner.a.add_(1)
    inner.b.add_(2)
    state.restore()
    assert (inner.a.tolist(), inner.b.tolist()) == ([1, 1], [0, 0])


@pytest.mark.filterwarnings("ignore:Sparse CS")
@pytest.mark.parametrize("layout", ["sparse", "sparse_csr", "sparse_csc"])
def test_sparse_tensors_get_their_indices_and_values_back(layout: str) -> None:
    tensor = getattr(torch.eye(3), f"to_{layout}")()
    names = {"table": tensor}
    state = state_of(names=names)
    state.restore()
    assert names["table"] is tensor
    parts = tensor._values() if layout == "sparse" else tensor.values()
    parts.mul_(7)
    if layout == "sparse":
        tensor.add_(torch.ones(3, 3).to_sparse())
    state.restore()
    assert names["table"] is tensor
    assert torch.equal(tensor.to_dense(), torch.eye(3))


def test_a_layout_that_cannot_be_read_is_named() -> None:
    with pytest.raises(UnsavedError, match=r"layout torch\._mkldnn"):
        state_of(torch.ones(3).to_mkldnn())


def cached(kind: Any) -> tuple[Any, Any]:
    calls = itertools.count()

    def table(_size: object, *, scale: float = 1.0) -> torch.Tensor:
        next(calls)
        return torch.full((2,), scale)

    return kind(table), calls


@pytest.mark.parametrize("kind", [functools.cache, functools.lru_cache(maxsize=3)])
def test_a_cache_of_functools_holds_what_it_held(kind: Any) -> None:
    table, calls = cached(kind)
    empty = state_of(table)
    table(1)
    empty.restore()
    assert table.cache_info().currsize == 0
    kept = [table(1), table("a", scale=2.0), table((3, 4))]
    state = state_of(table)
    kept[0].add_(9)
    assert not state.caches[0].has_changed
    table(5)
    assert state.caches[0].has_changed
    state.restore()
    assert (table.cache_info().currsize, kept[0].tolist()) == (3, [1, 1])
    held = [table(1), table("a", scale=2.0), table((3, 4))]
    assert all(now is was for now, was in zip(held, kept, strict=True))
    assert next(calls) == 5, "the user's function did not run to put an entry back"


def test_a_cache_that_cannot_be_put_back_is_named() -> None:
    table, _ = cached(functools.lru_cache(typed=True))
    state_of(table)
    table(1)
    with pytest.raises(UnsavedError, match=r"the cache of `cached\.<locals>\.table`"):
        state_of(table)


def test_what_has_not_changed_is_not_touched() -> None:
    class Watched(dict[str, int]):
        writes = 0

        def __setitem__(self, key: str, value: int) -> None:
            Watched.writes += 1
            super().__setitem__(key, value)

    watched, weight = Watched(a=1), torch.nn.Parameter(torch.ones(2))
    state = state_of(watched, weight)
    version = weight._version
    state.restore()
    assert (Watched.writes, weight._version) == (0, version)


def test_generators_of_random_numbers_and_arrays() -> None:
    own, of_torch, array = random.Random(1), torch.Generator().manual_seed(1), np.arange(3)  # noqa: S311
    of_numpy = np.random.default_rng(1)
    state = state_of(own, of_torch, array, of_numpy)

    def drawn() -> tuple[Any, ...]:
        return (
            own.random(),
            random.random(),  # noqa: S311 - the generator that programs share
            torch.rand(1, generator=of_torch).item(),
            torch.rand(1).item(),
            of_numpy.random(),
            np.random.random(),  # noqa: NPY002 - the generator that programs share
        )

    before = drawn()
    array[0] = 7
    state.restore()
    assert drawn() == before
    assert array.tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ((number for number in (1, 2)), "a generator, which cannot be read twice"),
        ([torch.ones(1 << 10), torch.ones(1 << 10)], "more than 0 GiB of tensors"),
        ([[] for _ in range(60)], "more than 50 objects"),
    ],
)
def test_what_cannot_be_given_back_is_named(value: Any, why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saved_state, "MAX_BYTES", 6000)
    monkeypatch.setattr(saved_state, "_MAX_OBJECTS", 50)
    with pytest.raises(UnsavedError, match=why):
        state_of(value)


def test_modules_and_circles_end() -> None:
    circle: list[Any] = [sys, ModuleType("own"), torch]
    circle.append(circle)
    state = state_of(circle)
    circle.append(1)
    state.restore()
    assert circle[3] is circle
    assert len(circle) == 4


def test_a_variable_of_a_closure_may_have_no_value_before_or_after() -> None:
    def outer() -> tuple[Any, Any]:
        first = 1
        if not first:
            second = 0

        def call() -> None:
            nonlocal first, second
            del first
            second = 2

        cells = dict(zip(call.__code__.co_freevars, call.__closure__ or (), strict=True))
        return call, lambda: [name for name, cell in cells.items() if "empty" not in repr(cell)]

    call, read = outer()
    state = state_of(call)
    assert read() == ["first"]
    call()
    assert read() == ["second"]
    state.restore()
    assert read() == ["first"]


def test_what_sets_hold_gets_its_state_back() -> None:
    first, second = Holder(), Holder()
    state = state_of({first}, frozenset({second}))
    for holder in (first, second):
        holder.items.append(3)
    state.restore()
    assert first.items == second.items == [1, 2]


def test_a_generator_that_no_code_of_the_call_reads_is_not_its_state() -> None:
    names: dict[str, Any] = {}
    exec(  # noqa: S102 - a file of a user's
        "def helper(x):\n    return next(batches) + x\n"
        "def decorated(x):\n    return helper(x)\n"
        "def plain(x):\n    return x + rate\n"
        "def by_text(x):\n    return globals()['batches'], x\n"
        "class Net:\n    def forward(self, x):\n        return helper(x)\n"
        "def main():\n    for batch in batches:\n        plain(batch)\n"
        "rate = 2\nbatches = (number for number in range(3))\n",
        names,
    )
    SavedState([names["plain"]], [names], lambda _path: True)
    for reads in ("helper", "decorated", "by_text", "main"):
        with pytest.raises(UnsavedError, match="a generator"):
            SavedState([names[reads]], [names], lambda _path: True)
    with pytest.raises(UnsavedError, match="a generator"):
        SavedState([names["Net"]().forward], [names], lambda _path: True)
    assert list(names["batches"]) == [0, 1, 2]
