"""The line of a wrong call: a call that torch moves is at fault, and not a line of the function that it calls."""

from __future__ import annotations

import pytest
import torch._dynamo.config

from fuselight.shared.report import Location, Stack
from fuselight.worker.results.first_line import moved_call
from fuselight.worker.results.noted_lines import LineValues, NotedOperator

pytestmark = pytest.mark.torch
INSIDE = Location(__file__, 11, function="note")


def note() -> None:
    """What a program may let torch move."""


def called(line: int) -> Stack:
    return Location("/p/step.py", line, function="step"), INSIDE


def lines(*values: tuple[Stack, float]) -> LineValues:
    noted = LineValues()
    noted.operators += [NotedOperator(stack, (value,)) for stack, value in values]
    return noted


def test_a_call_that_may_be_moved_is_named_where_its_value_is_another() -> None:
    eager = lines((called(17), 8.0), (called(18), 4.0), (called(20), 8.0))
    compiled = lines(((INSIDE,), 8.0), ((INSIDE,), 8.0))
    assert moved_call(compiled, eager) == ()
    with torch._dynamo.config.patch(reorderable_logging_functions={note, print}):
        assert moved_call(compiled, eager) == called(18)
        assert moved_call(eager, eager) == ()
