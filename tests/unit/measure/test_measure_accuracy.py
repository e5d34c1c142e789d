"""The search of a bisection as a property, and which kernel belongs to a line."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fuselight.measure.accuracy.narrowing import SpentError, kernel_of, narrow
from fuselight.shared.report import (
    FusedOperator,
    GeneratedGraph,
    Kernel,
    KernelKind,
    Location,
    Phase,
    Stack,
)


@given(
    places=st.lists(st.integers(0, 10_000), min_size=2, max_size=60, unique=True).map(sorted),
    data=st.data(),
)
def test_the_boundary_is_found_in_few_trials(places: list[int], data: st.DataObject) -> None:
    border = data.draw(st.sampled_from(places[1:]))
    tried: list[int] = []

    def fails(place: int) -> bool:
        tried.append(place)
        return place >= border

    bounds = narrow(places, fails)
    assert bounds.bad == border
    assert bounds.good == places[places.index(border) - 1]
    assert not bounds.spent
    assert len(tried) <= len(places).bit_length()


@given(
    verdicts=st.lists(st.sampled_from([True, False, None]), max_size=40),
    limit=st.integers(0, 12),
)
def test_bisection_reports_only_places_that_it_tried(verdicts: list[bool | None], limit: int) -> None:
    """With flaky failures, unknown locations and an end of the trials, nothing is invented."""
    known: dict[int, bool | None] = {0: False, len(verdicts) + 1: True}
    outcomes = [False, *verdicts, True]

    def fails(place: int) -> bool | None:
        assert place not in known, "tried twice"
        if len(known) - 2 == limit:
            raise SpentError
        known[place] = outcomes[place]
        return outcomes[place]

    bounds = narrow(range(len(outcomes)), fails)
    assert known[bounds.good] is False
    assert known[bounds.bad] is True
    between = [known.get(place, "untried") for place in range(bounds.good + 1, bounds.bad)]
    if not bounds.spent:
        assert set(between) <= {None}


HEAD = Location("/w/model.py", 30, function="run")
RELU, LINEAR = Location("/w/model.py", 4, function="forward"), Location("/w/model.py", 3, function="forward")


def kernel(name: str, *operators: tuple[str, Stack]) -> Kernel:
    return Kernel(
        name, KernelKind.TRITON, 0, operators=tuple(FusedOperator(op, "", at) for op, at in operators)
    )


def graph(*kernels: Kernel, compile_id: str = "0/0", phase: Phase = Phase.FORWARD) -> GeneratedGraph:
    return GeneratedGraph(compile_id, phase, kernels=kernels)


FORWARD = graph(
    kernel("extern_addmm", ("aten.addmm.default", (HEAD, LINEAR))),
    kernel("fused_relu", ("aten.relu.default", (HEAD, RELU)), ("aten.mul.Tensor", (HEAD, RELU))),
    kernel("fused_sum", ("aten.sum.default", (HEAD, RELU))),
)
BACKWARD = graph(kernel("fused_backward", ("aten.le.Scalar", (HEAD, RELU))), phase=Phase.BACKWARD)


@pytest.mark.parametrize(
    ("stack", "operator", "name"),
    [
        ((HEAD, LINEAR), "torch.nn.functional.linear", "extern_addmm"),  # the only one of its line
        ((HEAD, RELU), "torch.relu", "fused_relu"),
        ((HEAD, RELU), "relu_", "fused_relu"),
        ((HEAD, RELU), "sum", "fused_sum"),
        (
            (HEAD, RELU),
            "torch.softmax",
            "",
        ),  # two kernels have parts of the line, and none is known to have this
        ((RELU,), "torch.relu", ""),  # the line as another caller reaches it
        ((), "torch.relu", ""),
    ],
)
def test_the_kernel_of_a_line(stack: Stack, operator: str, name: str) -> None:
    assert kernel_of(stack, [FORWARD, BACKWARD], operator=operator, compile_id="0/0") == name


def test_the_kernel_of_a_gradient_and_of_another_graph() -> None:
    stack = (HEAD, RELU)
    assert kernel_of(stack, [FORWARD, BACKWARD], operator="torch.relu", backward=True) == "fused_backward"
    assert kernel_of(stack, [FORWARD, BACKWARD], operator="torch.relu", compile_id="1/0") == ""
