"""Attention becomes the operator of the device on every route; the choice is compared with an H200's own.

The recording is what `torch._fused_sdp_choice` answered there for tensors of these shapes.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from fuselight.adapters.virtual_gpu.attention import SDPA, attending, choose
from fuselight.shared.devices import find
from fuselight.shared.protocol import GenerateRequest
from fuselight.shared.report import Phase, Report
from tests.support.live_worker import LiveWorker

pytestmark = pytest.mark.torch
RECORDED = json.loads(
    gzip.decompress((Path(__file__).parents[2] / "recordings" / "h200" / "attention.json.gz").read_bytes())
)
H200 = find("h200")
HEAD = """\
import math
import torch
from torch import nn
from torch.nn import functional as F
"""
THREE = "f16[2, 4, 64, 32], f16[2, 4, 64, 32], f16[2, 4, 64, 32]"

WAYS = {
    "operator": """
def f(q, k, v):
    return torch.ops.aten.scaled_dot_product_attention(q * 2, k, v)
""",
    "overload": """
def f(q, k, v):
    return torch.ops.aten.scaled_dot_product_attention.default(q * 2, k, v)
""",
    "of the CPU": """
def f(q, k, v):
    return torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(q * 2, k, v)[0]
""",
    "in a function": """
@torch.compiler.allow_in_graph
def inner(q, k, v):
    return F.scaled_dot_product_attention(q * 2, k, v)
def f(q, k, v):
    return inner(q, k, v) + 1
""",
    "in a module": """
M = nn.MultiheadAttention(32, 4, batch_first=True).half()
def f(q, k, v):
    return M(q[0], k[0], v[0], need_weights=False)[0]
""",
    "written out": """
def f(q, k, v):
    return (q @ k.transpose(-2, -1)).div(math.sqrt(32)).softmax(-1) @ v
""",
}


def tensors(case: dict[str, Any]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor | None]:
    """What was asked about, without data."""
    dtype = getattr(torch, case["dtype"])
    rows, heads, lengths, sizes = case["batches"], case["heads"], case["lengths"], case["sizes"]

    def make(side: int, size: int) -> torch.Tensor:
        row, head, length = rows[side], heads[side], lengths[side]
        shapes = {
            "bhld": (row, head, length, size),
            "blhd": (row, length, head, size),
            "bhdl": (row, head, size, length),
            "bld": (row * head, length, size),
        }
        tensor = torch.empty(shapes[case["layout"]], device="meta", dtype=dtype)
        turned = {"blhd": (1, 2), "bhdl": (2, 3)}.get(case["layout"])
        return (tensor if turned is None else tensor.transpose(*turned)).requires_grad_(case["train"])

    masks: dict[str | None, Callable[[], torch.Tensor | None]] = {
        None: lambda: None,
        "bool": lambda: torch.empty(lengths, device="meta", dtype=torch.bool),
        "float": lambda: torch.empty(lengths, device="meta", dtype=dtype),
        "transposed": lambda: torch.empty(lengths[::-1], device="meta", dtype=dtype).t(),
        "expanded": lambda: torch.empty(lengths[0], 1, device="meta", dtype=dtype).expand(*lengths),
    }
    return make(0, sizes[0]), make(1, sizes[0]), make(1, sizes[1]), masks[case["mask"]]()


def test_the_choice_is_that_of_the_device() -> None:
    wrong = []
    for case in RECORDED["cases"]:
        query, key, value, mask = tensors(case)
        chosen = choose(
            H200,
            query,
            key,
            value,
            mask,
            case["dropout"],
            is_causal=case["causal"],
            enable_gqa=case["gqa"],
            training=case["train"],
        )
        if chosen != case["chosen"]:
            wrong.append((chosen, case))
    assert wrong == []
    assert {case["chosen"] for case in RECORDED["cases"]} == {"cudnn", "flash", "efficient", "math"}


def choice(arch: str, dtype: torch.dtype, size: int, *, training: bool = False) -> str:
    tensor = torch.empty(2, 4, 64, size, device="meta", dtype=dtype)
    device = replace(H200, arch=arch)
    return choose(
        device, tensor, tensor, tensor, None, 0.0, is_causal=False, enable_gqa=False, training=training
    )


def test_older_and_smaller_devices_have_lower_limits() -> None:
    assert choice("7.5", torch.bfloat16, 64) == "math"
    assert choice("7.5", torch.float16, 64) == "efficient"
    assert choice("8.0", torch.float16, 208, training=True) == "flash"
    assert choice("8.9", torch.float16, 208) == "flash"
    assert choice("8.9", torch.float16, 208, training=True) == "efficient"
    assert choice("10.0", torch.float16, 128) == "cudnn"
    assert choice("10.0", torch.float16, 256) == "flash"


def test_only_nvidia_devices_have_cudnn() -> None:
    tensor = torch.empty(2, 4, 64, 64, device="meta", dtype=torch.bfloat16)
    device = find("mi300x")
    chosen = choose(
        device, tensor, tensor, tensor, None, 0.0, is_causal=False, enable_gqa=False, training=False
    )
    assert chosen == "flash"


def test_disabled_attention_kernels_are_not_chosen() -> None:
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.FLASH_ATTENTION):
        assert choice("9.0", torch.float16, 64) == "flash"
        with pytest.raises(RuntimeError, match="No available kernel"):
            choice("9.0", torch.float32, 64)


def test_no_files_are_left() -> None:
    matcher: Any = torch._inductor.pattern_matcher
    before = dict(SDPA.py_kernels), matcher.aot_function
    with attending(H200):
        assert SDPA.py_kernels != before[0]
    assert (dict(SDPA.py_kernels), matcher.aot_function) == before


def generated(live: LiveWorker, body: str, inputs: str = THREE) -> Report:
    source = f"{HEAD}\n{body.replace('def f(', f'# fuselight: f({inputs}, train=True){chr(10)}def f(')}"
    report = live.report(live.request(source, "f").of_kind(GenerateRequest, device=H200))
    assert not report.failures
    assert [graph.phase for graph in report.generated] == [Phase.FORWARD, Phase.BACKWARD]
    return report


@pytest.mark.parametrize("way", WAYS)
def test_each_route_to_attention_uses_the_operator_of_the_device(live: LiveWorker, way: str) -> None:
    report = generated(live, WAYS[way])
    assert not report.problems
    names = [
        [kernel.name for kernel in graph.kernels if "attention" in kernel.name] for graph in report.generated
    ]
    assert [len(name) for name in names] == [1, 1]
    assert "_scaled_dot_product_cudnn_attention.default" in names[0][0]
    assert "_scaled_dot_product_cudnn_attention_backward.default" in names[1][0]


def test_a_second_result_of_the_cpus_operator_keeps_it(live: LiveWorker) -> None:
    body = (
        "def f(q, k, v):\n"
        "    out, sums = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(q * 2, k, v)\n"
        "    return out * sums[..., None]\n"
    )
    kernels = generated(live, body).generated[0].kernels
    assert [kernel.name for kernel in kernels if "attention_for_cpu" in kernel.name]


def test_in_float16_a_mask_stays_finite_for_cudnn(live: LiveWorker) -> None:
    body = (
        "def f(q, k, v):\n"
        "    away = torch.ones(64, 64, dtype=torch.bool).tril()\n"
        "    return F.scaled_dot_product_attention(q, k, v, attn_mask=away)\n"
    )
    report = generated(live, body)
    sources = [report.texts[kernel.text_key] for kernel in report.generated[0].kernels if kernel.text_key]
    assert any("-65504.0" in source for source in sources)
    assert not any("-inf" in source for source in sources)
