"""Remedies of a forecast: tried on the changed calls, and passed only if these compile less often."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fuselight.shared.protocol import RunRequest, VerifyRequest
from fuselight.shared.report import (
    Aspect,
    CallComparison,
    ChangeKind,
    Culprit,
    Difference,
    Failure,
    Forecast,
    FrameForecast,
    Recompile,
    Report,
    Verification,
)
from fuselight_server.execution.runs.planning import RunOptions, named_runs
from fuselight_server.explain.findings.common.context import Context
from fuselight_server.explain.findings.forecasts.forecasts import expected_changes
from fuselight_server.fixes.rewrites.families import FixClass, Remedy
from fuselight_server.fixes.verification.fixer import Fixer
from fuselight_server.fixes.verification.forecast_trials import (
    ChangeTrial,
    tried_changes,
    try_remedies,
)
from fuselight_server.source.document import read_source
from tests.support.fix_world import patch_remedies
from tests.support.reports import FILE, at, broken, report

TEXT = """\
import torch
# fuselight: f(f32[6, 4])
@torch.compile
def f(x):
    return x * 2
"""
BATCH = Forecast(
    ChangeKind.SIZE, ("x.size(0)",), "6", "5", recompiles=True, source="x", born=(at(4),),
    guard="tensor 'L['x']' size mismatch at index 0. expected 6, actual 5",
)  # fmt: skip
MADE = report(
    forecasts=(FrameForecast("f", at(4), 1, 8, (BATCH, dataclasses.replace(BATCH, subject=("x.size(1)",)))),)
)
SAME = Verification(
    tuple(CallComparison(call, "recorded inputs", mode) for call in (0, 1) for mode in (False, True))
)


def again(count: int = 1) -> tuple[Recompile, ...]:
    """Recompilations of the changed call."""
    return tuple(
        Recompile("f", at(4), (), compile_id=f"0/{number + 1}", call=1, reasons=("x",))
        for number in range(count)
    )


class _Answers:
    """A target whose runs answer by the text (fixer.FixTarget)."""

    def __init__(self, old: Report, new: Report) -> None:
        options = RunOptions(roots=("/project",))
        (planned,) = named_runs(read_source(FILE, TEXT), ["f"], options)
        self.request: RunRequest = planned.start_message(1, 1, options)
        self.show: Callable[[str], None] = lambda _text: None
        self.requests: list[VerifyRequest] = []
        self._old, self._new = old, new

    async def run_report(self, request: RunRequest) -> Report:
        assert isinstance(request, VerifyRequest)
        self.requests.append(request)
        return self._old if request.records else self._new


def remedy(finding: Any, _report: Report, read: Callable[[str], str | None]) -> tuple[Remedy, ...]:
    text = (read(FILE) or "").replace("compile\n", "compile(dynamic=True)\n")
    remedy = Remedy("dynamic", "Compile with dynamic=True", FixClass.EXACT, {FILE: text})
    other = dataclasses.replace(remedy, kind="random", fix_class=FixClass.CHANGES, changes="random numbers")
    return (remedy, other) if finding.code == "FL201" else ()


async def tried(
    folder: Path, monkeypatch: pytest.MonkeyPatch, old: Report, new: Report
) -> tuple[ChangeTrial, _Answers]:
    patch_remedies(monkeypatch, remedy)
    target = _Answers(old, new)
    (batch, *_) = tried_changes(expected_changes(Context.of(MADE)))
    used = Fixer(read=lambda _path: TEXT, obstacle=lambda _remedy: "", readings={}, folder=str(folder))
    return await try_remedies(used, target, MADE, batch), target


OLD = report(recompiles=again(), verification=Verification())


@pytest.mark.asyncio
async def test_a_remedy_passes_if_the_changed_call_compiles_less(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trial, target = await tried(tmp_path, monkeypatch, OLD, report(verification=SAME))
    assert trial.words == ("verified: Compile with dynamic=True (1 → 0 compiles, same results)",)
    assert [change.text for change in target.requests[0].changes] == ["x.size(0) = 5"]
    assert [request.records for request in target.requests] == [True, False], (
        "what changes results is not tried"
    )
    (remedy_trial,) = trial.remedies
    assert remedy_trial.diff == ("-@torch.compile", "+@torch.compile(dynamic=True)")
    assert "dynamic=True" in target.requests[1].overlays[FILE]


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("new", "why"),
    [
        (report(recompiles=again(), verification=SAME), "the changed call still compiles (1 → 1)"),
        (report(breaks=(broken(),), verification=SAME), "it causes a graph break"),
        (report(verification=Verification(refused="it is random")), "it cannot be verified: it is random"),
        (
            report(
                verification=dataclasses.replace(
                    SAME,
                    comparisons=(
                        *SAME.comparisons,
                        CallComparison(
                            1,
                            "other",
                            compiled=True,
                            differences=(Difference(Aspect.OUTPUT, "it differs", rounding=False),),
                        ),
                    ),
                )
            ),
            "it differs (compiled, other)",
        ),
        (
            report(failures=(Failure(Culprit.USER, "ValueError", "wrong", "fix it"),)),
            "the changed text fails: wrong",
        ),
    ],
)
async def test_a_remedy_is_refused_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, new: Report, why: str
) -> None:
    trial, _ = await tried(tmp_path, monkeypatch, OLD, new)
    assert trial.words == (f"refused: Compile with dynamic=True ({why})",)


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("old", "why"),
    [
        (
            report(verification=Verification(refused="the call raises ValueError")),
            "the call raises ValueError",
        ),
        (report(verification=Verification()), "the changed call compiled nothing"),
        (report(failures=(Failure(Culprit.USER, "ValueError", "wrong", "fix it"),)), "wrong"),
        (
            report(
                recompiles=tuple(dataclasses.replace(recompilation, call=0) for recompilation in again()),
                verification=Verification(),
            ),
            "the changed call compiled nothing",
        ),
    ],
)
async def test_nothing_is_tried_where_the_change_cannot_be_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, old: Report, why: str
) -> None:
    trial, target = await tried(tmp_path, monkeypatch, old, old)
    assert trial.words == (f"no remedy was tried: {why}",)
    assert len(target.requests) == 1
