"""The run of a comparison with eager mode: one entry of the queue, several requests to the worker.

Invariant: what the first request shows is handed on before the others explain it. A worker that is lost, or a cancel,
ends all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from fuselight.shared.protocol import AccuracyRequest, Answer, Progress, Refused, RunRequest
from fuselight.shared.report import Report
from fuselight_server.commands.accuracy_options import AccuracyPlan
from fuselight_server.execution.runs.queue import Run
from fuselight_server.explain.findings.common.result_words import wrong_calls
from fuselight_server.explain.findings.failures import failure_report
from fuselight_server.fixes.verification.wrong_results import compare_results

_MADE_TIMES = 5
"""Each compared call is made so often: a run has as many times the seconds of a capture."""
_STATES = 2
"""The state of a call is there twice: as it was before the call, and as it is."""


class _RefusedError(Exception):
    """A request had no report."""

    def __init__(self, outcome: Refused) -> None:
        super().__init__(outcome.reason)
        self.outcome = outcome


def accuracy_request(request: RunRequest) -> AccuracyRequest:
    """Make of a target's request that of a comparison of its results, with more time and memory."""
    limits = request.limits
    scaled = replace(limits, seconds=_MADE_TIMES * limits.seconds, memory_mb=_STATES * limits.memory_mb)
    return request.of_kind(AccuracyRequest, limits=scaled)


async def run_compared(
    run: Run,
    request: RunRequest,
    on_progress: Callable[[Progress], None],
    on_partial: Callable[[Report], None],
) -> Answer | Refused:
    """Run a request; of a comparison, also the further ones that explain wrong calls."""
    if not isinstance(request, AccuracyRequest):
        return await run(request, on_progress, on_partial)
    plan, has_verdict = AccuracyPlan(), False

    async def report_of(asked: AccuracyRequest, words: str) -> Report:
        nonlocal has_verdict

        def show(progress: Progress) -> None:
            detail = progress.detail or progress.phase
            on_progress(replace(progress, detail=f"{words}: {detail}"))

        outcome = await run(asked, show, lambda _report: None)
        if not isinstance(outcome, Answer):
            if not has_verdict or outcome.failure is None:
                raise _RefusedError(outcome)
            return failure_report(asked, outcome.failure, None)
        if not has_verdict and outcome.report.results is not None and wrong_calls(outcome.report.results):
            on_partial(outcome.report)
        has_verdict = True
        return outcome.report

    try:
        report = await compare_results(
            request, report_of, locate_seconds=plan.locate_seconds, tries=plan.tries
        )
    except _RefusedError as refused:
        return refused.outcome
    return Answer(request.id, report)
