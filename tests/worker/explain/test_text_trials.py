"""The text of each fix that no verification has compared is run: what helps is tried, what harms is refused."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import pytest

from fuselight.shared.protocol import Answer, CaptureRequest
from fuselight.shared.report import CureRun
from fuselight_server.base.remedies import RemedyState
from fuselight_server.fixes.rewrites.families import FixClass, Remedy, Rewrites
from fuselight_server.fixes.verification import text_trials

if TYPE_CHECKING:
    from fuselight.shared.protocol import RunRequest
    from fuselight.shared.report import Report
    from fuselight_server.base.remedies import FindingRemedy
    from tests.support.live_worker import LiveWorker

BRANCH = """\
import torch
@torch.compile
def clip(x):
    y = x * 2
    if y.sum() > 0:
        y = y + 1
    return y
if __name__ == "__main__":
    for _ in range(2):
        clip(torch.ones(3))
"""
SELECTED = BRANCH.replace(
    "    if y.sum() > 0:\n        y = y + 1\n", "    y = torch.where(y.sum() > 0, y + 1, y)\n"
)


def tried_texts(live: LiveWorker, source: str) -> list[FindingRemedy]:
    request = live.request(source, "")
    assert isinstance(request, CaptureRequest)
    path = request.target.path

    async def answer(asked: RunRequest) -> Report:
        given = await live.worker.run(asked, lambda _progress: None)
        assert isinstance(given, Answer)
        return given.report

    report, without = live.report(request), live.report(dataclasses.replace(request, trial=CureRun()))
    trials = text_trials.try_texts(
        *(report, without, request, answer),
        read=lambda asked: source if asked == path else None,
        may_go_on=lambda: True,
        show=lambda _text: None,
    )
    return [entry for entries in live.do(trials).values() for entry in entries]


def test_a_fix_that_compiles_more_is_tried(live: LiveWorker) -> None:
    (entry,) = tried_texts(live, BRANCH)
    assert (entry.text, entry.state, entry.counts) == ("Use torch.where", RemedyState.TRIED, "2 → 1 graphs")
    assert entry.is_fix, "it is not verified, and can be written once it is"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (SELECTED.replace("y + 1, y)", "y + missing, y)"), "the program then fails: NameError"),
        (SELECTED.replace("y + 1, y)", "y + 2, y)"), "the results differ"),
        (BRANCH.replace("y + 1", "(y + 1) * 1"), "the finding is still there"),
        (BRANCH.replace("y + 1", "y + 1\n        print()"), "the finding is still there"),
    ],
    ids=["fails", "other results", "the same break", "one more break"],
)
def test_a_text_that_harms_or_does_not_help_is_refused(
    live: LiveWorker, monkeypatch: pytest.MonkeyPatch, text: str, why: str
) -> None:
    def planted(finding: object, report: Report, *_rest: object) -> Rewrites:
        remedy = Remedy("where", "Use torch.where", FixClass.EQUAL, {report.target.path: text})
        return Rewrites((remedy,) if getattr(finding, "code", "") == "GB0170" else ())

    monkeypatch.setattr(text_trials, "rewrites", planted)
    (entry,) = tried_texts(live, BRANCH)
    assert entry.state is RemedyState.REFUSED
    assert why in entry.why.replace("the whole program still has the finding", "the finding is still there")
