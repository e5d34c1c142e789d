"""The division of time: for all kernels, the sum over lines is the sum over kernels."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fuselight.shared.report import (
    FusedOperator,
    GeneratedGraph,
    Kernel,
    KernelKind,
    Location,
    Phase,
    Report,
)
from fuselight_server.base.finding import SourceLine
from fuselight_server.explain.kernels.shares import costs_by_line, fold, place_of, shares
from tests.support.reports import report

ROOT = "/w"
frames = st.builds(
    Location, path=st.sampled_from(["/w/a.py", "/w/b.py", "/lib/site-packages/x.py"]), line=st.integers(1, 5)
)
operators = st.builds(
    FusedOperator, name=st.just("aten.add.Tensor"), stack=st.lists(frames, max_size=3).map(tuple)
)
sizes = st.none() | st.integers(0, 10**9)
kernels = st.builds(
    Kernel,
    name=st.sampled_from(["triton_0", "triton_1"]),
    kind=st.just(KernelKind.TRITON),
    launch=st.integers(0, 9),
    text_key=st.none(),
    operators=st.lists(operators, max_size=6).map(tuple),
    bytes_read=sizes,
    bytes_written=sizes,
    flops=sizes,
    estimate_us=st.none() | st.floats(0, 1e6),
    call=st.just(""),
    wrapper_line=st.none(),
    dtype=st.none(),
    bound=st.none(),
    candidates=st.just(()),
)


def generated_report(*kernels: Kernel) -> Report:
    return report(roots=(ROOT,), generated=(GeneratedGraph("0/0", Phase.FORWARD, kernels=kernels),))


@pytest.mark.slow
@given(st.lists(kernels, max_size=8))
def test_nothing_is_counted_twice_and_nothing_is_lost(kernels: list[Kernel]) -> None:
    costs = costs_by_line(generated_report(*kernels))
    assert sum(cost.bytes for cost in costs) == sum(
        (k.bytes_read or 0) + (k.bytes_written or 0) for k in kernels
    )
    assert sum(cost.flops for cost in costs) == sum(k.flops or 0 for k in kernels)
    assert sum(cost.us for cost in costs) == sum(Fraction(k.estimate_us or 0) for k in kernels)
    assert len({cost.place for cost in costs}) == len(costs)


@given(kernels)
def test_the_parts_of_a_kernel_are_one(kernel: Kernel) -> None:
    parts = shares(kernel, (ROOT,))
    assert sum(parts.values()) == 1
    assert all(part > 0 for part in parts.values())


@pytest.mark.slow
@given(st.lists(kernels, max_size=8))
def test_folding_loses_no_launch(kernels: list[Kernel]) -> None:
    (graph,) = generated_report(*kernels).generated
    assert sum(folded_kernel.count for folded_kernel in fold(graph, (ROOT,))) == len(kernels)


def test_an_operator_belongs_to_the_innermost_line_of_the_workspace() -> None:
    stack = (Location("/w/a.py", 3), Location("/w/b.py", 4), Location("/w/.venv/site-packages/lib.py", 9))
    assert place_of(stack, (ROOT,)) == SourceLine("/w/b.py", 4)
    assert place_of(stack[2:], (ROOT,)) == SourceLine("/w/.venv/site-packages/lib.py", 9)
    assert place_of((), (ROOT,)) is None


def test_a_line_knows_what_it_is_fused_with() -> None:
    add = FusedOperator("aten.add.Tensor", stack=(Location("/w/a.py", 1),))
    mul = FusedOperator("aten.mul.Tensor", stack=(Location("/w/a.py", 2),))
    kernel = Kernel(
        "triton_0", KernelKind.TRITON, 0, operators=(add, mul, mul), bytes_read=30, bytes_written=0
    )
    second, first = costs_by_line(generated_report(kernel))
    assert (second.place, second.bytes, second.fused_with) == (
        SourceLine("/w/a.py", 2),
        Fraction(20),
        {SourceLine("/w/a.py", 1)},
    )
    assert (first.place, first.bytes) == (SourceLine("/w/a.py", 1), Fraction(10))
