"""Targets with two releases of torch, compared: `fuselight upgrade PATH... --from A --to B`.

Invariant: both sides run the same requests; a target is compared only by what both sides ran. A run that ended is kept
in the folder of `--out` before the next one begins.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections import deque
from collections.abc import Callable, Collection, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path
from typing import Any

from fuselight.shared.codec import encode
from fuselight.shared.measurement_plans import MeasurePlan
from fuselight.shared.owned_folders import owned_folder
from fuselight.shared.protocol import GenerateRequest, OutputsRequest, RunRequest
from fuselight.shared.report import Device, Problem, Report, Versions
from fuselight_server.base.cancellation import CancelToken
from fuselight_server.base.command_error import CommandError
from fuselight_server.base.fingerprints import key_of
from fuselight_server.base.settings import Interpreter
from fuselight_server.commands.findings import without_ignored
from fuselight_server.commands.options import CommandOptions
from fuselight_server.commands.outcome import CheckOutcome
from fuselight_server.commands.sources import SourceFiles, shown_path
from fuselight_server.commands.targets import (
    TargetRun,
    numbered_requests,
    planned_jobs,
    readings_of,
    texts_of,
)
from fuselight_server.execution.torch_releases import (
    TorchRelease,
    check_installed,
    find_side,
    interpreters_of,
)
from fuselight_server.execution.worker_client.client import Worker
from fuselight_server.execution.worker_client.process import WorkerFailed
from fuselight_server.explain.benchmarks.planning import configurations, measure_request
from fuselight_server.explain.findings import Thresholds
from fuselight_server.jobs.comparison.model import FindingState
from fuselight_server.source.reading import Reading
from fuselight_server.upgrades.comparison import compare_target
from fuselight_server.upgrades.model import (
    ComparedRuns,
    RegressionKind,
    SideReports,
    TargetComparison,
    UpgradeComparison,
)
from fuselight_server.upgrades.paths import InstalledPaths, differing_packages, installed_packages
from fuselight_server.upgrades.results import RunsFolder, without_texts

FROM, TO = "--from", "--to"
SIDES = ("before", "after")


class UpgradePart(Enum):
    """What is compared."""

    CHECK = "check"
    """Findings, graphs, recompilations."""
    KERNELS = "kernels"
    NUMERICS = "numerics"
    """Results of eager and compiled calls, and deprecations."""


ALL_PARTS = tuple(UpgradePart)


@dataclass(frozen=True)
class UpgradePlan:
    """The two sides, and what to compare."""

    before: str
    """A Python, an environment, or a version of torch."""
    after: str
    parts: tuple[UpgradePart, ...] = ALL_PARTS
    device: Device | None = None
    """For which kernels are generated; None: this machine's GPU, else the catalog's fallback."""
    measure: MeasurePlan | None = None
    """How to time calls on this machine; None: times are estimates."""
    jobs: int = 1
    """How many workers run in parallel; two for each target, one of each side, unless it is 1."""
    installs: bool = False
    """Whether a version that is missing is installed."""
    out: Path | None = None
    """Folder that keeps the runs."""
    is_resumed: bool = False
    """Whether runs that the folder has are not repeated."""


@dataclass
class UpgradeOutcome:
    """What differs, and what could not be run."""

    comparison: UpgradeComparison
    problems: list[Problem] = field(default_factory=list)
    sources: SourceFiles = field(default_factory=SourceFiles)
    readings: dict[str, Reading] = field(default_factory=dict)
    uncalled: list[str] = field(default_factory=list)
    """If there was no target: where the files compile without a call that can be run."""

    @property
    def new_findings(self) -> CheckOutcome:
        """The findings of the later side alone, and those of the comparison itself, for annotations."""
        new = [
            finding
            for target in self.comparison.targets
            for finding in (
                *(change.finding for change in target.findings_in(FindingState.NEW)),
                *target.own,
            )
        ]
        shown = dict.fromkeys((finding.span, finding.code, finding.title) for finding in new)
        first = {(finding.span, finding.code, finding.title): finding for finding in reversed(new)}
        return CheckOutcome([first[key] for key in shown], problems=self.problems, sources=self.sources)

    def exit_code(self, fail_on: Collection[RegressionKind]) -> int:
        """0 without a regression of these kinds, 1 with one, 2 if something could not be read or compared."""
        if self.problems or any(target.is_undecided for target in self.comparison.targets):
            return 2
        return int(any(kind in fail_on for kind in self.comparison.regressions))


async def compare_releases(
    options: CommandOptions,
    show: Callable[[str], None],
    token: CancelToken,
    *,
    plan: UpgradePlan,
    thresholds: Thresholds | None = None,
) -> UpgradeOutcome:
    """Run every target of the paths with both releases, and compare them. Raises CommandError."""
    if plan.measure is not None and plan.jobs > 1:
        raise CommandError("`--measure` times one call at a time. Use `--jobs 1` with it.")
    folder = None if plan.out is None else RunsFolder(plan.out)
    if folder is not None:
        folder.prepare()
    named = [find_side(text, option, os.environ) for text, option in ((plan.before, FROM), (plan.after, TO))]
    _check_sides(plan, *named)
    check_installed(named, installs=plan.installs)
    outcome = CheckOutcome()
    texts = texts_of(options.paths, outcome)
    outcome.readings = await token.run(asyncio.to_thread(readings_of, texts, options.targets))
    jobs = _requests(outcome, texts, options)
    if not jobs:
        _check_jobs(outcome, named)
    interpreters = await token.run(interpreters_of(named, show))
    sides = [
        _UpgradeSide(option, interpreter, options, plan.measure is not None)
        for option, interpreter in zip((FROM, TO), interpreters, strict=True)
    ]
    lanes = [_WorkerPair(sides)]
    try:
        show(f"starting {sides[0].interpreter.executable} and {sides[1].interpreter.executable}")
        versions = await token.run(lanes[0].start())
        _check_versions(sides, versions)
        lanes += [_WorkerPair(sides) for _ in range(min(plan.jobs // 2, len(jobs)) - 1)]
        with owned_folder("upgrade") as caches:
            work = _UpgradeWork(
                *(plan, options, versions, outcome, texts, show, token, folder, caches),
                thresholds or Thresholds(),
            )
            folders = frozenset(folder for side in sides for folder in side.packages)
            installed = installed_packages(sides[0].packages, sides[1].packages)
            work.paths = InstalledPaths(folders, installed.namespaces)
            work.installed = installed.versions
            work.jobs.extend(enumerate(jobs))
            await token.run(_all_or_none([work.run_lane(lane) for lane in lanes]))
            token.check()
    finally:
        await asyncio.gather(*(lane.close() for lane in lanes))
    targets = tuple(target for _, target in sorted(work.compared.items()))
    return UpgradeOutcome(
        UpgradeComparison(*versions, targets, tuple(_notes(sides, work.packages))),
        outcome.problems,
        outcome.sources,
        outcome.readings,
        outcome.uncalled,
    )


async def _all_or_none(works: Sequence[Coroutine[Any, Any, None]]) -> None:
    """Do works in parallel; where one fails, the others have ended before its error is raised."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _check_sides(
    plan: UpgradePlan, before: Interpreter | TorchRelease, after: Interpreter | TorchRelease
) -> None:
    """Raise CommandError if both options name one Python, before anything is installed or started."""
    names = [side.version if isinstance(side, TorchRelease) else side.executable for side in (before, after)]
    if names[0] == names[1]:
        raise CommandError(
            f"`{FROM} {plan.before}` and `{TO} {plan.after}` are the same Python. Give two with different versions of "
            "torch."
        )


