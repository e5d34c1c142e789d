"""Which variables and sizes decide how often a loop runs, by the bytecode of each version of Python."""

from __future__ import annotations

import textwrap
from types import CodeType

import pytest

from fuselight.capture.dynamo.loop_counts import loop_counts

pytestmark = pytest.mark.torch

CASES: dict[str, set[tuple[str, int]]] = {
    "for _ in range(x.size(1)): pass": {("x", 1)},
    "for _ in range(x.shape[2]): pass": {("x", 2)},
    "for _ in range(0, x.shape[-1] - 1, 2): pass": {("x", -1)},
    "for _ in range(len(x)): pass": {("x", 0)},
    "n = x.size(1)\nfor _ in range(n): pass": {("x", 1)},
    "b, n = x.shape\nfor _ in range(n): pass": {("x", 1)},
    "b, n = x.shape\nreturn [b for _ in range(n)]": {("x", 1)},
    "b, n, c = x.size()\nfor _ in range(n + k): pass": {("x", 1)},
    "b, n, c, d = x.shape\nfor _ in range(c):\n    for _ in range(d): pass": {("x", 2), ("x", 3)},
    "n = x.size(k)\nfor _ in range(n): pass": set(),
    "n = x.shape[:1]\nfor _ in range(k): pass": set(),
    "n = x.size(1)\nreturn n + sum(range(3))": set(),
    "for _ in range(x.sizes(1), x.shapes[1], x.numel()): pass": set(),
}


def compiled(body: str) -> CodeType:
    scope: dict[str, CodeType] = {}
    exec(f"def f(x, k):\n{textwrap.indent(body, '    ')}", scope)  # noqa: S102 - a text of this file
    return scope["f"].__code__  # type: ignore[attr-defined,no-any-return]


@pytest.mark.parametrize("body", CASES)
def test_the_sizes_that_decide_a_loop(body: str) -> None:
    assert loop_counts(compiled(body)).sizes == CASES[body]


def test_a_size_may_be_counted_from_the_end() -> None:
    counts = loop_counts(compiled("for _ in range(x.shape[-1]): pass"))
    assert counts.has_size("x", 2, rank=3)
    assert not counts.has_size("x", 1, rank=3)
    assert not counts.has_size("y", 2, rank=3)


def test_a_variable_that_decides_a_loop() -> None:
    assert loop_counts(compiled("for _ in range(2 * k + 1): x = x + 1\nreturn x")).names == {"k"}
