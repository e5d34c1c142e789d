"""Lookups by objects on which torch has no guard: what is reported is what compiled code gets wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from fuselight.shared.report import UnseenKind
from tests.support.recording import record

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.torch

PROGRAM = """
import dataclasses
import enum
import torch

class Kind(enum.Enum):
    RELU = "relu"
    SINE = "sine"

class Word(str, enum.Enum):
    RELU = "relu"
    SINE = "sine"

class Key:
    pass

@dataclasses.dataclass
class Config:
    kind: Kind

FUNCTIONS = {Kind.RELU: torch.relu, Kind.SINE: torch.sin}
WORDS = {Word.RELU: torch.relu, Word.SINE: torch.sin}
SCALES = {Kind.RELU: 2.0, Kind.SINE: 3.0}
EQUAL = {Kind.RELU: 2.0, Kind.SINE: 2.0}
FIRST, SECOND = Key(), Key()
WARM, ALL, KNOWN = {Kind.RELU}, {Kind.RELU, Kind.SINE}, {FIRST}
OBJECTS = {FIRST: 1.0, SECOND: 2.0}

def by_argument(x, kind):
    return FUNCTIONS[kind](x)

def by_word(x, word):
    return WORDS[word](x)

def by_get(x, kind):
    return x * SCALES.get(kind, 1.0)

def by_object(x, key):
    return x * OBJECTS[key]

def by_attribute(x, config):
    return x * SCALES[config.kind]

def helper(x, kind):
    return FUNCTIONS[kind](x)

def in_helper(x, kind):
    return helper(x, kind)

def equal_entries(x, kind):
    return x * EQUAL[kind]

def unused(x, kind):
    return FUNCTIONS[Kind.RELU](x)

def unused_there(x, kind):
    scale = len(str(x.dtype)) if kind is None else 1
    return FUNCTIONS[Kind.RELU](x) * scale

def by_set(x, kind):
    return x + 1 if kind in WARM else x - 1

def by_set_of_objects(x, key):
    return x * 2 if key in KNOWN else x

def in_both_or_none(x, kind):
    return x + 1 if kind in ALL else x - 1

def by_comparison(x, kind):
    return torch.relu(x) if kind is Kind.RELU else torch.sin(x)

def by_name(x, kind):
    return {"RELU": torch.relu, "SINE": torch.sin}[kind.name](x)

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.kind = Kind.RELU

    def forward(self, x):
        return self.function()(x)

    def function(self):
        return FUNCTIONS[self.kind]

def main():
    wrong = set()
    x = torch.linspace(-1, 1, 5)
    pairs = {"word": tuple(Word), "key": (FIRST, SECOND), "config": (Config(Kind.RELU), Config(Kind.SINE))}
    for function in (
        by_argument, by_word, by_get, by_object, by_attribute, in_helper, equal_entries, unused, unused_there,
        by_comparison, by_name, by_set, by_set_of_objects, in_both_or_none,
    ):
        compiled = torch.compile(function, backend="eager")
        for value in pairs.get(function.__code__.co_varnames[1], tuple(Kind)):
            if not torch.equal(compiled(x, value), function(x, value)):
                wrong.add(function.__name__)
    net = Net()
    compiled = torch.compile(net, backend="eager")
    for kind in Kind:
        net.kind = kind
        if not torch.equal(compiled(x), net(x)):
            wrong.add("Net.forward")
    print(*sorted(wrong))
"""


def test_what_is_reported_is_what_differs_from_eager_mode(tmp_path: Path) -> None:
    got = record(tmp_path, PROGRAM)
    assert got.failure is None
    reported = {change.function: change.what for change in got.parts.unseen if change.kind is UnseenKind.KEY}
    assert sorted(reported) == got.printed.split()
    assert reported == {
        **dict.fromkeys(("by_argument", "by_get", "by_set", "in_helper"), "kind"),
        "by_set_of_objects": "key",
        "by_word": "word",
        "by_object": "key",
        "by_attribute": "config.kind",
        "Net.forward": "self.kind",
    }
