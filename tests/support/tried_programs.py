"""Programs of which all changes are tried, as `fuselight check --tries all` does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fuselight.shared.protocol import Answer, CaptureRequest
from fuselight_server.fixes.verification.cure_trials import TrialBudget, try_cures

if TYPE_CHECKING:
    from fuselight.shared.protocol import RunRequest
    from fuselight.shared.report import Report
    from tests.support.live_worker import LiveWorker


def tried_report(live: LiveWorker, source: str) -> Report:
    """The report of a program, with all trials."""
    request = live.request(source, "")
    assert isinstance(request, CaptureRequest)

    async def answer(asked: RunRequest) -> Report:
        given = await live.worker.run(asked, lambda _progress: None)
        assert isinstance(given, Answer)
        return given.report

    first, lines = live.report(request), source.splitlines()
    return live.do(
        try_cures(
            request,
            first,
            answer,
            budget=TrialBudget(None),
            read_line=lambda _path, line: lines[line - 1] if line <= len(lines) else None,
        )
    )
