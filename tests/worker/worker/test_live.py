"""Live runs: functions of an edited file traced by themselves, on the arguments of a recorded call."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fuselight.shared.protocol import Answer, Refused, Retrace
from fuselight.worker.processes import process
from tests.support.live_run import EditedRun, breaks
from tests.support.live_worker import LiveWorker

pytestmark = pytest.mark.torch


NET = """\
import torch
from torch import nn

def scale(x, factor):
    return x * factor

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def attend(self, x, *, mask=None):
        y = self.linear(x)
        if mask is not None:
            y = y + mask
        return y

    # fuselight: Net()(f32[4, 8])
    def forward(self, x):
        x = scale(x, 2.0)
        return self.attend(x, mask=x).relu()
"""


@pytest.fixture(scope="module")
def net(live: LiveWorker) -> Iterator[EditedRun]:
    edited_run = EditedRun(live, NET, "Net")
    yield edited_run
    edited_run.close()


def test_functions_that_were_traced_are_listed(net: EditedRun) -> None:
    assert net.functions == {"scale": 1, "Net.attend": 1, "Net.forward": 1}


def test_a_break_is_predicted_on_its_line(net: EditedRun) -> None:
    report = net.edit(
        "        y = self.linear(x)\n",
        "        y = self.linear(x)\n        print(y.sum().item())\n",
        "Net.attend",
    )
    assert {line for line, _ in breaks(report)} == {14}
    assert report.failures == ()


def test_the_fork_made_ahead_answers_as_a_fresh_one_and_may_die(net: EditedRun) -> None:
    hello = net.live.worker.hello
    assert hello is not None
    change = ("        y = self.linear(x)\n", "        y = self.linear(x)\n        print(y)\n", "Net.attend")
    first = breaks(net.edit(*change))
    forked = _fork_made_ahead(hello.pid)
    _wait_until(lambda: _state(forked) == "S")  # it waits for a request: before that it computes
    assert breaks(net.edit(*change)) == first != []
    with pytest.raises(ProcessLookupError):
        os.kill(forked, 0)
    forked = _fork_made_ahead(hello.pid)
    os.kill(forked, signal.SIGKILL)
    _wait_until(
        lambda: _state(forked) == "Z"
    )  # on a busy machine that takes a while, and it would be given the edit
    assert breaks(net.edit(*change)) == first


def _wait_until(happened: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def _state(pid: int) -> str:
    """The state of a process, as `/proc` names it: `Z` if it has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return "Z"


@pytest.mark.parametrize(
    "body",
    [
        "print(y)\n        y = self.linear(y)\n        print(y)",
        "if y.sum() > 0:\n            y = y + 1",
        "torch.manual_seed(int(y.sum()))",
        "while y.sum() > 100:\n            y = y - 1",
    ],
)
def test_a_break_is_told_before_the_end_as_the_end_has_it(net: EditedRun, body: str) -> None:
    text = NET.replace("        y = self.linear(x)\n", f"        y = self.linear(x)\n        {body}\n")
    early, answer = net.ask_early(text, "Net.attend")
    assert isinstance(answer, Answer)
    assert len(early[0].breaks) >= 1
    assert all(set(report.breaks) <= set(answer.report.breaks) for report in early)
    assert len(early[0].compiles) < len(answer.report.compiles), "the rest of the function is traced later"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("y = self.linear(x)", "y = self.linear(x).sin()"),
        ("def attend(self, x, *, mask=None):", "def attend(self, x, *, mask=None, k=1):\n        print(x)"),
        ("y = self.linear(x)", "y = x\n        for _ in range(3):\n            print(self.linear(y))"),
        (
            "y = self.linear(x)",
            "try:\n            y = self.linear(x) + x.sum().item()\n        finally:\n            y = x",
        ),
    ],
    ids=["no break", "refused", "frame skipped", "frame skipped in a try"],
)
def test_nothing_is_told_early_where_torch_may_not_keep_it(net: EditedRun, old: str, new: str) -> None:
    early, _ = net.ask_early(NET.replace(old, new), "Net.attend")
    assert early == []


