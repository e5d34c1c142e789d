"""`benchmark` and `tune`: times that are measured on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from fuselight.shared.configurations import ConfigurationError
from fuselight.shared.measurement_plans import MeasurePlan, TunePlan
from fuselight.shared.report import Numerics, Work
from fuselight_server.agents.answers import ToolAnswer
from fuselight_server.agents.arguments import ArgumentError
from fuselight_server.agents.tool import declared_tool
from fuselight_server.base.default_limits import COMPILE_LIMITS
from fuselight_server.base.formatting import format_ratio, format_size, format_spread, format_time
from fuselight_server.commands.bench import measure
from fuselight_server.commands.finding_rows import finding_data, problem_texts
from fuselight_server.commands.sources import shown_path
from fuselight_server.explain.benchmarks.history_diff import changes_in_words, compare, label
from fuselight_server.explain.benchmarks.page import View
from fuselight_server.explain.benchmarks.page import page as measured_page
from fuselight_server.explain.benchmarks.planning import configurations
from fuselight_server.explain.searches.page import Surroundings
from fuselight_server.explain.searches.page import page as tuned_page
from fuselight_server.explain.searches.planning import candidates

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from fuselight_server.agents.protocol.toolbox import Caller
    from fuselight_server.agents.session import AgentSession
    from fuselight_server.base.cancellation import CancelToken
    from fuselight_server.commands.options import CommandOptions
    from fuselight_server.commands.outcome import CheckOutcome, TargetBenchmark
    from fuselight_server.commands.tune import TargetSearch, TuningOutcome
    from fuselight_server.explain.benchmarks.page_types import ConfigurationRow, MeasuredPage
    from fuselight_server.explain.searches.page_types import CandidateRow

_MAX_LINES = 15
_MAX_CHANGES = 15
_MAX_CANDIDATES = 30
_WORKS = {work.value: work for work in Work}


async def _benchmark(session: AgentSession, arguments: dict[str, Any], caller: Caller) -> ToolAnswer:
    paths = [session.existing(path) for path in arguments["paths"]]
    names = _names(arguments["configurations"], lambda named: configurations(named, compiled=False))
    against = session.run_name(arguments["against"]) if arguments["against"] is not None else None
    await session.permit(paths, caller)
    work_of_call = _WORKS.get(arguments["work"])
    plan = MeasurePlan(
        work=work_of_call,
        seconds=arguments["seconds"],
        device=_timed_device(arguments["device"]),
        estimates_memory=True,
    )

    async def work(show: Callable[[str], None], token: CancelToken) -> ToolAnswer:
        notices: list[str] = []
        options = _options(session, paths, arguments["targets"], notices)
        outcome, benchmarks = await measure(options, show, token, plan=plan, compare=names, against=against)
        return _measured(outcome, benchmarks, notices)

    return await session.work.do("benchmark", work, arguments["wait_seconds"], caller)


def _options(
    session: AgentSession, paths: Sequence[Path], targets: tuple[str, ...], notices: list[str]
) -> CommandOptions:
    """How targets are timed: in a process of their own, for as long as compiling may take."""
    return session.options(paths, targets, notices=notices, limits=COMPILE_LIMITS, has_new_worker=True)


def _names(given: Sequence[str], check: Callable[[tuple[str, ...]], object]) -> tuple[str, ...]:
    try:
        check(tuple(given))
    except ConfigurationError as error:
        raise ArgumentError(str(error)) from None
    return tuple(given)


def _timed_device(name: str) -> str:
    kind, _, number = name.partition(":")
    if kind not in {"", "cpu", "cuda"} or (number and not number.isdecimal()):
        raise ArgumentError(
            f"`device` is `{name}`: time on `cpu`, `cuda` or `cuda:1`; `kernels` estimates other GPUs"
        )
    return name


def _measured(outcome: CheckOutcome, benchmarks: Sequence[TargetBenchmark], notices: list[str]) -> ToolAnswer:
    rows = [_benchmark_data(benchmark, outcome) for benchmark in benchmarks]
    data: dict[str, Any] = {"targets": rows, "problems": problem_texts(outcome.problems), "notices": notices}
    lines = [line for row in rows for line in _benchmark_lines(row)]
    return ToolAnswer("\n".join([*lines, *data["problems"], *notices]) or "Nothing was measured.", data)


def _benchmark_data(benchmark: TargetBenchmark, outcome: CheckOutcome) -> dict[str, Any]:
    report = benchmark.report
    view = View(uri_of=lambda path: Path(path).as_uri(), read_line=outcome.sources.line, shown=shown_path)
    page = measured_page(report, view)
    comparison: dict[str, Any] = {}
    if benchmark.before is not None and benchmark.run is not None:
        difference = compare(benchmark.before, benchmark.run)
        changes = changes_in_words(difference, benchmark.run)
        comparison = {
            "with": label(benchmark.before.past),
            "differs": list(difference.differs),
            "changes": list(changes[:_MAX_CHANGES]) or ["nothing changed by more than the spread"],
        }
    return {
        "target": report.target.name or "__main__",
        "path": shown_path(report.target.path),
        "run": benchmark.run.past.id if benchmark.run is not None else "",
        "work": page.work,
        "inputs": list(page.inputs),
        "verdict": [line.text for line in page.verdict],
        "configurations": [_configuration(row) for row in page.configurations],
        "lines": _line_times(page),
        "findings": [finding_data(finding, outcome.sources) for finding in outcome.of_measured(report)],
        "comparison": comparison,
        "machine": {fact.name: fact.value for fact in page.machine},
        "notes": list(page.notes),
        "failures": [failure.message for failure in report.failures],
        "torch": report.versions.torch or "",
    }


def _configuration(row: ConfigurationRow) -> dict[str, Any]:
    accuracy = row.accuracy
    return {
        "name": row.name,
        "time": _time(row.us, row.spread),
        "is_unsteady": row.unsteady,
        "speedup": round(row.speedup, 3) if row.speedup is not None else None,
        "accuracy": "not compared" if accuracy is None or accuracy.passed is None else accuracy.text,
        "is_accurate": None if accuracy is None else accuracy.passed,
        "peak_memory": format_size(row.peak_bytes) if row.peak_bytes is not None else "",
        "memory": row.memory.text if row.memory is not None else "",
        "first_call": format_time(row.first_us) if row.first_us is not None else "",
        "graph_breaks": row.graph_breaks,
        "recompilations": row.recompiles,
        "failure": row.failure or "",
    }


def _time(us: float | None, spread: float | None) -> str:
    if us is None:
        return ""
    return f"{format_time(us)} {format_spread(spread)}" if spread is not None else format_time(us)


def _line_times(page: MeasuredPage) -> list[dict[str, Any]]:
    """The measured time of each line, of the last configuration that has a profile."""
    profiles = [(name, profile) for name, profile in page.profiles.items() if profile.lines]
    if not profiles:
        return []
    name, profile = profiles[-1]
    return [
        {
            "line": f"{row.place.path}:{row.place.line + 1}",
            "time": format_time(row.us),
            "share": round(row.share, 3),
            "source": row.place.text.strip(),
            "configuration": name,
        }
        for row in profile.lines[:_MAX_LINES]
    ]


def _benchmark_lines(row: dict[str, Any]) -> Iterator[str]:
    yield f"{row['target']} ({row['path']}): {row['work']}, measured on this machine; run {row['run'] or 'not kept'}"
    yield from (f"  failed: {text}" for text in row["failures"])
    yield from (f"  {text}" for text in row["verdict"])
    for configuration in row["configurations"]:
        unsteady = " (unsteady: it varies too much to rely on)" if configuration["is_unsteady"] else ""
        speedup = (
            f", {format_ratio(configuration['speedup'])}" if configuration["speedup"] is not None else ""
        )
        result = configuration["failure"] or f"{configuration['time'] or 'not measured'}{unsteady}{speedup}"
        yield f"  {configuration['name']}: {result}; accuracy: {configuration['accuracy']}"
    yield from (f"  {line['line']}: {line['time']}: {line['source']}" for line in row["lines"])
    if row["comparison"]:
        yield f"  against {row['comparison']['with']}: {'; '.join(row['comparison']['changes'])}"
    yield from (f"  note: {note}" for note in row["notes"])


async def _tune(session: AgentSession, arguments: dict[str, Any], caller: Caller) -> ToolAnswer:
    paths = [session.existing(path) for path in arguments["paths"]]
    names = _names(arguments["try_configurations"], candidates)
    await session.permit(paths, caller)
    from fuselight_server.commands.tune import check_output, find_fastest  # noqa: PLC0415 - with LibCST

    check_output(paths, None)
    plan = TunePlan(
        work=_WORKS.get(arguments["work"]),
        device=_timed_device(arguments["device"]),
        budget_seconds=arguments["budget_seconds"],
        numerics=Numerics(arguments["numerics"]),
        candidates=names,
        estimates_memory=True,
    )

    async def work(show: Callable[[str], None], token: CancelToken) -> ToolAnswer:
        notices: list[str] = []
        options = _options(session, paths, arguments["targets"], notices)
        outcome = await find_fastest(options, show, token, plan=plan, has_fixes=arguments["tries_fixes"])
        return _tuned(outcome, notices)

    return await session.work.do("tune", work, arguments["wait_seconds"], caller)


def _tuned(outcome: TuningOutcome, notices: list[str]) -> ToolAnswer:
    rows = [_search_data(search) for search in outcome.searches]
    data: dict[str, Any] = {
        "targets": rows,
        "is_stopped": outcome.is_stopped,
        "problems": problem_texts(outcome.checked.problems),
        "notices": notices,
    }
    lines = [line for row in rows for line in _search_lines(row)]
    has_any = any(row["candidates"] for row in rows)
    what = "what it has is the best so far, not confirmed" if has_any else "it had measured nothing"
    stopped = [f"The search was canceled: {what}."] if outcome.is_stopped else []
    return ToolAnswer("\n".join([*lines, *stopped, *data["problems"]]) or "Nothing was searched.", data)


def _search_data(search: TargetSearch) -> dict[str, Any]:
    report, written = search.report, search.written
    page = tuned_page(report, Surroundings(), uri_of=lambda path: Path(path).as_uri(), shown=shown_path)
    result = page.result
    return {
        "target": report.target.name or "__main__",
        "path": shown_path(report.target.path),
        "work": page.work,
        "inputs": list(page.inputs),
        "statements": list(page.statements),
        "configuration": result.configuration if result is not None else "",
        "gain_over_default": round(result.gain, 3) if result is not None else None,
        "gain_interval": [result.gain_low, result.gain_high] if result is not None else [],
        "code": result.code if result is not None else "",
        "replay": result.replay if result is not None else "",
        "fixes_it_needs": list(result.fixes) if result is not None else [],
        "file": shown_path(written.path) if written is not None and not written.problem else "",
        "file_problem": written.problem if written is not None else "",
        "candidates": [_candidate(row) for row in page.candidates[:_MAX_CANDIDATES]],
        "notes": list(page.notes),
        "machine": {fact.name: fact.value for fact in page.machine},
        "failures": [failure.message for failure in report.failures],
    }


def _candidate(row: CandidateRow) -> dict[str, Any]:
    return {
        "name": row.name,
        "outcome": row.outcome_words,
        "time": _time(row.us, row.spread),
        "gain": round(row.gain, 3) if row.gain is not None else None,
        "why": row.why,
    }


def _search_lines(row: dict[str, Any]) -> Iterator[str]:
    yield f"{row['target']} ({row['path']}): {row['work']}, measured on this machine"
    yield from (f"  failed: {text}" for text in row["failures"])
    yield from (f"  {text}" for text in row["statements"])
    if row["file"]:
        yield f"  written to {row['file']}; replay it with `{row['replay']}`"
    yield from filter(None, [row["file_problem"]])
    for candidate in row["candidates"]:
        gain = f", {format_ratio(candidate['gain'])} of default" if candidate["gain"] is not None else ""
        yield f"  {candidate['name']}: {candidate['outcome']} {candidate['time']}{gain} {candidate['why']}".rstrip()
    yield from (f"  note: {note}" for note in row["notes"])


BENCHMARK = declared_tool("benchmark", _benchmark, work={"choices": tuple(_WORKS)})
TUNE = declared_tool(
    "tune",
    _tune,
    work={"choices": tuple(_WORKS)},
    numerics={"default": Numerics.EXACT.value, "choices": tuple(numerics.value for numerics in Numerics)},
)
