"""The targets of a command's paths, the worker of the command, and the loop that runs them.

Invariant: one worker for all targets, started before it is needed, one run after the other; a command ends the worker
that it started, and leaves one that it was given. Each request gives a report, and a worker that cannot start or answer
gives one that says so. What cannot be read or does not exist is a problem, and the other targets run.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import functools
import os
import re
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from fuselight.shared.foreign_files import project_root
from fuselight.shared.notebooks.cells import SUFFIX
from fuselight.shared.notebooks.run_selection import without_broken_cells
from fuselight.shared.protocol import Answer
from fuselight.shared.report import Culprit, Failure, Problem
from fuselight_server.base.cancellation import CancelToken
from fuselight_server.base.formatting import format_lines, format_target
from fuselight_server.base.store import Store, recorded_calls
from fuselight_server.commands.options import suggestion
from fuselight_server.commands.outcome import CheckOutcome
from fuselight_server.commands.sources import SourceFiles, python_files, shown_path
from fuselight_server.commands.started_worker import StartedWorker
from fuselight_server.execution.interpreters import NoInterpreterError, choose
from fuselight_server.execution.runs.kept_answers import KeptAnswers
from fuselight_server.execution.runs.planning import (
    MAIN,
    PlannedRun,
    RunOptions,
    call_run,
    default_runs,
    named_runs,
    program_calls,
)
from fuselight_server.explain.benchmarks.timing_stats import has_times
from fuselight_server.explain.findings.failures import code_of, failure_report

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator

    from fuselight.shared.protocol import Refused, RunRequest
    from fuselight.shared.report import Report
    from fuselight_server.base.settings import Interpreter
    from fuselight_server.commands.kept_captures import KeptCaptures
    from fuselight_server.commands.options import CommandOptions
    from fuselight_server.execution.runs.programs import Programs
    from fuselight_server.execution.worker_client.client import Worker
    from fuselight_server.source.reading import Reading

    WithTrials = Callable[[Report, Callable[[], Awaitable["TargetRun"]], CheckOutcome], Awaitable[Report]]


def chosen_interpreter(options: CommandOptions) -> Interpreter:
    """The interpreter of the command. Raises NoInterpreterError."""
    return choose(options.python, project_root(options.paths[0]), os.environ)


Job = tuple[PlannedRun, RunOptions]
"""A run, and what is the same for every run of its project."""


@dataclass(frozen=True)
class TargetRun:
    """The run of one target, and the worker that does it."""

    request: RunRequest
    worker: Worker
    choice: Interpreter
    """The interpreter, and why that one."""
    show: Callable[[str], None]
    """Shows progress."""
    token: CancelToken = field(default_factory=CancelToken)
    """Ends a run."""

    async def run_report(
        self, request: RunRequest | None = None, on_partial: Callable[[Report], None] = lambda _report: None
    ) -> Report:
        """The report of the request, or of another request in its place.

        A failed run gives a report of its failure, with what a benchmark or a search had measured. `on_partial` is
        called with what is known so far. Raises asyncio.CancelledError where the token ended the run.
        """
        asked = request or self.request
        measured: list[Report] = []

        def partly(report: Report) -> None:
            measured[:] = [report] if has_times(report.measured) or report.tuned is not None else []
            on_partial(report)

        run = self.worker.run(asked, lambda event: self.show(event.detail or event.phase), partly)
        answer = await self.token.run(run)
        if isinstance(answer, Answer):
            return _with_example_call(answer.report, asked)
        failure = self._failure(answer)
        if measured:
            return dataclasses.replace(measured[0], failures=(failure,))
        return failure_report(asked, failure, self.worker.hello.versions if self.worker.hello else None)

    def with_show(self, show: Callable[[str], None]) -> TargetRun:
        """The same run, with progress that is shown in another way."""
        return dataclasses.replace(self, show=show)

    def calls(self, report: Report) -> list[TargetRun]:
        """The runs that repeat the calls of the program which gave the inputs; as in `program_calls`."""
        return [self.of_call(request) for request in program_calls(self.request, report)]

    def of_call(self, request: RunRequest) -> TargetRun:
        """The run of another request by the same worker, whose progress names it."""
        name = format_target(request.target.name)
        return dataclasses.replace(self, request=request, show=lambda text: self.show(f"{name}: {text}"))

    def _failure(self, answer: Refused) -> Failure:
        failure = answer.failure
        if failure is None:
            return Failure(Culprit.FUSELIGHT, "damaged_answer", f"the run was {answer.reason}")
        if failure.culprit is not Culprit.ENVIRONMENT:
            return failure
        named = "" if self.choice.executable in failure.message else f" ({self.choice.executable})"
        return dataclasses.replace(
            failure,
            message=f"{failure.message}{named}; this interpreter comes from {self.choice.why}",
            next_step=failure.next_step or "Name an interpreter that has torch with --python PATH",
        )


async def report_each(
    options: CommandOptions,
    show: Callable[[str], None],
    token: CancelToken,
    report_of: Callable[[TargetRun, CheckOutcome], Awaitable[Report]],
    *,
    sample_after: float = 5.0,
    default_sizes: dict[str, int] | None = None,
    splits_programs: bool = False,
    after_all: Callable[[CheckOutcome], Awaitable[None]] | None = None,
    uses_kept: bool = False,
    with_trials: WithTrials | None = None,
    keeps_partial: bool = False,
) -> CheckOutcome:
    """Make a report of each target of the paths, in one worker: that of `options`, or a new one, which ends with this.

    `splits_programs`: whether each thing that a program compiles has a report of its own, of the program's calls of it.
    `after_all` is called before that: it may run targets again, and replace the reports. `uses_kept`: a target of which
    nothing has changed is not run. `with_trials` adds the trials that its kept report lacks. Raises
    asyncio.CancelledError once the token is canceled; with `keeps_partial`, only if there is no report by then.
    """
    outcome = CheckOutcome(sources=SourceFiles(given=options.texts))
    texts = texts_of(options.paths, outcome)
    uses_kept = uses_kept and not options.texts  # what is kept is of files
    kept = kept_captures(options) if uses_kept else None
    outcome.answers = KeptAnswers() if uses_kept else None
    runs = CommandRuns(options, sample_after, kept, show, token, splits_programs=splits_programs)
    may_run = options.targets or any("compile" in text or "fuselight" in text for text in texts.values())
    if may_run and not (kept is not None and kept.may_answer(texts)):
        # The worker imports torch while the sources are read: nothing else in a run takes as long.
        with contextlib.suppress(NoInterpreterError):  # which matters only if there is something to run
            await runs.start()
    is_over = threading.Event()  # Ctrl-C ends the task, but not the thread that reads
    try:
        reading = asyncio.to_thread(readings_of, texts, options.targets, is_over.is_set)
        outcome.readings = await token.run(reading)
        from fuselight_server.execution.runs.programs import Programs  # noqa: PLC0415 - while the worker starts

        programs = Programs(texts, frozenset(map(os.path.abspath, options.paths)))
        jobs = planned_jobs(outcome.readings, outcome, options, programs, default_sizes=default_sizes)
        has_later = options.kept_worker is not None
        requests = tuple(numbered_requests(jobs, has_later=has_later))
        try:
            await runs.make_reports(requests, outcome, report_of, with_trials)
            if jobs and after_all is not None:
                await after_all(outcome)
            token.check()
        except asyncio.CancelledError:
            if not (keeps_partial and token.is_canceled and outcome.reports):
                raise
            outcome.not_run = len(requests) - len(outcome.reports)
    finally:
        is_over.set()
        await runs.close()
    return outcome


class CommandRuns:
    """The runs of one command: in one worker, which starts when it is needed, or known from an earlier check.

    The worker is that of the options, or one of the command's own.
    """

    def __init__(
        self,
        options: CommandOptions,
        sample_after: float,
        kept: KeptCaptures | None,
        show: Callable[[str], None],
        token: CancelToken,
        *,
        splits_programs: bool = False,
    ) -> None:
        self._options, self._show, self._token = options, show, token
        self._splits_programs = splits_programs
        self._sample_after = sample_after
        self._kept = kept
        self._worker: StartedWorker | None = None
        self._ready: Worker | None = None

    async def start(self) -> StartedWorker:
        """The worker, which starts now if it has not. Raises NoInterpreterError."""
        if self._worker is None:
            options, choice = self._options, chosen_interpreter(self._options)
            if options.kept_worker is not None:
                self._worker = await options.kept_worker.of(choice, options.log, options.paths[0])
            else:
                self._worker = StartedWorker(choice, options.log, sample_after=self._sample_after)
        return self._worker

    async def close(self) -> None:
        """End the worker, if it is the command's own."""
        if self._worker is not None and self._options.kept_worker is None:
            await self._worker.close()

    async def make_reports(
        self,
        requests: Iterable[tuple[RunRequest, str]],
        outcome: CheckOutcome,
        report_of: Callable[[TargetRun, CheckOutcome], Awaitable[Report]],
        with_trials: WithTrials | None = None,
    ) -> None:
        """Add a report of each request to the outcome. Raises NoInterpreterError.

        `with_trials`: adds to a kept report the trials that it lacks.
        """
        for request, words in requests:
            self._token.check()
            if self._kept is not None and (known := self._kept.answer(request)) is not None:
                outcome.take_unchanged(known)
                _note_unknown_name(request, known.report, outcome)
                if with_trials is not None:
                    start = functools.partial(self._target_run, request, words)
                    self._take_trials(request, await with_trials(known.report, start, outcome), outcome)
                continue
            target_run = await self._target_run(request, words)
            for other_target_run in (
                await _split(target_run, outcome) if self._splits_programs else [target_run]
            ):
                report = await report_of(other_target_run, outcome)
                outcome.reports.append(report)
                _note_unknown_name(other_target_run.request, report, outcome)
                self._keep(request, report, other_target_run, outcome)
                if any(failure.kind in {"no_torch", "old_torch"} for failure in report.failures):
                    return  # no other run can do better in this interpreter
        if outcome.reports and self._worker is None:
            _note_untested(self._options, outcome.reports[0].versions.torch)

    async def _target_run(self, request: RunRequest, words: str) -> TargetRun:
        started, show = await self.start(), self._show
        if self._ready is None:
            if not started.is_ready:
                show(f"starting {started.choice.executable} ({started.choice.why})")
            self._ready = await self._token.run(started.ready())
            if self._ready.hello is not None:
                _note_untested(self._options, self._ready.hello.versions.torch)
        asked = request if self._kept is None else self._kept.recording(request)
        return TargetRun(
            asked, self._ready, started.choice, lambda text: show(f"{words}: {text}"), self._token
        )

    def _take_trials(self, request: RunRequest, report: Report, outcome: CheckOutcome) -> None:
        """Replace the last report, which is a kept one, by itself with further trials, and keep those."""
        if report is not outcome.reports[-1] and self._kept is not None:
            outcome.reports[-1] = report
            target = report.target.path, report.target.name
            outcome.capture_keys[target] = self._kept.keep_trials(request, report)

    def _keep(
        self, request: RunRequest, report: Report, target_run: TargetRun, outcome: CheckOutcome
    ) -> None:
        hello = target_run.worker.hello
        if self._kept is not None and hello is not None:
            key = self._kept.keep_capture(request, report, hello.packages)
            outcome.capture_keys[report.target.path, report.target.name] = key