def _fork_made_ahead(host: int) -> int:
    """The newest process below a host: a live run forks nothing else between traces."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        descendants = process.descendants(host)
        if len(descendants) == 3:
            return descendants[-1]
        time.sleep(0.02)
    raise AssertionError("no fork was made")


def test_an_edit_without_a_break_has_none(net: EditedRun) -> None:
    assert breaks(net.edit("y = self.linear(x)", "y = self.linear(x).sin()", "Net.attend")) == []


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("def attend(self, x, *, mask=None)", "def attend(self, x, *, mask=None, scale=1)", "signature"),
        ("def attend(self, x, *, mask=None)", "def attend(self, x, *, mask=False)", "defaults"),
        ("    def attend(", "    @torch.no_grad()\n    def attend(", "decorators"),
        ("y = self.linear(x)", "y = self.linear(x", "syntax"),
        ("y = self.linear(x)", "y = yield self.linear(x)", "kind"),
        ("def attend(", "def look(", "missing"),
    ],
)
def test_an_edit_that_cannot_be_traced_is_refused_with_its_reason(
    net: EditedRun, old: str, new: str, reason: str
) -> None:
    assert net.reason(old, new, "Net.attend") == reason


def test_a_name_that_only_a_run_defines_is_no_error_of_the_function(net: EditedRun) -> None:
    new = NET.replace("y = self.linear(x)", "y = helper(x)")
    added = net.ask(new.replace("class Net", "def helper(x):\n    return x\n\nclass Net"), "Net.attend")
    assert isinstance(added, Refused)
    assert added.reason == "module"
    misspelled = net.ask(new, "Net.attend")
    assert isinstance(misspelled, Answer)
    assert "helper" in misspelled.report.failures[0].message


VARIETY = """\
from __future__ import annotations
import contextlib, dataclasses, functools, threading
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

SCALE = 2.0

def deco(fn):
    @functools.wraps(fn)
    def wrapped(*args, **kwargs):
        return fn(*args, **kwargs)
    return wrapped

@dataclasses.dataclass
class Batch:
    x: torch.Tensor
    flags: dict
    sizes: list

class Cache:
    def __init__(self):
        self.items = []
    def push(self, y):
        self.items.append(y)
        return torch.stack(self.items).sum(0)

def pieces(x):
    for part in x.chunk(2, dim=-1):
        yield part * SCALE

@contextlib.contextmanager
def halved(x):
    y = x / 2
    yield y

def make(k):
    factor = k + 1
    def inner(y):
        return y * factor
    return inner

INNER = make(3)

def length(n):
    return n * 2

def in_place(x):
    x.add_(1)
    return x

def inside(x):
    return torch.relu(x) + 1

def default(x, a=1, *rest, b=2, **named):
    return x * a + b + sum(rest) + named.get("c", 0)

class Base(nn.Module):
    def forward(self, x):
        return x + 1

class Block(Base):
    def __init__(self, i):
        super().__init__()
        self.i = i
        self.l = nn.Linear(8, 8)
    @property
    def twice(self):
        return self.i * 2
    @staticmethod
    def st(x):
        return x.cos()
    @classmethod
    def cl(cls, x):
        return x.sin()
    def forward(self, x):
        x = super().forward(x)
        if self.training:
            x = x * 3
        return self.st(self.cl(self.l(x))) * self.twice

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block(i) for i in range(3))
        self.conv = nn.ModuleList([nn.Linear(8, 4), nn.Linear(4, 8)])
        self.blocks[0].register_forward_hook(self.hook)

    def hook(self, module, args, output):
        return output * 1.5

    @deco
    def decorated(self, x):
        return x - 1

    @torch.no_grad()
    def nograd(self, x):
        return x.detach() * 2

    def low(self, x):
        return x @ x.T

    def take(self, batch):
        return batch.x * batch.sizes[0] + batch.flags["k"]

    # fuselight: Net()(f32[4, 8])
    def forward(self, x):
        cache = Cache()
        for b in self.blocks:
            x = b(x)
            x = cache.push(x)
        x = torch.cat(list(pieces(x)), -1)
        with halved(x) as half:
            x = half + 1
        x = INNER(x)
        x = make(1)(x)
        x = x * length(3)
        x = in_place(x)
        x = checkpoint(inside, x, use_reentrant=False)
        x = default(x, 2, 3, b=4, c=5)
        x = self.decorated(x)
        x = self.nograd(x)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            z = self.low(x)
        x = self.take(Batch(x, {"k": 1}, [2]))
        f = lambda t: t + 1
        return f(x).sum() + z.sum()
