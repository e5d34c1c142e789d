"""The page of a benchmark as data: what the editor's window, the exports and the terminal show, all from here.

Invariant: no number of a page is infinite or not a number, None is what is not known, and every line is where the view
says that it is now. The fields and their meaning are in `page_types.py` and docs/bench.md.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from fuselight.shared.configurations import configuration_title
from fuselight.shared.report import (
    Accuracy,
    CompileStep,
    LaunchKind,
    Machine,
    Measured,
    MeasuredConfiguration,
    MeasuredLaunch,
    Profile,
    Report,
    Stack,
    Timing,
)
from fuselight_server.base.finding import SourceLine
from fuselight_server.base.formatting import (
    format_count,
    format_list,
    format_size,
    format_target,
    format_time,
    format_time_range,
)
from fuselight_server.base.result_verdicts import AS_EAGER, NOT_COMPARED
from fuselight_server.explain.benchmarks import words
from fuselight_server.explain.benchmarks.page_types import (
    AccuracyCell,
    ConfigurationRow,
    KernelRow,
    LineRow,
    MachineFact,
    MeasuredPage,
    MemoryCell,
    PagePlace,
    PastRun,
    ProfileDetails,
    Roofline,
    RooflinePeak,
    RooflinePoint,
    RunComparison,
    StepRow,
    VerdictLine,
    WallPart,
)
from fuselight_server.explain.benchmarks.profile import (
    kernel_of,
    main_place,
    parts,
    rates,
    times_by_line,
    whole_us,
)
from fuselight_server.explain.benchmarks.timing_stats import (
    clock_of,
    has_times,
    is_foreign,
    range_of,
    speedup,
    spread_of,
    timing_of,
    varies,
)
from fuselight_server.explain.benchmarks.verdict import verdict
from fuselight_server.explain.kernels.shares import place_of
from fuselight_server.explain.memory.words import allocated_in_words, workspace_notes
from fuselight_server.explain.pages.page_data import finite


@dataclass(frozen=True)
class Still:
    """Lines and files as they were at one moment: it asks nobody, so that a page can be made of it in a thread."""

    places: dict[SourceLine, PagePlace | None]
    files: dict[str, tuple[str, str]]
    """By path: its URI, and as people read it."""

    def page_line(self, at: SourceLine | None) -> PagePlace | None:
        """Return a line for the page."""
        return None if at is None else self.places[at]

    def uri_of(self, path: str) -> str:
        """Return a file's URI."""
        return self.files[path][0]

    def shown(self, path: str) -> str:
        """Return a path as people read it."""
        return self.files[path][1]


@dataclass(frozen=True)
class View:
    """How lines are shown."""

    uri_of: Callable[[str], str]
    read_line: Callable[[str, int], str | None]
    shown: Callable[[str], str] = os.path.basename
    """A path as people read it."""
    now: Callable[[SourceLine], SourceLine | None] = lambda place: place
    """Where a line of the report is now; None if it was deleted."""

    def page_line(self, at: SourceLine | None) -> PagePlace | None:
        """Return a line for the page."""
        there = self.now(at) if at is not None else None
        if there is None:
            return None
        text = self.read_line(there.path, there.line) or ""
        return PagePlace(self.uri_of(there.path), self.shown(there.path), there.line - 1, text.strip())

    def still(self, places: Iterable[SourceLine], paths: Iterable[str]) -> Still:
        """Return these lines, and these files, as they are now."""
        lines = {place: self.page_line(place) for place in places}
        files = {path: (self.uri_of(path), self.shown(path)) for path in paths}
        return Still(lines, files)


Shows = View | Still


NO_LINES = "only Inductor records the source line of a kernel: the kernels of this backend have none"


def details(configuration: MeasuredConfiguration, report: Report, view: Shows) -> ProfileDetails:
    """Return what is known of where a configuration's time goes."""
    profile = configuration.profile or Profile("", 0, 0.0, 0.0, 0.0, 0.0)
    whole = whole_us(profile)
    longest = sorted(profile.launches, key=lambda launch: -launch.us)
    return ProfileDetails(
        source=profile.source,
        wall_us=profile.wall_us,
        kernel_us=profile.kernel_us,
        joined=_part(profile.joined_us, profile.device_us),
        lines=tuple(_lines(configuration, report, view)),
        no_lines=NO_LINES if configuration.profile is not None and is_foreign(configuration) else "",
        where=tuple(_where(configuration, profile, report, view)),
        kernels=tuple(_kernel(configuration, launch, whole, report, view) for launch in longest),
        roofline=_roofline(configuration, report, view),
        steps=tuple(_step(step, view) for step in configuration.compile_steps),
    )