def _note_untested(options: CommandOptions, torch: str | None) -> None:
    from fuselight.shared.version import untested_torch  # noqa: PLC0415 - not for --help

    text = untested_torch(torch or "")
    if text is not None:
        options.notify(text)


def _with_example_call(report: Report, request: RunRequest) -> Report:
    """A report that names a directive with a value for each parameter, where a target of the file lacks inputs."""
    missing = [failure for failure in report.failures if code_of(failure) == "FL502"]
    text = SourceFiles(given=request.overlays).text_or_none(request.target.path) if missing else None
    if text is None:
        return report
    from fuselight_server.source.document import read_source  # noqa: PLC0415 - few runs need it
    from fuselight_server.source.example_calls import call_for  # noqa: PLC0415

    targets = read_source(request.target.path, text).targets
    call = next((call_for(text, target) for target in targets if target.name == request.target.name), None)
    step = f"write a directive above it, as `# fuselight: {call}`, or a function example_inputs()"
    failures = tuple(
        dataclasses.replace(failure, next_step=step) if failure in missing and call else failure
        for failure in report.failures
    )
    return dataclasses.replace(report, failures=failures)


def _note_unknown_name(request: RunRequest, report: Report, outcome: CheckOutcome) -> None:
    """Add a problem for a name that the program does not compile."""
    target = request.target
    failure = next((failure for failure in report.failures if failure.kind == "inputs"), None)
    if target.kind == "call" and report.inputs is None and failure is not None:
        outcome.problems.append(Problem("targets", target.name, failure.message))