"""
NESTED = ("deco.<locals>.wrapped", "make.<locals>.inner")
PLAIN = ("pieces", "make", "length", "in_place", "inside", "default", "Cache.push", "Base.forward")
METHODS = (
    "Block.twice",
    "Block.st",
    "Block.cl",
    "Block.forward",
    "Net.hook",
    "Net.decorated",
    "Net.nograd",
    "Net.take",
)


@pytest.fixture(scope="module")
def variety(live: LiveWorker) -> Iterator[EditedRun]:
    edited_run = EditedRun(live, VARIETY, "Net", file="variety.py")
    yield edited_run
    edited_run.close()


def _def_line(source: str, name: str) -> int:
    """1-based line of a function's `def`."""
    head = source
    for part in name.replace("<locals>.", "").split(".")[:-1]:
        head = head[re.search(rf"(?:class|def) {part}\b", head).start() :]  # type: ignore[union-attr]
    at = len(source) - len(head) + head.index(f"def {name.rpartition('.')[2]}(")
    return source[:at].count("\n") + 1


def _with_first_statement(source: str, statement: str, *names: str) -> tuple[str, list[int]]:
    """The source with a statement at the start of each function, and the lines of the statements."""
    lines = source.split("\n")
    places = sorted(_def_line(source, name) for name in names)
    for place in reversed(places):
        indent = lines[place][: len(lines[place]) - len(lines[place].lstrip())]
        lines.insert(place, indent + statement)
    return "\n".join(lines), [place + 1 + index for index, place in enumerate(places)]


@pytest.mark.parametrize("names", [NESTED, PLAIN, METHODS])
def test_functions_of_each_kind_are_traced(variety: EditedRun, names: tuple[str, ...]) -> None:
    assert all(variety.functions[name] for name in names)
    text, places = _with_first_statement(VARIETY, "print(0)", *names)
    answer = variety.ask(text, *names)
    assert isinstance(answer, Answer), answer
    assert [line for line, _ in breaks(answer.report)] == places
    assert answer.report.failures == ()


@pytest.mark.parametrize(("name", "old"), [("pieces", "yield part * SCALE"), ("halved", "yield y")])
def test_what_runs_in_eager_mode_because_of_a_function_is_what_calls_it(
    variety: EditedRun, name: str, old: str
) -> None:
    """A generator is called by a function of ours in a trace of its own, which is no news to anybody."""
    alone = variety.edit(old, f"print(0); {old}", name)
    assert len(breaks(alone)) == 1
    assert alone.not_compiled == ()
    assert not any(graph_break.frame_skipped for graph_break in alone.breaks)
    with_caller = variety.edit(old, f"print(0); {old}", name, "Net.forward")
    assert name not in {uncompiled_code.function for uncompiled_code in with_caller.not_compiled}


def test_unchanged_functions_have_nothing_to_report(variety: EditedRun) -> None:
    answer = variety.ask(VARIETY, *(name for name, calls in variety.functions.items() if calls))
    assert isinstance(answer, Answer), answer
    report = answer.report
    assert breaks(report) == []
    assert (report.failures, report.not_compiled, report.recompiles) == ((), (), ())


@pytest.mark.parametrize(
    ("old", "condition", "name"),
    [
        ("return x.detach() * 2", "not torch.is_grad_enabled()", "Net.nograd"),
        ("return x @ x.T", "torch.is_autocast_enabled('cpu')", "Net.low"),
        ("return batch.x", "batch.flags == {'k': 1} and batch.sizes == [2]", "Net.take"),
        ("self.items.append(y)", "not self.items", "Cache.push"),
        ("return x * a", "(a, rest, b, named) == (2, (3,), 4, {'c': 5})", "default"),
        ("return y * factor", "factor == 4 or factor == 2", "make.<locals>.inner"),
        ("x = super()", "not self.training and self.i == 0", "Block.forward"),
        ("x.add_(1)", "x.shape == (4, 8)", "in_place"),
    ],
)
def test_a_trace_has_the_arguments_and_modes_of_the_call(
    variety: EditedRun, old: str, condition: str, name: str
) -> None:
    report = variety.edit(old, f"print(0) if {condition} else None; {old}", name)
    assert len({line for line, _ in breaks(report)}) == 1


