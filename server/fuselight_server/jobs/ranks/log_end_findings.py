"""FL914 of processes whose logs end inside a compile: killed, crashed, hanging, or not read to the end.

Invariant: the log has no record of how a process ended, so that a finding lists what can have happened, and claims none
of it. A job that is still followed has no such finding, and one whose following was ended no warning.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone

from fuselight.shared.report import Location, Tier
from fuselight_server.base.finding import Finding, Severity, Span
from fuselight_server.base.formatting import format_count, format_first, format_list, format_time
from fuselight_server.base.rank_words import ranks_in_words
from fuselight_server.explain.findings.common.catalogue import link, severity
from fuselight_server.explain.findings.common.text import compose, sentence
from fuselight_server.jobs.caches.model import StartStage
from fuselight_server.jobs.caches.starts import stage_of
from fuselight_server.jobs.caches.words import STAGE_NAMES
from fuselight_server.jobs.trace_log.log_ends import LogEnd, OpenCompile

_CODE = "FL914"
_LISTED = 4
_LEAST_GAP = 0.05
"""Seconds between two logs below which neither counts as the one that ended first."""
_JUST = 0.001
"""Seconds below which a phase has just begun: clocks of records and of events differ by as much."""
_COMPILERS = frozenset({StartStage.COMPILING, StartStage.AUTOTUNING, StartStage.CODE_GENERATION})
"""Stages that start processes of their own to compile kernels."""


@dataclass(frozen=True, slots=True)
class JobLogs:
    """How the logs of a job were read, and what its findings have in common."""

    name: str
    torch: str
    is_followed: bool
    """Whether they were followed until the user ended that."""
    has_ended: bool
    """Whether the job is known to have ended."""
    locate: Callable[[Location], Location]
    """From the job's paths to local ones."""


@dataclass(frozen=True, slots=True)
class _OpenGroup:
    """Processes whose logs end inside a compile of the same function."""

    ends: tuple[LogEnd, ...]
    """The first to end first."""
    compile: OpenCompile
    """Of the first of them to end."""

    @property
    def time(self) -> float:
        """When the first of them ended."""
        return min((end.time for end in self.ends if end.time is not None), default=0.0)


def log_end_findings(ends: Sequence[LogEnd], logs: JobLogs) -> list[Finding]:
    """One finding for each function whose compile the logs end in, the first to end first."""
    groups = sorted(_groups(ends), key=lambda group: group.time)
    return [
        _finding(group, groups[0], ends, logs, where)
        for group in groups
        if (where := group.compile.location) is not None
    ]


def log_end_notes(ends: Sequence[LogEnd]) -> Iterator[str]:
    """Of the compiles that name no line: a finding needs one."""
    for group in _groups(ends):
        if group.compile.location is None:
            yield f"{_whose(group.ends, len(ends))} inside compile {group.compile.id}, of which no line is known."


def _groups(ends: Iterable[LogEnd]) -> list[_OpenGroup]:
    groups: dict[tuple[object, ...], list[LogEnd]] = {}
    for end in ends:
        compiled = end.compile
        if compiled is not None:
            where = compiled.location
            key = (where and (where.path, where.line), compiled.function, compiled.is_backward)
            groups.setdefault((*key, where is None and str(compiled.id)), []).append(end)
    out = []
    for members in groups.values():
        members.sort(key=lambda end: end.time or 0.0)
        if members[0].compile is not None:
            out.append(_OpenGroup(tuple(members), members[0].compile))
    return out


def _whose(ends: Sequence[LogEnd], processes: int) -> str:
    """`the log of rank 1 ends`, `the logs of ranks 0 and 3 end`; of a job of one process `the log ends`."""
    if processes == 1:
        return "the log ends"
    return (
        f"the {'log' if len(ends) == 1 else 'logs'} of {_labels(ends)} {'ends' if len(ends) == 1 else 'end'}"
    )


def _labels(ends: Sequence[LogEnd]) -> str:
    ranks = [end.rank for end in ends if end.rank is not None]
    if len(ranks) == len(ends):
        return ranks_in_words(ranks)
    labels = [end.label for end in ends]
    return format_list(labels) if len(labels) <= _LISTED else format_first(labels, _LISTED)


def _finding(
    group: _OpenGroup, first: _OpenGroup, ends: Sequence[LogEnd], logs: JobLogs, where: Location
) -> Finding:
    compiled, place = group.compile, logs.locate(where)
    function = place.function if compiled.function else None
    name = f"`{function}`" if function else "the module that this line calls"
    what = f"the backward of {name}" if compiled.is_backward else name
    if compiled.resumed_at is not None and not compiled.is_backward:
        what += f" from line {compiled.resumed_at} on"
    if logs.is_followed:
        whose = _labels(group.ends) if len(ends) > 1 else "the process"
        verb = "was" if len(group.ends) == 1 else "were"
        title = f"{whose} {verb} compiling {what} when the following ended"
    else:
        title = f"{_whose(group.ends, len(ends))} inside the compile of {what}"
    is_first = group is first or group.time - first.time < _LEAST_GAP
    cost = []
    if any(end.rank is not None for end in group.ends) and len(ends) > len(group.ends):
        cost.append("the other ranks cannot pass the next collective without it")
    return Finding(
        code=_CODE,
        severity=severity(_CODE) if is_first and not logs.is_followed else Severity.INFORMATION,
        title=title,
        message=compose(
            sentence(title),
            *_known(group),
            _unknown(logs),
            " ".join(_others(group, first, ends)),
            cost=cost,
            hints=_hints(compiled, logs),
        ),
        span=Span(place.path, place.line),
        tier=Tier.CAPTURE,
        target=function or "",
        inputs=logs.name,
        torch=logs.torch,
        link=link(_CODE),
        cost=tuple(cost),
        subject=f"unfinished:{compiled.function}:{compiled.is_backward}",
    )