def _part(part: float, whole: float) -> float:
    return part / whole if whole > 0 else 0.0


def _lines(configuration: MeasuredConfiguration, report: Report, view: Shows) -> Iterator[LineRow]:
    lines = times_by_line(configuration, report.roots)
    whole = float(sum(line.us for line in lines))
    for line in lines:
        place = view.page_line(line.place)
        if place is not None:
            names = dict.fromkeys(launch.name for launch, _ in line.launches)
            yield LineRow(
                place=place,
                us=float(line.us),
                share=_part(float(line.us), whole),
                kernels=tuple(names),
            )


def _where(
    configuration: MeasuredConfiguration, profile: Profile, report: Report, view: Shows
) -> Iterator[WallPart]:
    for part in parts(profile, report.roots, foreign=is_foreign(configuration)):
        yield WallPart(
            kind=part.kind,
            label=part.label,
            us=part.us,
            share=_part(part.us, profile.wall_us),
            place=view.page_line(part.place),
            what=part.what,
        )


def _kernel(
    configuration: MeasuredConfiguration, launch: MeasuredLaunch, whole: float, report: Report, view: Shows
) -> KernelRow:
    kernel = kernel_of(configuration, launch)
    achieved = rates(launch, kernel, report.target_device)
    graph = configuration.generated[launch.graph] if kernel is not None and launch.graph is not None else None
    return KernelRow(
        name=launch.name,
        kind=kernel.kind.value if kernel is not None else launch.kind.value,
        us=launch.us,
        low_us=launch.low_us,
        high_us=launch.high_us,
        share=_part(launch.us, whole),
        count=launch.count,
        estimate_us=kernel.estimate_us if kernel is not None else None,
        isolated_us=launch.isolated_us,
        bandwidth_gbs=achieved.bandwidth_gbs,
        tflops=achieved.tflops,
        of_limit=achieved.of_limit,
        joined=kernel is not None or launch.kind is LaunchKind.INPUTS or bool(launch.stack),
        place=view.page_line(main_place(launch, kernel, report.roots)),
        phase=graph.phase.value if graph is not None else "",
    )


def _roofline(configuration: MeasuredConfiguration, report: Report, view: Shows) -> Roofline | None:
    device = report.target_device
    if configuration.profile is None or device is None or device.bandwidth_gbs <= 0 or not device.tflops:
        return None
    points, dtypes = [], []
    for launch in configuration.profile.launches:
        kernel = kernel_of(configuration, launch)
        achieved = rates(launch, kernel, device)
        if achieved.intensity is not None and achieved.tflops is not None:
            place = view.page_line(main_place(launch, kernel, report.roots))
            points.append(RooflinePoint(launch.name, achieved.intensity, achieved.tflops, launch.us, place))
            dtypes.append(kernel.dtype if kernel is not None else None)
    # The rates of the dtypes that its kernels compute in; all, where that is not known of any.
    used = {name: rate for name, rate in device.tflops.items() if name in dtypes} or device.tflops
    peaks = tuple(RooflinePeak(name, rate) for name, rate in used.items())
    return Roofline(tuple(points), device.bandwidth_gbs, peaks)


def _step(step: CompileStep, view: Shows) -> StepRow:
    at = step.location
    return StepRow(
        name=step.name,
        start_us=step.start_us,
        us=step.us,
        depth=step.depth,
        place=view.page_line(SourceLine(at.path, at.line)) if at is not None else None,
        compile_id=step.compile_id,
        sampled=step.sampled,
    )


OTHERWISE = 2.0
"""A note reports a call whose time with and without the profiler differs by more than this factor."""


@dataclass(frozen=True)
class Around:
    """What the page shows that the report does not contain."""

    run: str | None = None
    """The id under which what is shown lies in the history; None where it does not."""
    running: bool = False
    stale: bool = False
    message: str = ""
    notes: tuple[str, ...] = ()
    history: tuple[PastRun, ...] = ()
    comparison: RunComparison | None = None


_NOTHING_AROUND = Around()


def nothing(path: str, target: str, view: Shows, around: Around) -> MeasuredPage:
    """Return the page of a target of a file that was not measured."""
    return MeasuredPage(
        run=around.run,
        found=False,
        running=around.running,
        stale=around.stale,
        partial=False,
        title=format_target(target),
        message=around.message,
        target=target,
        path=view.shown(path),
        uri=view.uri_of(path),
        when="",
        work="",
        inputs=(),
        verdict=(),
        machine=(),
        notes=around.notes,
        configurations=(),
        profiles={},
        history=around.history,
        comparison=around.comparison,
    )


