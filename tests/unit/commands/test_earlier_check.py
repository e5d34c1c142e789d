"""What a check has kept of two files that have a target of the same name is not mixed."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from fuselight_server.base.remedies import FindingRemedy, RemedyState
from fuselight_server.commands import earlier_check
from fuselight_server.commands.earlier_check import EarlierCheck
from fuselight_server.explain.findings import findings
from tests.support.reports import at, broken, report


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
    captured = report(breaks=(broken(at(21)),))
    answers: Any = SimpleNamespace(answer=lambda path: SimpleNamespace(key=f"key of {path}", report=captured))
    check, paths = EarlierCheck(answers), ("/a.py", "/b.py")
    reports = [replace(captured, target=replace(captured.target, path=path)) for path in paths]
    request: Any
    for request, of_path in zip(paths, reports, strict=True):
        check.with_trials(request, of_path)
    fix = FindingRemedy("Use torch.where", RemedyState.VERIFIED, "where", is_fix=True)
    check.keep_verified(
        replace(finding, remedies=(fix,)) for of_path in reports for finding in findings(of_path)
    )
    assert kept == [(f"key of {path}", path) for path in paths]
