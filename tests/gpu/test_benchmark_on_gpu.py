"""A complete benchmark on a real GPU: forked processes use it, and every kernel's time is on its line."""

from __future__ import annotations

import pytest

from fuselight.shared.measurement_plans import MeasurePlan
from fuselight.shared.protocol import Answer, MeasureRequest
from fuselight.shared.report import (
    Clock,
    Culprit,
    GapKind,
    LaunchKind,
    Measured,
    MeasuredConfiguration,
    Report,
    Work,
)
from tests.support.backends import WRONG
from tests.support.live_worker import LiveWorker

pytestmark = pytest.mark.timeout(600)
DEADLINE = 500.0
MODEL = (
    """\
import torch
from torch._dynamo import register_backend

torch.set_float32_matmul_precision("high")


"""
    + WRONG
    + """

@register_backend
def asserts(gm, inputs):
    def call(*args):
        torch.zeros(4, device="cuda")[torch.full((4,), 9, device="cuda")].sum().item()
        return gm.forward(*args)

    return call


@register_backend
def fills(gm, inputs):
    kept = torch.empty(2**50, device="cuda")
    return gm.forward


# fuselight: Net()(f32[4096, 1024])
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(1024, 1024)

    def forward(self, x):
        y = torch.relu(self.linear(x))
        if y.sum().item() > 0:
            y = y.exp()
        return torch.sin(y).sum(-1)
"""
)
SYNC_LINE = 1 + MODEL.splitlines().index("        if y.sum().item() > 0:")
WRONG_LINE = 1 + MODEL.splitlines().index("        return torch.sin(y).sum(-1)")


def measure(live: LiveWorker, *names: str, work: Work | None = None) -> Report:
    plan = MeasurePlan(names, seconds=0.3, rounds=3, work=work, isolated=work is None)
    request = live.request(MODEL, "Net", seconds=DEADLINE).of_kind(MeasureRequest, plan=plan)
    outcome = live.do(live.worker.run(request, live.progress.append), DEADLINE)
    assert isinstance(outcome, Answer), outcome
    return outcome.report


@pytest.fixture(scope="module")
def measured(live: LiveWorker) -> Measured:
    names = ("default", "reduce-overhead", "backend:wrong", "backend:asserts", "backend:fills")
    report = measure(live, *names)
    assert report.failures == ()
    assert report.measured is not None
    return report.measured


def row(measured: Measured, name: str) -> MeasuredConfiguration:
    return next(configuration for configuration in measured.configurations if configuration.name == name)


def test_the_gpu_is_stated_and_times_are_the_devices(measured: Measured) -> None:
    assert measured.finished
    assert measured.machine.uuid
    assert measured.machine.driver
    assert measured.machine.clocks
    for name in ("eager", "default", "reduce-overhead"):
        configuration = row(measured, name)
        assert configuration.failure is None
        assert configuration.device is not None
        assert configuration.device.clock is Clock.DEVICE
        assert configuration.wall is not None
        assert (
            0 < configuration.device.low_us <= configuration.device.median_us <= configuration.device.high_us
        )
        assert configuration.peak_bytes is not None
        assert configuration.peak_bytes > 4096 * 1024 * 4, "the input alone is more"


def test_kernels_are_joined_and_the_wait_is_on_its_line(measured: Measured) -> None:
    for name in ("eager", "default", "reduce-overhead"):
        profile = row(measured, name).profile
        assert profile is not None
        assert profile.source == "CUPTI"
        assert profile.kernel_us + sum(gap.us for gap in profile.gaps) == pytest.approx(profile.wall_us)
        assert profile.joined_us >= 0.99 * profile.device_us, profile.launches
        lines = {gap.stack[-1].line for gap in profile.gaps if gap.kind is GapKind.SYNC and gap.stack}
        assert lines == {SYNC_LINE}
    compiled = row(measured, "default")
    assert compiled.profile is not None
    assert {measured_launch.kind for measured_launch in compiled.profile.launches} >= {LaunchKind.KERNEL}
    for launch in compiled.profile.launches:
        if launch.graph is not None and launch.launch is not None:
            kernel = compiled.generated[launch.graph].kernels[launch.launch]
            assert kernel.estimate_us is not None
            assert (launch.isolated_us is not None) is (kernel.text_key is not None)


def test_correct_results_pass_and_a_wrong_one_is_found_on_its_line(measured: Measured) -> None:
    for name in ("default", "reduce-overhead"):
        accuracy = row(measured, name).accuracy
        assert accuracy is not None
        assert accuracy.passed is True
    wrong = row(measured, "backend:wrong").accuracy
    assert wrong is not None
    assert wrong.passed is False
    assert wrong.first[-1].line == WRONG_LINE


def test_a_device_error_of_one_configuration_does_not_affect_the_others(measured: Measured) -> None:
    failure = row(measured, "backend:asserts").failure
    assert failure is not None
    assert "device-side assert" in failure.message
    assert failure.next_step
    assert row(measured, "default").wall is not None


def test_a_lack_of_memory_is_reported_after_a_separate_try(measured: Measured) -> None:
    configuration = row(measured, "backend:fills")
    assert configuration.failure is not None
    assert configuration.failure.kind == "memory"
    assert configuration.alone


def test_a_training_step(live: LiveWorker) -> None:
    report = measure(live, "default", work=Work.TRAINING_STEP)
    assert report.measured is not None
    configuration = row(report.measured, "default")
    assert configuration.failure is None
    assert configuration.accuracy is not None
    assert configuration.accuracy.passed is True
    assert configuration.profile is not None
    assert {launch.graph for launch in configuration.profile.launches if launch.graph is not None} == {
        0,
        1,
        2,
        3,
    }


def test_the_optimizers_step_is_compiled_beside_cuda_graphs(live: LiveWorker) -> None:
    """Its inputs, the gradients, are results of the CUDA graphs of the backward."""
    name = "default+triton.cudagraphs=True+optimizer"
    report = measure(live, name, work=Work.TRAINING_STEP)
    assert report.measured is not None
    configuration = row(report.measured, name)
    assert configuration.failure is None
    assert configuration.accuracy is not None
    assert configuration.accuracy.passed is True


def test_a_gpu_that_is_missing(live: LiveWorker) -> None:
    plan = MeasurePlan(("default",), device="cuda:99")
    request = live.request(MODEL, "Net").of_kind(MeasureRequest, plan=plan)
    outcome = live.do(live.worker.run(request, live.progress.append), DEADLINE)
    assert isinstance(outcome, Answer), outcome
    failure = outcome.report.failures[0]
    assert (failure.kind, failure.culprit) == ("device", Culprit.ENVIRONMENT)
    assert "cuda:0" in failure.message