def test_unchanged_functions_after_the_edit_have_their_new_lines(variety: EditedRun) -> None:
    text = VARIETY.replace("SCALE = 2.0", "SCALE = 2.0\n# one more\n# and more")
    text, (place,) = _with_first_statement(text, "print(0)", "inside")
    answer = variety.ask(text, "Net.forward")
    assert isinstance(answer, Answer), answer
    assert {line for line, _ in breaks(answer.report)} == {place}


HOSTILE = """\
import os, time, threading, ctypes
import torch

# fuselight: f(f32[4])
# fuselight: f(f32[7])
def f(x):
    return x.sin()
"""


@pytest.fixture(scope="module")
def hostile(live: LiveWorker) -> Iterator[EditedRun]:
    edited_run = EditedRun(live, HOSTILE, file="hostile.py")
    yield edited_run
    edited_run.close()


@pytest.mark.parametrize(
    ("line", "reason", "seconds"),
    [
        ("time.sleep(1000)", "timeout", 2.0),
        ("torch._dynamo.graph_break(); os._exit(3)", "crashed", 60.0),
        ("torch._dynamo.graph_break(); os.abort()", "crashed", 60.0),
        ("torch._dynamo.graph_break(); ctypes.string_at(0)", "crashed", 60.0),
    ],
)
def test_a_trace_that_ends_badly_costs_itself_alone(
    hostile: EditedRun, line: str, reason: str, seconds: float
) -> None:
    text = HOSTILE.replace("    return", f"    {line}\n    return")
    answer = hostile.ask(text, "f", seconds=seconds)
    assert isinstance(answer, Refused), answer
    assert answer.reason == reason
    assert answer.failure is not None
    assert answer.failure.next_step
    assert breaks(hostile.edit("x.sin()", "x.cos()", "f")) == []


@pytest.mark.parametrize(
    "line",
    [
        "torch._dynamo.graph_break(); os.fork()",
        "print('x' * 1_000_000)",
        "threading.Thread(target=time.sleep, args=(100,)).start()",
        "os.close(1); os.close(2)",
    ],
)
def test_side_effects_of_a_trace_do_not_reach_the_live_run(hostile: EditedRun, line: str) -> None:
    report = hostile.edit("    return", f"    {line}\n    return", "f")
    assert {
        place.line
        for graph_break in report.breaks
        for place in graph_break.stack
        if place.path == hostile.path
    } == {7}
    assert breaks(hostile.edit("x.sin()", "x.cos()", "f")) == []


def test_a_later_call_with_other_shapes_is_traced_too(hostile: EditedRun) -> None:
    assert hostile.functions == {"f": 2}
    report = hostile.edit("    return", "    if x.shape[0] == 7:\n        print(0)\n    return", "f")
    assert {place for place, _ in breaks(report)} == {8}


def test_a_newer_request_replaces_one_that_is_on_the_way(hostile: EditedRun) -> None:
    slow = HOSTILE.replace("    return", "    time.sleep(100)\n    return")

    async def both() -> list[Answer | Refused]:
        worker = hostile.live.worker
        first = asyncio.create_task(worker.retrace(Retrace(1, hostile.id, hostile.path, slow, ("f",), 60.0)))
        await asyncio.sleep(0.5)
        return [await worker.retrace(Retrace(2, hostile.id, hostile.path, HOSTILE, ("f",))), await first]

    newer, older = hostile.live.do(both())
    assert isinstance(newer, Answer)
    assert older == Refused(1, "cancelled")


