"""Each advice against recompilations does what it says: compiles are counted without it and with it.

Torch's own counters are the truth: nothing of Fuselight runs. The programs are compiled without a backend, in this
process.
"""

from __future__ import annotations

import contextlib
import inspect
import time
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.fx.experimental.symbolic_shapes import ConstraintViolationError

pytestmark = [pytest.mark.torch, pytest.mark.contract]

dynamo: Any = torch._dynamo


def compiled(function: Any, **options: Any) -> Any:
    return torch.compile(function, backend="eager", **options)


def compiles(program: Callable[[], None], **settings: object) -> int:
    """How many graphs a program compiles, with settings of torch._dynamo."""
    dynamo.reset()
    dynamo.utils.counters.clear()
    with dynamo.config.patch(**settings), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program()
    count: int = dynamo.utils.counters["stats"]["unique_graphs"]
    dynamo.reset()
    return count


def parameters(*, data: bool = False) -> None:
    def scaled(weight: torch.Tensor, update: torch.Tensor) -> None:
        weight.add_(update, alpha=-max(1.0, weight.size(0) / weight.size(1)))

    call = compiled(scaled)
    with torch.no_grad():
        for size in range(3, 9):
            weight = nn.Parameter(torch.ones(size * 4, size * 3))
            call(weight.data if data else weight, torch.ones(size * 4, size * 3))


def buffers() -> None:
    class Bank(nn.Module):
        rows: torch.Tensor

        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("rows", torch.zeros(2, 3))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + self.rows.sum(0)

    bank = Bank()
    call = compiled(bank)
    for size in range(2, 8):
        bank.rows = torch.zeros(size, 3)
        call(torch.ones(3))


class Scale(nn.Module):
    def __init__(self, index: int) -> None:
        super().__init__()
        self.index = index

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.index


def indices() -> None:
    for index in range(2, 8):
        compiled(Scale(index))(torch.ones(3))


class Descent:
    """An optimizer whose state is a dict of its parameters, as those of torch are."""

    def __init__(self, parameters: list[torch.Tensor]) -> None:
        self.state = {parameter: {"factor": 0.1} for parameter in parameters}

    def update(self, parameter: torch.Tensor) -> None:
        factor = self.state[parameter]["factor"]
        assert parameter.grad is not None
        parameter.sub_(parameter.grad * factor)


def gradients(*, set_to_none: bool) -> None:
    layer = nn.Linear(4, 4, bias=False)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    call = compiled(Descent([layer.weight]).update)
    for _ in range(6):
        layer(torch.ones(2, 4)).sum().backward()
        with torch.no_grad():
            call(layer.weight)
        optimizer.zero_grad(set_to_none=set_to_none)