def _check_jobs(outcome: CheckOutcome, sides: Sequence[Interpreter | TorchRelease]) -> None:
    """Raise CommandError if a release would be installed although there is no target to run with it."""
    if any(isinstance(side, TorchRelease) and side.python is None for side in sides):
        problems = [f"cannot analyze {problem.what}: {problem.why}" for problem in outcome.problems]
        reason = next(
            iter([*problems, *outcome.uncalled]), "no class or function has example inputs (docs/inputs.md)"
        )
        raise CommandError(f"nothing was installed, because there is no target: {reason.rstrip('.')}.")


def _requests(
    outcome: CheckOutcome, texts: dict[str, str], options: CommandOptions
) -> list[tuple[RunRequest, str]]:
    from fuselight_server.execution.runs.programs import Programs  # noqa: PLC0415 - after the workers have started

    programs = Programs(texts, frozenset(map(os.path.abspath, options.paths)))
    return list(numbered_requests(planned_jobs(outcome.readings, outcome, options, programs)))


def _notes(sides: Sequence[_UpgradeSide], packages: Mapping[str, tuple[str, str]]) -> Iterator[str]:
    """What differs between the sides besides torch."""
    before, after = (side.versions.python.rpartition(".")[0] for side in sides if side.versions is not None)
    if before != after:
        yield f"The sides run Python {before} and {after}: some differences may come from Python."
    for name, (old, new) in packages.items():
        yield (
            f"The sides have `{name}` {old} and {new}: differences in its code may come from that, and its lines are "
            "not compared. Install the same version on both."
        )


