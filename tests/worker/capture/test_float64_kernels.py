"""FL967: kernels that compute in float64 though nothing needs it, and right ones that look like them."""

from __future__ import annotations

import sys

import pytest

from fuselight.shared.kernel_forms import float64_use
from fuselight.shared.protocol import CaptureRequest, OwnKernelsPlan
from tests.support.kernels import NO_TRITON
from tests.support.live_worker import LiveWorker

pytest.importorskip("triton", reason=NO_TRITON)
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Triton is for Linux")

SOURCE = """\
import torch
import triton
import triton.language as tl

@triton.jit
def by_argument(x, s, out, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out + at, tl.exp(tl.load(x + at) * tl.load(s)))

@triton.jit
def by_constant(x, s, out, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    v = tl.load(x + at)
    tl.store(out + at, v / tl.maximum(tl.sum(v, 0), 1e-40))

@triton.jit
def asked_for(x, s, out, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    v = tl.load(x + at).to(tl.float64)
    tl.store(out + at, (v / tl.sum(v, 0) + tl.load(s).to(tl.float32)).to(tl.float32))

@triton.jit
def rounded_at_once(x, s, out, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at) * tl.load(s).to(tl.float32) + 1e-8)

@triton.jit
def wide_output(x, s, out, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(s + at, tl.load(x + at) * tl.load(s + at))

# fuselight: f(f32[64], f64[64])
def f(x, s):
    out = torch.empty_like(x)
    for kernel in (by_argument, by_constant, asked_for, rounded_at_once, wide_output):
        kernel[(1,)](x, s, out, BLOCK=64)
    return out
"""


def test_float64_is_found_by_its_reason_and_compiled_without_it(live: LiveWorker) -> None:
    plan = OwnKernelsPlan(seconds=200.0)
    report = live.report(live.request(SOURCE).of_kind(CaptureRequest, own_kernels=plan))
    assert report.failures == ()
    kernels = {kernel.name: kernel for kernel in report.own_kernels}
    uses = {
        name: float64_use(kernel.assembled) if kernel.assembled is not None else None
        for name, kernel in kernels.items()
    }
    reasons = {
        name: (use.lines, use.parameters, use.constants) for name, use in uses.items() if use is not None
    }
    assert reasons == {
        "by_argument": ((8,), ("s",), ()),
        "by_constant": ((14,), (), (1e-40,)),
        "asked_for": ((20,), (), ()),
    }
    assert [kernel.name for kernel in report.own_kernels if kernel.without_float64 is not None] == list(
        reasons
    )
    argument = kernels["by_argument"]
    assert argument.assembled is not None
    assert argument.without_float64 is not None
    assert (argument.without_float64.registers or 0) < (argument.assembled.registers or 0)