async def _split(target_run: TargetRun, outcome: CheckOutcome) -> list[TargetRun]:
    """A run for each thing that a program compiles, or the run itself if it is no program's; none with a problem."""
    if target_run.request.target.kind != "main":
        return [target_run]
    report = await target_run.run_report()
    runs = target_run.calls(report)
    if runs or report.failures:
        return runs or [target_run]
    what = f"{shown_path(report.target.path)}: the program made no call of anything that it compiles"
    outcome.problems.append(Problem("targets", what, "name a class or function with --target"))
    return []


def kept_captures(options: CommandOptions) -> KeptCaptures | None:
    """The captures of earlier checks; None without an interpreter, which is said where something has to run."""
    from fuselight_server.commands.kept_captures import KeptCaptures  # noqa: PLC0415 - for `check` alone

    try:
        return KeptCaptures(chosen_interpreter(options), options.log)
    except NoInterpreterError:
        return None


def _named_calls(readings: Iterable[Reading], jobs: list[Job], options: CommandOptions) -> list[Job]:
    """Runs of what the user named and no file defines as a target: the only program is asked whether it compiles it."""
    known = {target.name for reading in readings for target in reading.targets} | {MAIN}
    programs = [reading for reading in readings if reading.main_line is not None]
    names = [name for name in options.targets if name not in known]
    if len(programs) != 1 or not names:
        return []
    root = str(project_root(Path(programs[0].path)))
    own = RunOptions(
        roots=(root,),
        limits=options.limits,
        world=options.world,
        argv=options.arguments,
        overlays=dict(options.texts),
    )
    run_options = jobs[0][1] if jobs else own
    return [(call_run(programs[0], name), run_options) for name in names]


