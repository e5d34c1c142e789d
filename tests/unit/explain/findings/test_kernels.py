"""FL701 and FL702: operators without a kernel, and graphs that cannot be captured as a CUDA graph."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from fuselight.shared.report import (
    Call,
    Compile,
    CudagraphSkip,
    Device,
    Frame,
    FusedOperator,
    GeneratedGraph,
    Inputs,
    Kernel,
    KernelKind,
    Outcome,
    Phase,
    Report,
    Rung,
    Tier,
)
from fuselight_server.base.finding import Finding, Severity
from fuselight_server.explain.findings import findings
from tests.support.reports import LIBRARY, at, report

H100 = Device("h100-sxm", "H100", "cuda", "9.0", 132)
CPU = Device("cpu", "CPU", "cpu", "", 2)


def fallback(name: str, line: int = 14, launch: int = 0, **changes: Any) -> Kernel:
    made_by = FusedOperator(name, stack=(at(30, function="main"), at(line, function="forward")))
    base = Kernel(
        f"torch.ops.{name}", KernelKind.FALLBACK, launch, operators=(made_by,),
        bytes_read=1_000_000, bytes_written=500_000, estimate_us=3.0,
    )  # fmt: skip
    return dataclasses.replace(base, **changes)


def generated(*kernels: Kernel, device: Device = H100, **changes: Any) -> Report:
    graph = GeneratedGraph("0/0", Phase.INFERENCE, kernels=kernels, **changes)
    return report(tier=Tier.KERNELS, target_device=device, generated=(graph,))


def of(code: str, given: Report) -> tuple[Finding, ...]:
    return tuple(finding for finding in findings(given) if finding.code == code)


def test_an_operator_without_a_kernel_is_information_with_its_cost() -> None:
    (finding,) = findings(generated(fallback("aten.linalg_qr.default")))
    assert (finding.code, finding.severity, finding.span.line) == ("FL701", Severity.INFORMATION, 14)
    assert finding.title == "no kernel is generated for `aten.linalg_qr`: ATen's own kernel is called"
    assert finding.cost == (
        "it is not fused with the operators around it: 1.5 MB of memory traffic, likely ~3 µs on H100",
    )
    assert "fuselight ops" in finding.message
    assert [other.span.line for other in finding.related] == [30]


def test_launches_of_one_operator_on_one_line_are_one_finding() -> None:
    twice = (fallback("aten.linalg_qr.default"), fallback("aten.linalg_qr.default", launch=1))
    elsewhere = fallback("aten.linalg_qr.default", line=15, launch=2)
    first, second = findings(generated(*twice, elsewhere))
    assert (first.count, first.span.line, second.count, second.span.line) == (2, 14, 1, 15)
    assert first.cost[0].endswith("3 MB of memory traffic, likely ~6 µs on H100")
    assert first.cost[1] == "2 launches"


def without_lines(**parts: Any) -> Report:
    """A program, on line 1, that compiles two functions with an operator that no line of the user calls."""
    kernel = fallback("aten.randint.low", operators=(FusedOperator("aten.randint.low"),))
    library = FusedOperator("aten.randint.low", stack=(at(8, path=LIBRARY),))
    graphs = (
        GeneratedGraph("0/0", Phase.INFERENCE, kernels=(kernel,)),
        GeneratedGraph("1/0", Phase.INFERENCE, kernels=(kernel, dataclasses.replace(kernel, operators=(library,)))),
    )  # fmt: skip
    base = report(tier=Tier.KERNELS, target_device=H100, generated=graphs, **parts)
    return dataclasses.replace(base, target=dataclasses.replace(base.target, name="", line=1, kind="main"))


def test_an_operator_that_no_line_calls_is_at_the_function_that_was_compiled() -> None:
    frames = (Frame("draw", at(20)), Frame("shift", at(40)))
    compiles = (Compile("0/0", 0, Outcome.COMPILED), Compile("1/0", 1, Outcome.COMPILED))
    first, second = of("FL701", without_lines(frames=frames, compiles=compiles))
    assert (first.span.line, first.count, second.span.line, second.count) == (20, 1, 40, 2)


def test_or_at_the_call_that_was_made() -> None:
    inputs = Inputs(Rung.MAIN, at(1).path, calls=(Call(0, "draw()", at(52)),))
    (finding,) = of("FL701", without_lines(inputs=inputs))
    assert (finding.span.line, finding.count) == (52, 3)


@pytest.mark.parametrize(
    "name",
    [
        "aten._scaled_dot_product_flash_attention.default",
        "aten.convolution_backward.default",
        "aten._cudnn_rnn.default",
        "aten.view_as_real.default",
    ],
)
def test_library_operators_and_views_have_no_finding(name: str) -> None:
    assert findings(generated(fallback(name))) == ()


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("higher_order.run_and_save_rng_state", "activation checkpointing"),
        ("higher_order.with_effects", "it is torch's own"),
        ("mine.scale", "a custom operator is always called as it is"),
    ],
)
def test_the_advice_for_an_operator_without_a_kernel_fits_its_kind(name: str, hint: str) -> None:
    (finding,) = findings(generated(fallback(name)))
    assert hint in finding.message


def test_the_seeds_that_inductor_draws_itself_have_no_finding() -> None:
    name = "aten.randint.low_out"
    assert findings(generated(fallback(name, operators=(FusedOperator(name),)))) == ()
    assert [finding.span.line for finding in findings(generated(fallback(name)))] == [14]


def test_other_kinds_of_kernels_are_no_finding() -> None:
    kinds = set(KernelKind) - {KernelKind.FALLBACK}
    assert findings(generated(*(fallback("aten.mm.default", kind=kind) for kind in kinds))) == ()


def test_a_custom_operator_is_reported_as_custom() -> None:
    (finding,) = findings(generated(fallback("mine.odd.default")))
    assert finding.title == "no kernel is generated for `mine.odd`: the operator's own code is called"
    assert any("triton_op" in hint for hint in finding.hints)


def test_an_operator_of_a_library_line_is_reported_on_the_users_call() -> None:
    stack = (at(14), at(88, path=LIBRARY))
    kernel = fallback("aten.linalg_qr.default")
    operators = (FusedOperator("aten.linalg_qr.default", stack=stack),)
    (finding,) = findings(generated(dataclasses.replace(kernel, operators=operators)))
    assert finding.span.line == 14
    assert [other.span.path for other in finding.related] == [LIBRARY]


def test_an_operator_without_a_line_is_reported_on_the_target() -> None:
    bare = FusedOperator("aten.linalg_qr.default")
    (finding,) = findings(
        generated(
            fallback(
                "aten.linalg_qr.default",
                operators=(bare,),
                bytes_read=None,
                bytes_written=None,
                estimate_us=None,
            )
        )
    )
    assert finding.span.line == 10
    assert finding.cost == ("it is not fused with the operators around it",)


@pytest.mark.parametrize(
    ("reason", "title"),
    [
        ("mutated inputs (2 instances)", "it writes into an input tensor"),
        ("CUDAGraph-unsafe custom ops", "a custom operator is marked as unsafe for CUDA graphs"),
        ("cpu ops", "part of it is not on the GPU"),
        ("unbacked binding ops", "it has a size that varies or depends on data"),
        ("something that torch will say one day", "something that torch will say one day"),
    ],
)
def test_a_graph_that_is_not_replayed_says_why_in_plain_words(reason: str, title: str) -> None:
    skips = (CudagraphSkip(reason, (at(12),)),)
    kernels = tuple(fallback("aten.mm.default", kind=KernelKind.EXTERN, launch=n) for n in range(7))
    (finding,) = findings(generated(*kernels, cudagraph_skips=skips))
    assert (finding.code, finding.severity, finding.span.line) == ("FL702", Severity.WARNING, 12)
    assert finding.title == f"not captured as a CUDA graph: {title}"
    assert finding.cost[0].startswith("up to 7 kernels are launched one by one")
    assert reason.partition(" (")[0] in finding.message


def test_the_same_reason_on_the_same_line_is_reported_once() -> None:
    skips = [(CudagraphSkip(f"mutated inputs ({n + 1} instances)", (at(12),)),) for n in range(2)]
    graphs = tuple(
        GeneratedGraph(f"0/{n}", Phase.INFERENCE, cudagraph_skips=skip) for n, skip in enumerate(skips)
    )
    (finding,) = findings(report(tier=Tier.KERNELS, target_device=H100, generated=graphs))
    assert finding.count == 2


def test_a_cpu_has_no_replay_findings() -> None:
    skips = (CudagraphSkip("cpu ops", (at(12),)),)
    assert of("FL702", generated(cudagraph_skips=skips, device=CPU)) == ()
