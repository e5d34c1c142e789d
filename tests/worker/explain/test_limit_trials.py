"""A higher recompile limit is tried as the argument of the torch.compile that has one."""

from __future__ import annotations

import inspect
from dataclasses import replace

import pytest
import torch

from fuselight.shared.protocol import CaptureRequest
from fuselight.shared.report import CureKind, CureRun
from fuselight_server.explain.findings import findings
from fuselight_server.explain.findings.advice.trial_verdict import trial_of
from tests.support.live_worker import LiveWorker

LIMITED = """\
import torch
def step(x, mode):
    return x.sin() if mode == "sin" else x * len(mode)
if __name__ == "__main__":
    limited = torch.compile(step, recompile_limit=2)
    for mode in ("sin", "a", "bc", "def"):
        limited(torch.ones(4), mode)
"""


@pytest.mark.skipif(
    "recompile_limit" not in inspect.signature(torch.compile).parameters,
    reason="torch.compile has no such argument before torch 2.13",
)
def test_a_higher_limit_of_the_own_torch_compile_is_tried(live: LiveWorker) -> None:
    request = live.request(LIMITED, "")
    assert isinstance(request, CaptureRequest)
    (finding,) = (item for item in findings(live.report(request)) if item.code == "FL102")
    (cure,) = (cure for cure in finding.cures if cure.kind is CureKind.LIMIT)
    without, cured = (live.report(replace(request, trial=CureRun(change))) for change in (None, cure))
    trial = trial_of(cure, without, cured)
    assert (trial.cures, trial.before, trial.after) == (True, 2, 4), trial.refused
