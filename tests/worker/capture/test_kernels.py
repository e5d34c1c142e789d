"""Kernels for an absent GPU: each on its line, forward and backward, and the tensors saved by autograd."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from fuselight.shared.devices import FALLBACK, find
from fuselight.shared.protocol import Answer, AssembleRequest, GenerateRequest
from fuselight.shared.report import Device, GeneratedGraph, Kernel, KernelKind, Phase, Report, Tier
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
CPU = Device("cpu", "CPU", "cpu", "", 2)
BLOCK = """\
import torch
from torch import nn
from torch.nn import functional as F

# fuselight: Block()(f32[8, 16, 64]{options})
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(64)
        self.up = nn.Linear(64, 256)
    def forward(self, x):
        h = self.norm(x)
        h = self.up(h)
        return F.gelu(h) * 2
"""
NORM, UP, GELU = 12, 13, 14


def kernels(live: LiveWorker, source: str, name: str = "f", device: Device = H100) -> Report:
    request = live.request(source, name).of_kind(GenerateRequest, device=device)
    report = live.report(request)
    assert report.failures == ()
    assert (report.tier, report.target_device) == (Tier.KERNELS, device)
    return report


def lines(kernel: Kernel) -> set[int]:
    return {
        place.line
        for operator in kernel.operators
        for place in operator.stack
        if place.path.endswith("model.py")
    }


def only(report: Report, phase: Phase) -> GeneratedGraph:
    graphs = [graph for graph in report.generated if graph.phase is phase]
    assert len(graphs) == 1, report.generated
    assert graphs[0].failure is None
    return graphs[0]


def test_inference_gives_triton_kernels_on_their_lines(live: LiveWorker) -> None:
    report = kernels(live, BLOCK.format(options=""), "Block")
    graph = only(report, Phase.INFERENCE)
    norm, up, gelu = graph.kernels
    assert [norm.kind, up.kind, gelu.kind] == [KernelKind.TRITON, KernelKind.EXTERN, KernelKind.TRITON]
    assert lines(norm) == {NORM}
    assert lines(up) == {UP}
    assert GELU in lines(gelu)
    assert "native_layer_norm" in norm.name
    assert norm.text_key is not None
    assert "tl.load" in report.texts[norm.text_key]
    wrapper = report.texts[graph.text_key or ""].splitlines()
    assert norm.call.startswith(f"{norm.name}.run(")
    assert wrapper[(norm.wrapper_line or 0) - 1].strip() == norm.call
    assert {operator.original for operator in norm.operators} == {"aten.native_layer_norm.default"}


def test_bytes_and_operations_are_those_of_the_tensors(live: LiveWorker) -> None:
    norm, up, gelu = only(kernels(live, BLOCK.format(options=""), "Block"), Phase.INFERENCE).kernels
    rows, inner, outer = 8 * 16, 64, 256
    assert norm.bytes_read == 4 * (rows * inner + 2 * inner)
    assert norm.bytes_written == 4 * rows * inner
    assert up.flops == 2 * rows * inner * outer
    assert gelu.bytes_written == 4 * rows * outer
    assert gelu.flops is None


def test_backward_kernels_are_on_the_forward_lines_that_caused_them(live: LiveWorker) -> None:
    report = kernels(live, BLOCK.format(options=", train=True"), "Block")
    forward, backward = only(report, Phase.FORWARD), only(report, Phase.BACKWARD)
    assert forward.kernels
    assert backward.kernels
    assert set().union(*map(lines, backward.kernels)) == {NORM, UP, GELU}
    assert all(kernel.operators and lines(kernel) for kernel in backward.kernels)


def test_saved_tensors_equal_those_of_autograd(live: LiveWorker) -> None:
    report = kernels(live, BLOCK.format(options=", train=True"), "Block")
    saved = only(report, Phase.FORWARD).saved
    rows, inner, outer = 8 * 16, 64, 256
    by_line: dict[int, int] = {}
    for tensor in saved:
        if tensor.bytes:
            line = next(place.line for place in tensor.stack if place.path.endswith("model.py"))
            by_line[line] = by_line.get(line, 0) + tensor.bytes
    # The mean is folded into the normalized input: what is kept is x_hat and 1/sigma, and what GELU was given.
    assert sum(by_line.values()) == sum(tensor.bytes for tensor in saved)
    assert by_line[UP] >= 4 * rows * outer
    assert by_line[NORM] <= 4 * (rows * inner + 2 * rows)
    assert {tensor.kind for tensor in saved} <= {"activation", "input"}


def test_a_second_size_is_generated_with_symbols(live: LiveWorker) -> None:
    source = "import torch\n# fuselight: f(f32[4, 8])\n# fuselight: f(f32[6, 8])\ndef f(x):\n    return x.sin() + 1\n"
    static, dynamic = kernels(live, source).generated
    assert (static.compile_id, dynamic.compile_id) == ("0/0", "0/1")
    assert "xnumel = 32" in static.kernels[0].call or ", 32, " in static.kernels[0].call
    assert "s" in dynamic.kernels[0].call


def test_the_cpu_gets_cpp_kernels(live: LiveWorker) -> None:
    report = kernels(live, BLOCK.format(options=""), "Block", CPU)
    actual_kernels = only(report, Phase.INFERENCE).kernels
    assert KernelKind.CPP in {kernel.kind for kernel in actual_kernels}
    cpp = next(kernel for kernel in actual_kernels if kernel.kind is KernelKind.CPP)
    assert "#pragma omp" in report.texts[cpp.text_key or ""] or "extern" in report.texts[cpp.text_key or ""]


def test_a_graph_that_cannot_be_generated_says_why_and_the_others_are_shown(live: LiveWorker) -> None:
    source = (
        "import torch\n"
        "@torch.library.custom_op('mine::odd', mutates_args=())\n"
        "def odd(x: torch.Tensor) -> torch.Tensor:\n"
        "    return x.clone()\n"
        "# fuselight: f(f32[4])\n"
        "def f(x):\n"
        "    y = x.sin()\n"
        "    print('break')\n"
        "    return y.cos()\n"
    )
    graphs = kernels(live, source).generated
    assert [len(graph.kernels) for graph in graphs] == [1, 1]
    assert [lines(graph.kernels[0]) for graph in graphs] == [{7}, {9}]


def test_attention_is_the_one_of_the_device(live: LiveWorker) -> None:
    source = (
        "import torch\nfrom torch.nn import functional as F\n"
        "# fuselight: f(bf16[2, 4, 128, 64])\n"
        "def f(q):\n"
        "    return F.scaled_dot_product_attention(q, q, q, is_causal=True)\n"
    )
    (graph,) = kernels(live, source).generated
    (attention,) = [kernel for kernel in graph.kernels if "cudnn_attention" in kernel.name]
    assert [operator.name for operator in attention.operators] == [
        "aten._scaled_dot_product_cudnn_attention.default"
    ]
    (graph,) = kernels(live, source, device=replace(H100, key="a100", arch="8.0")).generated
    assert any("flash_attention" in kernel.name for kernel in graph.kernels), graph.kernels
    turing = replace(H100, key="t4", arch="7.5")
    (graph,) = kernels(live, source.replace("bf16", "f16"), device=turing).generated
    assert any("efficient_attention" in kernel.name for kernel in graph.kernels), graph
    (graph,) = kernels(live, source, device=turing).generated
    assert graph.failure is not None
    assert "BF16" in graph.failure or "bfloat16" in graph.failure


def test_a_fallback_and_a_refused_fusion_are_reported(live: LiveWorker) -> None:
    source = (
        "import torch\n"
        "# fuselight: f(f32[64, 64])\n"
        "def f(x):\n"
        "    y = x.relu().sum(0)\n"
        "    z = torch.linalg.svdvals(x)\n"
        "    return (x + 1).sum(1), y, z\n"
    )
    (graph,) = kernels(live, source).generated
    assert any(kernel.kind is KernelKind.FALLBACK and lines(kernel) == {5} for kernel in graph.kernels)
    assert graph.refusals
    assert all(refusal.reason and refusal.count > 0 for refusal in graph.refusals)


def test_a_later_capture_does_not_use_the_device(live: LiveWorker) -> None:
    kernels(live, BLOCK.format(options=""), "Block")
    source = "import torch\n# fuselight: f(f32[4])\ndef f(x):\n    return x * torch.cuda.is_available()\n"
    report = live.analyse(source)
    assert (report.tier, report.generated, report.failures) == (Tier.CAPTURE, (), ())


def test_a_kernel_is_compiled_for_the_device_on_demand(live: LiveWorker, tmp_path: Path) -> None:
    source = BLOCK.format(options="")
    report = kernels(live, source, "Block")
    norm = only(report, Phase.INFERENCE).kernels[0]
    text = report.texts[norm.text_key or ""]
    wanted = live.request(source, "Block").of_kind(
        AssembleRequest, device=H100, sources=(text,), cache=str(tmp_path)
    )
    assembled_kernel = live.report(wanted).assembled[norm.text_key or ""]
    assert assembled_kernel.failure is None
    assert (assembled_kernel.registers or 0) > 0
    assert assembled_kernel.spills == 0
    assert ".target sm_90a" in assembled_kernel.listings["ptx"].text
    assert list(tmp_path.iterdir())


OWN_KERNEL = """\
import torch, triton, triton.language as tl
@triton.autotune([triton.Config({"BLOCK": 64}), triton.Config({"BLOCK": 128})], key=["count"])
@triton.jit
def scale(x, out, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < count) * 2, mask=at < count)
# fuselight: f(f32[1000])
def f(x):
    out = torch.empty_like(x)
    scale[lambda meta: (triton.cdiv(1000, meta["BLOCK"]),)](x, out, 1000)
    return out