def _paths_of_code(side: SideReports) -> Iterator[str]:
    """The files of the code that was compiled: of functions that were inlined where an operator is theirs."""
    yield from (frame.location.path for frame in side.capture.frames)
    for graph in side.kernels.generated if side.kernels is not None else ():
        for kernel in graph.kernels:
            yield from (place.path for operator in kernel.operators for place in operator.stack)


def _called(run: TargetRun, side: SideReports) -> list[RunRequest]:
    """The requests whose calls are made: of a program those of each thing that it compiles."""
    if run.request.target.kind != "main":
        return [run.request]
    return [other.request for other in run.calls(side.capture)]


@dataclass
class _UpgradeSide:
    """One of the two interpreters."""

    option: str
    interpreter: Interpreter
    options: CommandOptions
    is_timed: bool = False
    versions: Versions | None = None
    packages: tuple[str, ...] = ()
    """Folders of installed packages."""

    def worker(self) -> Worker:
        """A new worker, which starts when it is needed."""
        # Sampling a process stops it, which would falsify its times.
        sample_after = 0.0 if self.is_timed else 5.0
        return Worker(self.interpreter, cwd=str(Path.cwd()), log=self.options.log, sample_after=sample_after)

    async def start(self, worker: Worker) -> Versions:
        """Start a worker. Raises CommandError."""
        try:
            hello = await worker.start()
        except WorkerFailed as failed:
            step = failed.failure.next_step or "give a Python that has torch 2.6 or newer"
            step = step[:1].upper() + step[1:]
            raise CommandError(
                f"`{self.option} {self.interpreter.executable}`: {failed.failure.message.rstrip('.')}. {step}."
            ) from None
        self.versions, self.packages = hello.versions, hello.packages
        return hello.versions


class _WorkerPair:
    """A worker of each side; a lane runs one target at a time."""

    def __init__(self, sides: Sequence[_UpgradeSide]) -> None:
        self.sides = tuple(sides)
        self.workers = tuple(side.worker() for side in sides)

    async def start(self) -> tuple[Versions, Versions]:
        """Start both, and return their versions. Raises CommandError."""
        pairs = zip(self.sides, self.workers, strict=True)
        started = await asyncio.gather(
            *(side.start(worker) for side, worker in pairs), return_exceptions=True
        )
        for result in started:
            if isinstance(result, BaseException):
                raise result
        before, after = (result for result in started if not isinstance(result, BaseException))
        return before, after

    async def close(self) -> None:
        """End both."""
        await asyncio.gather(*(worker.close() for worker in self.workers))


def _check_versions(sides: Sequence[_UpgradeSide], versions: tuple[Versions, Versions]) -> None:
    """Raise CommandError if there is nothing to compare."""
    if versions[0].torch == versions[1].torch:
        raise CommandError(
            f"both sides have torch {versions[0].torch} ({sides[0].interpreter.executable} and "
            f"{sides[1].interpreter.executable}). Give interpreters with two versions."
        )


