"""Attributes are read as an object holds them: no code of its class runs."""

from __future__ import annotations

from typing import Any

import pytest

from fuselight.shared.own_attributes import own_attributes


class Plain:
    def __init__(self) -> None:
        self.kind = 1


class Guarded(Plain):
    def __getattribute__(self, name: str) -> Any:
        raise AssertionError(name)


class Slots:
    __slots__ = ("kind",)


@pytest.mark.parametrize(("value", "attributes"), [(Plain(), {"kind": 1}), (Slots(), {}), (7, {})])
def test_what_an_object_holds_is_read(value: object, attributes: dict[str, int]) -> None:
    assert own_attributes(value) == attributes


def test_no_code_of_the_class_runs() -> None:
    assert own_attributes(object.__new__(Guarded)) == {}
    guarded = Guarded()
    assert own_attributes(guarded) == {"kind": 1}
