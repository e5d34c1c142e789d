"""`accuracy`: whether compiled calls give the results of eager mode, and why not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fuselight_server.agents.answers import ToolAnswer
from fuselight_server.agents.arguments import Argument, ArgumentError
from fuselight_server.agents.bounds import part_of
from fuselight_server.agents.finding_data import failure_text
from fuselight_server.agents.tool import declared_tool
from fuselight_server.base.default_limits import COMPILE_LIMITS
from fuselight_server.base.formatting import format_count
from fuselight_server.commands.accuracy import AccuracyOutcome, compare, state_of
from fuselight_server.commands.accuracy_options import (
    ACCURACY_OPTIONS,
    AccuracyOption,
    AccuracyOptionError,
    accuracy_plan,
)
from fuselight_server.commands.finding_rows import finding_data, finding_lines, problem_texts
from fuselight_server.commands.notebook_cells import check_in_cells
from fuselight_server.commands.sources import shown_path
from fuselight_server.explain.findings.common.result_words import (
    STAGE_NAMES,
    not_compared,
    remarks,
    results_in_words,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fuselight.shared.report import Report, ResultCause, ResultComparison
    from fuselight_server.agents.protocol.toolbox import Caller
    from fuselight_server.agents.session import AgentSession
    from fuselight_server.base.cancellation import CancelToken

_MAX_REASONS = 8


async def _accuracy(session: AgentSession, arguments: dict[str, Any], caller: Caller) -> ToolAnswer:
    paths = [session.existing(path) for path in arguments["paths"]]
    await session.permit(paths, caller)
    try:
        plan = accuracy_plan(arguments)
    except AccuracyOptionError as error:
        raise ArgumentError(str(error)) from None

    async def work(show: Callable[[str], None], token: CancelToken) -> ToolAnswer:
        notices: list[str] = []
        options = session.options(paths, arguments["targets"], notices=notices, limits=COMPILE_LIMITS)
        return _compared(await compare(options, show, token, plan=plan), arguments, notices)

    return await session.work.do("accuracy", work, arguments["wait_seconds"], caller)


def _compared(outcome: AccuracyOutcome, arguments: dict[str, Any], notices: list[str]) -> ToolAnswer:
    check = check_in_cells(outcome.check)
    part = part_of(check.findings, arguments["offset"], arguments["limit"])
    data: dict[str, Any] = {
        "targets": [_target(report) for report in check.reports],
        "findings": [{**finding_data(row, check.sources), "message": row.message} for row in part.items],
        "total": part.total,
        "rest": part.rest,
        "problems": [*problem_texts(check.problems), *check.uncalled],
        "notices": notices,
    }
    return ToolAnswer("\n".join(_lines(data)) or "Nothing was compared.", data)


def _target(report: Report) -> dict[str, Any]:
    results = report.results
    return {
        "target": report.target.name or "__main__",
        "path": shown_path(report.target.path),
        "state": state_of(report).value,
        "verdict": results_in_words(results) if results is not None else "not compared",
        "calls_made": results.call_count if results is not None else 0,
        "not_compared": _reasons(results) if results is not None else [],
        "notes": list(remarks(results))[:_MAX_REASONS] if results is not None else [],
        "causes": [_cause(cause) for cause in results.causes] if results is not None else [],
        "failures": [failure_text(failure) for failure in report.failures],
        "problems": problem_texts(report.problems),
        "torch": report.versions.torch or "",
    }


def _reasons(results: ResultComparison) -> list[str]:
    rows = [f"{format_count(count, 'call')}: {why}" for count, why in not_compared(results)]
    return rows[:_MAX_REASONS]


def _cause(cause: ResultCause) -> dict[str, Any]:
    return {
        "call": cause.call + 1,
        "stage": STAGE_NAMES[cause.stage],
        "settings_tried": [
            f"{setting.name} = {setting.value}: {'cures' if setting.cures else 'no effect'}"
            for setting in cause.tried
        ],
    }


def _lines(data: dict[str, Any]) -> Iterator[str]:
    for target in data["targets"]:
        yield f"{target['target']} ({target['path']}): {target['verdict']}"
        yield from (f"  failed: {text}" for text in target["failures"])
        yield from (f"  not compared: {text}" for text in target["not_compared"])
        yield from (f"  note: {text}" for text in target["notes"])
        for cause in target["causes"]:
            yield f"  call {cause['call']} differs from {cause['stage']} on"
            yield from (f"    {text}" for text in cause["settings_tried"])
        yield from (f"  not determined: {text}" for text in target["problems"])
    for row in data["findings"]:
        yield from finding_lines(row)
    yield from filter(None, [data["rest"], *data["problems"], *data["notices"]])


def _argument(option: AccuracyOption) -> Argument:
    kind = (
        "boolean"
        if isinstance(option.default, bool)
        else "number"
        if isinstance(option.default, float)
        else "string"
    )
    return Argument(
        option.name,
        kind,
        f"{option.words[:1].upper()}{option.words[1:]}",
        default=option.default,
        choices=option.choices,
        least=0.0 if kind == "number" else None,
        most=option.most,
    )


ACCURACY = declared_tool("accuracy", _accuracy, options=tuple(map(_argument, ACCURACY_OPTIONS)))
