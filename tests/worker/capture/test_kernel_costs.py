"""What each launch moves and computes, counted once on the launch that does it, for each kind of kernel."""

from __future__ import annotations

import ast
import importlib.util
from pathlib import Path

import pytest

from fuselight.shared.devices import find
from fuselight.shared.protocol import GenerateRequest
from fuselight.shared.report import Kernel, KernelKind, Report
from tests.support.live_worker import LiveWorker

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="this environment has no Triton"),
]
CONVOLUTION = """\
import torch
conv = torch.nn.Conv2d(8, 16, 3, padding=1)
{setting}
# fuselight: f(f32[2, 8, 16, 16])
def f(x):
    return conv(x)
"""
CONVOLUTION_FLOPS = 2 * (2 * 16 * 16 * 16) * (8 * 3 * 3)
MULTIPLICATION = """\
import torch
torch.set_float32_matmul_precision("high")
# fuselight: f(f32[64, 64])
def f(x):
    return x @ x
"""
TWO_LOOPS = """\
# fuselight: f(f32[32, 64], f32[64, 64])
def f(x, w):
    return (x @ w).sin(), x.sum(0)
"""
ATTENTION = """\
from torch.nn.functional import scaled_dot_product_attention
# fuselight: f(bf16[2, 4, 64, 32])
def f(q):
    return scaled_dot_product_attention(q, q, q{more})
"""
FLOAT8 = """\
import torch
# fuselight: f(f32[64, 64])
def f(x):
    y, one = x.to(torch.float8_e4m3fn), torch.ones((), device=x.device)
    return torch._scaled_mm(y, y.t(), scale_a=one, scale_b=one, out_dtype=torch.bfloat16)
"""
BRANCH = """\
import torch
# fuselight: f(f32[32, 32])
def f(x):
    return torch.cond(x.sum() > 0, lambda x: x.sin() + 1, lambda x: (x @ x).cos(), (x,))
"""
REPLAYED = """\
import torch
# fuselight: f(f32[32, 32])
@torch.compile(mode="reduce-overhead")
def f(x):
    return (x.sin() @ x).cos().cpu().sin()
"""
FOREACH = """\
import torch
# fuselight: f(f32[32, 64], f32[10])
def f(x, y):
    return torch._foreach_add([x, y], 1.0)
"""
DATA_DEPENDENT = """\
import torch
torch._dynamo.config.capture_dynamic_output_shape_ops = True
# fuselight: f(f32[32, 64])
def f(x):
    return x.nonzero().float().mul(2).sin()
"""
CACHED = """\
import os, torch
from torch._inductor.codecache import cache_dir
os.environ["TORCHINDUCTOR_CACHE_DIR"] = {folder!r}
open({used!r}, "w").write(cache_dir())
# fuselight: f(f32[32, 32])
@torch.compile(options={{"fx_graph_cache": True}})
def f(x):
    return x.sin() + 1
"""
"""The program names its cache by itself: a variable of the request would start the shared worker again."""


def report_of(live: LiveWorker, source: str, device: str = "h100") -> Report:
    report = live.report(live.request(source, "f").of_kind(GenerateRequest, device=find(device)))
    assert report.failures == ()
    assert [graph.failure for graph in report.generated] == [None] * len(report.generated)
    return report


def kernels_of(report: Report) -> list[Kernel]:
    assert report.generated
    return [kernel for graph in report.generated for kernel in graph.kernels]


def test_a_convolution_counts_at_the_library_and_not_at_its_bias(live: LiveWorker) -> None:
    kernels = kernels_of(report_of(live, CONVOLUTION.format(setting="")))
    counted = [(kernel.kind, kernel.flops, kernel.dtype) for kernel in kernels if kernel.flops]
    assert counted == [(KernelKind.EXTERN, CONVOLUTION_FLOPS, "tf32")]
    assert kernels[-1].kind is KernelKind.TRITON


def test_a_convolution_uses_float32_if_set(live: LiveWorker) -> None:
    setting = "torch.backends.cudnn.allow_tf32 = False"
    kernels = kernels_of(report_of(live, CONVOLUTION.format(setting=setting)))
    assert [kernel.dtype for kernel in kernels if kernel.flops] == ["f32"]


def test_a_device_without_tf32_computes_in_float32(live: LiveWorker) -> None:
    kernels = kernels_of(report_of(live, CONVOLUTION.format(setting=""), "t4"))
    assert [kernel.dtype for kernel in kernels if kernel.flops] == ["f32"]


