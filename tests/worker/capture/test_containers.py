"""Values inside arguments, and copies of arguments with other values, without any code of the user's."""

from __future__ import annotations

import collections
import dataclasses
from typing import Any, NamedTuple

import pytest

from fuselight.capture.dynamo.containers import Field, items_of, replaced


class Pair(NamedTuple):
    left: Any
    right: Any


@dataclasses.dataclass
class Batch:
    tokens: Any
    mask: Any = None

    def __post_init__(self) -> None:
        if self.tokens == "never made":
            raise AssertionError("the user's code ran")


@dataclasses.dataclass(frozen=True)
class Frozen:
    parts: Any


class Strange(list[int]):
    def __init__(self) -> None:
        super().__init__([1])


def test_a_value_is_replaced_at_its_path_alone() -> None:
    other: list[int] = []
    value = {"batch": Batch([1, Pair(2, Frozen({"x": 3}))], other)}
    path = ("batch", Field("tokens"), 1, Field("right"), Field("parts"), "x")
    changed = replaced(value, {path: 4})
    assert changed == {"batch": Batch([1, Pair(2, Frozen({"x": 4}))], other)}
    assert value["batch"].tokens[1].right.parts == {"x": 3}
    assert changed["batch"].mask is other
    assert type(changed["batch"].tokens[1]) is Pair


def test_no_code_of_a_class_runs() -> None:
    assert replaced(Batch(1), {(Field("tokens"),): "never made"}).tokens == "never made"


@pytest.mark.parametrize("value", [Strange(), "text", 3, object(), Batch, collections.defaultdict(list)])
def test_other_objects_have_no_items(value: object) -> None:
    assert list(items_of(value)) == []


def test_an_ordered_dict_stays_one() -> None:
    value = collections.OrderedDict(b=1, a=2)
    changed = replaced(value, {("a",): 3})
    assert (type(changed), list(changed.items())) == (collections.OrderedDict, [("b", 1), ("a", 3)])
