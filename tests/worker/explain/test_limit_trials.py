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
from tests.support.tried_programs import tried_report

LIMITED = """\
import torch
def step(x, mode):
    return x.sin() if mode == "sin" else x * len(mode)
if __name__ == "__main__":
    limited = torch.compile(step, recompile_limit=2)
    for mode in ("sin", "a", "bc", "def"):
        limited(torch.ones(4), mode)
"""


OBJECTS = """\
import torch
from torch import nn
torch._dynamo.config.recompile_limit = 2
class Block(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.layer = nn.Linear(size, 2)
    def forward(self, x):
        return self.layer(x)
if __name__ == "__main__":
    for block in [torch.compile(Block(size)) for size in (3, 4, 5)]:
        block(torch.ones(2, block.layer.in_features))
"""
DECORATED = OBJECTS.replace("torch.compile(Block(size))", "Block(size)").replace(
    "    def forward", "    @torch.compile\n    def forward"
)


@pytest.mark.skipif(
    "isolate_recompiles" not in inspect.signature(torch.compile).parameters,
    reason="torch.compile has no such argument before torch 2.13",
)
def test_versions_of_its_own_for_each_object_are_tried(live: LiveWorker) -> None:
    report = tried_report(live, OBJECTS)
    (finding,) = (item for item in findings(report) if item.code == "FL102")
    hints = [hint for hint in finding.hints if "isolate_recompiles" in hint]
    assert hints == [
        (
            "Compile each object with torch.compile(..., isolate_recompiles=True) (tried: 2 → 3 compiles, and then no "
            "call in eager mode). Objects of the same sizes and values then share no compiled code"
        )
    ]
    (decorated,) = (item for item in findings(tried_report(live, DECORATED)) if item.code == "FL102")
    assert not any("isolate_recompiles" in hint for hint in decorated.hints)


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
