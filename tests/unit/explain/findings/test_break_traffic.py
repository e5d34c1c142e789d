"""FL705: memory traffic of a graph break between kernels that could be fused."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from fuselight.shared.report import (
    Compile,
    Frame,
    GeneratedGraph,
    Handed,
    Kernel,
    KernelKind,
    Outcome,
    Phase,
    Report,
    Tier,
)
from fuselight_server.base.finding import Finding, Severity
from fuselight_server.explain.findings import Thresholds, findings_of_kernels
from tests.support.reports import FILE, H100, LIBRARY, at, broken, report

MB = 1_000_000
TENSOR = Handed("arg0_1", 10 * MB, graph=0, written_by=0, read_by=(0,), fusible=(0,))
FORWARD, HELPER = Frame("Net.forward", at(20)), Frame("helper", at(40))
REST = dataclasses.replace(FORWARD, resumes_at=25)


def graph(number: int, *handed: Handed, us: float = 20.0, **changes: Any) -> GeneratedGraph:
    kernel = Kernel("triton_0", KernelKind.TRITON, 0, estimate_us=us, bound="memory")
    base = GeneratedGraph(f"{number}/0", Phase.INFERENCE, graph=number, kernels=(kernel,), handed=handed)
    return dataclasses.replace(base, **changes)


def split(*handed: Handed, frames: tuple[Frame, ...] = (FORWARD, REST), **changes: Any) -> Report:
    """A target that breaks on line 25, with the inputs of its second graph."""
    base = report(
        tier=Tier.KERNELS,
        target_device=H100,
        frames=frames,
        compiles=tuple(Compile(f"{i}/0", i, Outcome.COMPILED, call=0) for i in range(len(frames))),
        breaks=(broken(at(25, (4, 12), function="forward")),),
        generated=(graph(0), graph(1, *handed)),
    )
    return dataclasses.replace(base, **changes)


def of(given: Report, **thresholds: Any) -> tuple[Finding, ...]:
    return findings_of_kernels(given, thresholds=Thresholds(**thresholds))


def test_a_tensor_between_fusible_kernels_is_reported_on_the_break_with_its_maximum_cost() -> None:
    (finding,) = of(split(TENSOR))
    assert (finding.code, finding.severity, finding.span.line, finding.span.column) == (
        "FL705",
        Severity.INFORMATION,
        25,
        4,
    )
    # 20 MB at 0.85 of 3,350 GB/s.
    assert finding.cost == (
        "up to 10 MB written and 10 MB read more than in one graph, ~7 µs on H100 (18% of the target's kernel time)",
    )
    assert "bound" in finding.message


@pytest.mark.parametrize(
    "changes", [{"kept": True}, {"read_by": (0, 1)}], ids=["kept for backward", "read by a library's, too"]
)
def test_output_that_is_written_anyway_costs_only_its_reading(changes: dict[str, Any]) -> None:
    (finding,) = of(split(dataclasses.replace(TENSOR, **changes)))
    assert finding.cost[0].startswith("up to 10 MB read more than in one graph, ~3.5 µs")


def test_tensors_over_one_break_are_one_finding() -> None:
    (finding,) = of(split(TENSOR, TENSOR))
    assert finding.count == 2
    assert finding.title.endswith("2 tensors go through memory")


@pytest.mark.parametrize(
    "given",
    [
        split(),
        split(dataclasses.replace(TENSOR, fusible=())),
        split(dataclasses.replace(TENSOR, bytes=MB)),  # 0.6 µs of 40
        split(TENSOR, breaks=()),
        split(TENSOR, breaks=(broken(at(26), compile_id="7/0"),)),
        split(TENSOR, breaks=(broken(at(25), frame_skipped=True),)),
        split(TENSOR, breaks=(broken(at(25, path=LIBRARY)),)),
        split(TENSOR, target_device=None),
        split(TENSOR, frames=(FORWARD, HELPER)),
    ],
    ids=[
        "nothing", "in another order", "little", "no break", "another line", "skipped", "a library's line",
        "no device", "a function that no break leads to",
    ],
)  # fmt: skip
def test_unproven_traffic_is_not_reported(given: Report) -> None:
    assert of(given) == ()


def test_the_share_is_a_threshold_and_none_disables_it() -> None:
    assert of(split(TENSOR), kernel_share=0.18) == ()
    assert len(of(split(TENSOR), kernel_share=0.17)) == 1
    assert of(split(TENSOR), kernel_share=0) == ()


def test_a_tensor_that_comes_from_another_call_of_the_target_is_not_reported() -> None:
    given = split(TENSOR)
    first, second = given.compiles
    assert of(dataclasses.replace(given, compiles=(first, dataclasses.replace(second, call=1)))) == ()


def test_a_function_called_after_the_break_is_reported_on_its_inner_line() -> None:
    inside = broken(at(25, function="forward"), at(42, function="helper"))
    (finding,) = of(split(TENSOR, frames=(FORWARD, HELPER), breaks=(inside,)))
    assert (finding.span.path, finding.span.line) == (FILE, 42)
    assert [other.span.line for other in finding.related] == [25]
