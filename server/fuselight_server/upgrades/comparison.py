"""The runs of targets with two releases of torch → what differs.

Invariant: a pure function of the reports and of the source. What a failed run did not reach is not compared: a finding
that it lacks is not fixed, and one that only the other side can have is not new.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

from fuselight.shared.report import Tier, Versions
from fuselight_server.base.finding import Finding
from fuselight_server.base.formatting import format_target, format_time
from fuselight_server.explain.findings import Thresholds, findings, findings_of_kernels
from fuselight_server.jobs.comparison.findings import IdentifiedFinding, pair_findings
from fuselight_server.jobs.comparison.model import ChangeVerdict, FindingChange, FindingState
from fuselight_server.jobs.comparison.sides import functions_of_lines
from fuselight_server.upgrades.failures import is_undecided, with_advice
from fuselight_server.upgrades.functions import compare_functions
from fuselight_server.upgrades.lines import compare_lines, compared_device
from fuselight_server.upgrades.model import (
    ComparedRuns,
    SideReports,
    TargetComparison,
    TargetState,
    is_failure,
)
from fuselight_server.upgrades.numerics import compared_calls
from fuselight_server.upgrades.own_findings import (
    deprecation_findings,
    kernel_findings,
    result_findings,
    time_findings,
)
from fuselight_server.upgrades.paths import STANDARD_PATHS, InstalledPaths
from fuselight_server.upgrades.times import TimeDifference, compare_times


def compare_target(
    runs: ComparedRuns,
    *,
    thresholds: Thresholds,
    read_line: Callable[[str, int], str | None],
    without_ignored: Callable[[Iterable[Finding]], Iterable[Finding]],
    packages: Collection[str] = (),
    paths: InstalledPaths = STANDARD_PATHS,
) -> TargetComparison:
    """One target with both releases. `without_ignored` drops findings that a comment of the source silences.

    `packages`: those of which the sides have two versions.
    """
    before, after = runs.before, runs.after
    state = _state(before, after)
    versions = before.capture.versions, after.capture.versions
    sides = [
        tuple(_identify(side, paths, thresholds, read_line, without_ignored)) for side in (before, after)
    ]
    changes = pair_findings(sides[1], sides[0], is_same_torch=False, is_same_source=True)
    compared: list[FindingChange] = []
    left: list[FindingChange] = []
    for change in changes:
        is_compared = _is_comparable(change, before, after) and not _says_nothing(change)
        (compared if is_compared else left).append(change)
    has_both = state is TargetState.COMPARED
    functions = compare_functions(before, after, paths) if has_both else ()
    times = compare_times(before.measured, after.measured, read_line)
    own = (
        *result_findings(after, versions),
        *kernel_findings(functions, after.kernels or after.capture, versions),
        *time_findings(times, after, versions),
        *deprecation_findings(before, after, versions),
    )
    return TargetComparison(
        path=runs.path,
        name=runs.name,
        state=state,
        findings=tuple(_explained(change, versions) for change in compared),
        uncompared=tuple(left),
        functions=functions,
        own=tuple(without_ignored(own)),
        calls=tuple(call for _, call in compared_calls(after.outputs)),
        times=times,
        is_undecided=any(map(_says_nothing, left))
        or (state is TargetState.NEITHER and any(is_undecided(change.finding) for change in changes)),
        lines=compare_lines(before, after, packages, paths) if has_both else (),
        device=compared_device(before, after) if has_both else None,
        notes=(*_notes(before, after, versions), *_equal_times(times)),
    )


def _state(before: SideReports, after: SideReports) -> TargetState:
    ran_before, ran_after = not before.capture.failures, not after.capture.failures
    if ran_before and ran_after:
        return TargetState.COMPARED
    if ran_before:
        return TargetState.ONLY_BEFORE
    return TargetState.ONLY_AFTER if ran_after else TargetState.NEITHER


def _identify(
    side: SideReports,
    paths: InstalledPaths,
    thresholds: Thresholds,
    read_line: Callable[[str, int], str | None],
    without_ignored: Callable[[Iterable[Finding]], Iterable[Finding]],
) -> Iterator[IdentifiedFinding]:
    names = functions_of_lines(side.reports)
    ran = list(findings(side.capture, thresholds=thresholds, read_line=read_line))
    if side.kernels is not None:
        ran += findings_of_kernels(side.kernels)
        if not side.capture.failures:
            failed = (item for item in findings(side.kernels, read_line=read_line) if is_failure(item))
            ran += failed
    if not side.capture.failures:
        ran += _failures_of_calls(side, read_line)
    for finding in without_ignored(ran):
        path, line = finding.span.path, finding.span.line
        text = read_line(path, line)
        yield IdentifiedFinding(
            finding=finding,
            path=paths.common(path),
            function=names.get((path, line)),
            text=None if text is None else " ".join(text.split()),
            subject=finding.subject or finding.title,
        )


def _failures_of_calls(side: SideReports, read_line: Callable[[str, int], str | None]) -> Iterator[Finding]:
    """What failed when calls were made for their results or times."""
    for report in (*side.outputs, *side.measured):
        yield from (item for item in findings(report, read_line=read_line) if is_failure(item))


def _is_comparable(change: FindingChange, before: SideReports, after: SideReports) -> bool:
    """Whether the side without the finding ran to its end, so that it would have it.

    What else is new in a run that failed may come of the failure: a line that raises an exception also breaks a graph.
    """
    if change.state not in {FindingState.NEW, FindingState.FIXED}:
        return True
    other = after if change.state is FindingState.NEW else before
    if other.capture.failures and not is_failure(change.finding):
        return False
    without = before if change.state is FindingState.NEW else after
    report = without.kernels if change.finding.tier is Tier.KERNELS else without.capture
    return report is not None and not report.failures


def _says_nothing(change: FindingChange) -> bool:
    """Whether it is a failure of one side that has nothing to do with the version of torch."""
    return change.state in {FindingState.NEW, FindingState.FIXED} and is_undecided(change.finding)


def _explained(change: FindingChange, versions: tuple[Versions, Versions]) -> FindingChange:
    """A new failure says what to do about the upgrade."""
    if change.state is not FindingState.NEW or not is_failure(change.finding):
        return change
    finding = with_advice(change.finding, *versions)
    return FindingChange(change.state, finding, change.before, change.function, change.text)


def _equal_times(times: Sequence[TimeDifference]) -> Iterator[str]:
    """Which measured calls take as long with both versions."""
    equal = [
        f"{time.configuration} {format_time(time.before_us)} -> {format_time(time.after_us)}"
        for time in times
        if time.place is None and time.verdict is ChangeVerdict.SAME
    ]
    if equal:
        yield f"measured calls without a difference beyond their spreads and 5%: {', '.join(equal)}"


def _notes(before: SideReports, after: SideReports, versions: tuple[Versions, Versions]) -> Iterator[str]:
    for side, version in zip((before, after), versions, strict=True):
        if side.kernels is not None and side.kernels.failures and not side.capture.failures:
            why = side.kernels.failures[0].message
            yield f"kernels were not compared: with torch {version.torch} their generation failed: {why}"
    for report in after.outputs:
        if report.outputs is not None and report.outputs.refused:
            results = "some results" if report.outputs.calls else "results"
            name = format_target(report.target.name)
            yield f"{results} of {name} were not compared: {report.outputs.refused}"
    wanted = [
        side.kernels for side in (before, after) if side.kernels is not None and not side.kernels.failures
    ]
    if len(wanted) == 2 and compared_device(before, after) is None:  # noqa: PLR2004 - both
        names = [report.target_device.key if report.target_device else "no device" for report in wanted]
        yield f"kernels by line were not compared: they are for {names[0]} and {names[1]}. Name a `--device`."
