"""Comparisons of two objects by `is`: what is reported is what compiled code gets wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from fuselight.shared.report import UnseenKind
from tests.support.recording import record

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.torch

PROGRAM = """
import torch

class Slot:
    def __init__(self, name):
        self.name = name

class Holder(torch.nn.Module):
    def __init__(self, first, second):
        super().__init__()
        self.first, self.second, self.table = first, second, {"now": second, "list": [second]}

class Attributes(Holder):
    def forward(self, x):
        return x + 1 if self.first is self.second else x - 1

class Negated(Holder):
    def forward(self, x):
        if self.first is not self.second:
            return x - 1
        return x + 1

class InDict(Holder):
    def forward(self, x):
        return x + 1 if self.first is self.table["now"] else x - 1

class Modules(Holder):
    def forward(self, x):
        return x + 1 if self.first is self.second else x - 1

class Names(Holder):
    def forward(self, x):
        return x + 1 if self.first.name == self.second.name else x - 1

class Absent(Holder):
    def forward(self, x):
        return x + 1 if self.first is None else x - 1

ONE, TWO = Slot("one"), Slot("two")

def of_arguments(x, slot, other):
    return x + 1 if slot is other else x - 1

def of_global(x, slot, other):
    return x + 1 if slot is TWO else x - 1

def helper(slot, other):
    return slot is other

def in_helper(x, slot, other):
    return x + 1 if helper(slot, other) else x - 1

def of_numbers(x, slot, other):
    return x + 1 if slot.name is other.name else x - 1

def of_tensors(x, slot, other):
    return x + 1 if x is other else x - 1

def same_first(x, slot, other):
    return x + 1 if slot is other else x - 1

def made_here(x, slot, other):
    mine = Slot("mine")
    return x + 1 if slot is mine else x - 1

def main():
    wrong = set()
    x = torch.zeros(2)

    def attempt(name, compiled, eager, *args):
        if not torch.equal(compiled(*args), eager(*args)):
            wrong.add(name)

    for kind in (Attributes, Negated, InDict, Modules, Names, Absent):
        first, second = (torch.nn.ReLU(), torch.nn.ReLU()) if kind is Modules else (Slot("a"), Slot("b"))
        net = kind(first, second)
        compiled = torch.compile(net, backend="eager")
        attempt(kind.__name__, compiled, net, x)
        net.first = second
        attempt(kind.__name__, compiled, net, x)
    for function in (of_arguments, of_global, in_helper, of_numbers, made_here):
        compiled = torch.compile(function, backend="eager")
        attempt(function.__name__, compiled, function, x, ONE, TWO)
        attempt(function.__name__, compiled, function, x, TWO, TWO)
    compiled = torch.compile(of_tensors, backend="eager")
    attempt("of_tensors", compiled, of_tensors, x, ONE, torch.zeros(2))
    attempt("of_tensors", compiled, of_tensors, x, ONE, x)
    compiled = torch.compile(same_first, backend="eager")
    attempt("same_first", compiled, same_first, x, TWO, TWO)
    attempt("same_first", compiled, same_first, x, ONE, TWO)
    print(*sorted(wrong))
"""


def test_what_is_reported_is_what_differs_from_eager_mode(tmp_path: Path) -> None:
    got = record(tmp_path, PROGRAM)
    assert got.failure is None
    changes = [change for change in got.parts.unseen if change.kind is UnseenKind.IDENTITY]
    reported = {change.function.removesuffix(".forward"): change.what for change in changes}
    assert sorted(reported) == got.printed.split()
    assert reported["Negated"] == "self.first is not self.second"
    assert reported["of_global"] == "slot is TWO"
    assert {"Attributes", "Negated", "of_arguments", "of_global", "in_helper"} <= reported.keys()
    assert not {"Names", "Absent", "of_tensors", "same_first", "made_here"} & reported.keys()
    lines = {change.function: change.stack[-1].line for change in changes}
    assert lines["in_helper"] == got.line("return slot is other")
