"""`forecast` and `kernels`: what later calls will compile again, and which kernels a line becomes."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from fuselight.shared.devices import FALLBACK
from fuselight.shared.notebooks.cells import SUFFIX
from fuselight_server.agents.answers import ToolAnswer
from fuselight_server.agents.arguments import ArgumentError
from fuselight_server.agents.bounds import bounded_text
from fuselight_server.agents.device_argument import device_of
from fuselight_server.agents.finding_data import failure_text, target_data
from fuselight_server.agents.tool import declared_tool
from fuselight_server.base.default_limits import COMPILE_LIMITS
from fuselight_server.base.finding import SourceLine
from fuselight_server.base.formatting import (
    format_count,
    format_estimate,
    format_lines,
    format_percent,
    format_size,
)
from fuselight_server.commands.finding_rows import finding_data, problem_texts
from fuselight_server.commands.forecast import ForecastOutcome, forecast
from fuselight_server.commands.kernels import generate
from fuselight_server.commands.notebook_cells import check_in_cells, forecast_in_cells
from fuselight_server.commands.notebook_lines import NamedLine, cell_of, in_words
from fuselight_server.commands.sources import shown_path
from fuselight_server.explain.findings.common.context import Context
from fuselight_server.explain.findings.forecasts.forecasts import (
    expected_changes,
    folded,
    folded_text,
    has_unasked_parts,
)
from fuselight_server.explain.kernels.fusion import sentence, why
from fuselight_server.explain.kernels.shares import Folded, costs_by_line, fold
from fuselight_server.explain.kernels.summary import one_call, target_summary

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from fuselight.shared.report import Report
    from fuselight_server.agents.protocol.toolbox import Caller
    from fuselight_server.agents.session import AgentSession
    from fuselight_server.base.cancellation import CancelToken
    from fuselight_server.commands.forecast import RemedyTrial, Trials
    from fuselight_server.commands.outcome import CheckOutcome
    from fuselight_server.explain.findings.forecasts.forecasts import ExpectedChange

_MAX_CHANGES = 30
_MAX_LINES = 25
_MAX_KERNELS = 25


async def _forecast(session: AgentSession, arguments: dict[str, Any], caller: Caller) -> ToolAnswer:
    paths = [session.existing(path) for path in arguments["paths"]]
    await session.permit(paths, caller)

    async def work(show: Callable[[str], None], token: CancelToken) -> ToolAnswer:
        options = session.options(paths, arguments["targets"])
        outcome = await forecast(options, show, token, tries_changes=arguments["verify"])
        reports = dataclasses.replace(outcome.checked, reports=list(outcome.reports))
        shown, trials = forecast_in_cells(reports, outcome.trials)
        outcome = dataclasses.replace(outcome, checked=shown, reports=tuple(shown.reports), trials=trials)
        return _forecasts(outcome, is_full=arguments["all"])

    return await session.work.do("forecast", work, arguments["wait_seconds"], caller)


def _forecasts(outcome: ForecastOutcome, *, is_full: bool) -> ToolAnswer:
    rows = [_forecast_of(report, outcome, is_full=is_full) for report in outcome.reports]
    data: dict[str, Any] = {
        "targets": rows,
        "problems": problem_texts(outcome.checked.problems),
        "evidence": "A forecast asks the guards of the code that these calls compiled; a cost that names values rests "
        "on calls with them. Remedies are advice unless `verified` is true.",
    }
    return ToolAnswer(
        "\n".join([*(line for row in rows for line in _forecast_lines(row)), *data["problems"]]), data
    )


def _forecast_of(report: Report, outcome: ForecastOutcome, *, is_full: bool) -> dict[str, Any]:
    changes = expected_changes(Context.of(report, read_line=outcome.checked.sources.line))
    shown = [change for change in changes if change.recompiles or is_full]
    shown, breaks = (shown, []) if is_full else folded(shown)
    rows = [_change(change, report, outcome.trials) for change in shown[:_MAX_CHANGES]]
    left = len(shown) - len(rows)
    return {
        **target_data(report),
        "changes": rows,
        "after_breaks": [
            folded_text(f"{shown_path(place.path)}:{place.line}", count) for place, count in breaks
        ],
        "rest": f"{left} more changes are not shown: name one of the `targets`." if left else "",
        "is_partial": has_unasked_parts(report),
        "has_forecast": bool(report.forecasts),
    }


def _change(change: ExpectedChange, report: Report, trials: Trials) -> dict[str, Any]:
    trial = trials.get((report.target.path, report.target.name), {}).get(change)
    place = change.place
    return {
        "change": change.title,
        "recompiles": change.recompiles,
        "likely": change.is_likely,
        "cost": change.cost,
        "further_compiles": change.further_compiles,
        "reason": change.reason,
        "line": f"{shown_path(place.path)}:{place.line}" if place is not None else "",
        "remedies": list(change.remedies),
        "tried": [_trial(item) for item in trial.remedies] if trial is not None else [],
        "not_tried": trial.why_not if trial is not None else "",
    }


def _trial(trial: RemedyTrial) -> dict[str, Any]:
    return {
        "title": trial.remedy.title,
        "verified": trial.verdict.passed,
        "why": trial.verdict.words,
        "diff": "\n".join(trial.diff) if trial.verdict.passed else "",
    }


def _forecast_lines(row: dict[str, Any]) -> Iterator[str]:
    calls = ", ".join(row["inputs"])
    compiled = "compiled for its program" if row["has_forecast"] else "nothing was compiled"
    compiled = f"compiled for {calls}" if calls else compiled
    yield f"{row['name']} ({row['path']}:{row['line']}): {compiled}"
    if not row["has_forecast"]:
        yield f"  no forecast: {row['summary']}"
    for change in row["changes"]:
        likely = "likely" if change["likely"] else "less likely"
        effect = f"compiles again, {change['cost']}" if change["recompiles"] else "needs no compile"
        reason = f" because of `{change['reason']}`" if change["reason"] else ""
        line = f" ({change['line']})" if change["line"] else ""
        yield f"  {change['change']}: {effect}{reason}{line}; {likely}"
        for trial in change["tried"]:
            yield f"    {trial['title']}: {'verified' if trial['verified'] else 'refused'}: {trial['why']}"
        yield from (f"    advice: {remedy}" for remedy in change["remedies"][:2])
    yield from (f"  {text}" for text in row["after_breaks"])
    if row["has_forecast"] and not (row["changes"] or row["after_breaks"]):
        yield "  no change that was asked about compiles it again"
    if row["is_partial"]:
        yield "  some compiled code has no forecast: other changes may compile it again"
    yield from filter(None, [row["rest"]])


async def _kernels(session: AgentSession, arguments: dict[str, Any], caller: Caller) -> ToolAnswer:
    paths = [session.existing(path) for path in arguments["paths"]]
    _check_cells(paths, arguments)
    device = device_of(arguments["device"])
    await session.permit(paths, caller)

    async def work(show: Callable[[str], None], token: CancelToken) -> ToolAnswer:
        options = session.options(paths, arguments["targets"], limits=COMPILE_LIMITS)
        outcome = await generate(options, show, token, device=device)
        return _generated(check_in_cells(outcome), arguments)

    return await session.work.do("kernels", work, arguments["wait_seconds"], caller)


def _check_cells(paths: list[Path], arguments: dict[str, Any]) -> None:
    """Raise ArgumentError for a cell without a line, and for one of a file that is no notebook."""
    for line, cell in (("line", "cell"), ("and_line", "and_cell")):
        if arguments[cell] is None:
            continue
        if arguments[line] is None:
            raise ArgumentError(f"`{cell}` needs `{line}`")
        other = next((path for path in paths if path.suffix != SUFFIX), None)
        if other is not None:
            raise ArgumentError(f"`{cell}` is of a notebook, and `{shown_path(str(other))}` is none")


def _generated(outcome: CheckOutcome, arguments: dict[str, Any]) -> ToolAnswer:
    rows = [_kernels_of(report, outcome, arguments) for report in outcome.reports]
    data: dict[str, Any] = {
        "targets": rows,
        "problems": problem_texts(outcome.problems),
        "evidence": "Inductor generated the kernels. Nothing was launched: every time is an estimate.",
    }
    lines = [line for row in rows for line in _kernel_lines(row)]
    return ToolAnswer("\n".join([*lines, *data["problems"], data["evidence"]]), data)


def _kernels_of(report: Report, outcome: CheckOutcome, arguments: dict[str, Any]) -> dict[str, Any]:
    line, other = _named_line(report, arguments, ""), _named_line(report, arguments, "and_")
    call = one_call(report)
    costs = [cost for cost in costs_by_line(call) if cost.place is not None]
    whole = float(sum(cost.us for cost in costs_by_line(call)))
    here = [cost for cost in costs if line in {None, cost.place}]
    kernels = [item for graph in call.generated for item in fold(graph, report.roots)]
    wanted = [item for item in kernels if line is None or line in item.places]
    return {
        **target_data(report),
        "device": report.target_device.name if report.target_device else report.device,
        "kernel_summary": target_summary(report),
        "lines": [
            {
                "line": f"{shown_path(cost.place.path)}:{cost.place.line}",
                "source": (outcome.sources.line(cost.place.path, cost.place.line) or "").strip(),
                "estimate": format_estimate(float(cost.us)),
                "share": format_percent(float(cost.us), whole),
                "kernels": len(cost.launches),
                "traffic": format_size(float(cost.bytes)),
                "fused_with": [f"{shown_path(place.path)}:{place.line}" for place in sorted(cost.fused_with)],
            }
            for cost in here[:_MAX_LINES]
            if cost.place is not None
        ],
        "kernels": [_kernel(item, report, arguments) for item in wanted[:_MAX_KERNELS]],
        "rest": _left_out(len(here), len(wanted)) if wanted or line is None else _no_kernel(line, call),
        "findings": [finding_data(finding, outcome.sources) for finding in outcome.of_kernels(report)],
        "fusion": _fusion(report, line, other) if line is not None and other is not None else "",
        "failures": [failure_text(failure) for failure in report.failures],
    }


def _named_line(report: Report, arguments: dict[str, Any], prefix: str) -> SourceLine | None:
    line, cell = arguments[f"{prefix}line"], arguments[f"{prefix}cell"]
    return None if line is None else NamedLine(line, cell).line_for(report.target.path)


def _fusion(report: Report, *ends: SourceLine) -> str:
    first, second = ends
    is_in_cell = any(cell_of(end.path)[1] is not None for end in ends)
    return sentence(why(report, first, second), first, second, name=in_words if is_in_cell else None)


def _left_out(lines: int, kernels: int) -> str:
    left = [
        format_count(count - most, noun)
        for count, most, noun in ((lines, _MAX_LINES, "line"), (kernels, _MAX_KERNELS, "kernel"))
        if count > most
    ]
    return f"{' and '.join(left)} more: name a `line`." if left else ""


def _no_kernel(line: SourceLine, call: Report) -> str:
    lines = {cost.place.line for cost in costs_by_line(call) if cost.place and cost.place.path == line.path}
    known = f"; kernels come from {format_lines(sorted(lines))}" if lines else ""
    return f"{in_words(line).capitalize()} has a part in no kernel of these calls{known}."


def _kernel(item: Folded, report: Report, arguments: dict[str, Any]) -> dict[str, Any]:
    kernel = item.kernel
    row = {
        "name": kernel.name,
        "kind": kernel.kind.value,
        "launches": item.count,
        "estimate": format_estimate(item.us) if item.us is not None else "",
        "bound": kernel.bound,
        "reads": kernel.bytes_read,
        "writes": kernel.bytes_written,
        "flops": kernel.flops,
        "lines": [f"{shown_path(place.path)}:{place.line}" for place in item.places],
    }
    if arguments["source"]:
        text, rest = bounded_text(report.texts.get(kernel.text_key or "", ""))
        row |= {"source": text, "source_rest": rest}
    return row


def _kernel_lines(row: dict[str, Any]) -> Iterator[str]:
    yield f"{row['name']} ({row['path']}:{row['line']}) on {row['device']}: {row['kernel_summary']}"
    yield from (f"  failed: {text}" for text in row["failures"])
    for cost in row["lines"]:
        fused = f"; fused with {', '.join(cost['fused_with'])}" if cost["fused_with"] else ""
        facts = f"{cost['estimate']} ({cost['share']}), {format_count(cost['kernels'], 'kernel')}, {cost['traffic']}"
        yield f"  {cost['line']}: {facts}: {cost['source']}{fused}"
    for kernel in row["kernels"]:
        bound = f"{kernel['bound']}-bound" if kernel["bound"] else ""
        facts = ", ".join(filter(None, [kernel["kind"], kernel["estimate"], bound]))
        lines = ", ".join(kernel["lines"]) or "no source line"
        yield f"  kernel {kernel['name']} x {kernel['launches']}: {facts}; {lines}"
        if kernel.get("source"):
            yield f"{kernel['source']}{kernel['source_rest']}"
    yield from (f"  {finding['code']}: {finding['title']}" for finding in row["findings"])
    yield from filter(None, [row["fusion"], row["rest"]])


FORECAST = declared_tool("forecast", _forecast)
KERNELS = declared_tool("kernels", _kernels, device={"default": FALLBACK})