@dataclass
class _UpgradeWork:
    """The targets that are left, and what is done with each."""

    plan: UpgradePlan
    options: CommandOptions
    versions: tuple[Versions, Versions]
    outcome: CheckOutcome
    texts: dict[str, str]
    show: Callable[[str], None]
    token: CancelToken
    folder: RunsFolder | None
    caches: str
    """Folder of Inductor's caches of both sides, for this command alone."""
    thresholds: Thresholds
    jobs: deque[tuple[int, tuple[RunRequest, str]]] = field(default_factory=deque)
    compared: dict[int, TargetComparison] = field(default_factory=dict)
    installed: tuple[dict[str, str], dict[str, str]] = ({}, {})
    """The version of each installed package, on both sides."""
    paths: InstalledPaths = field(default_factory=InstalledPaths)
    packages: dict[str, tuple[str, str]] = field(default_factory=dict)
    """The packages that a target used and of which the sides have two versions."""

    async def run_lane(self, lane: _WorkerPair) -> None:
        """Take targets until none is left."""
        while self.jobs:
            index, (request, words) = self.jobs.popleft()
            self.token.check()
            runs = await self._runs(lane, request, words)
            self.compared[index] = self._compare(runs)

    async def _runs(self, lane: _WorkerPair, request: RunRequest, words: str) -> ComparedRuns:
        key = self._key(request)
        if self.folder is not None and self.plan.is_resumed:
            kept = self.folder.load(key)
            if kept is not None:
                return kept
        runs_of_sides = [
            TargetRun(request, worker, side.interpreter, self._showing(words, side), self.token)
            for side, worker in zip(lane.sides, lane.workers, strict=True)
        ]
        if self.plan.jobs > 1:
            before, after = await asyncio.gather(*map(self._run_side, runs_of_sides))
        else:
            before, after = [await self._run_side(run) for run in runs_of_sides]
        if (
            UpgradePart.NUMERICS in self.plan.parts
            and not before.capture.failures
            and not after.capture.failures
        ):
            before, after = await self._with_outputs(runs_of_sides, before, after)
        if self.plan.measure is not None and not before.capture.failures and not after.capture.failures:
            before, after = await self._with_times(runs_of_sides, before, after)
        runs = ComparedRuns(request.target.path, request.target.name, before, after)
        if self.folder is not None:
            self.folder.save(key, runs)
        return runs

    def _showing(self, words: str, side: _UpgradeSide) -> Callable[[str], None]:
        torch = side.versions.torch if side.versions else ""
        return lambda text: self.show(f"{words}, torch {torch}: {text}")

    async def _run_side(self, run: TargetRun) -> SideReports:
        capture = await run.run_report()
        kernels = None
        if UpgradePart.KERNELS in self.plan.parts and not capture.failures:
            asked = run.request.of_kind(GenerateRequest, device=self.plan.device)
            kernels = without_texts(await run.run_report(asked))
        return SideReports(without_texts(capture), kernels)

    async def _with_outputs(
        self, runs: Sequence[TargetRun], before: SideReports, after: SideReports
    ) -> tuple[SideReports, SideReports]:
        """Both sides with the results of their calls, the earlier side first."""
        earlier, _ = runs
        outputs: tuple[list[Report], list[Report]] = ([], [])
        for request in _called(earlier, before):
            with owned_folder("outputs") as folder:
                for side, run, kept in zip(SIDES, runs, outputs, strict=True):
                    cache = os.path.join(self.caches, side)  # noqa: PTH118 - a request has texts
                    asked = request.of_kind(
                        OutputsRequest, folder=folder, records=run is earlier, cache=cache
                    )
                    kept.append(without_texts(await run.run_report(asked)))
        return replace(before, outputs=tuple(outputs[0])), replace(after, outputs=tuple(outputs[1]))

    async def _with_times(
        self, runs: Sequence[TargetRun], before: SideReports, after: SideReports
    ) -> tuple[SideReports, SideReports]:
        """Both sides with benchmarks, one after the other."""
        plan = self.plan.measure
        if plan is None:
            return before, after
        measured: tuple[list[Report], list[Report]] = ([], [])
        for request in _called(runs[0], before):
            names = configurations((), compiled=request.target.compiled)
            asked = measure_request(request, replace(plan, configurations=names))
            for run, kept in zip(runs, measured, strict=True):
                kept.append(without_texts(await run.run_report(asked)))
        return replace(before, measured=tuple(measured[0])), replace(after, measured=tuple(measured[1]))

    def _key(self, request: RunRequest) -> str:
        path = request.target.path
        asked = encode(replace(request, id=0, generation=0, roots=(), preload=True))
        asked.pop("limits", None)
        for named in (asked.get("target", {}), asked.get("inputs", {})):
            named.pop("path", None)
        parts = sorted(part.value for part in self.plan.parts)
        return key_of(
            shown_path(path),
            self.texts.get(path, ""),
            json.dumps(asked, sort_keys=True),
            *(str(version.torch) for version in self.versions),
            *parts,
            json.dumps(encode(self.plan.device), sort_keys=True),
            *((json.dumps(encode(self.plan.measure), sort_keys=True),) if self.plan.measure else ()),
        )

    def _compare(self, runs: ComparedRuns) -> TargetComparison:
        paths = {path for side in (runs.before, runs.after) for path in _paths_of_code(side)}
        used = {name for path in paths if (name := self.paths.package(path)) is not None}
        packages = differing_packages(used, *self.installed)
        self.packages |= packages
        return compare_target(
            runs,
            thresholds=self.thresholds,
            read_line=self.outcome.sources.line,
            packages=packages.keys(),
            paths=self.paths,
            without_ignored=lambda findings: without_ignored(findings, self.outcome.readings),
        )
