"""`targets` and `check`: what files compile, and what torch.compile does to it."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import TYPE_CHECKING, Any

from fuselight_server.agents.answers import ToolAnswer
from fuselight_server.agents.bounds import part_of
from fuselight_server.agents.finding_data import (
    evidence,
    target_data,
    target_text,
)
from fuselight_server.agents.tool import declared_tool
from fuselight_server.base.finding import Severity, rank
from fuselight_server.base.formatting import format_count
from fuselight_server.commands.check import analyze
from fuselight_server.commands.finding_rows import finding_data, finding_lines, problem_texts
from fuselight_server.commands.known_fixes import FindingFixes
from fuselight_server.commands.notebook_cells import cell_names, check_in_cells
from fuselight_server.commands.sources import shown_path
from fuselight_server.commands.static_targets import ListedTarget, list_targets
from fuselight_server.explain.findings.priority import advice

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from fuselight_server.agents.protocol.toolbox import Caller
    from fuselight_server.agents.session import AgentSession
    from fuselight_server.base.cancellation import CancelToken
    from fuselight_server.commands.outcome import CheckOutcome


_NOTHING_RAN = (
    "Nothing ran: nothing in these files is compiled or has a `# fuselight:` comment. Name a class or function in "
    "`targets`, which then needs inputs."
)


async def _targets(session: AgentSession, arguments: dict[str, Any], _caller: Caller) -> ToolAnswer:
    paths = [session.existing(path) for path in arguments["paths"]]
    listed = await asyncio.to_thread(list_targets, session.options(paths))
    part = part_of(listed.targets, arguments["offset"], arguments["limit"])
    rows = [{**dataclasses.asdict(target), "path": shown_path(target.path)} for target in part.items]
    problems = [*problem_texts(listed.problems), *listed.uncalled]
    lines = [*map(_target_line, part.items), *([part.rest] if part.rest else []), *problems]
    text = "\n".join(lines) or "Nothing in these files is compiled, and nothing computes with tensors."
    return ToolAnswer(text, {"targets": rows, "total": part.total, "rest": part.rest, "problems": problems})


def _target_line(target: ListedTarget) -> str:
    compiled = "compiled in the source" if target.is_compiled else "not compiled in the source"
    inputs = f"inputs: {target.inputs}" if target.inputs else "inputs: unknown until it runs"
    runs = f"`check` runs it; {inputs}" if target.is_run else "`check` runs it if it is named in `targets`"
    return f"{target.name} ({shown_path(target.path)}:{target.line}): {target.kind}, {compiled}; {runs}"


async def _check(session: AgentSession, arguments: dict[str, Any], caller: Caller) -> ToolAnswer:
    paths = [session.existing(path) for path in arguments["paths"]]
    await session.permit(paths, caller)

    async def work(show: Callable[[str], None], token: CancelToken) -> ToolAnswer:
        notices: list[str] = []
        options = session.options(paths, arguments["targets"], notices=notices)
        outcome = await analyze(options, show, token, uses_kept=arguments["uses_earlier_checks"])
        session.note_runs(outcome.reports)
        answer = _checked(outcome, arguments, notices)
        if outcome.answers is not None:
            outcome.answers.save()
        return answer

    return await session.work.do("check", work, arguments["wait_seconds"], caller)


def _checked(outcome: CheckOutcome, arguments: dict[str, Any], notices: list[str]) -> ToolAnswer:
    findings = sorted(outcome.findings, key=rank)
    part = part_of(findings, arguments["offset"], arguments["limit"])
    known, names, outcome = FindingFixes(outcome), cell_names(outcome), check_in_cells(outcome)
    rows = [finding_data(names.finding(known.listed(finding)), outcome.sources) for finding in part.items]
    targets = [target_data(report, outcome) for report in outcome.reports]
    first = advice(outcome.priorities)
    problems = [*problem_texts(outcome.problems), *_unfinished(outcome)]
    data: dict[str, Any] = {
        "findings": rows,
        "total": part.total,
        "warnings": sum(finding.severity >= Severity.WARNING for finding in findings),
        "rest": part.rest,
        "fix_first": first.words() if first is not None else "",
        "targets": targets,
        "problems": problems,
        "evidence": evidence(outcome.reports),
        "notices": notices,
    }
    return ToolAnswer("\n".join(_lines(data)), data)


def _unfinished(outcome: CheckOutcome) -> Iterable[str]:
    """Why a check without findings is no proof that all is well."""
    if not outcome.reports and not outcome.problems:
        yield from outcome.uncalled or (_NOTHING_RAN,)
    for report in outcome.reports:
        for problem in report.problems:
            yield f"{report.target.name or '__main__'}: {problem.what}: {problem.why}"


def _lines(data: dict[str, Any]) -> Iterable[str]:
    where = format_count(len(data["targets"]), "target") if data["targets"] else "the source, and nothing ran"
    number = format_count(data["total"], "finding") if data["total"] else "no findings"
    yield f"{number[0].upper()}{number[1:]} in {where}."
    if data["fix_first"]:
        yield data["fix_first"]
    for row in data["findings"]:
        yield from finding_lines(row)
    yield from filter(None, [data["rest"]])
    yield from map(target_text, data["targets"])
    yield from (f"not determined: {problem}" for problem in data["problems"])
    yield data["evidence"]
    yield from data["notices"]


TARGETS_TOOL = declared_tool("targets", _targets)
CHECK = declared_tool("check", _check)
