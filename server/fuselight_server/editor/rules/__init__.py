"""Rules that find graph breaks in edited code before anything is traced: from the facts of the last run.

Invariant: `predict` is a pure function of the report and of two texts. A finding comes only from new lines that the
program surely reaches, in a function that was traced, on values of known kind, for what surely breaks under the run's
torch and compile call. Where any of that is not known there is no finding: tracing the function again decides.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from fuselight.shared.report import Culprit, Location, Report, Tier
from fuselight_server.base.finding import Finding
from fuselight_server.editor.rules.conditions import Conditions
from fuselight_server.editor.rules.edited import EditedText
from fuselight_server.editor.rules.functions import functions_of
from fuselight_server.editor.rules.rules import PredictedBreak, breaks_of
from fuselight_server.explain.findings.breaks.break_remedies import words_at
from fuselight_server.explain.findings.breaks.break_texts import title_of
from fuselight_server.explain.findings.common.context import Context

__all__ = ["predict"]

_MAX = 20
"""Findings of one edit."""


def predict(report: Report, path: str, ran: str, now: str) -> tuple[Finding, ...]:
    """The breaks that the new lines of a file surely cause, by place, of tier `predicted`.

    `ran` is the text of the file that the run of `report` had, `now` is its text after the edits.
    """
    conditions = Conditions.of(report)
    facts = report.facts.files.get(path)
    if (
        conditions is None
        or facts is None
        or any(failure.culprit is Culprit.USER for failure in report.failures)
    ):
        return ()
    edited = EditedText.of(ran, now)
    if edited is None or not edited.has_new_lines:
        return ()
    predictions = list(_predict(report, path, edited, conditions))[:_MAX]
    if conditions.fullgraph:
        predictions = predictions[:1]  # the first break ends the call
    context = Context.of(dataclasses.replace(report, tier=Tier.PREDICTED))
    return tuple(_finding(context, prediction, conditions) for prediction in predictions)


def _predict(
    report: Report, path: str, edited: EditedText, conditions: Conditions
) -> Iterator[PredictedBreak]:
    known: set[tuple[int, str]] = set()
    for function in functions_of(report, path, edited):
        for graph_break in breaks_of(function, conditions):
            if (graph_break.span.line, graph_break.gb_id) not in known:
                known.add((graph_break.span.line, graph_break.gb_id))
                yield graph_break


def _finding(context: Context, prediction: PredictedBreak, conditions: Conditions) -> Finding:
    at = Location(
        prediction.span.path,
        prediction.span.line,
        prediction.span.column,
        prediction.span.end_line,
        prediction.span.end_column,
    )
    title = title_of(prediction.gb_id, prediction.gb_id, prediction.explanation)
    words = words_at(context, at, prediction.gb_id, title, prediction.explanation)
    what, steps = words.title, words.hints
    if conditions.fullgraph:
        remove = "Remove the break, or remove fullgraph=True so that this line runs in eager mode"
        return context.finding(
            *("FL404", f"graph break under fullgraph=True: {what}"),
            "With fullgraph=True a graph break is an error, so nothing is compiled.",
            span=prediction.span,
            hints=(*steps, remove),
            gb_ids=(prediction.gb_id,),
        )
    return context.finding(
        *(prediction.gb_id, f"graph break: {what}"),
        span=prediction.span,
        severity=prediction.severity,
        cost=("this line runs in eager mode, and no kernel is fused across it",),
        hints=steps,
    )