def numbered_requests(jobs: list[Job], *, has_later: bool = False) -> Iterator[tuple[RunRequest, str]]:
    """The request of each job, in order, and how its progress begins.

    `has_later`: whether the worker serves later commands, too.
    """
    for number, (planned, run_options) in enumerate(jobs, 1):
        request = planned.start_message(number, number, run_options)
        if number == len(jobs) and not has_later:  # there is no later run to import anything for
            request = dataclasses.replace(request, preload=False)
        name = format_target(request.target.name)
        yield request, f"{number}/{len(jobs)} {shown_path(request.target.path)}: {name}"


def _uncalled(path: str, lines: Iterable[int]) -> str:
    return (
        f"{shown_path(path)} compiles on {format_lines(lines)}, but nothing in it makes a call: run the program "
        "that uses it with `fuselight run PROGRAM`, or write a call as a `# fuselight:` comment (docs/inputs.md)."
    )


_EXPORT = re.compile(r"\b(?:draft_)?export\(|\baoti_compile_and_package\(")


def _may_compile_elsewhere(reading: Reading, text: str) -> str:
    name = shown_path(reading.path)
    if _EXPORT.search(text):
        return (
            f"{name} exports a model and compiles nothing: `check` captures what torch.compile gets. "
            f"`fuselight run {name}` runs it, and shows on your lines what ends an export."
        )
    return (
        f"{name} compiles nothing itself, nor does a file of the workspace that it imports: if a library does (an "
        f"Accelerator, a Trainer), run it with `fuselight run {name}`."
    )


