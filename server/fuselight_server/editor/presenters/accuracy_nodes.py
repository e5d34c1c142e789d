"""A comparison of results with eager mode as nodes of the report's tree: each call, its stage, the settings tried.

Invariant: what was not compared is listed, with the reason; each place is where the line is now.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from fuselight.shared.report import ComparedCall, Location, ResultComparison, TriedSetting
from fuselight_server.base.finding import SourceLine, Span
from fuselight_server.base.formatting import format_count, format_ratio, format_target
from fuselight_server.editor.messages.answers import ReportNode
from fuselight_server.editor.presenters import convert
from fuselight_server.editor.presenters.tree_nodes import NodeMaker
from fuselight_server.editor.results.accuracy import AccuracyResult
from fuselight_server.editor.results.accuracy_words import accuracy_summary
from fuselight_server.editor.results.lens_facts import format_where
from fuselight_server.explain.findings.common.result_words import (
    STAGE_NAMES,
    call_words,
    cause_of,
    differences,
    not_compared,
    setting_text,
)
from fuselight_server.source.positions import span


@dataclass(frozen=True)
class _AccuracyMaker(NodeMaker):
    """Makes the nodes of one comparison."""

    result: AccuracyResult

    def now(self, at: Location | None) -> Span | None:
        """Return where a place of the report is now."""
        return self.result.places.now(span(at)) if at is not None else None


def accuracy_node(result: AccuracyResult, view: convert.Client) -> ReportNode:
    """Make the node of a target's results."""
    make = _AccuracyMaker(view, result.shown)
    results, report = make.result.results, make.result.report
    children: list[ReportNode] = []
    if results is not None:
        calls = sorted(results.calls, key=lambda call: (not call.is_wrong, call.index))
        left_out = [
            make.node("uncompared", why, "question", description=format_count(count, "call"))
            for count, why in not_compared(results)
        ]
        children = [
            *make.listed("comparedCall", [_call(make, results, call) for call in calls]),
            *make.group("uncompared", "Not compared", "question", left_out),
        ]
    children += make.group("lost", "Not available", "question", make.problems(report))
    icon = "error" if make.result.is_wrong else "pass"
    return make.node(
        "accuracy",
        "Accuracy",
        icon,
        description=accuracy_summary(result),
        children=children,
    )


def _call(make: _AccuracyMaker, results: ResultComparison, call: ComparedCall) -> ReportNode:
    icon = "error" if call.is_wrong else "pass" if call.is_as_eager else "question"
    return make.node(
        "comparedCall",
        f"Call {call.index + 1}: {format_target(call.name)}",
        icon,
        description=call_words(call),
        where=make.now(call.caller or call.location),
        children=_of_wrong(make, results, call) if call.is_wrong else (),
    )


def _of_wrong(make: _AccuracyMaker, results: ResultComparison, call: ComparedCall) -> Iterator[ReportNode]:
    first = make.now(call.accuracy.first[-1]) if call.accuracy.first else None
    if first is not None:
        where = format_where(SourceLine(first.path, first.line), make.result.key.path)
        label = f"First difference on {where}"
        operator = call.accuracy.first_operator
        yield make.node("firstDifference", label, "target", description=operator, where=first)
    for text in differences(call):
        yield make.node("difference", text, "diff")
    cause = cause_of(results, call)
    if cause is None:
        return
    yield make.node("stage", f"Begins to differ in {STAGE_NAMES[cause.stage]}", "layers")
    for setting in cause.tried:
        yield _setting(make, setting)


def _setting(make: _AccuracyMaker, setting: TriedSetting) -> ReportNode:
    words = "results as in eager mode" if setting.cures else "the results still differ"
    if setting.cures and setting.ratio is not None:
        words += f"; a call then takes {format_ratio(setting.ratio)} the time"
    icon = "verified" if setting.cures else "circle-slash"
    return make.node("setting", setting_text(setting).strip("`"), icon, description=words)
