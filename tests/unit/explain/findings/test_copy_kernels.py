"""FL706: kernels that only copy."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from fuselight.shared.report import (
    FusedOperator,
    GeneratedGraph,
    Kernel,
    KernelKind,
    Phase,
    Report,
    Tier,
)
from fuselight_server.base.finding import Finding, Severity
from fuselight_server.explain.findings import Thresholds, findings_of_kernels
from tests.support.reports import H100, LIBRARY, at, report

CLONE, PERMUTE, CONVOLUTION = "aten.clone.default", "aten.permute.default", "aten.convolution.default"


def kernel(*names: str, line: int = 14, **changes: Any) -> Kernel:
    """A copy of 5 MB, from `line` on a line for each operator."""
    operators = tuple(
        FusedOperator(name, stack=(at(line + number, function="forward"),))
        for number, name in enumerate(names)
    )
    base = Kernel(
        "triton_poi_fused_clone_0", KernelKind.TRITON, 0, operators=operators, bytes_read=5_000_000,
        bytes_written=5_000_000, estimate_us=3.0, bound="memory", copies=True,
    )  # fmt: skip
    return dataclasses.replace(base, **changes)


REST = kernel("aten.mm.default", copies=False, estimate_us=17.0)


def generated(*kernels: Kernel, **changes: Any) -> Report:
    graph = GeneratedGraph("0/0", Phase.INFERENCE, kernels=(*kernels, REST))
    return dataclasses.replace(report(tier=Tier.KERNELS, target_device=H100, generated=(graph,)), **changes)


def of(given: Report, **thresholds: Any) -> tuple[Finding, ...]:
    return findings_of_kernels(given, thresholds=Thresholds(**thresholds))


def test_a_requested_copy_is_information_on_its_line() -> None:
    (finding,) = of(generated(kernel(PERMUTE, CLONE)))
    assert (finding.code, finding.severity, finding.span.line) == ("FL706", Severity.INFORMATION, 15)
    assert finding.title == "a kernel only copies here"
    assert finding.cost == (
        "1 launch: 10 MB read and written",
        "likely ~3 µs on H100, 15% of the target's kernel time",
    )
    assert "`contiguous()`" in finding.message


def test_launches_of_a_line_are_one_finding() -> None:
    first, second = of(generated(kernel(CLONE), kernel(CLONE), kernel(CLONE, line=30)))
    assert (first.count, first.span.line, second.count, second.span.line) == (2, 14, 1, 30)
    assert first.cost[0] == "2 launches: 20 MB read and written"


def test_a_copy_for_a_convolution_names_it_and_channels_last_on_its_own_line() -> None:
    (finding,) = of(generated(kernel(CONVOLUTION, "aten.relu.default", CONVOLUTION)))
    assert finding.title == "a kernel only copies here, for the layout that `aten.convolution` requires"
    assert finding.span.line == 16  # the others made what is copied
    assert "channels_last" in finding.message


def test_a_copy_for_another_library_operator_is_reported_without_channels_last() -> None:
    (finding,) = of(generated(kernel(CLONE, "aten.bmm.default")))
    assert finding.title.endswith("that `aten.bmm` requires")
    assert "channels_last" not in finding.message


@pytest.mark.parametrize(
    "given",
    [
        kernel(CLONE, copies=False),
        kernel(CLONE, bound="launch"),
        kernel(CLONE, estimate_us=0.5),
        kernel("aten.cat.default", CLONE),
        kernel("aten.copy_.default"),
        kernel("aten.slice.Tensor"),
        kernel(),
    ],
    ids=["computes", "as short as a launch", "little", "cat", "copy_", "a view alone", "no operator"],
)
def test_nothing_else_is_reported(given: Kernel) -> None:
    assert of(generated(given)) == ()


def test_the_share_is_a_threshold_and_none_disables_it() -> None:
    assert of(generated(kernel(CLONE)), kernel_share=0.16) == ()
    assert of(generated(kernel(CLONE)), kernel_share=0) == ()


def test_a_copy_inside_of_a_library_is_reported_on_the_users_call() -> None:
    operator = FusedOperator(CLONE, stack=(at(14), at(88, path=LIBRARY)))
    (finding,) = of(generated(kernel(CLONE, operators=(operator,))))
    assert (finding.span.line, [other.span.path for other in finding.related]) == (14, [LIBRARY])
