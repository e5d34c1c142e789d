"""`explain`: everything known of a finding, or what a code means."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fuselight_server.agents.answers import RefusedCallError, ToolAnswer
from fuselight_server.agents.arguments import ArgumentError
from fuselight_server.agents.bounds import bounded_text, short_line
from fuselight_server.agents.finding_data import evidence
from fuselight_server.agents.tool import declared_tool
from fuselight_server.base.finding import Finding, Span, rank
from fuselight_server.base.formatting import format_lines
from fuselight_server.commands.check import analyze
from fuselight_server.commands.codes import code_page
from fuselight_server.commands.finding_rows import finding_data, problem_texts
from fuselight_server.commands.known_fixes import list_fixes
from fuselight_server.commands.notebook_cells import check_in_cells
from fuselight_server.commands.notebook_lines import cell_of, path_of_cell
from fuselight_server.commands.sources import SourceFiles, shown_path

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fuselight_server.agents.protocol.toolbox import Caller
    from fuselight_server.agents.session import AgentSession
    from fuselight_server.base.cancellation import CancelToken
    from fuselight_server.commands.outcome import CheckOutcome

_AROUND = 6
"""Lines of source before and after a finding."""
_MAX_RELATED = 12
_MAX_EXPLAINED = 5
_LONGEST_PAGE = 6_000


async def _explain(session: AgentSession, arguments: dict[str, Any], caller: Caller) -> ToolAnswer:
    code, line = arguments["code"], arguments["line"]
    if arguments["path"] is None:
        if code is None:
            raise ArgumentError("name a `path` and a `line`, or a `code` alone")
        return await asyncio.to_thread(_explained_code, session, code)
    file, cell = cell_of(arguments["path"])
    path = session.existing(file)
    named = str(path) if cell is None else path_of_cell(str(path), cell)
    await session.permit([path], caller)

    async def work(show: Callable[[str], None], token: CancelToken) -> ToolAnswer:
        notices: list[str] = []
        options = session.options([path], arguments["targets"], notices=notices)
        outcome = await analyze(options, show, token, uses_kept=True)
        list_fixes(outcome)
        if outcome.answers is not None:
            outcome.answers.save()
        session.note_runs(outcome.reports)
        return _explained(check_in_cells(outcome), named, line, code, notices)

    return await session.work.do("explain", work, arguments["wait_seconds"], caller)


def _explained_code(session: AgentSession, code: str) -> ToolAnswer:
    """What a code means whatever the program."""
    project = next(iter(session.host.folders()), Path())
    page = code_page(code, session.host.python(project), project)
    if page is not None and not page.title:
        raise RefusedCallError(
            f"the torch of this project has no graph break `{page.code}`, or it was not found. Its page, if there is "
            f"one: {page.link}"
        )
    if page is None:
        raise RefusedCallError(
            f"there is no code `{code}`. Codes are PyTorch's, as `GB0059`, and Fuselight's, as `FL201`."
        )
    text, rest = bounded_text(page.text, _LONGEST_PAGE)
    data: dict[str, Any] = {
        "code": page.code,
        "title": page.title,
        "link": page.link,
        "page": text,
        "rest": rest,
    }
    lines = [f"{page.code}: {page.title}", text, f"More: {page.link}", rest]
    return ToolAnswer("\n".join(filter(None, lines)), data)


def _explained(
    outcome: CheckOutcome, path: str, line: int | None, code: str | None, notices: list[str]
) -> ToolAnswer:
    in_file = [finding for finding in outcome.findings if _places(finding, path)]
    matches = sorted(
        (
            finding
            for finding in in_file
            if (line is None or any(_is_on(span, line) for span in _places(finding, path)))
            and (code is None or code == finding.code or code in finding.gb_ids)
        ),
        key=rank,
    )
    if not matches:
        raise RefusedCallError(_nothing_there(outcome, in_file, path))
    shown = matches[:_MAX_EXPLAINED]
    data: dict[str, Any] = {
        "findings": [_details(finding, outcome.sources) for finding in shown],
        "evidence": evidence(outcome.reports),
        "rest": f"{len(matches) - len(shown)} more: name a `line` or a `code`."
        if len(matches) > len(shown)
        else "",
        "notices": notices,
    }
    text = "\n\n".join("\n".join(_lines(row)) for row in data["findings"])
    return ToolAnswer("\n".join(filter(None, (text, data["rest"], data["evidence"]))), data)


def _places(finding: Finding, path: str) -> list[Span]:
    """Where a finding is in a file: its own place and those with the same cause."""
    spans = (finding.span, *(other.span for other in finding.also_at))
    return [span for span in spans if path in {span.path, cell_of(span.path)[0]}]


def _is_on(span: Span, line: int) -> bool:
    return span.line <= line <= span.last_line


def _nothing_there(outcome: CheckOutcome, in_file: list[Finding], path: str) -> str:
    if in_file:
        lines = format_lines(sorted({finding.span.line for finding in in_file}))
        return f"there is no such finding. `{shown_path(path)}` has findings on {lines}."
    problems = "; ".join(problem_texts(outcome.problems))
    return f"`{shown_path(path)}` has no findings{f': {problems}' if problems else ''}."


def _details(finding: Finding, sources: SourceFiles) -> dict[str, Any]:
    span = finding.span
    related = [
        {
            "path": shown_path(item.span.path),
            "line": item.span.line,
            "message": item.message,
            "source": short_line((sources.line(item.span.path, item.span.line) or "").strip()),
        }
        for item in finding.related[:_MAX_RELATED]
    ]
    return {
        **finding_data(finding, sources),
        "hints": list(finding.hints),
        "message": finding.message,
        "source": "\n".join(_excerpt(finding, sources)),
        "related": related,
        "inputs": finding.inputs,
        "torch": finding.torch,
        "link": finding.link,
        "end_line": span.last_line,
    }


def _excerpt(finding: Finding, sources: SourceFiles) -> Iterator[str]:
    """The source around a finding; its own lines have a mark."""
    first, last = finding.span.line, finding.span.last_line
    for number in range(max(first - _AROUND, 1), last + _AROUND + 1):
        line = sources.line(finding.span.path, number)
        if line is not None:
            yield f"{'>' if first <= number <= last else ' '}{number:>5} {short_line(line)}"


def _lines(row: dict[str, Any]) -> Iterator[str]:
    yield f"{row['path']}:{row['line']}:{row['column']}: {row['severity']} {row['code']}: {row['title']}"
    yield row["source"]
    yield row["message"]
    yield from (
        f"{item['path']}:{item['line']}: {item['message']}: {item['source']}" for item in row["related"]
    )
    if row["also_at"]:
        yield f"The same cause: {', '.join(row['also_at'])}"
    if row["inputs"]:
        yield f"Ran: target {row['target']}, {row['inputs']}; tier {row['tier']}, torch {row['torch']}"
    if row["has_known_rewrites"]:
        yield "`fix_candidates` knows changes for findings of this kind."
    if row["link"]:
        yield f"Page: {row['link']}"


EXPLAIN = declared_tool("explain", _explain)
