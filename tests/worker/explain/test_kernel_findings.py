"""Findings about generated kernels: fallbacks, and graphs that cannot be replayed as CUDA graphs."""

from __future__ import annotations

import importlib.util

import pytest

from fuselight.shared.protocol import GenerateRequest
from fuselight.shared.report import Device, Phase, Report
from fuselight_server.explain.findings import findings
from tests.support.live_worker import LiveWorker

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="this environment has no Triton"),
]
H100 = Device(
    "h100-sxm", "NVIDIA H100 80GB HBM3", "cuda", "9.0", 132,
    clock_mhz=1980, memory_gb=80, bandwidth_gbs=3350, tflops={"f32": 67.0, "bf16": 989.0},
    shared_kb=227, shared_sm_kb=228, l2_mb=50,
)  # fmt: skip
WRITES = """\
import torch
# fuselight: Step()(f32[4, 4]{options})
class Step(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)
        self.compile({how})
    def forward(self, x):
        x.add_(1)
        return self.linear(x).exp()
"""


def report_of(live: LiveWorker, source: str, name: str = "f") -> Report:
    report = live.report(live.request(source, name).of_kind(GenerateRequest, device=H100))
    assert (report.failures, report.problems) == ((), ())
    assert [graph.failure for graph in report.generated] == [None] * len(report.generated)
    return report


def lines_and_titles(report: Report, code: str) -> list[tuple[int, str]]:
    return [(finding.span.line, finding.title) for finding in findings(report) if finding.code == code]


def test_operators_and_dtypes_without_a_kernel_are_reported_and_attention_is_not(live: LiveWorker) -> None:
    source = (
        "import torch\nfrom torch.nn import functional as F\n"
        "# fuselight: f(bf16[2, 4, 64, 64], f32[8, 8])\n"
        "def f(q, x):\n"
        "    y = F.scaled_dot_product_attention(q, q, q)\n"
        "    q, _ = torch.linalg.qr(x)\n"
        "    z = torch.fft.fft(x).abs()\n"
        "    return y, q + z\n"
    )
    titles = lines_and_titles(report_of(live, source), "FL701")
    end = "ATen's own kernel is called"
    assert (6, f"no kernel is generated for `aten.linalg_qr`: {end}") in titles
    assert (7, f"no kernel is generated for `aten.abs`: {end}") in titles  # of complex numbers
    assert {line for line, _ in titles} == {6, 7}


def test_a_mutated_input_prevents_the_replay_of_a_graph(live: LiveWorker) -> None:
    how = "mode='reduce-overhead'"
    report = report_of(live, WRITES.format(options=", train=True", how=how), "Step")
    assert [graph.phase for graph in report.generated] == [Phase.FORWARD, Phase.BACKWARD]
    assert all(graph.kernels for graph in report.generated)
    assert lines_and_titles(report, "FL702") == [
        (9, "not captured as a CUDA graph: it writes into an input tensor")
    ]


def test_cuda_graphs_are_reported_only_if_enabled(live: LiveWorker) -> None:
    report = report_of(live, WRITES.format(options="", how=""), "Step")
    assert [graph.cudagraph_skips for graph in report.generated] == [()]


def test_a_graph_that_can_be_replayed_has_no_finding(live: LiveWorker) -> None:
    source = (
        "import torch\n# fuselight: f(f32[4, 4])\n"
        "@torch.compile(mode='reduce-overhead')\ndef f(x):\n    return x.sin() + 1\n"
    )
    assert [graph.cudagraph_skips for graph in report_of(live, source).generated] == [()]


def test_an_unsafe_operator_is_reported_on_its_line(live: LiveWorker) -> None:
    source = (
        "import torch\n"
        "@torch.library.custom_op('mine::odd', mutates_args=(), tags=(torch.Tag.cudagraph_unsafe,))\n"
        "def odd(x: torch.Tensor) -> torch.Tensor:\n"
        "    return x.clone()\n"
        "@odd.register_fake\n"
        "def _(x):\n"
        "    return torch.empty_like(x)\n"
        "# fuselight: f(f32[4, 4])\n"
        "@torch.compile(mode='reduce-overhead')\n"
        "def f(x):\n"
        "    y = x.sin()\n"
        "    y = odd(y)\n"
        "    return y.cos()\n"
    )
    report = report_of(live, source)
    assert lines_and_titles(report, "FL702") == [
        (12, "not captured as a CUDA graph: a custom operator is marked as unsafe for CUDA graphs")
    ]
    assert lines_and_titles(report, "FL701") == [
        (12, "no kernel is generated for `mine.odd`: the operator's own code is called")
    ]


def test_a_float_that_has_to_be_fixed_costs_no_graph(live: LiveWorker) -> None:
    source = (
        "import torch\n# fuselight: f(f32[4], 1.5)\n# fuselight: f(f32[4], 2.5)\n"
        "def f(x, scale):\n    return torch.nn.functional.dropout(x, scale / 10) * scale\n"
    )
    report = report_of(live, source)
    assert [graph.compile_id for graph in report.generated] == ["0/0", "0/1"]
    assert lines_and_titles(report, "FL704") == []
