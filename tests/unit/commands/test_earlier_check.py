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


@pytest.mark.parametrize(
    ("paths", "kept"), [(("/a.py", "/a.py"), ["key of /a.py"]), (("/a.py", "/b.py"), [])]
)
def test_verdicts_are_kept_for_the_only_target_of_a_name(
    paths: tuple[str, str], kept: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    keys: list[str] = []
    monkeypatch.setattr(earlier_check, "keep_verified", lambda _answers, key, *_rest: keys.append(key))
    monkeypatch.setattr(earlier_check, "KeptAnswers", lambda: SimpleNamespace(save=lambda: None))
    captured = report(breaks=(broken(at(21)),))
    answers: Any = SimpleNamespace(answer=lambda path: SimpleNamespace(key=f"key of {path}", report=captured))
    check = EarlierCheck(answers)
    request: Any
    for request in paths:
        check.with_trials(request, replace(captured, target=replace(captured.target, path=request)))
    (finding,) = findings(captured)
    fix = FindingRemedy("Use torch.where", RemedyState.VERIFIED, "where", is_fix=True)
    check.keep([replace(finding, target=captured.target.name, remedies=(fix,))])
    assert keys == kept
