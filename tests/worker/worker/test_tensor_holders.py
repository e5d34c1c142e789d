"""Which names hold tensors when memory runs out, in a process of its own and in this one."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch

from fuselight.capture.dynamo import stacks
from fuselight.shared.report import TensorHolder
from fuselight.worker.child.tensor_holders import tensor_holders
from tests.support.live_worker import LiveWorker

MIB = 2**20


def holders_in(tmp_path: Path, text: str) -> dict[tuple[str, str, str], TensorHolder]:
    """What `work()` of a module with this text finds by `look()`, by name, kind and scope."""
    path = tmp_path / "held.py"
    path.write_text(f"import torch\n{text}", encoding="utf-8")
    module = ModuleType("held_module")
    module.__file__ = str(path)
    sys.modules[module.__name__] = module
    holders: list[TensorHolder] = []
    vars(module)["look"] = lambda: holders.extend(
        tensor_holders(stacks.frames_from(sys._getframe(1)), [str(tmp_path)])
    )
    try:
        exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), vars(module))  # noqa: S102 - the text above
        vars(module)["work"]()
    finally:
        del sys.modules[module.__name__]
    return {(holder.name, holder.kind, holder.scope): holder for holder in holders}


def test_a_list_that_grows_is_named_with_the_line_that_fills_it(tmp_path: Path) -> None:
    text = """
kept = []
def work():
    for _ in range(3):
        x = torch.ones(1 << 20)
        kept.append(x)
    look()
"""
    ((name, holder),) = holders_in(tmp_path, text).items()
    assert name == ("kept", "list", "")
    assert (holder.bytes, holder.tensors, holder.location and holder.location.line) == (12 * MIB, 3, 7)


def test_losses_hold_what_their_backward_needs(tmp_path: Path) -> None:
    text = """
def work():
    w = torch.ones(1, requires_grad=True)
    losses = []
    for _ in range(2):
        h = (torch.ones(1 << 20) * w).exp()
        losses.append(h.sum())
    del h
    look()
"""
    holders = holders_in(tmp_path, text)
    holder = holders["losses", "list", "work"]
    if tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 13):  # torch 2.13 and newer
        assert (holder.graph, holder.tensors) == (2 * 2 * 4 * MIB, 2)
    assert holder.location is not None
    assert holder.location.line == 8


def test_attributes_modules_and_closures_are_named(tmp_path: Path) -> None:
    text = """
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up = torch.nn.Linear(1024, 1024, bias=False)
        self.last = None
    def forward(self, x):
        self.last = self.up(x).detach()
        return self.last
def make():
    cache = {}
    def fill(key):
        cache[key] = torch.ones(1 << 20)
    return fill
fill = make()
def work():
    net = Net()
    net(torch.ones(1024, 1024))
    fill(3)
    look()
"""
    holders = holders_in(tmp_path, text)
    assert {key: holder.bytes for key, holder in holders.items()} == {
        ("net", "parameters", "work"): 4 * MIB,
        ("self.last", "variable", "Net"): 4 * MIB,
        ("cache", "dict", "make.<locals>.fill"): 4 * MIB,
    }
    last = holders["self.last", "variable", "Net"].location
    assert last is None, "two lines bind it"
    cache = holders["cache", "dict", "make.<locals>.fill"].location
    assert cache is not None
    assert cache.line == 14


def test_no_code_of_the_program_runs_and_no_value_stays_in_a_frame(tmp_path: Path) -> None:
    text = """
import weakref
class Odd:
    def __init__(self):
        self.kept = [torch.ones(1 << 20)]
    def __getattr__(self, name):
        raise SystemExit(name)
    @property
    def other(self):
        raise SystemExit
class Items(list):
    def __iter__(self):
        raise SystemExit
odd, items = Odd(), Items([torch.ones(1 << 20)])
def work():
    x = torch.ones(1 << 20)
    look()
    gone = weakref.ref(x)
    del x
    assert gone() is None
"""
    assert set(holders_in(tmp_path, text)) == {
        ("self.kept", "list", "Odd"),
        ("items", "Items", ""),
        ("x", "variable", "work"),
    }


def test_tensors_without_memory_of_the_kind_that_ran_out_are_not_named(tmp_path: Path) -> None:
    text = """
from torch._subclasses import FakeTensorMode
def work():
    with FakeTensorMode():
        fake = torch.ones(1 << 22)
    meta = torch.ones(1 << 22, device="meta")
    real = torch.ones(1 << 20)
    look()
"""
    assert {name for name, _, _ in holders_in(tmp_path, text)} == {"real"}
    here = torch.ones(1 << 20)
    roots = [str(Path(__file__).parent)]
    names = [holder.name for holder in tensor_holders(stacks.frames_from(sys._getframe()), roots)]
    assert "here" in names
    assert tensor_holders(stacks.frames_from(sys._getframe()), roots, is_gpu=True) == ()
    assert here.numel() == 1 << 20


def test_a_run_that_reaches_its_limit_names_what_it_held(live: LiveWorker) -> None:
    failure = live.failure(
        "import torch\nkept = []\ndef fill():\n    while True:\n        kept.append(torch.ones(1 << 22))\nfill()\n",
        memory_mb=1000,
    )
    assert (failure.kind, failure.stack[-1].line) == ("memory", 5)
    (holder,) = failure.holders
    assert (holder.name, holder.kind) == ("kept", "list")
    assert holder.location is not None
    assert holder.location.line == 5
    assert holder.bytes > 100 * MIB


@pytest.mark.parametrize("line", ["torch.empty(1 << 50, dtype=torch.uint8)", "bytearray(1 << 50)"])
def test_an_allocation_that_fails_is_a_lack_of_memory(live: LiveWorker, line: str) -> None:
    failure = live.failure(f"import torch\na = torch.ones(1 << 20)\n{line}\n")
    assert (failure.kind, failure.stack[-1].line) == ("memory", 3)
    assert [(holder.name, holder.bytes) for holder in failure.holders] == [("a", 4 * MIB)]


def test_a_run_far_beyond_its_limit_has_the_line(live: LiveWorker) -> None:
    failure = live.failure("import torch\nx = 3\na = torch.ones(1 << 29)\n", memory_mb=1000)
    assert failure.kind == "memory"
    assert failure.stack[-1].line == 3