def page(report: Report, view: Shows, around: Around = _NOTHING_AROUND) -> MeasuredPage:
    """Return the page of a report; one in which nothing was measured says what failed."""
    return of_body(body(report, view), report, view, around)


@dataclass(frozen=True)
class Drawn:
    """A page's body, and the lines that it was made with: where these are the same, so is the body."""

    still: Still
    body: MeasuredPage | None


def body(report: Report, view: Shows) -> MeasuredPage | None:
    """Return the page without what goes on around it; None where nothing was measured."""
    measured = report.measured
    if measured is None:
        return None
    measured_page = replace(
        nothing(report.target.path, report.target.name, view, _NOTHING_AROUND),
        found=True,
        when=measured.started,
        work=words.WORK[measured.work],
        inputs=tuple(call.text for call in report.inputs.calls) if report.inputs is not None else (),
        verdict=tuple(
            VerdictLine(statement.text, view.page_line(statement.place), statement.configuration)
            for statement in verdict(report)
        ),
        machine=machine(measured.machine, report),
        notes=tuple(notes(report, measured)),
        partial=not measured.finished,
        configurations=tuple(
            _row(configuration, measured, report, view) for configuration in _asked_for(measured)
        ),
        profiles={
            configuration.name: details(configuration, report, view)
            for configuration in measured.configurations
            if configuration.profile is not None or configuration.compile_steps
        },
    )
    return finite(measured_page)


def of_body(measured_page: MeasuredPage | None, report: Report, view: Shows, around: Around) -> MeasuredPage:
    """Return the page of a body."""
    if measured_page is None:
        failed = "; ".join(words.failed(failure) for failure in report.failures)
        message = around.message or failed or "nothing was measured"
        lost = (*around.notes, *_lost(report))
        return replace(
            nothing(report.target.path, report.target.name, view, around), message=message, notes=lost
        )
    return replace(
        measured_page,
        run=around.run,
        running=around.running,
        stale=around.stale,
        message=around.message,
        notes=(*around.notes, *measured_page.notes),
        history=around.history,
        comparison=around.comparison,
    )


def places_of(report: Report) -> Iterator[SourceLine]:
    """Yield every line that the page of a report names."""
    measured = report.measured
    for configuration in measured.configurations if measured is not None else ():
        stacks: list[Stack] = [configuration.accuracy.first] if configuration.accuracy is not None else []
        stacks += (
            [gap.stack for gap in configuration.profile.gaps] if configuration.profile is not None else []
        )
        places = [place_of(stack, report.roots) for stack in stacks]
        places += [line.place for line in times_by_line(configuration, report.roots)]
        at = [step.location for step in configuration.compile_steps]
        places += [SourceLine(each.path, each.line) for each in at if each is not None]
        yield from (place for place in places if place is not None)
    yield from (statement.place for statement in verdict(report) if statement.place is not None)


def machine(machine: Machine, report: Report) -> tuple[MachineFact, ...]:
    """Return where it was measured, name by name."""
    facts = [
        ("device", words.device(machine) if words.has_device(machine) else ""),
        ("CUDA_VISIBLE_DEVICES", machine.visible or ""),
        ("UUID", machine.uuid),
        ("MIG", "yes" if machine.mig else ""),
        ("driver", machine.driver),
        ("CUDA", machine.cuda),
        ("clocks", machine.clocks),
        ("threads", str(machine.threads) if machine.threads else ""),
        ("torch", report.versions.torch or ""),
        ("triton", report.versions.triton or ""),
        ("Python", report.versions.python),
        ("platform", report.versions.platform),
    ]
    return tuple(MachineFact(name, value) for name, value in facts if value)


def notes(report: Report, measured: Measured) -> list[str]:
    """Return what makes the numbers doubtful, and what was not done."""
    answer = {
        "partial: still running or stopped; these are the times measured so far": (
            not measured.finished and has_times(measured)
        ),
        "the device's L2 cache was cleared before each timed call": measured.cold_cache,
        "each call got copies of its inputs, as the target changes them": measured.fresh_inputs,
        "eager is nondeterministic: its results differ from run to run": measured.random is True,
    }
    true = [text for text, is_so in answer.items() if is_so]
    return [
        *true,
        *_profiled_otherwise(measured),
        *measured.machine.notes,
        *workspace_notes(report),
        *_lost(report),
    ]


