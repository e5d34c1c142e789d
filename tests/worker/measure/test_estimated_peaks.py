"""A benchmark with the peak of tensors of each configuration: measured, and estimated after everything else."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from fuselight.capture.dynamo import CompileCalls
from fuselight.capture.dynamo.backend import CompileCall
from fuselight.shared.measurement_plans import MeasurePlan
from fuselight.shared.protocol import Answer, MeasureRequest
from fuselight.shared.report import Work
from fuselight.worker.timed.estimated_peaks import compiled_names
from tests.support.live_worker import LiveWorker

pytestmark = pytest.mark.torch
DEADLINE = 300.0
PLAIN = """\
import torch
from torch import nn

# fuselight: Net()(f32[1024, 64])
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(64, 512), nn.Linear(512, 64)

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(x)))
"""


@pytest.mark.parametrize(
    ("name", "is_estimated"),
    [("backend:eager", False), pytest.param("default", True, marks=pytest.mark.corpora)],
)
def test_a_configuration_has_the_estimate_of_the_measured_step(
    live: LiveWorker,
    name: str,
    is_estimated: bool,  # noqa: FBT001 - both cases
) -> None:
    plan = MeasurePlan(
        (name,), Work.FORWARD_BACKWARD, seconds=0.02, rounds=2, accuracy=False, profile=False,
        estimates_memory=True, device="cpu",
    )  # fmt: skip
    request = live.request(PLAIN, "Net", seconds=DEADLINE).of_kind(MeasureRequest, plan=plan)
    outcome = live.do(live.worker.run(request, live.progress.append), DEADLINE)
    assert isinstance(outcome, Answer), outcome
    assert outcome.report.measured is not None
    eager, other = outcome.report.measured.configurations
    for row in (eager, other) if is_estimated else (eager,):
        assert row.memory is not None
        assert row.estimated_bytes == pytest.approx(row.memory.bytes, rel=0.02)
    assert is_estimated or (other.memory is not None and other.estimated_bytes is None)


def asked(**options: Any) -> CompileCall:
    plain: dict[str, Any] = {
        "backend": None,
        "mode": None,
        "options": (),
        "fullgraph": False,
        "dynamic": None,
    }
    return CompileCall(**{**plain, "disable": False, "location": None, **options})


@pytest.mark.parametrize(
    ("calls", "names"),
    [
        ([], ["written", "default"]),
        ([asked(), asked(mode="default", backend="inductor")], ["written", "default"]),
        ([asked(), asked(mode="max-autotune")], ["written"]),
        ([asked(options=("max_fusion_size",))], ["written"]),
        ([asked(backend="eager")], ["written"]),
    ],
)
def test_default_is_what_the_source_asks_for_only_if_it_asks_for_nothing(
    calls: list[CompileCall], names: list[str]
) -> None:
    state: Any = SimpleNamespace(asked=CompileCalls(calls))
    assert compiled_names(state) == names
