"""Which cures are tried: several changes at once only where none of them alone is enough."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from fuselight.shared.protocol import CaptureRequest, InputsPlan, Target
from fuselight.shared.report import CallCure, CureKind, CureTrial, Report, TrialCounts
from fuselight_server.fixes.verification import cure_trials
from fuselight_server.fixes.verification.cure_trials import LEAST, TrialBudget, try_cures
from tests.support.reports import FILE, report

TENSOR = CallCure(CureKind.TENSOR, FILE, 20, ("lr",))
DYNAMIC = CallCure(CureKind.DYNAMIC, FILE, 20, value="True")
BOTH = dataclasses.replace(TENSOR, also=(DYNAMIC,))


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("left", "tried"),
    [
        ({TENSOR: 2, DYNAMIC: 3, BOTH: 1}, [TENSOR, DYNAMIC, BOTH]),
        ({TENSOR: 1, DYNAMIC: 3}, [TENSOR, DYNAMIC]),
        ({TENSOR: 2, DYNAMIC: 1}, [TENSOR, DYNAMIC]),
    ],
)
async def test_changes_are_tried_together_where_none_is_enough_alone(
    left: dict[CallCure, int], tried: list[CallCure], monkeypatch: pytest.MonkeyPatch
) -> None:
    given = report(trial=TrialCounts(4))

    async def run(_request: Any) -> Report:
        return given

    monkeypatch.setattr(cure_trials, "wanted_cures", lambda *_given: (TENSOR, DYNAMIC, BOTH))
    monkeypatch.setattr(cure_trials, "trial_of", lambda cure, *_reports: CureTrial(cure, 4, left[cure]))
    request = CaptureRequest(1, 1, Target(FILE, "Net", "module", 10, compiled=True), InputsPlan(), ("/",))
    known = await try_cures(
        request, given, run, budget=TrialBudget(None), read_line=lambda _path, _line: None
    )
    assert [trial.cure for trial in known.trials] == tried


def test_a_short_command_has_seconds_for_trials_that_its_share_would_not_allow() -> None:
    now = [0.0]
    budget = TrialBudget(0.3, clock=lambda: now[0])
    now[0] = 1.0
    assert budget.allows(LEAST)
    assert not budget.allows(LEAST + 0.1)
    budget.spent = 1.0
    now[0] = 2.0
    assert budget.allows(LEAST - 1.0)
    assert not budget.allows(LEAST - 0.9)
    now[0] = 101.0
    assert budget.allows(29.0)
    assert not TrialBudget(0, clock=lambda: now[0]).allows(0.1)
