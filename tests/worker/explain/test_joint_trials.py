"""Changes that help only together, tried on real programs: settings, numbers that torch returns, a run that fails."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from fuselight_server.explain.findings import findings
from tests.support.tried_programs import tried_report

if TYPE_CHECKING:
    from tests.support.live_worker import LiveWorker

LOOP = """\
import torch
@torch.compile
def pick(x):
    for step in range(2):
        n = int(x.max())
        rows = torch.nonzero(x > n)
        x = torch.cos(x) + rows.sum() + step
    return x
if __name__ == "__main__":
    for _ in range(2):
        pick(torch.linspace(0.0, 3.0, 4))
"""
COUNTERS = """\
import torch
class Meter(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.seen, self.decay = 1.0, 2.0
    def forward(self, x):
        self.seen += 1.0
        self.decay *= 1.5
        return x * self.seen + self.decay
if __name__ == "__main__":
    meter = torch.compile(Meter())
    for _ in range(4):
        meter(torch.ones(3))
"""
CLASS = """\
import torch
class Meter(torch.nn.Module):
    seen = 0
    def forward(self, x):
        self.seen += 1
        return x * self.seen
if __name__ == "__main__":
    meter = torch.compile(Meter())
    for _ in range(3):
        meter(torch.ones(3))
"""
FAILS = """\
import torch
@torch.compile
def read(x):
    print("mean", x.mean())
    return x * 2
if __name__ == "__main__":
    read(torch.ones(3))
    read(torch.ones(3))
    raise ValueError("no such file")
"""
LOG = """\
import logging, torch
log = logging.getLogger("train")
@torch.compile
def step(x):
    loss = x.pow(2).mean()
    log.info("loss %.3f", loss.item())
    return x - loss
if __name__ == "__main__":
    for _ in range(2):
        step(torch.ones(4))
"""

MODES = """\
import torch
@torch.compile
def pool(x, length, mode):
    kept = x[:length] * 2
    return kept.mean(0) if mode == "mean" else kept.amax(0)
if __name__ == "__main__":
    for length, mode in (3, "mean"), (5, "max"), (7, "mean"), (9, "max"):
        pool(torch.ones(12, 4), length, mode)
"""


@pytest.mark.parametrize(
    ("source", "step"),
    [
        (
            LOOP,
            (
                "Set torch._dynamo.config.capture_scalar_outputs = True and "
                "torch._dynamo.config.capture_dynamic_output_shape_ops = True before the first call "
                "(tried: 1 → 0 graph breaks, none of them helps alone)"
            ),
        ),
        (
            COUNTERS,
            "Keep `self.seen` and `self.decay` as tensors (tried: 4 → 1 compiles, none of them helps alone)",
        ),
        (CLASS, "Keep `self.seen` as a tensor (tried: 3 → 1 compiles)"),
        (
            FAILS,
            (
                "Add print to torch._dynamo.config.reorderable_logging_functions before the first call "
                "(tried: 1 → 0 graph breaks). The messages then come after the graph, in another order"
            ),
        ),
        (
            LOG,
            (
                "Set torch._dynamo.config.capture_scalar_outputs = True and add "
                "logging.Logger.info to torch._dynamo.config.ignore_logging_functions before the first call "
                "(tried: 2 → 0 graph breaks). Compiled calls then do not show its messages"
            ),
        ),
        (
            MODES,
            (
                "Compile with torch.compile(..., dynamic=True) (tried: 3 → 2 compiles). "
                "Kernels for dynamic sizes can be slower"
            ),
        ),
    ],
    ids=[
        "a break that the first setting uncovers",
        "two numbers of each call",
        "a number that the class has first",
        "a run that fails",
        "two breaks of one line",
        "a number that torch made dynamic, beside a value that stays fixed",
    ],
)
def test_the_step_of_a_finding_is_what_a_trial_has_shown(live: LiveWorker, source: str, step: str) -> None:
    hints = [hint for finding in findings(tried_report(live, source)) for hint in finding.hints]
    assert step in hints
    assert not any("not tried yet" in hint for hint in hints)
