"""The user's own Triton kernels after a run without a GPU: what they were launched with, and what they compile to."""

from __future__ import annotations

import re
import sys

import pytest

from fuselight.shared.devices import find
from fuselight.shared.protocol import CaptureRequest, OwnKernelsPlan
from fuselight.shared.report import OwnKernel, Report
from tests.support.kernels import NO_TRITON
from tests.support.live_worker import LiveWorker
from tests.support.own_kernel_source import ADD, DECORATOR, SCALE, source

pytest.importorskip("triton", reason=NO_TRITON)
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Triton is for Linux")


def own(report: Report, line: int) -> OwnKernel:
    (kernel,) = [kernel for kernel in report.own_kernels if kernel.location.line == line]
    return kernel


def test_launched_kernels_have_their_forms_and_every_configuration(live: LiveWorker) -> None:
    plan = OwnKernelsPlan(configurations=True, seconds=200.0)
    report = live.report(live.request(source(3000)).of_kind(CaptureRequest, own_kernels=plan))
    assert report.failures == ()
    assert report.own_kernels_device == find("h100")
    add, scale = own(report, ADD), own(report, SCALE)
    assert add.types == {"x": "*fp32", "y": "*fp32", "out": "*fp32", "n": "i32", "BLOCK": "constexpr"}
    assert (add.values["n"], add.grid, add.launches, add.last_line) == ("3000", (3, 1, 1), 1, ADD + 3)
    assert (add.bytes_read, add.bytes_written) == (12_000, 12_000)
    launch = (
        source(3000).split("\n").index(next(line for line in source(3000).split("\n") if "add[" in line)) + 1
    )
    assert launch in {at.line for at in add.launched_at}
    assert add.assembled is not None
    ptx = add.assembled.listings["ptx"]
    loads = {line for text, line in zip(ptx.text.split("\n"), ptx.lines, strict=True) if "ld.global" in text}
    assert loads == {ADD + 2}
    assert re.search(r"\bst\.global", ptx.text)
    assert [option.option for option in add.options] == ["n"], "3000 is no multiple of 16"
    assert add.configurations == ()
    assert scale.key == ("n",)
    assert scale.key_values == ("3000", "torch.float32", "torch.float32")
    assert [configuration.config.values for configuration in scale.configurations] == [
        {"BLOCK": 64},
        {"BLOCK": 1024},
    ]
    assert [configuration.grid for configuration in scale.configurations] == [(47, 1, 1), (3, 1, 1)]
    assert all(
        configuration.is_compiled and configuration.registers for configuration in scale.configurations
    )
    assert (scale.chosen, scale.tuned) == (0, ()), "nothing is timed without a GPU"
    assert scale.decorator is not None
    assert scale.decorator.line == DECORATOR


def test_a_device_of_amd_and_no_time(live: LiveWorker) -> None:
    plan = OwnKernelsPlan(device=find("mi300x"), seconds=200.0)
    request = live.request(source(3000))
    report = live.report(request.of_kind(CaptureRequest, own_kernels=plan))
    assembled = own(report, ADD).assembled
    assert assembled is not None
    assert assembled.failure is None
    assert "amdgcn" in assembled.listings
    report = live.report(request.of_kind(CaptureRequest, own_kernels=OwnKernelsPlan(seconds=0.0)))
    assert [kernel.assembled for kernel in report.own_kernels] == [None, None]
    assert [problem.why for problem in report.problems if problem.stage == "own_kernels"] == [
        "the compiles of a run have 0 seconds"
    ]


def test_a_directive_above_a_kernel_compiles_it_without_a_launch(live: LiveWorker) -> None:
    whole = source(3000).split("# fuselight:")[0]
    text = whole.replace("@triton.autotune(", "# fuselight: scale(f32[64], f32[64], 64)\n@triton.autotune(")
    request = live.request(text, "scale").of_kind(CaptureRequest, own_kernels=OwnKernelsPlan(seconds=200.0))
    report = live.report(request)
    assert report.failures == ()
    assert report.not_compiled == ()
    kernel = own(report, SCALE + 1)
    assert (kernel.launches, kernel.grid, kernel.values["n"]) == (0, None, "64")
    assert kernel.assembled is not None
    assert kernel.assembled.registers
    assert len(kernel.configurations) == 2
