"""`fix_candidates` and `verify_patch`: changes that are compiled and compared before anybody writes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fuselight_server.agents.answers import RefusedCallError, ToolAnswer
from fuselight_server.agents.arguments import ArgumentError
from fuselight_server.agents.bounds import LONGEST_TEXT, bounded_text
from fuselight_server.agents.tool import declared_tool
from fuselight_server.base.formatting import format_count
from fuselight_server.base.unified_diff import DiffError, apply_diff
from fuselight_server.commands.changed_texts import file_texts, named_text
from fuselight_server.commands.finding_rows import problem_texts
from fuselight_server.commands.notebook_cells import fix_in_cells
from fuselight_server.commands.notebook_lines import cell_of, path_of_cell
from fuselight_server.commands.sources import SourceFiles, shown_path
from fuselight_server.commands.verdict_rows import verdict_lines, verify_data
from fuselight_server.commands.verify import AllowedChange, verify

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fuselight_server.agents.protocol.toolbox import Caller
    from fuselight_server.agents.session import AgentSession
    from fuselight_server.base.cancellation import CancelToken
    from fuselight_server.base.finding import Finding
    from fuselight_server.commands.fix import Attempt, FixOutcome
    from fuselight_server.commands.separate_fixes import SeparateFix

_MAX_FIXES = 40
_MAX_REFUSALS = 20


async def _fix_candidates(session: AgentSession, arguments: dict[str, Any], caller: Caller) -> ToolAnswer:
    paths = [session.existing(path) for path in arguments["paths"]]
    await session.permit(paths, caller)

    async def work(show: Callable[[str], None], token: CancelToken) -> ToolAnswer:
        from fuselight_server.commands.fix import fix  # noqa: PLC0415 - LibCST is half of the server's start

        notices: list[str] = []
        outcome = await fix(
            session.options(paths, arguments["targets"], notices=notices),
            show,
            token,
            codes=arguments["codes"],
            changes_behavior=arguments["allow_behavior_changes"],
        )
        session.note_runs(outcome.checked.reports)
        return _candidates(session, fix_in_cells(outcome), [*notices, *outcome.unmatched(arguments["codes"])])

    return await session.work.do("fix_candidates", work, arguments["wait_seconds"], caller)


def _candidates(session: AgentSession, outcome: FixOutcome, notices: list[str]) -> ToolAnswer:
    diff, rest = bounded_text(outcome.diff_named(lambda path: _name(session, path)))
    passed = outcome.separate(lambda path: _name(session, path))
    numbers = {id(fix.attempt): number for number, fix in enumerate(passed, 1)}
    rows = [_fix(attempt) for attempt in outcome.attempts[:_MAX_FIXES]]
    left = LONGEST_TEXT
    for attempt, row in zip(outcome.attempts, rows, strict=False):
        if id(attempt) in numbers:
            row.update(_own_diff(passed[numbers[id(attempt)] - 1], numbers[id(attempt)], left))
            left -= len(row["diff"])
    refusals = list(dict.fromkeys(refusal.words for refusal in outcome.refusals))
    data: dict[str, Any] = {
        "fixes": rows,
        "verified": sum(attempt.has_passed for attempt in outcome.attempts),
        "diff": diff,
        "rest": rest,
        "not_offered": refusals[:_MAX_REFUSALS],
        "remedies": [_remedies(finding) for finding in outcome.findings[:_MAX_FIXES]],
        "without_known_fix": outcome.unsolved,
        "findings": len(outcome.checked.findings),
        "problems": problem_texts(outcome.checked.problems),
        "notices": notices,
    }
    return ToolAnswer("\n".join(_candidate_lines(data)), data)


def _remedies(finding: Finding) -> dict[str, Any]:
    return {
        "path": shown_path(finding.span.path),
        "line": finding.span.line,
        "code": finding.code,
        "remedies": [remedy.as_data() for remedy in finding.remedies],
    }


def _fix(attempt: Attempt) -> dict[str, Any]:
    return {
        "path": shown_path(attempt.finding.span.path),
        "line": attempt.line,
        "code": attempt.finding.code,
        "title": attempt.remedy.title,
        "class": attempt.fix_class.value,
        "status": "verified" if attempt.has_passed else attempt.status.value,
        "why": attempt.why,
        "effect": attempt.effect,
        "next": [
            {
                "path": shown_path(finding.span.path),
                "line": finding.span.line,
                "code": finding.code,
                "title": finding.title,
            }
            for finding in attempt.next
        ],
        "compared": list(attempt.comparison.tried[:_MAX_FIXES]),
        "notes": list(attempt.notes),
    }


def _own_diff(fix: SeparateFix, number: int, left: int) -> dict[str, Any]:
    """The diff of one fix; `left`: how long it may be."""
    is_shown = len(fix.diff) <= left
    missing = (
        "it is in the diff of a notebook's fixes"
        if not fix.diff
        else "it is too long: name `codes` to get it"
    )
    return {
        "number": number,
        "diff": fix.diff if is_shown else "",
        "needs": [need + 1 for need in fix.needs],
        "diff_missing": "" if is_shown and fix.diff else missing,
    }


def _candidate_lines(data: dict[str, Any]) -> Iterator[str]:
    if not data["findings"] and not data["problems"]:
        yield "The targets have no findings: there is nothing to fix."
        return
    yield f"{format_count(data['verified'], 'verified fix', 'verified fixes')}. Nothing was written."
    for row in data["fixes"]:
        effect = f"{row['effect']}, " if row["effect"] else ""
        number = f"[{row['number']}] " if "number" in row else ""
        place = f"{number}{row['path']}:{row['line']}"
        yield f"{place}: {row['code']}: {row['title']}: {row['status']}: {effect}{row['why']}"
        for uncovered in row["next"]:
            yield f"  next: {uncovered['path']}:{uncovered['line']}: {uncovered['code']}: {uncovered['title']}"
    yield from (
        f"note: {note}" for note in dict.fromkeys(note for row in data["fixes"] for note in row["notes"])
    )
    yield from (f"not offered: {text}" for text in data["not_offered"])
    if data["without_known_fix"]:
        count = format_count(data["without_known_fix"], "finding")
        yield f"{count} without a known fix: write a change, and verify it with `verify_patch`."
    yield from (f"not determined: {problem}" for problem in data["problems"])
    yield from data["notices"]
    yield from _own_diff_lines([row for row in data["fixes"] if "number" in row])
    if data["diff"]:
        yield f"The verified fixes together:\n{data['diff']}{data['rest']}"


def _own_diff_lines(rows: list[dict[str, Any]]) -> Iterator[str]:
    """The diffs of several fixes: of a single fix, the diff of all is its own."""
    if len(rows) < 2:  # noqa: PLR2004 - several
        return
    yield "Each fix was compared on top of those before it: verify those that you choose with `verify_patch`."
    for row in rows:
        needs = ", ".join(f"[{number}]" for number in row["needs"])
        after = f"after {needs}" if needs else "alone"
        yield f"[{row['number']}] applies {after}:\n{row['diff']}{row['diff_missing']}"


async def _verify_patch(session: AgentSession, arguments: dict[str, Any], caller: Caller) -> ToolAnswer:
    texts = _new_texts(session, arguments)
    paths = [session.existing(path) for path in arguments["run_paths"]] or [
        session.path(path) for path in texts
    ]
    await session.permit([*paths, *(session.path(path) for path in texts)], caller)

    async def work(show: Callable[[str], None], token: CancelToken) -> ToolAnswer:
        notices: list[str] = []
        outcome = await verify(
            session.options(paths, arguments["targets"], notices=notices),
            show,
            token,
            texts=texts,
            allowed=frozenset(map(AllowedChange, arguments["allow"])),
            case_seconds=arguments["case_seconds"],
            inductor=arguments["inductor"],
        )
        data = {**verify_data(outcome), "notices": notices}
        runners = session.runners(texts) if outcome.has_compared_nothing else []
        if runners:
            named = ", ".join(f"`{_name(session, path)}`" for path in runners)
            data["why"] += f". An earlier check of {named} ran it: name that in `run_paths`"
        end = "Apply it, then `check`." if data["passed"] else "Nothing was written."
        return ToolAnswer("\n".join([*verdict_lines(data), end]), data)

    return await session.work.do("verify_patch", work, arguments["wait_seconds"], caller)


def _new_texts(session: AgentSession, arguments: dict[str, Any]) -> dict[str, str]:
    """The changed texts by absolute path. Raises ArgumentError and RefusedCallError."""
    diff, path, text = arguments["diff"], arguments["path"], arguments["new_text"]
    if (diff is None) == (text is None) or (text is not None) != (path is not None):
        raise ArgumentError("give either a `diff`, or a `path` with its whole `new_text`")
    sources = SourceFiles(given=session.host.texts())
    if diff is None:
        session.existing(cell_of(path)[0])
        return file_texts({_named_path(session, path): text}, sources)

    def read(name: str) -> str | None:
        return named_text(_named_path(session, name), sources)

    try:
        changed = {_named_path(session, name): new for name, new in apply_diff(diff, read).items()}
    except DiffError as error:
        raise RefusedCallError(f"{error}. Nothing was verified.") from None
    return file_texts(changed, sources)


def _named_path(session: AgentSession, name: str) -> str:
    """The absolute path of a file, or of a cell. Raises ArgumentError."""
    file, cell = cell_of(name)
    path = str(session.path(file))
    return path if cell is None else path_of_cell(path, cell)


def _name(session: AgentSession, path: str) -> str:
    """The name in a diff of a file, or of a cell, as `_named_path` reads it."""
    file, cell = cell_of(path)
    return session.name(file) if cell is None else path_of_cell(session.name(file), cell)


FIX_CANDIDATES = declared_tool("fix_candidates", _fix_candidates)
VERIFY_PATCH = declared_tool(
    "verify_patch", _verify_patch, allow={"choices": tuple(change.value for change in AllowedChange)}
)
