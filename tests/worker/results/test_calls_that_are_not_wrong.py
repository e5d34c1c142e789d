"""What differs by rounding, by chance or not at all is not called wrong, and the program goes on."""

from __future__ import annotations

import pytest

from fuselight.shared.protocol import AccuracyRequest
from fuselight.shared.report import Aspect
from tests.support.compared_programs import HEAD, compared, one_call
from tests.support.live_worker import LiveWorker


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
