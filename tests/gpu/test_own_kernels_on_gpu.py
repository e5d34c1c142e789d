"""The user's own Triton kernels where there is a GPU: figures as the driver has them, times of Triton's autotuner."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
import torch

pytest.importorskip("triton")

from fuselight.shared.protocol import CaptureRequest, OwnKernelsPlan
from fuselight.shared.report import OwnKernel, Report
from fuselight_server.explain.kernels.own_kernels import fastest, summary
from tests.support.live_worker import LiveWorker
from tests.support.own_kernel_source import ADD, SCALE, source
from tests.support.own_kernels import written_fastest

TEXT = source(1 << 22, 'device="cuda"')


@pytest.fixture(scope="module")
def report(live: LiveWorker) -> Report:
    plan = OwnKernelsPlan(configurations=True)
    return live.report(live.request(TEXT).of_kind(CaptureRequest, own_kernels=plan))


def own(report: Report, line: int) -> OwnKernel:
    (kernel,) = [kernel for kernel in report.own_kernels if kernel.location.line == line]
    return kernel


def test_kernels_are_compiled_for_the_gpu_that_is_there(report: Report) -> None:
    assert report.failures == ()
    assert report.own_kernels_device is not None
    assert report.own_kernels_device.name == torch.cuda.get_device_name()
    kernel = own(report, ADD)
    print(summary([kernel], report.own_kernels_device))  # noqa: T201 - for the record of the run
    assert kernel.launches == 1
    assert kernel.bytes_read == 4 << 22
    assert kernel.assembled is not None
    assert kernel.assembled.failure is None


def test_registers_are_those_that_the_driver_has(report: Report, tmp_path: Path) -> None:
    program = tmp_path / "own_program.py"
    program.write_text(TEXT, encoding="utf-8")
    spec = importlib.util.spec_from_file_location("own_program", program)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    x = torch.ones(1 << 22, device="cuda")
    kernel = module.add[(4096,)](x, x, x.clone(), x.numel(), BLOCK=1024)
    assembled = own(report, ADD).assembled
    assert assembled is not None
    assert (assembled.registers, assembled.spills) == (kernel.n_regs, kernel.n_spills * 4)


def test_each_configuration_was_timed_and_the_fastest_is_written(report: Report, tmp_path: Path) -> None:
    kernel = own(report, SCALE)
    (tuned,) = kernel.tuned
    print(tuned, kernel.tuned_on)  # noqa: T201 - for the record of the run
    assert kernel.tuned_on == torch.cuda.get_device_name()
    assert tuned.values[0] == str(1 << 22)
    assert all(us is not None and 0 < us < 10_000 for us in tuned.times_us)
    best = fastest(kernel)
    assert best is not None
    assert kernel.chosen == kernel.configurations.index(best)
    assert all(configuration.registers for configuration in kernel.configurations)
    written, refusal = written_fastest(tmp_path, TEXT, kernel)
    assert not refusal
    assert written.count("triton.Config(") == 1
    assert f'"BLOCK": {best.config.values["BLOCK"]}' in written


def test_a_memory_bound_kernel_takes_about_its_estimate(report: Report) -> None:
    kernel = own(report, SCALE)
    best = fastest(kernel)
    assert best is not None
    assert best.measured_us is not None
    assert kernel.estimate_us is not None
    print(best.measured_us, kernel.estimate_us)  # noqa: T201 - for the record of the run
    assert kernel.estimate_us / 2 < best.measured_us < kernel.estimate_us * 2


def test_a_kernel_with_a_loop_has_an_estimate(live: LiveWorker) -> None:
    text = """
import torch
import triton
import triton.language as tl


@triton.jit
def sums(x, out, rows, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for row in range(rows):
        total += tl.load(x + row * 8192 + at)
    tl.store(out + at, total)


# fuselight: column_sums(f32[2048, 8192], device="cuda")
@torch.compile
def column_sums(x):
    out = torch.empty(8192, device=x.device)
    sums[(16,)](x, out, 2048, BLOCK=512)
    return out
"""
    report = live.report(live.request(text).of_kind(CaptureRequest, own_kernels=OwnKernelsPlan()))
    (kernel,) = report.own_kernels
    print(kernel.estimate_us)  # noqa: T201 - for the record of the run
    assert kernel.not_estimated == ""
    assert kernel.estimate_us is not None
