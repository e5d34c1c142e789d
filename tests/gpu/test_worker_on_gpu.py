"""A run of the real worker on a real CUDA device: the host forks, and the fork can use the GPU.

A host that has woken the driver leaves children without CUDA, and each run in them fails.
"""

from __future__ import annotations

import pytest

from tests.support.live_worker import LiveWorker

SOURCE = """\
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(16, 4).cuda()

    def forward(self, x):
        y = self.layer(x.cuda())
        assert y.device.type == "cuda"
        if y.sum().item() > 0:
            y = y * 2
        return y

# fuselight: f(f32[8, 16])
# fuselight: f(f32[9, 16])
@torch.compile
def f(x):
    print("on", torch.cuda.device_count(), torch.ones(2, device="cuda").sum().item())
    return NET(x)

NET = Net()
"""


@pytest.mark.parametrize("attempt", ["first", "after the preload"])
def test_a_target_runs_on_the_device_and_is_not_redirected(live: LiveWorker, attempt: str) -> None:
    report = live.analyse(SOURCE)
    assert not report.failures, attempt
    assert not report.problems
    assert [note.kind for note in report.notes] == []
    item = SOURCE.splitlines().index("        if y.sum().item() > 0:") + 1
    assert item in {graph_break.stack[-1].line for graph_break in report.breaks}
    assert report.recompiles
    assert report.output is not None
    assert report.output.stdout.splitlines()[0].split()[0] == "on"


def test_the_fork_rules_hold_in_the_host(live: LiveWorker) -> None:
    live.analyse(SOURCE)
    assert not [line for line in live.lines if "fork rule" in line]
