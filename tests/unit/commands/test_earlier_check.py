"""`fix` tries what no check has tried, and keeps it; what is kept of two targets of one name is not mixed."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from fuselight.shared.report import CallCure, CureKind, CureTrial, Report
from fuselight_server.base.remedies import FindingRemedy, RemedyState
from fuselight_server.commands import earlier_check
from fuselight_server.commands.earlier_check import EarlierCheck
from fuselight_server.commands.outcome import CheckOutcome
from fuselight_server.explain.findings import findings
from tests.support.reports import at, broken, report

CAPTURED = report(breaks=(broken(at(21)),))
TRIAL = CureTrial(CallCure(CureKind.TENSOR, "/a.py", 3, ("scale",)), 3, 1)


class Captures:
    """Stands for the captures that checks keep."""

    def __init__(self, known: Report | None = None) -> None:
        self.known = known
        self.kept: list[tuple[str, Report]] = []

    def answer(self, request: Any) -> Any:
        known = self.known and replace(self.known, target=replace(self.known.target, path=request))
        return known and SimpleNamespace(key=f"key of {request}", report=known)

    def recording(self, request: Any) -> Any:
        return f"recording {request}"

    def keep_capture(self, _request: Any, kept: Report, _packages: Any) -> str:
        self.kept.append(("run", kept))
        return "new key"

    def keep_trials(self, _request: Any, kept: Report) -> str:
        self.kept.append(("trials", kept))
        return "new key"


def reported(
    monkeypatch: pytest.MonkeyPatch, captures: Captures, tries: float | None, path: str = "/a.py"
) -> tuple[Report, list[Any], EarlierCheck]:
    """The report of a target, and the runs that it took."""
    ran: list[Any] = []

    async def run(request: Any = None) -> Report:
        ran.append(request)
        return CAPTURED

    async def tried(_target: Any, known: Report, budget: Any, _outcome: Any) -> Report:
        return known if known.trials or not budget.allows(1) else replace(known, trials=(TRIAL,))

    monkeypatch.setattr(earlier_check, "try_advice", tried)
    target: Any = SimpleNamespace(
        request=path, run_report=run, worker=SimpleNamespace(hello=SimpleNamespace(packages=()))
    )
    store: Any = captures
    check = EarlierCheck(store, tries)
    return asyncio.run(check.report_of(target, CheckOutcome())), ran, check


def test_what_no_check_has_tried_is_tried_and_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    captures = Captures()
    tried, ran, _ = reported(monkeypatch, captures, 0.3)
    assert (tried.trials, ran) == ((TRIAL,), ["recording /a.py"])
    assert captures.kept == [("run", tried)]
    captures = Captures(CAPTURED)
    tried, ran, _ = reported(monkeypatch, captures, 0.3)
    assert (tried.trials, ran) == ((TRIAL,), []), "the kept run counts"
    assert captures.kept == [("trials", tried)]
    captures = Captures(tried)
    assert reported(monkeypatch, captures, 0.3)[:2] == (tried, [])
    assert not captures.kept, "all of it was known"


def test_nothing_is_tried_unasked(monkeypatch: pytest.MonkeyPatch) -> None:
    assert reported(monkeypatch, Captures(), 0.0)[0].trials == ()


def test_verdicts_of_two_files_with_a_target_of_one_name_are_kept_apart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kept: list[tuple[str, str]] = []
    monkeypatch.setattr(
        earlier_check,
        "keep_verified",
        lambda _answers, key, finding, _fixes: kept.append((key, finding.target_path)),
    )
    monkeypatch.setattr(earlier_check, "KeptAnswers", lambda: SimpleNamespace(save=lambda: None))
    paths, captures = ("/a.py", "/b.py"), Captures(CAPTURED)
    first, _, check = reported(monkeypatch, captures, 0.0, paths[0])
    second, _, other = reported(monkeypatch, captures, 0.0, paths[1])
    check._keys |= other._keys
    fix = FindingRemedy("Use torch.where", RemedyState.VERIFIED, "where", is_fix=True)
    check.keep_verified(
        replace(finding, remedies=(fix,)) for of_path in (first, second) for finding in findings(of_path)
    )
    assert kept == [(f"key of {path}", path) for path in paths]