def logs(*, outside: bool) -> None:
    rows: list[float] = []

    def inside(x: torch.Tensor) -> torch.Tensor:
        rows.append(x.sum().item())
        return x + 1

    def returned(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x + 1, x.sum()

    call = compiled(returned if outside else inside)
    for _ in range(5):
        value = call(torch.ones(3))
        if outside:
            rows.append(value[1].item())


def positions(how: str) -> None:
    table = torch.randn(64, 4)

    def at_start(x: torch.Tensor, start: Any) -> torch.Tensor:
        return x + table[start : start + 3]

    def at_positions(x: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        return x + table[places]

    call = compiled(at_positions if how == "positions" else at_start)
    for start in range(5):
        place: Any = torch.arange(start, start + 3) if how == "positions" else start
        call(torch.ones(3, 4), torch.tensor(start) if how == "tensor" else place)


def rates(*, tensor: bool) -> None:
    layer = nn.Linear(4, 4)
    optimizer = torch.optim.Adam(layer.parameters(), lr=torch.tensor(0.1) if tensor else 0.1)
    call = compiled(lambda: optimizer.step())  # noqa: PLW0108 - the bound method is not traced
    for step in range(5):
        layer(torch.ones(2, 4)).sum().backward()
        call()
        optimizer.zero_grad(set_to_none=False)
        for group in optimizer.param_groups:
            if tensor:
                group["lr"].fill_(0.1 / (step + 2))
            else:
                group["lr"] = 0.1 / (step + 2)


def momenta(*, cycled: bool) -> None:
    layer = nn.Linear(4, 4)
    optimizer = torch.optim.AdamW(layer.parameters(), lr=torch.tensor(1e-3))
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=0.01, total_steps=40, cycle_momentum=cycled
    )
    call = compiled(lambda: optimizer.step())  # noqa: PLW0108 - the bound method is not traced
    for _ in range(5):
        layer(torch.ones(2, 4)).sum().backward()
        call()
        optimizer.zero_grad(set_to_none=False)
        schedule.step()


def stages(*, first: bool) -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    call = compiled(model)
    if first:
        model[0].requires_grad_(requires_grad=False)
    call(torch.ones(2, 3))
    model[0].requires_grad_(requires_grad=False)
    call(torch.ones(2, 3))


def lengths(*, whole: bool) -> None:
    def grown(x: torch.Tensor, past: list[torch.Tensor]) -> torch.Tensor:
        return x + sum(tensor.sum() for tensor in past)

    call = compiled(grown)
    for length in range(4, 8):
        call(torch.ones(3), [torch.ones(2, 8 if whole else length) for _ in range(2)])


def varied(*sizes: int, mark: bool = False, unbacked: bool = False, **options: Any) -> None:
    call = compiled(lambda x: x.sin() + 1, **options)
    for number, size in enumerate(sizes):
        x = torch.ones(size, 3)
        if unbacked:
            dynamo.decorators.mark_unbacked(x, 0)
        if mark and number == 0:
            dynamo.mark_dynamic(x, 0)
        call(x)


def clocks(*, parts: bool) -> None:
    first, second = nn.Linear(3, 3), nn.Linear(3, 3)

    def both(x: Any) -> Any:
        start = time.time()
        hidden = first(x)
        spent.append(time.time() - start)
        return second(hidden)

    spent: list[float] = []
    calls = [compiled(part) for part in ((first, second) if parts else (both,))]
    for _ in range(4):
        x = torch.ones(2, 3)
        for call in calls:
            x = call(x)
            spent.append(time.time())


ROWS = torch.ones(8, 3)


def marked(size: int) -> torch.Tensor:
    x = torch.ones(size, 3)
    dynamo.mark_dynamic(x, 0)
    return x


Operator = Callable[[torch.Tensor, torch.Tensor], Any]


def of_marked(operator: Operator, *, both: bool) -> None:
    """Calls for sizes that are marked: that of the first argument, or of `both`."""
    call = compiled(operator)
    for size in (8, 4, 6):
        call(marked(size), marked(size) if both else torch.ones(size, 3))


class Counter(nn.Module):
    calls: Any

    def __init__(self, *, tensor: bool) -> None:
        super().__init__()
        self.calls = torch.tensor(0) if tensor else 0
        self.is_tensor = tensor

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.is_tensor:
            self.calls.add_(1)
            factor: torch.Tensor = torch.clamp(self.calls / 4, max=1.0)
            return x * factor
        self.calls += 1
        share: float = min(1.0, self.calls / 4)
        return x * share


def counted(*, tensor: bool) -> None:
    call = compiled(Counter(tensor=tensor))
    for _ in range(6):
        call(torch.ones(3))


class Column(nn.Linear):
    def __init__(self, key: str) -> None:
        super().__init__(3, 3)
        self.key = key

    def forward(self, x: Any) -> torch.Tensor:
        return super().forward(x if isinstance(x, torch.Tensor) else x[self.key])


KEYS = "abcdefgh"


def columns(*, selected: bool, **options: Any) -> None:
    batch = {key: torch.ones(2, 3) for key in KEYS}
    for key in KEYS:
        compiled(Column(key), **options)(batch[key] if selected else batch)


def checked(how: str) -> None:
    def raising(x: torch.Tensor) -> torch.Tensor:
        if x.isnan().any():
            raise ValueError("nan")
        return x + 1

    def asserting(x: torch.Tensor) -> torch.Tensor:
        torch._assert_async(~x.isnan().any(), "nan")
        return x + 1

    compiled(raising if how == "raise" else asserting)(torch.ones(3))


STATIC = {"force_parameter_static_shapes": False}
MORE = 3
"""Compiles from which on a program is one that compiles again and again."""


@pytest.mark.parametrize(
    ("without", "with_it", "settings", "left"),
    [
        (parameters, parameters, STATIC, 2),
        (parameters, lambda: parameters(data=True), {}, 2),
        (buffers, buffers, STATIC, 2),
        (indices, indices, {"allow_unspec_int_on_nn_module": True}, 2),
        (lambda: gradients(set_to_none=True), lambda: gradients(set_to_none=False), {}, 1),
        (lambda: logs(outside=False), lambda: logs(outside=True), {}, 1),
        (lambda: positions("start"), lambda: positions("positions"), {}, 1),
        (lambda: rates(tensor=False), lambda: rates(tensor=True), {}, 1),
        (lambda: momenta(cycled=True), lambda: momenta(cycled=False), {}, 1),
        (lambda: stages(first=False), lambda: stages(first=True), {}, 1),
        (lambda: lengths(whole=False), lambda: lengths(whole=True), {}, 1),
        (lambda: varied(1, 2, 4, 8, dynamic=False), lambda: varied(1, 2, 4, 8), {}, 2),
        (lambda: varied(7, 1, 12), lambda: varied(7, 1, 12, mark=True), {}, 2),
        (lambda: clocks(parts=False), lambda: clocks(parts=True), {}, 2),
        (lambda: varied(6, 9, 1), lambda: varied(6, 9, 2), {}, 2),
        (lambda: varied(6, 1, dynamic=True), lambda: varied(6, 2, dynamic=True), {}, 1),
        (lambda: varied(6, 1, 9), lambda: varied(6, 1, 9, unbacked=True), {}, 1),
        (lambda: counted(tensor=False), lambda: counted(tensor=True), {}, 1),
        (
            lambda: counted(tensor=False),
            lambda: counted(tensor=False),
            {"allow_unspec_int_on_nn_module": True},
            2,
        ),
        (lambda: columns(selected=False), lambda: columns(selected=True), {}, 1),
        (lambda: checked("raise"), lambda: checked("assert"), {}, 1),
    ],
    ids=[
        "parameters",
        "data",
        "buffers",
        "indices",
        "gradients",
        "logs",
        "positions",
        "rates",
        "momenta",
        "stages",
        "lengths",
        "static",
        "small",
        "clocks",
        "padded",
        "padded dynamic size",
        "unbacked",
        "counter",
        "counter setting",
        "strings",
        "assert",
    ],
)
def test_what_is_advised_saves_the_compiles(
    without: Callable[[], None], with_it: Callable[[], None], settings: dict[str, object], left: int
) -> None:
    before = compiles(without)
    assert compiles(with_it, **settings) == left < before


@pytest.mark.parametrize(
    ("fixing", "free"),
    [
        (lambda x, _: x + ROWS, lambda x, _: x + ROWS[: x.size(0)]),
        (lambda x, _: x + ROWS, lambda x, _: x + ROWS[:1].expand(x.size(0), -1)),
        (lambda x, _: x.view(8, -1), lambda x, _: x.view(x.size(0), -1)),
        (lambda x, _: sum(x[i] for i in range(x.size(0))), lambda x, _: x.sum(0)),
        (lambda x, y: x + y, None),
    ],
    ids=["slice", "expand", "number", "loop", "mark both"],
)
def test_without_what_fixes_it_a_marked_size_needs_one_compile(
    fixing: Operator, free: Operator | None
) -> None:
    with pytest.raises(ConstraintViolationError):
        compiles(lambda: of_marked(fixing, both=False))
    assert compiles(lambda: of_marked(free or fixing, both=free is None)) == 1


def test_a_tensor_as_a_bound_of_a_slice_leaves_nothing_compiled() -> None:
    assert compiles(lambda: positions("tensor")) == 0


@pytest.mark.parametrize(("sizes", "count"), [((6, 1), 2), ((1, 6, 9), 2), ((9, 1, 5), 3), ((1, 0, 5), 3)])
def test_the_compiles_to_expect_for_small_sizes_are_those_of_torch(
    sizes: tuple[int, ...], count: int
) -> None:
    assert compiles(lambda: varied(*sizes)) == count


@pytest.mark.skipif(
    "isolate_recompiles" not in inspect.signature(torch.compile).parameters,
    reason="the option is of torch 2.13 and newer",
)
def test_each_object_with_compiled_code_of_its_own_stays_below_the_limit() -> None:
    assert compiles(lambda: columns(selected=False), recompile_limit=2) == 2
    assert compiles(lambda: columns(selected=False, isolate_recompiles=True), recompile_limit=2) == len(KEYS)


@pytest.mark.parametrize(
    "operator",
    [
        lambda x: torch.zeros(4, dtype=torch.long).scatter_add_(0, x, torch.ones_like(x)),
        lambda x: nn.functional.one_hot(x, 4).sum(0),
        lambda x: torch.nonzero_static(x > 1, size=5),
        lambda x: torch.repeat_interleave(x, x, output_size=6),
        lambda x: torch.where(torch.rand(()) < 0.5, x, x + 1),
        lambda x: x.new_empty(3, dtype=torch.float).normal_().clamp_(-2, 2),
    ],
    ids=["scatter_add", "one_hot", "nonzero_static", "repeat_interleave", "rand", "clamp"],
)
def test_what_is_advised_instead_of_an_operator_breaks_no_graph(
    operator: Callable[[torch.Tensor], torch.Tensor],
) -> None:
    call = compiled(operator)
    assert compiles(lambda: call(torch.tensor([0, 1, 1, 3, 1]))) == 1
    assert not dynamo.utils.counters["graph_break"]


def test_a_reset_before_each_new_object_keeps_all_of_them_compiled() -> None:
    def sweep(*, reset: bool) -> None:
        for width in range(2, 2 + MORE):
            if reset:
                dynamo.reset()
            kind = type("Net", (nn.Linear,), {"forward": lambda self, x: self.weight @ x})
            compiled(kind(width, width), fullgraph=True)(torch.ones(width))

    with contextlib.suppress(Exception):
        assert compiles(lambda: sweep(reset=False), recompile_limit=1) < MORE
    assert compiles(lambda: sweep(reset=True), recompile_limit=1) == MORE
