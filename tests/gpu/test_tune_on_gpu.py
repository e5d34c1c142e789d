"""A search on a real GPU: candidates compile side by side, and CUDA graphs win where the host limits a call."""

from __future__ import annotations

import pytest

from fuselight.shared.measurement_plans import TunePlan
from fuselight.shared.protocol import Answer, TuneRequest
from fuselight.shared.report import Skip, TuneOutcome
from tests.support.live_worker import LiveWorker

pytestmark = pytest.mark.timeout(600)
DEADLINE = 500.0
MODEL = """\
import torch


# fuselight: Net()(f32[8, 64])
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(64, 64) for _ in range(24))

    def forward(self, x):
        for layer in self.layers:
            x = torch.relu(layer(x)).softmax(-1)
        return x
"""
GRAPHS = "triton.cudagraphs=True"


def test_cuda_graphs_win_where_the_host_limits_a_call(live: LiveWorker) -> None:
    plan = TunePlan(
        device="cuda",
        budget_seconds=120.0,
        fixed_modules=True,
        seconds=1.0,
        candidates=("default+max_autotune=True",),
    )
    request = live.request(MODEL, "Net", seconds=DEADLINE, memory_mb=0).of_kind(TuneRequest, plan=plan)
    outcome = live.do(live.worker.run(request, live.progress.append), DEADLINE)
    assert isinstance(outcome, Answer), outcome
    tuned = outcome.report.tuned
    assert not outcome.report.failures
    assert tuned is not None
    assert tuned.finished
    assert tuned.seconds < plan.budget_seconds + 10.0, "the last call ends when it ends"
    assert GRAPHS in tuned.winner
    assert tuned.confirmation is not None
    assert tuned.confirmation.low > 1.2
    rows = {candidate.configuration.name: candidate for candidate in tuned.candidates}
    winner = rows[tuned.winner]
    assert winner.outcome is TuneOutcome.WINNER
    assert winner.configuration.accuracy is not None
    assert winner.configuration.accuracy.passed
    assert winner.configuration.device is not None
    assert rows["default+max_autotune=True"].outcome is not TuneOutcome.SKIPPED
    skipped = {knob.name: knob.skipped for knob in tuned.knobs}
    assert skipped["channels_last"] is Skip.ABSENT
    assert skipped["tf32"] is Skip.NUMERICS
    assert skipped["fixed_modules"] is None
    result = tuned.result
    assert result is not None
    assert result.capability
    assert result.graphs
    assert result.options["triton.cudagraphs"] is True