def texts_of(paths: Iterable[Path], outcome: CheckOutcome) -> dict[str, str]:
    """The text of each file by its path; a file that cannot be read is a problem."""
    texts: dict[str, str] = {}
    for path in python_files(paths):
        text = outcome.sources.text(str(path))
        if isinstance(text, Problem):
            outcome.problems.append(text)
        else:
            texts[str(path)] = text
    return texts


def readings_of(
    texts: dict[str, str], names: Iterable[str] = (), stop: Callable[[], bool] = lambda: False
) -> dict[str, Reading]:
    """What static reading knows of each text; `stop` ends it early. Of a notebook, the cells that parse are read."""
    from fuselight_server.source.document import read_sources  # noqa: PLC0415 - while the worker starts

    parsed = {
        path: without_broken_cells(text) if path.endswith(SUFFIX) else text for path, text in texts.items()
    }
    return read_sources(parsed, names, stop)


def planned_jobs(
    readings: dict[str, Reading],
    outcome: CheckOutcome,
    options: CommandOptions,
    programs: Programs | None = None,
    *,
    default_sizes: dict[str, int] | None = None,
) -> list[Job]:
    """Every run of every file; one that does not parse and a named target that does not exist are problems.

    A file without a run of its own is either executed as a program (`programs`) or listed as not called: with targets
    named by the user, neither, because the user did not ask for those files. Calls by name come after the runs, which
    they may repeat.
    """
    jobs: list[Job] = []
    idle: list[Reading] = []
    stores: dict[Path, Report | None] = {}
    targets = options.targets
    for path, reading in readings.items():
        if reading.syntax_error is not None:
            what = f"{shown_path(path)}:{reading.syntax_error.line}"
            outcome.problems.append(Problem("source", what, "syntax error, so nothing in this file was run"))
            continue
        root = project_root(Path(path))
        if root not in stores:
            stores[root] = Store.at(root).read_report()
        run_options = RunOptions(
            roots=(str(root),),
            limits=options.limits,
            world=options.world,
            argv=options.arguments,
            overlays=dict(options.texts),
            environment=dict(options.settings.environment),
            dynamo_config=dict(options.settings.dynamo_config),
            default_sizes=default_sizes or {},
            recorded=recorded_calls(stores[root], path),
        )
        planned = named_runs(reading, targets, run_options) if targets else default_runs(reading, run_options)
        if not planned and not targets and programs is not None:
            program = programs.run_of(reading, run_options.roots)
            planned = (program,) if program is not None else ()
            idle += [reading] if program is None else []
        jobs += [(planned_run, run_options) for planned_run in planned]
    jobs += _named_calls(readings.values(), jobs, options)
    if programs is not None and not jobs:
        outcome.uncalled = [_uncalled(*pair) for pair in programs.uncalled(idle).items()] or [
            _may_compile_elsewhere(reading, programs.texts.get(reading.path, ""))
            for reading in idle
            if reading.main_line is not None and "torch" in programs.texts.get(reading.path, "")
        ]
    known = {target.name for reading in readings.values() for target in reading.targets}
    known |= {planned_run.target.name or "__main__" for planned_run, _ in jobs}
    for name in targets:
        if name not in known:
            where = ", ".join(map(shown_path, readings))
            why = f"no class or function of this name in {where}{suggestion(name, known)}"
            outcome.problems.append(Problem("targets", name, why))
    return jobs