"""


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU, which times the configurations")
def test_a_kernel_of_the_program_is_compiled_too(live: LiveWorker) -> None:
    report = kernels(live, OWN_KERNEL)
    (kernel,) = only(report, Phase.INFERENCE).kernels
    assert kernel.kind is KernelKind.USER_TRITON
    text = report.texts[kernel.text_key or ""]
    wanted = live.request(OWN_KERNEL).of_kind(AssembleRequest, device=H100, sources=(text,))
    assembled_kernel = live.report(wanted).assembled[kernel.text_key or ""]
    assert assembled_kernel.failure is None
    assert (assembled_kernel.registers or 0) > 0
    assert [config.values for config in assembled_kernel.configs] == [{"BLOCK": 64}, {"BLOCK": 128}]
    stored = next(line for line, row in enumerate(text.splitlines(), 1) if "tl.store" in row)
    ptx = assembled_kernel.listings["ptx"]
    rows = zip(ptx.text.splitlines(), ptx.lines, strict=False)
    assert {line for row, line in rows if "st.global" in row} == {stored}


def test_the_forwards_kernels_come_before_the_backwards_are_made(live: LiveWorker) -> None:
    source = BLOCK.format(options=", train=True")
    request = live.request(source, "Block").of_kind(GenerateRequest, device=H100)
    early: list[Report] = []
    answer = live.do(live.worker.run(request, lambda _: None, early.append))
    assert isinstance(answer, Answer)
    assert [graph.phase for graph in answer.report.generated] == [Phase.FORWARD, Phase.BACKWARD]
    assert [graph.phase for graph in early[0].generated] == [Phase.FORWARD]
    assert early[0].generated[0] == answer.report.generated[0]


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU, which is taken")
def test_without_a_gpu_and_without_a_name_it_is_the_catalogues_fallback(live: LiveWorker) -> None:
    request = live.request(BLOCK.format(options=""), "Block").of_kind(GenerateRequest)
    report = live.report(request)
    assert report.target_device == find(FALLBACK)
    assert report.generated[0].kernels


PRELOADED = """\
import sys, torch
passes = sys.modules.get("torch._inductor.fx_passes.joint_graph")
hashed = getattr(sys.modules.get("triton.runtime.cache"), "triton_key", None)
def used(function):
    return function is not None and function.cache_info().currsize > 0
print("fuselight.capture.inductor" in sys.modules, passes is not None and used(passes.lazy_init), used(hashed))
# fuselight: f(f32[4])
def f(x):
    return x.sin()
"""


def test_runs_one_after_the_other_find_what_the_first_had_to_load(live: LiveWorker) -> None:
    for _ in range(20):  # until a child has tried it, beside the runs
        report = kernels(live, PRELOADED)
        if report.output.stdout == "True True True\n":
            break
    assert report.output.stdout == "True True True\n"
    assert only(report, Phase.INFERENCE).kernels
    assert not [line for line in live.lines if "fork rule" in line or "stays out of the host" in line]
