"""Which compiles a second start of the targets does again: two processes that share only a fresh cache folder.

Invariant: both starts run the program as it is, without a setting that changes a cache key. The folder and the logs are
removed afterwards; what they said is in the outcome.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Protocol

from fuselight.shared.owned_folders import owned_folder
from fuselight.shared.protocol import LoggedStartRequest, RunRequest
from fuselight.shared.report import Imports, Report, Rung
from fuselight_server.base.cancellation import CancelToken
from fuselight_server.base.finding import Finding, by_place
from fuselight_server.commands.check import NO_THRESHOLDS, ReportOf, analyze, report_as_is
from fuselight_server.commands.findings import without_ignored
from fuselight_server.commands.options import CommandOptions
from fuselight_server.commands.outcome import CheckOutcome
from fuselight_server.commands.targets import TargetRun, report_each
from fuselight_server.explain.findings import Thresholds
from fuselight_server.fixes.verification.cure_trials import SHARE
from fuselight_server.jobs.caches.bypasses import ReadLine
from fuselight_server.jobs.caches.findings import cache_findings
from fuselight_server.jobs.caches.model import CacheResult, CacheSummary, StartPicture
from fuselight_server.jobs.caches.starts import start_pictures
from fuselight_server.jobs.caches.summary import summarize
from fuselight_server.jobs.trace_log.files import LogError
from fuselight_server.jobs.trace_log.model import LoggedJob
from fuselight_server.jobs.trace_log.reader import read_jobs
from fuselight_server.source.reading import Reading

STARTS = ("first start", "second start")


class StartedTarget(Protocol):
    """A target, and the worker that starts it (fixer.FixTarget)."""

    @property
    def request(self) -> RunRequest:
        """The run of its text as it is."""
        ...

    @property
    def show(self) -> Callable[[str], None]:
        """Shows progress."""
        ...

    async def run_report(self, request: RunRequest) -> Report:
        """The report of a run, also of one that failed."""
        ...

    def with_show(self, show: Callable[[str], None]) -> StartedTarget:
        """The same target, with progress that is shown in another way."""
        ...


class WarmState(Enum):
    """What the second start of a target did."""

    WARM = "warm"
    COMPILED_AGAIN = "compiled_again"
    NOTHING_COMPILED = "nothing_compiled"
    FAILED = "failed"


@dataclass(frozen=True)
class TriedCure:
    """Two more starts with a setting that may be the cure."""

    setting: str
    value: bool
    state: WarmState
    lost_seconds: float
    """Estimate, of the second of them."""


@dataclass(frozen=True)
class WarmTarget:
    """Both starts of one target."""

    report: Report
    """Of the second start, or of the first one if that failed."""
    state: WarmState
    first: CacheSummary | None
    second: CacheSummary | None
    """Its misses are compared with the first start."""
    start: StartPicture | None
    restart: StartPicture | None
    findings: tuple[Finding, ...] = ()
    tried: tuple[TriedCure, ...] = ()
    imports: Imports | None = None
    """Of its file, timed in a process of their own: part of both starts."""

    @property
    def program(self) -> str:
        """The file whose whole program the starts ran, for this target and for every other one of it; else empty."""
        inputs = self.report.inputs
        is_program = inputs is not None and inputs.rung in {Rung.MAIN, Rung.SCRIPT}
        return self.report.target.path if is_program and self.second is not None else ""

    @property
    def lost(self) -> tuple[CacheResult, ...]:
        """What the second start did again, the most expensive first."""
        return self.second.lost if self.second is not None else ()

    @property
    def lost_seconds(self) -> float:
        """Estimate."""
        return sum(row.lost_seconds or 0.0 for row in self.lost)


@dataclass
class WarmOutcome:
    """The targets, and what the command could not do."""

    check: CheckOutcome
    targets: list[WarmTarget] = field(default_factory=list)

    @property
    def findings(self) -> list[Finding]:
        """Those of all targets, by place, each once: targets of one program have the same."""
        rows = dict.fromkeys(finding for target in self.targets for finding in target.findings)
        return sorted(rows, key=by_place)

    @property
    def exit_code(self) -> int:
        """0: every second start was warm; 1: something was compiled again; 2: a target could not be started twice."""
        if (
            self.check.problems
            or not self.targets
            or any(target.state is WarmState.FAILED for target in self.targets)
        ):
            return 2
        return int(any(target.state is WarmState.COMPILED_AGAIN for target in self.targets))


async def warm(
    options: CommandOptions,
    show: Callable[[str], None],
    token: CancelToken,
    *,
    times_imports: bool = True,
) -> WarmOutcome:
    """Start each target twice. Raises asyncio.CancelledError once the token is canceled.

    `times_imports`: whether to time the imports of each file, too, in a process of their own.
    """
    targets: list[WarmTarget] = []
    imports = _TimedImports(is_on=times_imports)

    async def start_twice(target_run: TargetRun, outcome: CheckOutcome) -> Report:
        targets.append(await warm_target(target_run, outcome, imports))
        return targets[-1].report

    return WarmOutcome(await report_each(options, show, token, start_twice), targets)


async def check_warm(
    options: CommandOptions,
    show: Callable[[str], None],
    token: CancelToken,
    *,
    thresholds: Thresholds = NO_THRESHOLDS,
    default_sizes: dict[str, int] | None = None,
    times_imports: bool = True,
    tries: float | None = SHARE,
    report_of: ReportOf = report_as_is,
) -> WarmOutcome:
    """Check each target, and start it twice where it runs. The findings of both are in the outcome's check.

    `times_imports`: as in `warm`; `tries` and `report_of`: as in `analyze`. Raises
    asyncio.CancelledError once the token is canceled.
    """
    targets: list[WarmTarget] = []
    imports = _TimedImports(is_on=times_imports)

    async def check_and_start(target_run: TargetRun, outcome: CheckOutcome) -> Report:
        report = await report_of(target_run, outcome)
        if not report.failures:
            targets.append(await warm_target(target_run, outcome, imports))
        return report

    outcome = WarmOutcome(
        await analyze(
            options,
            show,
            token,
            thresholds=thresholds,
            default_sizes=default_sizes,
            report_of=check_and_start,
            tries=tries,
        ),
        targets,
    )
    rows = [*outcome.check.findings, *outcome.findings]
    outcome.check.findings = sorted(rows, key=by_place)
    return outcome


@dataclass
class _TimedImports:
    """The imports of each file that was started, timed once."""

    is_on: bool
    by_path: dict[str, Imports] = field(default_factory=dict)


async def warm_target(target_run: TargetRun, outcome: CheckOutcome, imports: _TimedImports) -> WarmTarget:
    """Start one target twice; twice more with each setting that may cure what the second start compiled again."""
    path = target_run.request.target.path
    target = await start_twice(
        target_run,
        target_run.token,
        target_run.request,
        outcome.sources.line,
        outcome.readings,
        imports=imports.by_path.get(path),
        times_imports=imports.is_on and path not in imports.by_path,
    )
    if target.imports is not None:
        imports.by_path[path] = target.imports
    tried = []
    for setting, value in _settings_to_try(target).items():
        again = await start_twice(
            target_run,
            target_run.token,
            target_run.request,
            outcome.sources.line,
            outcome.readings,
            settings={setting: value},
        )
        is_unknown = any(problem.stage == "settings" for problem in again.report.problems)
        state = WarmState.FAILED if is_unknown else again.state
        tried.append(TriedCure(setting, value, state, again.lost_seconds))
    return dataclasses.replace(target, tried=tuple(tried))


def _settings_to_try(target: WarmTarget) -> dict[str, bool]:
    cures = [cause.cure for row in target.lost for cause in row.causes]
    return {
        cure.setting: cure.value
        for cure in cures
        if cure is not None and cure.setting is not None and cure.value is not None
    }


async def start_twice(
    target: StartedTarget,
    token: CancelToken,
    request: RunRequest,
    read_line: ReadLine,
    readings: Mapping[str, Reading],
    *,
    settings: Mapping[str, bool] | None = None,
    imports: Imports | None = None,
    times_imports: bool = False,
) -> WarmTarget:
    """Start one target with an empty cache, then with what the first start left in it. `request`: the run of its text.

    `imports`: those of its file, if they were timed; `times_imports`: whether the first start has them timed.

    `read_line`: a line of the source that runs. `readings`: the files whose ignore comments count.
    """
    with owned_folder("warm") as folder:
        logs = [Path(folder) / name.replace(" ", "_") for name in STARTS]
        reports = []
        for name, log in zip(STARTS, logs, strict=True):
            log.mkdir()
            asked = request.of_kind(
                LoggedStartRequest,
                log=str(log),
                cache=str(Path(folder) / "caches"),
                settings=dict(settings or {}),
                times_imports=times_imports and name == STARTS[0],
            )
            reports.append(await token.run(_start(target, asked, name)))
            if reports[-1].failures:
                return WarmTarget(reports[-1], WarmState.FAILED, None, None, None, None)
        return compare_starts(reports[-1], logs, read_line, readings, imports=imports)


def compare_starts(
    report: Report,
    logs: Sequence[Path],
    read_line: ReadLine,
    readings: Mapping[str, Reading],
    *,
    imports: Imports | None = None,
) -> WarmTarget:
    """Compare what the two starts of a target have logged, each in a folder. `imports`: those of its file, if known."""
    jobs = [_job(log, name) for name, log in zip(STARTS, logs, strict=True)]
    return _compared(report, jobs, read_line, readings, imports)


async def _start(target: StartedTarget, asked: LoggedStartRequest, name: str) -> Report:
    what = "".join(f"{setting.rpartition('.')[2]}: " for setting in asked.settings)
    return await target.with_show(lambda text: target.show(f"{what}{name}: {text}")).run_report(asked)


def _job(log: Path, name: str) -> LoggedJob | None:
    """What a start logged; None if it compiled nothing: torch then writes no log."""
    try:
        jobs = read_jobs([str(log)])
    except LogError:
        return None
    return dataclasses.replace(jobs[0], name=f"the {name}") if jobs else None


def _compared(
    report: Report,
    jobs: list[LoggedJob | None],
    read_line: ReadLine,
    readings: Mapping[str, Reading],
    imports: Imports | None,
) -> WarmTarget:
    first, second = jobs
    if first is None or second is None:
        return WarmTarget(report, WarmState.NOTHING_COMPILED, None, None, None, None)
    timed = [process.imports for process in first.processes if process.imports is not None]
    imports = next((each for each in timed if each.is_separate), imports)
    summary = summarize(second, first, read_line=read_line)
    findings = cache_findings(
        summary, inputs="second start of a program with a shared cache", torch=report.versions.torch or ""
    )
    return WarmTarget(
        report=report,
        state=_state(second, summary),
        first=summarize(first, read_line=read_line),
        second=summary,
        start=_longest_start(first, read_line, imports),
        restart=_longest_start(second, read_line, imports),
        findings=without_ignored(tuple(findings), readings),
        imports=imports,
    )


def _longest_start(job: LoggedJob, read_line: ReadLine, imports: Imports | None) -> StartPicture | None:
    """The start of the process that compiled longest."""
    pictures = start_pictures(job, imports, read_line=read_line)
    return max(pictures, key=lambda picture: picture.compile_seconds, default=None)


def _state(second: LoggedJob, summary: CacheSummary) -> WarmState:
    if summary.lost:
        return WarmState.COMPILED_AGAIN
    if summary.results:
        return WarmState.WARM
    has_graphs = any(compiled.graphs for process in second.processes for compiled in process.compiles)
    return WarmState.COMPILED_AGAIN if has_graphs else WarmState.NOTHING_COMPILED
