"""A function that is left out of compiled code, for values that it alone reads; a list of numbers as one tensor."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import pytest
import torch

from fuselight.capture.calls.cured_calls import CureError
from fuselight.capture.calls.left_out import leave_out
from fuselight.shared.report import CallCure, CureKind
from tests.support.live_worker import LiveWorker
from tests.support.tried_programs import tried_report

HEAD = "import math, torch\nfrom torch import nn\n"
SCHEDULE = (
    HEAD
    + """\
class Schedule:
    def __init__(self):
        self.at, self.alphas = 0, [0.1, 0.2, 0.3, 0.4, 0.5]
    def step(self, x):
        x = x * VALUE
        self.at += 1
        return x
"""
)
LISTED = (
    SCHEDULE.replace("VALUE", "math.sqrt(self.alphas[self.at])")
    + """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.schedule = Schedule()
    def forward(self, x):
        return self.schedule.step(x.sin())
if __name__ == "__main__":
    net = torch.compile(Net())
    for _ in range(4):
        net(torch.ones(2))
"""
)
NESTED = LISTED.replace(
    "def step(self, x):", "def step(self, x):\n        return self.scaled(x)\n    def scaled(self, x):"
)
AFTER_A_BREAK = (
    HEAD
    + """\
class Meter:
    def __init__(self):
        self.values = []
    def update(self, value):
        self.values.append(value)
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.meter = Meter()
    def forward(self, x):
        y = x.sin()
        self.meter.update(y.sum().item())
        return y * 2
if __name__ == "__main__":
    net = torch.compile(Net())
    for i in range(4):
        net(torch.full((2,), float(i)))
"""
)
IN_A_LOOP = LISTED.replace(
    "return self.schedule.step(x.sin())",
    "for _ in range(1):\n            x = self.schedule.step(x.sin())\n        return x",
)


@pytest.mark.parametrize(
    ("source", "cured"),
    [
        (LISTED, ["left out 6"]),
        (AFTER_A_BREAK, ["left out 6"]),
        pytest.param(NESTED, ["left out 8"], marks=pytest.mark.corpora),
        pytest.param(IN_A_LOOP, [], marks=pytest.mark.corpora),
    ],
    ids=[
        "a list by a counter",
        "below a graph break",
        "the innermost of two functions",
        "a loop that then breaks",
    ],
)
def test_a_function_is_left_out_where_that_saves_compiles(
    live: LiveWorker, source: str, cured: list[str]
) -> None:
    trials = [trial for trial in tried_report(live, source).trials if trial.cure.kind is CureKind.OUTSIDE]
    assert [f"left out {trial.cure.left_out[1]}" for trial in trials if trial.cures] == cured, trials
    assert trials, "it was tried"
    assert all(trial.after < trial.before for trial in trials if trial.cures)


MODULE = """\
import functools
import torch

def free(x):
    return x + 1

def noted(function):
    @functools.wraps(function)
    def inner(*args):
        return function(*args)
    return inner

class Outer:
    class Inner:
        def method(self, x):
            return x + 1
        @staticmethod
        def fixed(x):
            return x + 1
        @classmethod
        def of_class(cls, x):
            return x + 1
        @noted
        @noted
        def decorated(self, x):
            return x + 1

def make():
    def nested(x):
        return x + 1
    return nested

nested_one = make()
def outer():
    def hidden(x):
        return x
    return hidden(1)
"""


LISTS = (
    SCHEDULE.replace("VALUE", "self.alphas[self.at] + self.alphas[self.at + 1]")
    + """\
if __name__ == "__main__":
    step = torch.compile(Schedule().step)
    for _ in range(4):
        step(torch.ones(2))
"""
)


@pytest.mark.parametrize(
    ("source", "subject"),
    [
        (LISTS, "L['self'].alphas"),
        pytest.param(
            HEAD
            + """\
@torch.compile
def scaled(x, table, n):
    return x * table[n]
if __name__ == "__main__":
    for n in range(4):
        scaled(torch.ones(2), [0.1, 0.2, 0.3, 0.4], n)
""",
            "L['table']",
            marks=pytest.mark.corpora,
        ),
    ],
    ids=["of an object", "of an argument"],
)
def test_a_list_of_numbers_is_one_tensor_where_that_saves_compiles(
    live: LiveWorker, source: str, subject: str
) -> None:
    trials = [trial for trial in tried_report(live, source).trials if trial.cure.kind is CureKind.STACK]
    assert [trial.cure.subjects for trial in trials if trial.cures and not trial.cure.also] == [(subject,)], (
        trials
    )


@pytest.fixture
def module(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    path = tmp_path / "left_out_here.py"
    path.write_text(MODULE)
    here = ModuleType("left_out_here")
    here.__file__ = str(path)
    monkeypatch.setitem(sys.modules, here.__name__, here)
    exec(compile(MODULE, str(path), "exec"), vars(here))  # noqa: S102 - the test's own text
    other = ModuleType("left_out_there")
    other.__file__ = str(tmp_path / "left_out_there.py")
    vars(other)["borrowed"] = vars(here)["free"]
    monkeypatch.setitem(sys.modules, other.__name__, other)
    return here


def cure(module: ModuleType, text: str) -> CallCure:
    line = next(n for n, item in enumerate(MODULE.splitlines(), 1) if text in item)
    return CallCure(CureKind.OUTSIDE, "net.py", 1, value=f"{module.__file__}:{line}:{line + 1}")


@pytest.mark.torch
@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("def free", "free"),
        ("def method", "Outer.Inner.method"),
        ("def fixed", "Outer.Inner.fixed"),
        ("def of_class", "Outer.Inner.of_class"),
        ("def decorated", "Outer.Inner.decorated"),
        ("def nested", "nested_one"),
    ],
)
def test_a_function_is_disabled_by_each_of_its_names(module: ModuleType, text: str, path: str) -> None:
    leave_out(cure(module, text))
    value: Any = module
    for name in path.split("."):
        value = getattr(value, name)
    assert getattr(value, "_torchdynamo_disable", False)
    owner: Any = module.Outer.Inner()
    called = value if path in {"free", "nested_one"} else getattr(owner, path.rpartition(".")[2])
    assert torch.equal(called(torch.ones(1)), torch.full((1,), 2.0)), "it is called as before"
    borrowed = sys.modules["left_out_there"].borrowed
    assert getattr(borrowed, "_torchdynamo_disable", False) == (path == "free")


@pytest.mark.torch
def test_what_no_name_holds_is_not_left_out(module: ModuleType) -> None:
    with pytest.raises(CureError, match="no module and no class"):
        leave_out(cure(module, "def hidden"))