def test_a_cancelled_request_ends_its_trace(hostile: EditedRun) -> None:
    slow = HOSTILE.replace("    return", "    time.sleep(100)\n    return")

    async def cancel() -> Answer | Refused:
        worker = hostile.live.worker
        task = asyncio.create_task(worker.retrace(Retrace(1, hostile.id, hostile.path, slow, ("f",), 60.0)))
        await asyncio.sleep(0.5)
        task.cancel()
        await asyncio.wait({task})
        assert task.cancelled()
        return await worker.retrace(Retrace(2, hostile.id, hostile.path, HOSTILE, ("f",)))

    assert isinstance(hostile.live.do(cancel()), Answer)


def test_a_live_run_that_has_ended_is_refused(live: LiveWorker) -> None:
    edited_run = EditedRun(live, HOSTILE, file="ended.py")
    edited_run.close()
    answer = edited_run.ask(HOSTILE, "f")
    assert isinstance(answer, Refused)
    assert answer.reason == "no_live"


TRAINED = """\
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def inner(self, x):
        return x * 2

    # fuselight: Net()(f32[4, 8], train=True)
    @torch.compile(fullgraph=True, dynamic=True)
    def forward(self, x):
        return self.inner(self.linear(x))
"""


@pytest.fixture(scope="module")
def trained(live: LiveWorker) -> Iterator[EditedRun]:
    edited_run = EditedRun(live, TRAINED, "Net", file="trained.py")
    yield edited_run
    edited_run.close()


@pytest.mark.parametrize("line", ["x.sum().item()", "x.nonzero()", "x.add_(1)"])
def test_a_trace_obeys_the_compile_call(trained: EditedRun, line: str) -> None:
    report = trained.edit("return x * 2", f"{line}\n        return x * 2", "Net.inner")
    assert (breaks(report), report.failures) == ([], ())


def test_what_fullgraph_forbids_is_a_failure_on_its_line(trained: EditedRun) -> None:
    report = trained.edit("return x * 2", "print(0)\n        return x * 2", "Net.inner")
    (failure,) = report.failures
    assert (failure.kind, failure.stack[-1].line) == ("fullgraph", 10)
    report = trained.edit("return x * 2", "return x * 2 if x.is_leaf else print(0)", "Net.inner")
    assert [failure.kind for failure in report.failures] == ["fullgraph"]


def test_an_edit_that_fixes_a_size_is_seen(trained: EditedRun) -> None:
    report = trained.edit("return x * 2", "return x * 2 if x.shape[0] == 4 else x", "Net.inner")
    fixed = {symbol.source: symbol.specialized_to for done in report.compiles for symbol in done.symbols}
    assert fixed["x.size(0)"] == "4"


MAIN = """\
import torch

def scale(x):
    return x * 2

@torch.compile
def step(x):
    return scale(x).sin()

if __name__ == "__main__":
    x = torch.ones(4)
    for number in range(1000):
        x = step(x)
"""


def test_a_program_is_run_until_its_functions_were_called(live: LiveWorker) -> None:
    edited_run = EditedRun(live, MAIN, "", file="main.py")
    assert edited_run.functions == {"scale": 1, "step": 1}
    assert {
        line for line, _ in breaks(edited_run.edit("return x * 2", "print(0); return x * 2", "scale"))
    } == {4}
    edited_run.close()


LAYERS = """\
import torch
from torch import nn

class Layer(nn.Module):
    def __init__(self, index, wide=False):
        super().__init__()
        self.layer_idx, self.wide = index, wide
        self.linear = nn.Linear(8, 8)

    def forward(self, x):
        return self.linear(x).relu() if not self.wide else self.linear(x).sin()

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(Layer(index, wide=index == 9) for index in range(12))

    # fuselight: Net()(f32[4, 8])
    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x
"""


def test_repeated_layers_are_traced_twice(live: LiveWorker) -> None:
    edited_run = EditedRun(live, LAYERS, "Net", file="layers.py")
    clean = edited_run.edit("return x\n", "return x + 1\n", "Net.forward")
    (done,) = clean.compiles
    assert done.graph is not None
    assert done.graph.operators == 2 * (2 + 1) + 1, "two layers, and the one that differs"
    all_of_them = edited_run.edit("        return x\n", "        return self.layers[11](x)\n", "Net.forward")
    assert all_of_them.failures == ()
    assert all_of_them.compiles[-1].graph is not None
    assert all_of_them.compiles[-1].graph.operators == 12 * 2 + 2
    edited_run.close()