def _profiled_otherwise(measured: Measured) -> Iterator[str]:
    """Yield a note where profiled calls took a very different time from the timed ones."""
    names = []
    for configuration in measured.configurations:
        profile, wall = configuration.profile, configuration.wall
        if profile is None or wall is None or profile.wall_us <= 0 or wall.median_us <= 0:
            continue
        if max(profile.wall_us / wall.median_us, wall.median_us / profile.wall_us) > OTHERWISE:
            without = f"{format_time(wall.median_us)} without"
            title = configuration_title(configuration.name)
            names.append(f"{format_time(profile.wall_us)} ({title}, {without})")
    if names:
        whose = "lines, kernels and where the time goes are of such calls"
        yield f"with the profiler on, a call took {format_list(names)}: {whose}"


def _lost(report: Report) -> list[str]:
    failed = [words.failed(failure) for failure in report.failures]
    return [*failed, *(f"unknown: {problem.what}: {problem.why}" for problem in report.problems)]


def _asked_for(measured: Measured) -> Iterator[MeasuredConfiguration]:
    """Yield all configurations in their order, those of which nothing is known among them."""
    known = {configuration.name: configuration for configuration in measured.configurations}
    for name in dict.fromkeys((*measured.order, *known)):
        yield known.get(name) or MeasuredConfiguration(name)


def _row(
    configuration: MeasuredConfiguration, measured: Measured, report: Report, view: Shows
) -> ConfigurationRow:
    clock = clock_of(measured)
    timing = timing_of(configuration, clock) or configuration.wall
    mine = range_of(timing) if timing is not None else None
    faster = speedup(measured, configuration)
    alone = (
        ("measured separately: not enough memory to run alongside the others",) if configuration.alone else ()
    )
    return ConfigurationRow(
        name=configuration.name,
        failure=words.failed(configuration.failure) if configuration.failure is not None else None,
        speedup=faster,
        us=mine.us if mine is not None else None,
        spread=spread_of(timing) if timing is not None else None,
        unsteady=timing is not None and varies(timing),
        clock=timing.clock if timing is not None else None,
        wall_us=configuration.wall.median_us if configuration.wall is not None else None,
        first_us=configuration.first_us,
        second_us=configuration.second_us,
        calls=timing.calls if timing is not None else 0,
        peak_bytes=configuration.peak_bytes,
        own_bytes=configuration.own_bytes,
        memory=memory_cell(configuration),
        accuracy=None if configuration.accuracy is None else _accuracy(configuration.accuracy, report, view),
        graph_breaks=configuration.graph_breaks,
        compiles=configuration.compiles,
        recompiles=configuration.recompiles,
        notes=(*configuration.notes, *_earlier(timing), *alone),
    )


def memory_cell(configuration: MeasuredConfiguration) -> MemoryCell | None:
    """The peak of a configuration's tensors, measured and estimated."""
    measured, estimated = configuration.memory, configuration.estimated_bytes
    if measured is None:
        text = f"estimated {format_size(estimated)} of tensors" if estimated is not None else ""
        return MemoryCell(text, None, estimated, None, None) if text else None
    return MemoryCell(
        f"tensors {allocated_in_words(estimated, measured)}",
        measured.bytes,
        estimated,
        measured.reserved,
        measured.between_tensors,
    )


def _earlier(timing: Timing | None) -> Iterator[str]:
    """Say what earlier benchmarks of the same code read, where that is not within the spread."""
    if timing is not None and timing.earlier_us and varies(timing):
        bounds = range_of(timing)
        count = format_count(len(timing.earlier_us), "earlier benchmark")
        yield f"{format_time_range(bounds.low, bounds.high)} with {count} of the same code"


def accuracy_words(accuracy: Accuracy) -> str:
    """Return in a line what the comparison with eager came to."""
    if accuracy.passed is None:
        return f"{NOT_COMPARED}: {accuracy.why}" if accuracy.why else NOT_COMPARED
    tolerance = f" within a tolerance of {accuracy.tolerance:g}" if accuracy.tolerance is not None else ""
    compared = format_count(accuracy.compared, "tensor") if accuracy.compared else ""
    against = f" against {accuracy.against}" if accuracy.against else ""
    many = f" ({compared}{against})" if compared else ""
    if accuracy.passed:
        return f"{AS_EAGER}{tolerance}{many}"
    why = f": {accuracy.why}" if accuracy.why else ""
    is_new = accuracy.first_operator and accuracy.first_operator not in accuracy.why
    first = f"; first differs in {accuracy.first_operator}" if is_new else ""
    return f"not {AS_EAGER}{tolerance}{many}{why}{first}"


def _accuracy(accuracy: Accuracy, report: Report, view: Shows) -> AccuracyCell:
    return AccuracyCell(
        passed=accuracy.passed,
        text=accuracy_words(accuracy),
        tensors=accuracy.tensors,
        place=view.page_line(place_of(accuracy.first, report.roots)),
    )
