"""Caches and starts for people and as JSON (docs/caches.md): results of each compile, causes, stages as bars.

Invariant: nothing is shown by color alone.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from enum import Enum
from typing import Any

from fuselight.shared.report import Location
from fuselight_server.base.formatting import format_count, format_estimate, format_list, format_time
from fuselight_server.base.terminal import Terminal
from fuselight_server.cli.formats.text_parts import print_heading
from fuselight_server.commands.sources import shown_path
from fuselight_server.commands.warm import TriedCure, WarmOutcome, WarmState, WarmTarget
from fuselight_server.execution.runs.planning import MAIN
from fuselight_server.jobs.caches.findings import cure_text
from fuselight_server.jobs.caches.model import (
    CacheCause,
    CacheResult,
    CacheSummary,
    CauseKind,
    LineStart,
    StartPicture,
)
from fuselight_server.jobs.caches.starts import shown_lines
from fuselight_server.jobs.caches.words import CACHE_NAMES, STAGE_NAMES, STATE_NAMES, sentence, work_text

_BAR = 24
_MAX_RESULTS = 20
"""Misses and bypasses that are printed."""
_MAX_LINES = 10
_STATES = {
    WarmState.WARM: "warm: the second start read everything from the caches",
    WarmState.NOTHING_COMPILED: "nothing was compiled",
    WarmState.FAILED: "could not be started",
}


def _as_logged(location: Location) -> Location:
    return location


def print_caches(
    summary: CacheSummary, terminal: Terminal, *, locate: Callable[[Location], Location] = _as_logged
) -> None:
    """Totals of each cache, then each miss and bypass with its cause, then notes.

    `locate`: from the job's paths to local ones.
    """
    for total in summary.totals:
        counts = [
            format_count(number, word, plural)
            for number, word, plural in (
                (total.hits, "hit", ""),
                (total.misses, "miss", "misses"),
                (total.bypasses, "bypass", "bypasses"),
            )
            if number
        ]
        name = f"{CACHE_NAMES[total.cache]}{' (remote)' if total.is_remote else ''}"
        seconds = [
            f"{format_estimate(value * 1e6)} {what}"
            for value, what in ((total.saved_seconds, "saved"), (total.lost_seconds, "lost"))
            if value
        ]
        terminal.print(f"  {name}: {', '.join([*counts, *seconds])}")
    _print_lost(summary, terminal, locate)
    for note in summary.notes:
        terminal.print(f"  note: {note}")


def _print_lost(summary: CacheSummary, terminal: Terminal, locate: Callable[[Location], Location]) -> None:
    """Each cause once, with the caches and functions that have it."""
    groups: dict[tuple[object, ...], list[CacheResult]] = {}
    for result in summary.lost:
        for cause in result.causes or (None,):
            key = (result.location, cause and cause.text, cause and cause.location)
            groups.setdefault(key, []).append(result)
    for rows in list(groups.values())[:_MAX_RESULTS]:
        _print_group(rows, terminal, locate)
    if len(groups) > _MAX_RESULTS:
        terminal.print(f"  and {len(groups) - _MAX_RESULTS} more (--format json has all)")


def _print_group(rows: list[CacheResult], terminal: Terminal, locate: Callable[[Location], Location]) -> None:
    first = rows[0]
    cause = first.causes[0] if first.causes else None
    caches = format_list(dict.fromkeys(f"{CACHE_NAMES[row.cache]} {STATE_NAMES[row.state]}" for row in rows))
    lost = sum(row.lost_seconds or 0.0 for row in rows)
    cost = f" ({format_estimate(lost * 1e6)})" if lost else ""
    where = (cause.location if cause is not None else None) or first.location
    function = f" {first.function}" if first.function else ""
    terminal.print((f"  {_place(where, locate)}", "bold"), f"{function}: {caches}{cost}")
    # That there is no earlier start is a note of the whole summary, which is printed once.
    if cause is not None and cause.kind is not CauseKind.NOT_COMPARED:
        _print_cause(cause, terminal)


def _print_cause(cause: CacheCause, terminal: Terminal) -> None:
    terminal.print(f"    {sentence(cause.text)}")
    cure = cure_text(cause)
    if cure:
        terminal.print(f"    to do: {cure}")


def _place(location: Location | None, locate: Callable[[Location], Location]) -> str:
    if location is None:
        return "no source line"
    place = locate(location)
    return f"{shown_path(place.path)}:{place.line}"


def print_start(
    picture: StartPicture, terminal: Terminal, *, locate: Callable[[Location], Location] = _as_logged
) -> None:
    """The stages of a start with bars, what a second start saves, then the lines that took most of it."""
    longest = max((part.seconds for part in picture.stages), default=0.0)
    width = max((len(STAGE_NAMES[part.stage]) for part in picture.stages), default=0)
    for part in picture.stages:
        bar = "#" * max(1, round(_BAR * part.seconds / longest)) if longest else ""
        terminal.print(f"  {STAGE_NAMES[part.stage]:<{width}}  {format_time(part.seconds * 1e6):>8}  {bar}")
    if picture.saved_by_second_start and picture.is_import_known:
        saved = format_estimate(picture.saved_by_second_start * 1e6)
        terminal.print(f"  a second start saves {saved} of the compiles and none of the imports")
    lines = shown_lines(picture)
    for line in lines[:_MAX_LINES]:
        name = work_text(line)
        # All imports of no line need no place: their text says so.
        place = "" if line.is_import and line.location is None else _place(line.location, locate)
        terminal.print(f"  {' '.join(filter(None, (place, name)))}: {_time_of(line)}")
    if len(lines) > _MAX_LINES:
        terminal.print(f"  and {format_count(len(lines) - _MAX_LINES, 'line')} more")
    for note in picture.notes:
        terminal.print(f"  note: {note}")


def _time_of(line: LineStart) -> str:
    """How long a line took in the start, and what a second start saves of it."""
    seconds = format_time(line.seconds * 1e6)
    if line.is_import:
        nested = line.with_nested or 0.0
        with_nested = f" ({format_time(nested * 1e6)} with what it imports)" if nested > line.seconds else ""
        return f"{seconds}{with_nested}"
    saved = line.saved_by_second_start
    again = f", of which a second start saves {format_estimate(saved * 1e6)}" if saved else ""
    return f"{seconds} in {format_count(line.compiles, 'compile')}{again}"


def print_warm(outcome: WarmOutcome, terminal: Terminal) -> None:
    """Both starts of each target, those of a program once."""
    programs: dict[str, str] = {}
    for target in outcome.targets:
        print_heading(target.report, _verdict(target), terminal)
        name = target.report.target.name or MAIN
        first = programs.setdefault(target.program, name) if target.program else name
        if first != name:
            terminal.print(f"  the program ran as for {first}, see above")
            terminal.print()
            continue
        if target.start is not None and target.restart is not None:
            first, second = (
                format_time(picture.compile_seconds * 1e6) for picture in (target.start, target.restart)
            )
            terminal.print(f"  compile time: {first} in the first start, {second} in the second")
            print_start(target.start, terminal)
        if target.second is not None:
            terminal.print("  second start:")
            print_caches(target.second, terminal)
        for cure in target.tried:
            terminal.print(f"  tried: {_tried(cure)}")
        terminal.print()


def _tried(cure: TriedCure) -> str:
    setting = f"`{cure.setting} = {cure.value}`"
    if cure.state is WarmState.WARM:
        return f"with {setting} the second start read everything from the caches"
    if cure.state is WarmState.COMPILED_AGAIN:
        lost = format_estimate(cure.lost_seconds * 1e6)
        return f"with {setting} the second start still compiled {lost} again"
    return f"{setting} could not be tried"


def _verdict(target: WarmTarget) -> str:
    if target.state is not WarmState.COMPILED_AGAIN:
        return _STATES[target.state]
    lost = target.second.lost if target.second is not None else ()
    functions = {(row.location, row.function) for row in lost}
    if not functions:
        return "not cached: the backend keeps no cache"
    return f"not warm: the second start compiled {format_count(len(functions), 'function')} again"


def warm_as_json(outcome: WarmOutcome) -> str:
    """Both starts of each target, and what could not be done."""
    data = {"schema": 1, "targets": warm_data(outcome), "problems": plain(outcome.check.problems)}
    return json.dumps(data, indent=2)


def warm_data(outcome: WarmOutcome) -> list[dict[str, Any]]:
    """Both starts of each target as JSON values."""
    return [
        {
            "path": target.report.target.path,
            "name": target.report.target.name or MAIN,
            "line": target.report.target.line,
            "torch": target.report.versions.torch,
            "state": target.state.value,
            "first": summary_data(target.first),
            "second": summary_data(target.second),
            "start": start_data(target.start),
            "restart": start_data(target.restart),
            "tried": plain(target.tried),
            "failures": plain(target.report.failures),
        }
        for target in outcome.targets
    ]


def summary_data(summary: CacheSummary | None) -> dict[str, Any] | None:
    """A summary as JSON values, with its causes as sentences, too."""
    if summary is None:
        return None
    data: dict[str, Any] = plain(summary)
    for row, result in zip(data["results"], summary.results, strict=True):
        row["compile_id"] = None if result.compile_id is None else str(result.compile_id)
        for cause_data, cause in zip(row["causes"], result.causes, strict=True):
            cause_data["changes"] = [
                change_data | {"text": change.text}
                for change_data, change in zip(cause_data["changes"], cause.changes, strict=True)
            ]
    return data


def start_data(picture: StartPicture | None) -> dict[str, Any] | None:
    """A start as JSON values."""
    return None if picture is None else {**plain(picture), "seconds": picture.seconds}


def plain(value: Any) -> Any:
    """Dataclasses, enumerations and tuples as JSON values."""
    if isinstance(value, Enum):
        return value.value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {each.name: plain(getattr(value, each.name)) for each in dataclasses.fields(value)}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value
