"""A call in eager mode before the first compiled one is tried where a first call makes what later calls find."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fuselight.shared.protocol import CaptureRequest
from fuselight.shared.report import CureKind, CureRun, CureTrial, Report
from fuselight_server.explain.findings import findings
from fuselight_server.explain.findings.advice.trial_verdict import trial_of
from tests.support.live_worker import LiveWorker

CLASS = """\
import torch

class computed_once:
    # functools.cached_property as Python has it from 3.12 on, without a lock
    def __init__(self, compute):
        self.compute = compute
    def __set_name__(self, owner, name):
        self.name = name
    def __get__(self, instance, owner=None):
        kept = vars(instance)
        if kept.get(self.name) is None:
            kept[self.name] = self.compute(instance)
        return kept[self.name]

class Net:
    def __init__(self):
        self.table, self.ready, self.cache, self.calls = None, False, {}, 0
        self.weight, self.total = torch.ones(4), torch.zeros(4)
    @computed_once
    def scale(self):
        return self.weight * 2
    def forward(self, x):
        BODY
        return x * 2

net = Net()
compiled = torch.compile(net.forward)
if __name__ == "__main__":
    for number in range(3):
        compiled(torch.ones(2, 4) * number)
"""
LAZY = "if self.table is None: self.table = torch.arange(4.0)"


def tried(live: LiveWorker, body: str) -> tuple[CureTrial, Report]:
    request = live.request(CLASS.replace("BODY", body.replace("; ", "\n        ")), "")
    assert isinstance(request, CaptureRequest)
    given = live.report(request)
    cures = {
        cure for finding in findings(given) for cure in finding.cures if cure.kind is CureKind.FIRST_CALL
    }
    (cure,) = cures
    without, cured = (live.report(replace(request, trial=CureRun(change))) for change in (None, cure))
    trial = trial_of(cure, without, cured)
    return trial, replace(given, trials=(trial,))


@pytest.mark.parametrize(
    ("body", "what"),
    [
        (f"{LAZY}; x = x + self.table", "`self.table` is made"),
        ("x = x * self.scale", "`self.scale` is made"),
        pytest.param(
            "if not hasattr(self, 'mask'): self.mask = torch.ones(4)",
            "`self.mask` is made",
            marks=pytest.mark.corpora,
        ),
        (
            "if 4 not in self.cache: self.cache[4] = torch.ones(4)\n        x = x + self.cache[4]",
            "`self.cache` is filled",
        ),
        pytest.param(
            "if not self.ready: self.table, self.ready = x + 1, True",
            "`self.ready` is set",
            marks=pytest.mark.corpora,
        ),
    ],
)
def test_what_a_first_call_makes_is_made_by_a_call_in_eager_mode(
    live: LiveWorker, body: str, what: str
) -> None:
    trial, given = tried(live, body)
    assert (trial.cures, trial.before, trial.after) == (True, 2, 1), trial.refused
    (finding,) = (item for item in findings(given) if item.code == "FL201")
    (hint,) = finding.hints
    assert hint.startswith("Call `Net.forward` once in eager mode before its first compiled call")
    assert f"{what} in the first call (tried: 2 → 1 compiles)" in hint


@pytest.mark.parametrize(
    ("body", "refused"),
    [
        (f"{LAZY}; self.calls = self.calls + 1", "`self.calls` is then another value"),
        (f"{LAZY}; self.total.add_(1)", "the call changes a tensor in place"),
        pytest.param(
            f"{LAZY}; self.total = self.total + 1", "other values in a tensor", marks=pytest.mark.corpora
        ),
    ],
)
def test_a_call_that_changes_what_later_calls_find_is_no_cure(
    live: LiveWorker, body: str, refused: str
) -> None:
    trial, given = tried(live, body)
    assert refused in trial.refused
    hints = [hint for item in findings(given) for hint in item.hints]
    assert not any("once in eager mode" in hint for hint in hints)
