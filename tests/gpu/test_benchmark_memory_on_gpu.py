"""A benchmark's memory on a real GPU: the peak of tensors, what is reserved, pieces, and the estimate of the call."""

from __future__ import annotations

import pytest

from fuselight.shared.measurement_plans import MeasurePlan
from fuselight.shared.protocol import Answer, MeasureRequest
from fuselight.shared.report import Work
from tests.support.live_worker import LiveWorker

pytestmark = pytest.mark.timeout(600)
DEADLINE = 500.0
MODEL = """\
import torch
from torch import nn


# fuselight: Net()(f32[65536, 256])
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(256), nn.Linear(256, 1024), nn.Linear(1024, 256)

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))
"""


@pytest.mark.parametrize("work", [Work.INFERENCE, Work.TRAINING_STEP])
def test_a_call_needs_what_is_estimated_for_it(live: LiveWorker, work: Work) -> None:
    plan = MeasurePlan(
        ("default", "reduce-overhead"), work, seconds=0.2, rounds=2, accuracy=True, profile=False,
        estimates_memory=True, device="cuda",
    )  # fmt: skip
    request = live.request(MODEL, "Net", seconds=DEADLINE, memory_mb=0).of_kind(MeasureRequest, plan=plan)
    outcome = live.do(live.worker.run(request, live.progress.append), DEADLINE)
    assert isinstance(outcome, Answer), outcome
    assert outcome.report.measured is not None
    rows = {row.name: row for row in outcome.report.measured.configurations}
    for name in ("eager", "default"):
        memory, estimated = rows[name].memory, rows[name].estimated_bytes
        assert memory is not None
        assert memory.bytes == rows[name].peak_bytes
        assert memory.reserved is not None
        assert memory.between_tensors is not None
        assert memory.bytes <= memory.reserved
        assert 0 <= memory.between_tensors <= memory.reserved
        assert estimated == pytest.approx(memory.bytes, rel=0.02)
    replayed = rows["reduce-overhead"]
    assert replayed.memory is not None
    assert replayed.memory.reserved is not None
    assert replayed.memory.bytes <= replayed.memory.reserved
    assert replayed.estimated_bytes is None