def _known(group: _OpenGroup) -> Iterator[str]:
    """The phase of each process, for how long, and when its last record was written."""
    for end in group.ends[:_LISTED]:
        compiled = end.compile
        if compiled is None:
            continue
        label = f"{end.label}: " if len(group.ends) > 1 else ""
        yield sentence(f"{label}{_phase_text(compiled, end.time)}")
    times = [end.time for end in group.ends if end.time is not None]
    if len(times) > 1 and times[1] - times[0] >= _LEAST_GAP:
        gap = _seconds(times[1] - times[0])
        first = next(end for end in group.ends if end.time == times[0])
        yield f"The log of {first.label} ended first, by {gap}: the other ends can follow from it."
    if len(group.ends) > _LISTED:
        yield f"And {format_count(len(group.ends) - _LISTED, 'more process', 'more processes')}."


def _phase_text(compiled: OpenCompile, ended: float | None) -> str:
    moment = ""
    if ended is not None:
        local = datetime.fromtimestamp(ended, tz=timezone.utc).astimezone()
        moment = f"the last record is of {local:%Y-%m-%d %H:%M:%S}"
    if not compiled.phases:
        return moment or "the log does not name the phase"
    stage = next((stage for name in reversed(compiled.phases) if (stage := stage_of(name))), StartStage.OTHER)
    text = f"it was in {STAGE_NAMES[stage]} (phase `{compiled.phases[-1]}`)"
    text += f"{_lasted(compiled.phase_started, ended)}"
    if len(compiled.phases) > 1 and compiled.started is not None and ended is not None:
        text += f", {_seconds(ended - compiled.started)} after the compile began"
    return f"{text}; {moment}" if moment else text


def _lasted(start: float | None, end: float | None) -> str:
    if start is None or end is None:
        return ""
    return ", which had just begun" if end - start < _JUST else f" for at least {_seconds(end - start)}"


def _seconds(seconds: float) -> str:
    return format_time(max(seconds, 0.0) * 1e6)


def _unknown(logs: JobLogs) -> str:
    if logs.has_ended:
        return (
            "The log does not say how the process ended: it was killed, as when memory runs out, or it crashed, or its "
            "launcher ended it."
        )
    if logs.is_followed:
        return "The log does not say whether the process still compiles, hangs, or has ended."
    return (
        "The log does not say why: the process was killed, as when memory runs out, or it crashed, hangs or still "
        "compiles, or the log was copied before its end."
    )


def _others(group: _OpenGroup, first: _OpenGroup, ends: Sequence[LogEnd]) -> Iterator[str]:
    """What the other logs show: whether they go on, and which log ended first."""
    others = [end for end in ends if end not in group.ends]
    last = max((end.time for end in group.ends if end.time is not None), default=None)
    if last is None or not others:
        return
    later = [end for end in others if end.time is not None and end.time - last >= _LEAST_GAP]
    if later:
        verb, noun = ("goes", "log") if len(later) == 1 else ("go", "logs")
        longest = max(end.time or last for end in later) - last
        until = f"for {_seconds(longest)}" if len(later) == 1 else f"for up to {_seconds(longest)}"
        yield f"The {noun} of {_labels(later)} {verb} on {until} after it."
    else:
        yield "No other log goes on after it."
    if group is not first and group.time - first.time >= _LEAST_GAP:
        gap = _seconds(group.time - first.time)
        whose = sentence(_whose(first.ends, len(ends))).rstrip(".")
        yield f"{whose} {gap} earlier, inside a compile, too: this end can follow from that one."


def _hints(compiled: OpenCompile, logs: JobLogs) -> Iterator[str]:
    if not logs.is_followed:
        yield (
            "Read the end of the output and the exit code of the process: -9 or 137 and `Out of memory` in `dmesg` "
            "mean that memory ran out, -11 or 139 a crash in native code"
        )
        stages = {stage_of(name) for name in compiled.phases}
        less = "run fewer processes on one machine"
        if stages & _COMPILERS:
            less += ", and compile kernels one by one with `TORCHINDUCTOR_COMPILE_THREADS=1`"
        yield f"If memory ran out: {less}"
    if not logs.has_ended:
        yield "If the job still runs: open its logs again later, or follow it while it runs"