def test_a_device_without_requested_tf32_is_reported(live: LiveWorker) -> None:
    (kernel,) = kernels_of(report_of(live, MULTIPLICATION, "t4"))
    assert kernel.dtype == "tf32"


def test_a_cpp_kernel_of_two_loops_moves_what_both_move(live: LiveWorker) -> None:
    multiplied, group = kernels_of(report_of(live, TWO_LOOPS, "cpu"))
    assert multiplied.kind is KernelKind.EXTERN
    assert {operator.name for operator in group.operators} == {"aten.sin.default", "aten.sum.dim_IntList"}
    assert group.bytes_read == 2 * 32 * 64 * 4
    assert group.bytes_written == (32 * 64 + 64) * 4


@pytest.mark.parametrize(("more", "part"), [("", 1), (", is_causal=True", 2)])
def test_attention_has_flops_and_its_dtype(live: LiveWorker, more: str, part: int) -> None:
    (kernel,) = kernels_of(report_of(live, ATTENTION.format(more=more)))
    assert kernel.flops == 2 * 2 * (2 * 4) * 64 * 64 * 32 // part
    assert kernel.dtype == "bf16"


@pytest.mark.parametrize("device", ["h100", "a100"])
def test_a_multiplication_is_in_the_dtype_of_its_operands(live: LiveWorker, device: str) -> None:
    counted = [
        (kernel.flops, kernel.dtype) for kernel in kernels_of(report_of(live, FLOAT8, device)) if kernel.flops
    ]
    assert counted == [(2 * 64**3, "f8")]


@pytest.mark.parametrize("source", [BRANCH, REPLAYED])
def test_a_launch_in_a_function_of_its_own_has_its_line(live: LiveWorker, source: str) -> None:
    report = report_of(live, source)
    (graph,) = report.generated
    wrapper = report.texts[graph.text_key or ""].splitlines()
    assert len(graph.kernels) > 2
    for kernel in graph.kernels:
        assert kernel.call == wrapper[(kernel.wrapper_line or 0) - 1].strip()
        assert kernel.call.startswith((f"{kernel.name}.run(", f"{kernel.name}("))


def test_a_kernel_in_several_lists_keeps_all_facts(live: LiveWorker) -> None:
    report = report_of(live, FOREACH)
    assert report.problems == ()
    (kernel,) = kernels_of(report)
    assert (kernel.bytes_read, kernel.bytes_written) == ((32 * 64 + 10) * 4, (32 * 64 + 10) * 4)


def test_a_size_that_depends_on_data_is_not_reported(live: LiveWorker) -> None:
    kernel, computed = kernels_of(report_of(live, DATA_DEPENDENT))
    assert (kernel.bytes_read, kernel.bytes_written) == (32 * 64 * 4, None)
    assert (computed.bytes_read, computed.bytes_written, computed.estimate_us) == (None, None, None)


def test_nothing_generated_goes_into_the_programs_cache(live: LiveWorker, tmp_path: Path) -> None:
    folder = tmp_path / "inductor"
    used = tmp_path / "used.txt"
    source = CACHED.format(folder=str(folder), used=str(used))
    for _ in range(2):
        assert len(kernels_of(report_of(live, source, "cpu"))) == 1  # a cached graph would have none
    assert used.read_text() == str(folder), "the folder is not the one in use"
    assert not list(folder.glob("fxgraph/**/*"))


def test_a_kernels_text_is_decoded_as_python_does() -> None:
    from fuselight.capture.inductor import launches  # noqa: PLC0415 - Inductor is not for the collection of tests
    from fuselight.shared.report import Kernel as One  # noqa: PLC0415

    text = "def own(x):\n    '''Adds.'''\n    print(\"\\n\")\n"
    held = text.replace("'''", "\\'\\'\\'").replace("\\n", "\\\\n")
    wrapper = f"own_0 = async_compile.triton('own', '''\n{held}''', device_str='cuda')\n\nown_0.run(x)\n"
    ((kernel, name),) = launches.with_calls([One("own_0", KernelKind.USER_TRITON, 0)], wrapper)
    assert name is not None
    assert name.strip() == text.strip()
    ast.parse(name)
    assert (kernel.wrapper_line, kernel.call) == (7, "own_0.run(x)")
