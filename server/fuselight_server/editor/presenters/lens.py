"""Lenses in JSON's own types, as each keystroke asks for hundreds; `results/` decides what they say."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from fuselight.shared.report.visible import visible
from fuselight_server.editor.messages.answers import MessagePosition, MessageRange
from fuselight_server.editor.presenters import convert
from fuselight_server.editor.results.lens_facts import (
    LONGEST,
    SHOW_JOB,
    SHOW_KERNEL,
    Info,
    line_facts,
    shorten,
    with_state,
)
from fuselight_server.editor.results.own_kernels import own_kernel_facts
from fuselight_server.editor.results.snapshot import Snapshot
from fuselight_server.editor.results.target_lens import UNPARSED, TargetLens, unparsed_line

_LONGEST_NAME = 30
"""Characters of the name of a job."""

Lens = dict[str, Any]
"""`types.CodeLens` as it goes to the client."""


def lens(
    place: MessageRange,
    title: str,
    command: str = "",
    argument: Mapping[str, str | int] | None = None,
    *,
    tooltip: str = "",
) -> Lens:
    """Make a lens; without a command it is text alone."""
    shown: dict[str, Any] = {
        "title": visible(title),
        "command": command,
        "arguments": [argument] if argument else [],
    }
    if tooltip:
        shown["tooltip"] = visible(tooltip)
    return {"range": place, "command": shown}


def target_lenses(shown: TargetLens, place: MessageRange) -> list[Lens]:
    """Make the lenses of a target."""
    argument = {"uri": shown.snapshot.document.uri, "target": shown.name}
    return [_info_lens(info, place, argument) for info in shown.infos()]


def _info_lens(info: Info, place: MessageRange, argument: dict[str, str]) -> Lens:
    text = shorten(info.text, LONGEST - len(info.state))
    tooltip = info.tooltip or (info.text if text != info.text else "")
    named: dict[str, str | int] = {
        **argument,
        "target": argument["target"] if info.target is None else info.target,
    }
    if info.is_for_file:
        del named["target"]
    return lens(
        place, with_state(text, info.state), info.command, named if info.command else None, tooltip=tooltip
    )


def program_lenses(shown: TargetLens, line: int) -> list[Lens]:
    """Make the lenses of the program of a file."""
    return target_lenses(shown, _start_of(line))


def line_lenses(snapshot: Snapshot) -> Iterator[Lens]:
    """Make the lenses of lines with a part in kernels; a click opens the source of the kernels."""
    for fact in line_facts(snapshot):
        text = snapshot.document.line(fact.line) or ""
        place = _start_of(fact.line, len(text) - len(text.lstrip()))
        if fact.target is None:
            yield lens(place, fact.text)
        else:
            named = {"uri": snapshot.document.uri, "target": fact.target}
            yield lens(
                place, fact.text, SHOW_KERNEL, {**named, "line": fact.first - 1, "last": fact.last - 1}
            )


def own_kernel_lenses(snapshot: Snapshot) -> Iterator[Lens]:
    """Make the lenses of the user's own Triton kernels; a click opens what one was compiled to."""
    for fact in own_kernel_facts(snapshot):
        text = snapshot.document.line(fact.line) or ""
        place = _start_of(fact.line, len(text) - len(text.lstrip()))
        named = {"uri": snapshot.document.uri, "target": fact.target}
        yield lens(place, fact.text, SHOW_KERNEL, {**named, "line": fact.line - 1, "last": fact.last - 1})


def other_lenses(snapshot: Snapshot, view: convert.Client) -> Iterator[Lens]:
    """Make the lenses of lines: of a syntax error that a save waits for, of kernels, and of open jobs."""
    unparsed = unparsed_line(snapshot)
    if unparsed is not None:
        yield lens(_start_of(unparsed), UNPARSED)
    yield from own_kernel_lenses(snapshot)
    yield from line_lenses(snapshot)
    for job in snapshot.jobs:
        name = shorten(job.opened.name, _LONGEST_NAME)
        for function in job.functions:
            place = function.place
            if not place.is_deleted and place.span.path == snapshot.path:
                at = convert.plain_range(dataclasses.replace(place.span, column=0), view)
                yield lens(at, f"job {name}: {function.words}", SHOW_JOB, {"job": job.id})


def _start_of(line: int, character: int = 0) -> MessageRange:
    at: MessagePosition = {"line": line - 1, "character": character}
    return {"start": at, "end": at}
