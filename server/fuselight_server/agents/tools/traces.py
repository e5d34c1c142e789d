"""`open_trace`, `compare` and `explain_cache_miss`: jobs from their logs, and what differs between two of something."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from fuselight.shared.foreign_files import project_root
from fuselight.shared.notebooks.cells import SUFFIX
from fuselight_server.agents.answers import RefusedCallError, ToolAnswer
from fuselight_server.agents.arguments import ArgumentError
from fuselight_server.agents.bounds import part_of
from fuselight_server.agents.finding_data import target_data
from fuselight_server.agents.tool import declared_tool
from fuselight_server.base.default_limits import COMPILE_LIMITS
from fuselight_server.base.finding import rank
from fuselight_server.base.formatting import format_count, format_estimate, format_time
from fuselight_server.commands.bench import kept_runs
from fuselight_server.commands.comparison import ComparedJobs, check_paths, compare_opened, only_job
from fuselight_server.commands.finding_rows import finding_data, finding_lines, problem_texts
from fuselight_server.commands.open import OpenRequest, open_jobs
from fuselight_server.commands.sources import SourceFiles, shown_path
from fuselight_server.commands.verdict_rows import verdict_lines, verify_data
from fuselight_server.commands.verify import verify
from fuselight_server.explain.benchmarks.history_diff import changes_in_words, label
from fuselight_server.explain.benchmarks.history_diff import compare as compare_runs
from fuselight_server.jobs.caches.words import CACHE_NAMES, STATE_NAMES, sentence
from fuselight_server.jobs.comparison.model import ChangeVerdict, FindingState
from fuselight_server.jobs.comparison.rows import change_rows, condition_row, summary

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from fuselight.shared.report import Location
    from fuselight_server.agents.protocol.toolbox import Caller
    from fuselight_server.agents.session import AgentSession
    from fuselight_server.base.cancellation import CancelToken
    from fuselight_server.commands.opened_job import OpenedJob
    from fuselight_server.commands.warm import WarmOutcome, WarmTarget
    from fuselight_server.jobs.caches.model import CacheResult, CacheSummary

_MAX_ROWS = 40
_MAX_LOST = 20


def _request(session: AgentSession, traces: Sequence[str], source: Sequence[str]) -> OpenRequest:
    paths = tuple(session.existing(path) for path in traces)  # fails where the server has no folder
    folders = [session.existing(path) for path in source] or [project_root(session.host.folders()[0])]
    return OpenRequest(paths=paths, source=tuple(folders))


async def _open_trace(session: AgentSession, arguments: dict[str, Any], caller: Caller) -> ToolAnswer:
    request = _request(session, arguments["traces"], arguments["source"])

    async def work(show: Callable[[str], None], token: CancelToken) -> ToolAnswer:
        jobs = await open_jobs(request, show, token)
        rows = [_job(job, arguments) for job in jobs]
        return ToolAnswer("\n".join(line for row in rows for line in _job_lines(row)), {"jobs": rows})

    return await session.work.do("open_trace", work, arguments["wait_seconds"], caller)


def _job(job: OpenedJob, arguments: dict[str, Any]) -> dict[str, Any]:
    part = part_of(sorted(job.findings, key=rank), arguments["offset"], arguments["limit"])
    seconds = sum(start.compile_seconds for start in job.starts)
    return {
        "name": job.name,
        "processes": len(job.processes),
        "compile_seconds": round(seconds, 3),
        "findings": [
            {**finding_data(finding, job.outcome.sources), "line_state": job.state_of(finding).value}
            for finding in part.items
        ],
        "total": part.total,
        "rest": part.rest,
        "targets": [target_data(report) for report in job.outcome.reports[:_MAX_ROWS]],
        "caches": _lost_rows(job.caches, _local(job))[:_MAX_LOST] if job.caches is not None else [],
        "notes": list(job.notes),
    }


def _local(job: OpenedJob) -> Callable[[Location], Location]:
    return job.files.location


def _job_lines(row: dict[str, Any]) -> Iterator[str]:
    processes = format_count(row["processes"], "process", "processes")
    compiled = format_time(row["compile_seconds"] * 1e6)
    yield f"Job {row['name']}: {processes}, {compiled} of compiles, {format_count(row['total'], 'finding')}."
    for finding in row["findings"]:
        yield from finding_lines(finding)
        if finding["line_state"] != "current":
            yield f"    the line is {finding['line_state']} compared with the job's source"
    yield from filter(None, [row["rest"]])
    yield from (_lost_line(lost) for lost in row["caches"])
    yield from (f"note: {note}" for note in row["notes"])


def _is_source(path: Path) -> bool:
    return path.suffix in {".py", SUFFIX}


# Comparison


async def _compare(session: AgentSession, arguments: dict[str, Any], caller: Caller) -> ToolAnswer:
    before, after = arguments["before"], arguments["after"]
    if arguments["path"] is not None:
        return await asyncio.to_thread(_runs, session, arguments)
    old, new = session.existing(before), session.existing(after)
    if _is_source(old) != _is_source(new):
        raise ArgumentError(
            "`before` and `after` are of two kinds: name two files of Python, or two folders with logs"
        )
    if _is_source(old):
        await session.permit([old, new], caller)
        return await _files(session, arguments, (old, new), caller)
    check_paths([new], [old])

    async def work(show: Callable[[str], None], token: CancelToken) -> ToolAnswer:
        opened = [
            only_job(await open_jobs(request, show, token), request.paths)
            for request in (_request(session, [side], arguments["source"]) for side in (after, before))
        ]
        return _compared_jobs(compare_opened(*opened))

    return await session.work.do("compare", work, arguments["wait_seconds"], caller)


async def _files(
    session: AgentSession, arguments: dict[str, Any], files: tuple[Path, Path], caller: Caller
) -> ToolAnswer:
    """Two files: the second as the new text of the first."""
    old, new = files
    text = SourceFiles(given=session.host.texts()).text_or_none(str(new))
    if text is None:
        raise RefusedCallError(f"`{shown_path(str(new))}` cannot be read")

    async def work(show: Callable[[str], None], token: CancelToken) -> ToolAnswer:
        options = session.options([old], arguments["targets"])
        data = verify_data(await verify(options, show, token, texts={str(old): text}))
        return ToolAnswer("\n".join(verdict_lines(data)), {"kind": "files", **data})

    return await session.work.do("compare", work, arguments["wait_seconds"], caller)


def _runs(session: AgentSession, arguments: dict[str, Any]) -> ToolAnswer:
    """Two kept benchmarks of a target."""
    targets = arguments["targets"]
    if len(targets) > 1:
        raise ArgumentError("`targets` names several targets: the benchmarks of a single target are compared")
    path = str(session.existing(arguments["path"]))
    names = (session.run_name(arguments[side]) for side in ("before", "after"))
    before, after = kept_runs(path, next(iter(targets), None), *names)
    difference = compare_runs(before, after)
    changes = changes_in_words(difference, after)
    data: dict[str, Any] = {
        "kind": "benchmarks",
        "before": label(before.past),
        "after": label(after.past),
        "differs": list(difference.differs),
        "changes": list(changes[:_MAX_ROWS]) or ["nothing changed by more than the spread"],
    }
    lines = [
        f"{data['after']} against {data['before']}, both measured:",
        *difference.differs,
        *data["changes"],
    ]
    return ToolAnswer("\n".join(lines), data)


def _compared_jobs(compared: ComparedJobs) -> ToolAnswer:
    comparison = compared.comparison
    new = [change.finding for change in comparison.findings_in(FindingState.NEW)]
    rows = {verdict: list(change_rows(comparison, verdict, shown_path)) for verdict in ChangeVerdict}
    data: dict[str, Any] = {
        "kind": "jobs",
        "before": compared.base.name,
        "after": compared.job.name,
        "summary": summary(comparison),
        "conditions": [condition_row(change) for change in comparison.conditions],
        "new_findings": [finding_data(finding, compared.outcome.sources) for finding in new[:_MAX_ROWS]],
        "regressions": rows[ChangeVerdict.REGRESSION][:_MAX_ROWS],
        "improvements": rows[ChangeVerdict.IMPROVEMENT][:_MAX_ROWS],
        "other_differences": rows[ChangeVerdict.CHANGE][:_MAX_ROWS],
        "rest": _cut_rows(rows),
        "notes": list(comparison.notes),
    }
    lines = [
        f"Job {data['after']} against {data['before']}: {data['summary']}",
        *data["conditions"],
        *(line for row in data["new_findings"] for line in finding_lines(row)),
        *(f"regression: {row}" for row in data["regressions"]),
        *(f"improvement: {row}" for row in data["improvements"]),
        *(f"difference: {row}" for row in data["other_differences"]),
        *(f"note: {note}" for note in data["notes"]),
        data["rest"],
    ]
    return ToolAnswer("\n".join(filter(None, lines)), data)


def _cut_rows(rows: dict[ChangeVerdict, list[str]]) -> str:
    left = sum(max(len(of_kind) - _MAX_ROWS, 0) for of_kind in rows.values())
    return f"{format_count(left, 'further difference')} not shown." if left else ""


# Caches


async def _explain_cache_miss(session: AgentSession, arguments: dict[str, Any], caller: Caller) -> ToolAnswer:
    paths = [session.existing(path) for path in arguments["paths"]]
    if not any(map(_is_source, paths)):
        request = _request(session, arguments["paths"], arguments["source"])

        async def read(show: Callable[[str], None], token: CancelToken) -> ToolAnswer:
            return _missed_in_jobs(await open_jobs(request, show, token))

        return await session.work.do("explain_cache_miss", read, arguments["wait_seconds"], caller)
    await session.permit(paths, caller)

    async def start_twice(show: Callable[[str], None], token: CancelToken) -> ToolAnswer:
        from fuselight_server.commands.warm import warm  # noqa: PLC0415 - with LibCST

        options = session.options(paths, arguments["targets"], limits=COMPILE_LIMITS, has_new_worker=True)
        return _missed_in_starts(await warm(options, show, token, times_imports=False))

    return await session.work.do("explain_cache_miss", start_twice, arguments["wait_seconds"], caller)


def _missed_in_jobs(jobs: Sequence[OpenedJob]) -> ToolAnswer:
    rows = [_summary_row(job.name, "", job.caches, _local(job)) for job in jobs]
    return _missed(rows, [])


def _missed_in_starts(outcome: WarmOutcome) -> ToolAnswer:
    rows = [_start_row(target) for target in outcome.targets]
    return _missed(rows, problem_texts(outcome.check.problems))


def _start_row(target: WarmTarget) -> dict[str, Any]:
    row = _summary_row(
        target.report.target.name or "__main__", target.state.value, target.second, lambda place: place
    )
    row["tried"] = [f"{cure.setting} = {cure.value}: {cure.state.value}" for cure in target.tried]
    row["failures"] = [failure.message for failure in target.report.failures]
    return row


def _summary_row(
    name: str, state: str, caches: CacheSummary | None, locate: Callable[[Location], Location]
) -> dict[str, Any]:
    lost = _lost_rows(caches, locate) if caches is not None else []
    return {
        "name": name,
        "state": state,
        "missed": lost[:_MAX_LOST],
        "rest": f"{len(lost) - _MAX_LOST} more" if len(lost) > _MAX_LOST else "",
        "totals": [
            f"{CACHE_NAMES[total.cache]}{' (remote)' if total.is_remote else ''}: "
            f"{format_count(total.hits, 'hit')}, {format_count(total.misses, 'miss', 'misses')}, "
            f"{format_count(total.bypasses, 'bypass', 'bypasses')}"
            for total in (caches.totals if caches is not None else ())
        ],
        "compared_with": caches.compared_with if caches is not None else None,
        "notes": list(caches.notes) if caches is not None else [],
    }


def _lost_rows(caches: CacheSummary | None, locate: Callable[[Location], Location]) -> list[dict[str, Any]]:
    return [_lost(row, locate) for row in caches.lost] if caches is not None else []


def _lost(row: CacheResult, locate: Callable[[Location], Location]) -> dict[str, Any]:
    place = locate(row.location) if row.location is not None else None
    return {
        "cache": CACHE_NAMES[row.cache],
        "state": STATE_NAMES[row.state],
        "function": row.function or "",
        "line": f"{shown_path(place.path)}:{place.line}" if place is not None else "",
        "lost": format_estimate(row.lost_seconds * 1e6) if row.lost_seconds else "",
        "causes": [sentence(cause.text) for cause in row.causes],
        "to_do": [cause.cure.text for cause in row.causes if cause.cure is not None],
        "changes": [change.text for cause in row.causes for change in cause.changes],
    }


def _missed(rows: list[dict[str, Any]], problems: list[str]) -> ToolAnswer:
    data: dict[str, Any] = {"starts": rows, "problems": problems}
    lines = [line for row in rows for line in _missed_lines(row)]
    return ToolAnswer("\n".join([*lines, *problems]) or "Nothing was compiled.", data)


STATES = {
    "warm": "the second start read everything from the caches",
    "compiled_again": "the second start compiled again",
    "nothing_compiled": "nothing was compiled",
    "failed": "it could not be started",
    "": "caches of the job",
}
"""By the value of a `WarmState`; empty for a job."""


def _missed_lines(row: dict[str, Any]) -> Iterator[str]:
    yield f"{row['name']}: {STATES[row['state']]}"
    yield from (f"  {total}" for total in row["totals"])
    for lost in row["missed"]:
        yield f"  {_lost_line(lost)}"
    yield from (f"  tried: {text}" for text in row.get("tried", ()))
    yield from (f"  failed: {text}" for text in row.get("failures", ()))
    yield from filter(None, [row["rest"]])
    yield from (f"  note: {note}" for note in row["notes"])


def _lost_line(lost: dict[str, Any]) -> str:
    where = " ".join(filter(None, [lost["line"], lost["function"]])) or "no source line"
    cost = f" ({lost['lost']})" if lost["lost"] else ""
    return " ".join(
        [
            f"{where}: {lost['cache']} {lost['state']}{cost}.",
            *lost["causes"],
            *(f"To do: {text}" for text in lost["to_do"]),
        ]
    )


OPEN_TRACE = declared_tool("open_trace", _open_trace)
COMPARE = declared_tool("compare", _compare)
EXPLAIN_CACHE_MISS = declared_tool("explain_cache_miss", _explain_cache_miss)
