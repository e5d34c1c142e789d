"""Calls of compiled functions are made in eager mode, too, and compared: what differs by rounding is no fault."""

from __future__ import annotations

from typing import Any

import pytest

from fuselight.shared.protocol import AccuracyRequest
from fuselight.shared.report import Aspect, ComparedCall, RandomDraws, ResultComparison
from tests.support.live_worker import LiveWorker

HEAD = """\
import functools
import torch
from torch import nn
aot = functools.partial(torch.compile, backend="aot_eager")
decomposed = functools.partial(torch.compile, backend="aot_eager_decomp_partition")
"""
LINE = len(HEAD.splitlines())


def compared(live: LiveWorker, body: str, **options: Any) -> ResultComparison:
    source = f"{HEAD}{body}"
    report = live.report(live.request(source, "").of_kind(AccuracyRequest, **options))
    assert report.failures == ()
    assert report.results is not None
    return report.results


def one_call(live: LiveWorker, body: str, **options: Any) -> ComparedCall:
    (call,) = compared(live, body, **options).calls
    return call


WRONG = {
    "windows of a view, changed in place": (
        """\
def f(x):
    x.unfold(1, 1, 5).mul_(2.0)
    return x + 0.0
if __name__ == "__main__":
    aot(f)(torch.arange(1.0, 25.0).reshape(4, 6))
""",
        "output differs",
        2,
    ),
    "a size that is rounded": (
        """\
def f(x):
    return x * round(x.shape[0] * 5, -1)
if __name__ == "__main__":
    aot(f, dynamic=True)(torch.ones(3))
""",
        "output differs",
        None,
    ),
    "a decomposition that is a little off": (
        """\
from torch._inductor.decomposition import decompositions
right = decompositions.get(torch.ops.aten.silu.default)
@functools.wraps(right)
def off(x):
    return x * torch.sigmoid(x) * 1.002
torch._inductor.decomposition.decompositions[torch.ops.aten.silu.default] = off
torch._inductor.decomposition.fast_random_decomps.cache_clear()
def f(x):
    y = x.sin()
    z = nn.functional.silu(y)
    return z.cos()
if __name__ == "__main__":
    torch.compile(f, backend="aot_eager_decomp_partition")(torch.linspace(-3, 3, 64))
""",
        "output differs",
        10,
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_found_on_its_line(live: LiveWorker, name: str) -> None:
    body, words, line = WRONG[name]
    call = one_call(live, body, locate_seconds=60.0)
    assert call.accuracy.passed is False
    assert words in call.accuracy.why
    assert call.location is not None
    if line is not None:
        assert call.accuracy.first[-1].line == LINE + line
    else:
        assert "the capture is wrong" in call.accuracy.why


def test_only_the_second_compile_is_wrong(live: LiveWorker) -> None:
    body = """\
def make(op):
    def apply(x, y):
        return op(x, y)
    return apply
if __name__ == "__main__":
    for op in (torch.Tensor.__add__, torch.Tensor.__mul__):
        aot(make(op))(torch.tensor([6.0]), torch.tensor([3.0]))
"""
    first, second = compared(live, body).calls
    assert first.is_as_eager
    assert second.accuracy.passed is False
    assert (first.name, first.caller and first.caller.line) == ("make.<locals>.apply", LINE + 7)


def test_only_the_gradient_is_wrong(live: LiveWorker) -> None:
    body = """\
class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x
    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * (3 if torch.compiler.is_compiling() else 2) * x
def f(x):
    return Square.apply(x)
if __name__ == "__main__":
    x = torch.ones(3, requires_grad=True)
    y = aot(f)(x * 1.0)
    y.sum().backward()
    print(x.grad)
"""
    call = one_call(live, body)
    assert call.accuracy.passed is False
    assert call.accuracy.why.startswith("gradient of input 0 differs")


def test_state_that_compiled_code_does_not_follow(live: LiveWorker) -> None:
    body = """\
class Config:
    scale = 1.0
config = Config()
@torch.compiler.assume_constant_result
def scale():
    return config.scale
def f(x):
    return x * scale()
if __name__ == "__main__":
    compiled = aot(f)
    for config.scale in (1.0, 2.0):
        compiled(torch.ones(3))
"""
    first, second = compared(live, body).calls
    assert first.is_as_eager
    assert second.accuracy.passed is False


TRACED = {
    "a constant": """\
class Config:
    scale = 1.0
config = Config()
@torch.compiler.assume_constant_result
def scale():
    return config.scale
def f(x):
    y = x.sin()
    z = y * scale()  # here
    return z.cos()
if __name__ == "__main__":
    compiled = torch.compile(f)
    for config.scale in (1.0, 2.0):
        compiled(torch.ones(3))
""",
    "a method that no guard names": """\
def make(op):
    def apply(x, y):
        x = x + 1
        x = op(x, y)  # here
        return x * 2
    return apply
if __name__ == "__main__":
    for op in (torch.Tensor.__add__, torch.Tensor.__mul__):
        torch.compile(make(op))(torch.tensor([6.0]), torch.tensor([3.0]))
""",
    "a size that is rounded": """\
def scaled(x):
    n = round(x.shape[0] * 5, -1)  # here
    return x * n
def f(x):
    return scaled(x.exp()).log()
if __name__ == "__main__":
    torch.compile(f, dynamic=True)(torch.ones(3))
""",
}


BRANCHES = {
    "a branch that was left": """\
class Mode:
    fast = True
def f(x):
    y = x.sin()
    if Mode.fast:  # here
        return y * 2
    return y.exp() + 1
""",
    "a branch that only eager mode runs": """\
class Mode:
    fast = True
def f(x):
    y = x.sin()
    if not Mode.fast:  # here
        y = y * 3
    return y.cos()
""",
    "a number of a branch that was left": """\
class Mode:
    fast = True
def f(x):
    strength = 0.5
    if Mode.fast:  # here
        strength = 3.0
    return (x.sin() * strength).sum()
""",
    "another order of a loop": """\
class Mode:
    fast = True
def parts():
    return ("a", "b") if Mode.fast else ("b", "a")
def f(x):
    for name in parts():  # here
        if name == "a":
            x = x * 3
        else:
            x = x + 1
    return x
""",
    "another method": """\
class Mode:
    fast = True
    def scale(self, x):
        return x * 2
def other(self, x):
    return x * 3
mode = Mode()
def f(x):
    y = x.sin()
    if not Mode.fast:
        pass
    return mode.scale(y).cos()  # here
""",
}


@pytest.mark.parametrize("name", BRANCHES)
def test_another_way_of_eager_mode_is_on_the_statement_that_decides(live: LiveWorker, name: str) -> None:
    body = f"""{BRANCHES[name]}
if __name__ == "__main__":
    compiled = torch.compile(f, options={{"guard_filter_fn": lambda guards: [False for _ in guards]}})
    for Mode.fast in (True, False):
        compiled(torch.ones(3))
        if {name == "another method"}:
            Mode.scale = other
"""
    *_, last = compared(live, body, backend="eager", locate_seconds=30.0).calls
    assert last.accuracy.passed is False
    assert f"{HEAD}{body}".splitlines()[last.accuracy.first[-1].line - 1].endswith("# here")
    assert last.accuracy.first_why


def test_code_that_was_compiled_for_another_state_is_on_its_line(live: LiveWorker) -> None:
    body = """\
scale = [2.0]
@torch.compiler.allow_in_graph
def scaled(x):
    return x * scale[0]
def f(x):
    y = x.sin()
    z = scaled(y) + 1.0  # here
    return z.cos()
if __name__ == "__main__":
    compiled = torch.compile(f)
    for scale[0] in (2.0, 5.0):
        compiled(torch.ones(3))
"""
    *_, last = compared(live, body, backend="aot_eager", locate_seconds=30.0).calls
    assert last.accuracy.passed is False
    assert f"{HEAD}{body}".splitlines()[last.accuracy.first[-1].line - 1].endswith("# here")


BACKWARDS = {
    "a global that changes": (
        "return grad * Mode.weight  # here\n",
        "Mode.weight = 3.0; loss(value).backward()",
        "compiled code uses values that were current in the forward",
    ),
    "no gradient of an output": (
        "if other is None:  # here\n            return grad * 5\n        return grad * Mode.weight + other\n",
        "value[0].sum().backward()",
        "compiled code passes zeros where eager mode passes no gradient",
    ),
    "nothing that is read": ("return grad * 2\n", "Mode.weight = 3.0; loss(value).backward()", None),
}


@pytest.mark.parametrize("name", BACKWARDS)
def test_the_backward_of_the_program_is_compared_in_the_state_of_its_time(
    live: LiveWorker, name: str
) -> None:
    backward, run, why = BACKWARDS[name]
    body = f"""\
class Mode:
    weight = 1.0
def loss(value):
    return sum(part.sum() for part in value)
class Own(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.set_materialize_grads(False)
        return x * 2, x * 1
    @staticmethod
    def backward(ctx, grad, other):
        {backward}
def f(x):
    return Own.apply(x.sin())
if __name__ == "__main__":
    compiled, kept = torch.compile(f), []
    for _ in range(2):
        Mode.weight = 1.0
        x = torch.ones(3, requires_grad=True)
        value = compiled(x)
        {run}
        kept.append((x.grad.tolist(), Mode.weight))
    assert kept[0] == kept[1], "as without a comparison"
"""
    calls = compared(live, body, backend="eager", locate_seconds=30.0).calls
    assert [call.accuracy.passed for call in calls] == [why is None] * 2
    if why is not None:
        assert why in calls[0].accuracy.why
        first = calls[0].accuracy.first
        assert f"{HEAD}{body}".splitlines()[first[-1].line - 1].endswith("# here")


CACHED = """\
@functools.{cache}
def table(size):
    return torch.ones(size)
def f(x):
    y = table(3)  # here
    {change}
    return y * x
if __name__ == "__main__":
    compiled = torch.compile(f)
    for _ in range(2):
        compiled(torch.ones(3))
"""


@pytest.mark.parametrize("cache", ["cache", "lru_cache(maxsize=2)"])
@pytest.mark.parametrize(("change", "passed"), [("y.mul_(2)", False), ("y = y + 1", True)])
def test_a_cache_of_functools_decides_by_a_second_call(
    live: LiveWorker,
    cache: str,
    change: str,
    passed: bool,  # noqa: FBT001 - both cases
) -> None:
    body = CACHED.format(cache=cache, change=change)
    first, second = compared(live, body, backend="eager", locate_seconds=30.0).calls
    assert [first.accuracy.passed, second.accuracy.passed] == [passed] * 2, first.accuracy.why
    if not passed:
        assert "eager mode keeps a result in the cache of `table`" in first.accuracy.why
        assert f"{HEAD}{body}".splitlines()[first.accuracy.first[-1].line - 1].endswith("# here")


def test_tensors_of_sparse_layouts_are_compared_and_put_back(live: LiveWorker) -> None:
    body = """\
held = {"table": torch.eye(3).to_sparse()}
table = torch.nn.Embedding(4, 2, sparse=True)
def f(x, rows):
    held["table"].add_(held["table"])
    rows.values().mul_(2)
    return x @ held["table"].to_dense() + rows.to_dense()
def embedded(index):
    return table(index).sum()
if __name__ == "__main__":
    rows, compiled = torch.eye(3).to_sparse_csr(), aot(f)
    for _ in range(2):
        compiled(torch.ones(3, 3), rows)
    assert rows.to_dense()[0, 0] == 4, rows
    assert held["table"].to_dense()[0, 0] == 4
    aot(embedded)(torch.tensor([1, 2, 1]))
"""
    first, second, embedding = compared(live, body).calls
    assert first.is_as_eager, (first.accuracy.why, first.others)
    assert second.is_as_eager, (second.accuracy.why, second.others)
    assert embedding.is_as_eager
    assert first.accuracy.compared >= 3
    assert embedding.accuracy.compared == 2, "the output and the sparse gradient"


def test_a_wrong_kernel_is_named_next_to_the_line(live: LiveWorker) -> None:
    body = """\
from torch._inductor.select_algorithm import extern_kernels
def off(x, y, out):
    torch.mm(x, y, out=out).mul_(1.01)
extern_kernels.mm = off
def f(x, weight):
    return torch.mm(x, weight)  # here
if __name__ == "__main__":
    torch.compile(f)(torch.rand(4, 8), torch.rand(8, 8))
"""
    call = one_call(live, body, locate_seconds=30.0)
    assert call.accuracy.first_kernel == "extern_kernels.mm"
    assert call.accuracy.replay is not None
    assert call.accuracy.replay.judged == 1
    assert f"{HEAD}{body}".splitlines()[call.accuracy.first[-1].line - 1].endswith("# here")


@pytest.mark.parametrize("name", TRACED)
def test_what_is_traced_wrong_is_on_the_line_whose_value_differs(live: LiveWorker, name: str) -> None:
    *_, last = compared(live, TRACED[name], backend="eager", locate_seconds=30.0).calls
    marked = f"{HEAD}{TRACED[name]}".splitlines()
    assert last.accuracy.passed is False
    assert marked[last.accuracy.first[-1].line - 1].endswith("# here")


def test_a_small_result_is_compared_next_to_its_size(live: LiveWorker) -> None:
    body = """\
from torch._inductor.decomposition import decompositions
@functools.wraps(decompositions[torch.ops.aten.silu.default])
def off(x):
    return x * torch.sigmoid(x) * 1.01
decompositions[torch.ops.aten.silu.default] = off
torch._inductor.decomposition.fast_random_decomps.cache_clear()
def f(x):
    return nn.functional.silu(x)
if __name__ == "__main__":
    decomposed(f)(torch.linspace(-1, 1, 64) * 1e-7)
"""
    call = one_call(live, body)
    assert call.accuracy.passed is False
    assert call.accuracy.why.startswith("output is off by 0.01 of its root mean square")


RIGHT = {
    "small values that cancel": (
        "def f(x):\n    y = (x + 1e-3).exp()\n    return (y - x.exp()) * 1e-6, y.log() - x\n",
        "(torch.linspace(-1, 1, 64),)",
    ),
    "a sum on a rounding edge": (
        "def f(x):\n    return torch.softmax(x, -1).sum(-1).floor()\n",
        "(torch.linspace(-4, 4, 64 * 33).reshape(64, 33).sin() * 5,)",
    ),
    "the sign of a NaN": (
        "def f(x):\n    return torch.sqrt(x), torch.signbit(torch.sqrt(x))\n",
        "(torch.tensor([-1.0, -2.0, 4.0, -0.0] * 8),)",
    ),
    "a long sum": ("def f(x):\n    return x.sum(), x.var(), x.cumsum(0)\n", "(torch.rand(40_000),)"),
    "half precision": (
        "def f(x):\n    return (x * x / 1000).exp().softmax(-1) * x\n",
        "((torch.rand(8, 64) * 400).half(),)",
    ),
    "text and counters": (
        """\
seen = []
count = 0
def f(x):
    global count
    count += 1
    seen.append(count)
    print("mean", x.mean().item())
    return x * count
""",
        "(torch.rand(9),)",
    ),
    "an input changed in place": (
        "def f(x):\n    x.add_(1)[0].mul_(3)\n    return x.view(-1)\n",
        "(torch.ones(2, 3),)",
    ),
    "two inputs that share memory": (
        "def f(x, y):\n    x.mul_(2)\n    return x + y\n",
        "2 * (torch.ones(3),)",
    ),
}


@pytest.mark.parametrize("name", RIGHT)
def test_what_is_legitimate_is_not_accused(live: LiveWorker, name: str) -> None:
    function, given = RIGHT[name]
    body = f'{function}if __name__ == "__main__":\n    decomposed(f)(*{given})\n'
    call = one_call(live, body)
    assert call.is_as_eager, (call.accuracy.why, call.others)
    assert call.accuracy.compared > 0


@pytest.mark.parametrize(
    ("function", "why"),
    [
        ("def f(x):\n    return nn.functional.dropout(x, 0.5)\n", "draws random numbers"),
        ("def f(x):\n    y = torch.empty(64)\n    y[:9] = x\n    return y * 1\n", "memory that nobody wrote"),
    ],
)
def test_what_cannot_be_compared_is_neither_right_nor_wrong(
    live: LiveWorker, function: str, why: str
) -> None:
    call = one_call(live, f'{function}if __name__ == "__main__":\n    decomposed(f)(torch.ones(9))\n')
    assert call.accuracy.passed is None
    assert why in call.accuracy.why


UNDECIDED = {
    "a number that differs each time": (
        "import time\ndef f(x):\n    return x * (time.perf_counter_ns() % 1009)\n",
        "eager's results differ between two calls",
    ),
    "eager mode without memory": (
        "def f(x):\n    if not torch.compiler.is_compiling():\n        raise MemoryError('no')\n    return x\n",
        "not enough memory to make the call again: MemoryError: no",
    ),
    "an allocation that fails": (
        "def f(x):\n    torch._dynamo.graph_break()\n    return x.new_empty(1 << 60) + 1\n",
        "not enough memory to make the call again",
    ),
}


@pytest.mark.parametrize("name", UNDECIDED)
def test_what_shows_nothing_is_neither_right_nor_wrong(live: LiveWorker, name: str) -> None:
    function, why = UNDECIDED[name]
    body = f"""\
{function}if __name__ == "__main__":
    try:
        aot(f)(torch.ones(3))
    except (RuntimeError, MemoryError):
        print("failed")
"""
    call = one_call(live, body)
    assert (call.accuracy.passed, call.others) == (None, ())
    assert why in call.accuracy.why


def test_a_compile_that_fails_is_no_wrong_result_and_no_end(live: LiveWorker) -> None:
    body = """\
def failing(gm, example):
    raise KeyError("of the backend")
def f(x):
    return x.sin()
if __name__ == "__main__":
    try:
        torch.compile(f, backend=failing)(torch.ones(3))
    except Exception as error:
        print(type(error).__name__)
    aot(f)(torch.ones(3))
"""
    failed, compiled = compared(live, body).calls
    assert (failed.accuracy.passed, failed.others) == (None, ())
    assert failed.accuracy.why.startswith("the compiler fails: BackendCompilerFailed")
    assert compiled.is_as_eager


def test_float64_without_memory_leaves_the_tolerance(live: LiveWorker) -> None:
    body = """\
def f(x):
    if x.dtype is torch.float64:
        raise torch.OutOfMemoryError("no")
    return x.sin()
if __name__ == "__main__":
    aot(f)(torch.ones(3))
"""
    call = one_call(live, body)
    assert call.is_as_eager
    assert (
        "there is no float64 result (the call does not run in float64: OutOfMemoryError: no)"
        in call.accuracy.why
    )


def test_outputs_that_are_no_tensors(live: LiveWorker) -> None:
    body = """\
import dataclasses, enum
class Kind(enum.Enum):
    A = 1
@dataclasses.dataclass
class Out:
    kind: Kind
    text: str
    parts: dict
def f(x, wrong):
    n = 3 if wrong and torch.compiler.is_compiling() else 2
    return Out(Kind.A, "x" * n, {"n": n, "none": None, "shape": x.shape, "of": (x.dtype, [n], x.sin())})
if __name__ == "__main__":
    for wrong in (False, True):
        aot(f)(torch.ones(3), wrong)
"""
    right, wrong = compared(live, body).calls
    assert right.is_as_eager, (right.accuracy, right.others)
    assert wrong.is_wrong
    assert {other.aspect for other in wrong.others} == {Aspect.OUTPUT}


@pytest.mark.parametrize(
    ("line", "passed"), [("y = x * 1.0", True), ("x.unfold(0, 1, 3).mul_(2.0); y = x * 1.0", False)]
)
@pytest.mark.parametrize("compiled", ["aot", "decomposed"])
def test_a_random_call_is_decided_if_compiled_code_draws_as_eager_does(
    live: LiveWorker,
    line: str,
    passed: bool,  # noqa: FBT001 - both cases
    compiled: str,
) -> None:
    body = f"""\
def f(x):
    {line}
    return nn.functional.dropout(y, 0.5) + torch.rand_like(y)
if __name__ == "__main__":
    {compiled}(f)(torch.arange(1.0, 33.0))
"""
    fallback = {"torch._inductor.config.fallback_random": "True"}
    call = one_call(live, body, settings=fallback)
    assert call.is_random
    assert call.accuracy.passed is passed
    if not passed:
        assert one_call(live, body).accuracy.passed is None


def test_the_program_goes_on_as_if_nothing_was_compared(live: LiveWorker) -> None:
    body = """\
from collections import deque
net = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout(0.0), nn.Linear(4, 1))
seen = deque(maxlen=4)
def loss_of(x):
    seen.append(len(seen))
    print("called")
    return net(x).square().mean()
def train(step):
    torch.manual_seed(0)
    for module in net:
        getattr(module, "reset_parameters", lambda: None)()
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.1)
    seen.clear()
    losses = []
    for _ in range(3):
        loss = step(torch.rand(8, 4))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, list(seen), net[1].running_mean.tolist()
if __name__ == "__main__":
    one = train(loss_of)
    two = train(aot(loss_of))
    for was, now in zip(one, two):
        torch.testing.assert_close(torch.tensor(now), torch.tensor(was))
    print("the same")
"""
    source = f"{HEAD}{body}"
    report = live.report(live.request(source, "").of_kind(AccuracyRequest))
    assert report.failures == ()
    assert report.output.stdout.count("called") == 6
    assert report.output.stdout.endswith("the same\n")
    assert report.results is not None
    assert [call.is_as_eager for call in report.results.calls] == [True] * 3


def test_an_optimizer_step_and_a_module_of_torch(live: LiveWorker) -> None:
    body = """\
if __name__ == "__main__":
    net = nn.Linear(3, 3)
    model = aot(net)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    step = aot(optimizer.step)
    for _ in range(2):
        model(torch.ones(2, 3)).sum().backward()
        step()
"""
    calls = compared(live, body).calls
    assert [(call.name, call.is_as_eager) for call in calls] == [("Linear", True), ("SGD.step", True)] * 2
    assert all(call.accuracy.compared for call in calls)


def test_an_exception_that_both_raise_is_no_difference(live: LiveWorker) -> None:
    body = """\
def f(x):
    if x.shape[0] > 3:
        raise ValueError("too long")
    return x + 1
if __name__ == "__main__":
    compiled = aot(f)
    for size in (2, 5):
        try:
            compiled(torch.ones(size))
        except ValueError:
            pass
"""
    first, second = compared(live, body).calls
    assert first.is_as_eager
    assert second.is_as_eager, (second.accuracy, second.others)


def test_text_that_only_eager_mode_prints_is_a_difference(live: LiveWorker) -> None:
    body = """\
def f(x):
    if not torch.compiler.is_compiling():
        print("in eager mode")
    return x + 1
if __name__ == "__main__":
    aot(f)(torch.ones(2))
"""
    call = one_call(live, body)
    assert call.accuracy.passed is True
    assert [(other.aspect, other.text) for other in call.others] == [
        (Aspect.PRINTED, "compiled code does not print `in eager mode`")
    ]


def test_a_call_with_an_iterator_is_not_compared_and_says_why(live: LiveWorker) -> None:
    body = """\
def f(x, parts):
    return x + sum(parts)
if __name__ == "__main__":
    aot(f)(torch.ones(2), (part for part in (1, 2)))
"""
    call = one_call(live, body)
    assert call.accuracy.passed is None
    assert call.accuracy.why == "the call reaches a generator, which cannot be read twice"


def test_one_stage_and_one_call(live: LiveWorker) -> None:
    body = """\
def f(x):
    x.unfold(1, 1, 5).mul_(2.0)
    return x + 0.0
if __name__ == "__main__":
    compiled = torch.compile(f)
    for _ in range(3):
        compiled(torch.arange(1.0, 25.0).reshape(4, 6))
    print("not reached")
"""
    for backend, passed in (("eager", True), ("aot_eager", False)):
        results = compared(live, body, backend=backend, calls=(1,))
        assert [(call.index, call.accuracy.passed) for call in results.calls] == [(1, passed)]
        assert results.backend == backend


def test_globals_whose_state_cannot_be_read(live: LiveWorker) -> None:
    body = """\
import ctypes
import random
import numpy
from ctypes import cdll
class Asked:
    def __getattr__(self, name):
        raise OSError(name)
asked, drawn, secret = Asked(), numpy.random.default_rng(0), random.SystemRandom()
def f(x):
    return x.sin()
if __name__ == "__main__":
    aot(f)(torch.ones(9))
    aot(lambda x: x + drawn.random())(torch.ones(9))
"""
    assert compared(live, body).calls[0].is_as_eager


def test_a_setting_of_the_request_holds_against_the_programs_own(live: LiveWorker) -> None:
    """A setting is tried on programs that set it: most of all a pass of their own."""
    body = """\
import torch._inductor.config as config
def off(gm, example):
    for node in gm.graph.find_nodes(op="call_method", target="sin") if config.post_grad_custom_post_pass else ():
        node.target = "cos"
    gm.recompile()
    return gm.forward
config.post_grad_custom_post_pass = print
def f(x):
    return x.sin()
if __name__ == "__main__":
    config.post_grad_custom_post_pass = repr
    torch.compile(f, backend=off)(torch.ones(9))
"""
    assert one_call(live, body).accuracy.passed is False
    name = "torch._inductor.config.post_grad_custom_post_pass"
    assert one_call(live, body, settings={name: "None"}).is_as_eager


def test_a_setting_of_the_request_and_one_that_torch_lacks(live: LiveWorker) -> None:
    source = f'{HEAD}if __name__ == "__main__":\n    aot(torch.sin)(torch.ones(2))\n'
    wanted = {"torch._inductor.config.fallback_random": "True", "torch._inductor.config.no_such": "1"}
    report = live.report(live.request(source, "").of_kind(AccuracyRequest, settings=wanted))
    assert report.results is not None
    assert report.results.settings == wanted
    assert [(problem.stage, problem.what) for problem in report.problems] == [
        ("settings", "torch._inductor.config.no_such")
    ]


def test_cuda_graphs_are_left_out_and_that_is_said(live: LiveWorker) -> None:
    source = f"""{HEAD}
if __name__ == "__main__":
    torch.compile(torch.sin, mode="reduce-overhead", backend="inductor")(torch.ones(3))
"""
    report = live.report(live.request(source, "").of_kind(AccuracyRequest))
    assert [note.kind for note in report.notes] == ["cuda_graphs"]
    assert report.results is not None
    assert [call.is_as_eager for call in report.results.calls] == [True]


OPERATORS = """\
@torch.library.custom_op("tests::shift", mutates_args=())
def shift(x: torch.Tensor) -> torch.Tensor:
    return x + 1
@torch.library.custom_op("tests::scale", mutates_args=())
def scale(x: torch.Tensor) -> torch.Tensor:
    {body}
@shift.register_fake
@scale.register_fake
def _(x):
    return torch.empty_like(x)
def f(x):
    y = x * 2.0
    z = scale(shift(y) if {shifts} else y)
    return y + 1.0, torch.stack([z, z])
if __name__ == "__main__":
    torch.compile(f)(torch.linspace(1, 2, 4))
"""


@pytest.mark.parametrize(
    ("body", "shifts", "check", "words"),
    [
        ("n = x.norm(); x.div_(n); return n.expand(4).clone()", False, "test_schema", "was mutated"),
        ("return x.double()", True, "test_faketensor", "not equal"),
    ],
)
def test_a_custom_operator_that_is_declared_wrong_is_named(
    live: LiveWorker, body: str, *, shifts: bool, check: str, words: str
) -> None:
    call = one_call(live, OPERATORS.format(body=body, shifts=shifts))
    assert call.accuracy.passed is False
    (fault,) = call.operators
    assert (fault.name, fault.check) == ("tests::scale", check)
    assert words in fault.why
    assert fault.stack[-1].line == LINE + 13


TRAINED = """\
import torch
from torch import nn

# fuselight: Net()(f32[4, 8])
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(8, 8)
    def forward(self, x):
        return self.a(x).relu()
"""


@pytest.mark.parametrize("training", [True, False, None])
def test_a_target_is_trained_if_the_request_asks_for_it(live: LiveWorker, *, training: bool | None) -> None:
    report = live.report(live.request(TRAINED, "Net").of_kind(AccuracyRequest, training=training))
    assert report.results is not None
    (call,) = report.results.calls
    assert call.accuracy.passed, call.accuracy
    assert report.inputs is not None
    assert (report.inputs.grad, report.inputs.training) == (bool(training), bool(training))


OFF_BY_A_BACKEND = """\
def off(graph, inputs):
    def run(*args):
        return tuple(part * 1.25 for part in graph(*args))
    return run
def f(x):
    return torch.softmax(x, -1)
if __name__ == "__main__":
    torch.compile(f, backend=%s)(torch.linspace(-1, 1, 8))
"""


@pytest.mark.parametrize(
    ("backend", "against", "sides"),
    [("off", "backend:eager", (True, False)), ('"eager"', "backend:aot_eager", None)],
)
def test_a_call_is_compared_with_another_configuration(
    live: LiveWorker, backend: str, against: str, sides: tuple[bool, bool] | None
) -> None:
    results = compared(live, OFF_BY_A_BACKEND % backend, against=against)
    (call,) = results.calls
    assert results.against == against
    assert call.is_wrong is (sides is not None)
    known = call.next_to_eager
    assert (known and (known.own, known.other)) == sides
    if sides is not None:
        assert against in call.accuracy.why or "float64" in call.accuracy.why
        assert "eager's" not in call.accuracy.why


RANDOM = """\
class Other:
    def __init__(self, change):
        self.change = change
    def __call__(self, gm, _inputs):
        return lambda *given: (self.change(torch.empty_like(gm(*given)[0])),)
def f(x):
    return torch.rand_like(x)
def g(x):
    return torch.rand_like(x)
if __name__ == "__main__":
    torch.compile(f, backend=Other(lambda y: y.uniform_(0, 0.5)))(torch.ones(64, 8))
    torch.compile(g, backend=Other(lambda y: 1 - y.uniform_()))(torch.ones(64, 8))
"""


def test_random_numbers_are_compared_as_distributions(live: LiveWorker) -> None:
    other, same = compared(live, RANDOM).calls
    assert other.accuracy.passed is None
    assert other.draws is not None
    assert other.draws.why.startswith("output has another distribution: its mean is 0.2")
    assert [place.line - LINE for place in other.draws.first] == [11, 7]
    assert other.draws.operator == "rand_like"
    assert (same.accuracy.passed, same.draws) == (None, RandomDraws()), "other numbers alone are not wrong"
