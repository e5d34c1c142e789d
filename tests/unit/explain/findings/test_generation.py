"""A dtype that the device lacks, and a graph that Inductor could not compile: each reported once on the user's line."""

from __future__ import annotations

from fuselight.shared.devices import find
from fuselight.shared.report import (
    Compile,
    Frame,
    FusedOperator,
    GeneratedGraph,
    Kernel,
    KernelKind,
    Outcome,
    Phase,
)
from fuselight_server.explain.findings import findings
from tests.support.reports import FILE, LIBRARY, at, report


def kernel(dtype: str | None, line: int) -> Kernel:
    stack = (at(line), at(3, path=LIBRARY))
    return Kernel(
        "triton_0", KernelKind.TRITON, 0, operators=(FusedOperator("aten.mm", stack=stack),), dtype=dtype
    )


def test_a_dtype_that_the_device_lacks_is_one_finding_on_its_first_line() -> None:
    graph = GeneratedGraph(
        "0/0", Phase.FORWARD, kernels=(kernel("f32", 11), kernel("f8", 12), kernel("f8", 13))
    )
    (finding,) = findings(report(generated=(graph,), target_device=find("a100")))
    assert (finding.code, finding.span.path, finding.span.line) == ("FL703", FILE, 12)
    assert "A100" in finding.title
    assert findings(report(generated=(graph,), target_device=find("h100"))) == ()


def test_a_graph_without_kernels_is_reported_on_its_frame_with_the_compilers_message() -> None:
    failed = GeneratedGraph("1/0", Phase.BACKWARD, failure="RuntimeError: BF16 is not supported\nmore")
    (finding,) = findings(
        report(
            frames=(Frame("Net.forward", at(20)), Frame("Net.helper", at(30))),
            compiles=(Compile("0/0", 0, Outcome.COMPILED), Compile("1/0", 1, Outcome.COMPILED)),
            generated=(failed,),
            target_device=find("t4"),
        )
    )
    assert (finding.code, finding.span.line) == ("FL704", 30)
    assert finding.title == "no kernels for the backward graph: RuntimeError: BF16 is not supported"
    assert "T4" in finding.message
