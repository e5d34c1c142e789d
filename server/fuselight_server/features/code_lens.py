"""Code lenses: what the last run of a target found, and a button that runs it.

Invariant: a lens says where its numbers' inputs come from, and when they are from before an edit.
"""

from __future__ import annotations

import asyncio
import dataclasses
from typing import TYPE_CHECKING

from fuselight.report import Rung
from fuselight_server import convert
from fuselight_server.changes import first_of
from fuselight_server.features import bench_lens, kernel_lens
from fuselight_server.features.lens import lens
from fuselight_server.features.protocol import Encoded
from fuselight_server.features.status import describe
from fuselight_server.features.sync import NEEDS_FILE
from fuselight_server.findings.counts import counts
from fuselight_server.kernels.words import line_numbers
from fuselight_server.places import span
from fuselight_server.runs import Key

if TYPE_CHECKING:
    from lsprotocol import types

    from fuselight.report import Inputs, Location
    from fuselight_server.convert import PlainRange
    from fuselight_server.features.lens import Lens
    from fuselight_server.features.server import Server
    from fuselight_server.finding import Span
    from fuselight_server.places import Result
    from fuselight_server.runs import Running
    from fuselight_server.state import Snapshot
    from fuselight_server.static.reading import StaticTarget

RUN = "fuselight.server.run"
CANCEL = "fuselight.server.cancel"
DETAILS = "fuselight.showDetails"


SLICE = 200
"""Targets whose lenses are made at a stretch: some 2 ms."""


async def code_lens(server: Server, params: types.CodeLensParams) -> Encoded | None:
    """Answer `textDocument/codeLens`."""
    document = server.state.documents.get(params.text_document.uri)
    if document is None:
        return None
    await document.source.read()
    snapshot = server.snapshot(params.text_document.uri)
    if snapshot is None or snapshot.settings.code_lens == "off":
        return None
    client, version = server.view, document.version
    view = dataclasses.replace(client, read_line=lambda _, line: document.line(line))
    main = snapshot.reading.main_line
    known = _known(snapshot)
    answer = Encoded()
    lenses: list[Lens] = []
    for index, target in enumerate(snapshot.reading.targets, start=1):
        serving = snapshot.reading.serving(target) if target.name not in known else None
        shown = serving or target
        has_inputs = bool(shown.directives) or shown.name in known
        if snapshot.settings.code_lens == "all" or target.compiled or has_inputs:
            place = convert.plain_range(target.name_span, view)
            lenses += _lenses(snapshot, shown, place, has_inputs=has_inputs)
        if index % SLICE == 0:
            answer.extend(lenses)
            lenses = []
            await asyncio.sleep(0)
            if document.version != version:
                return await code_lens(server, params)
    if main is not None and "" in known:
        at = {"line": main - 1, "character": 0}
        lenses += _main_lenses(snapshot, {"start": at, "end": at})
    lenses += kernel_lens.line_lenses(snapshot)
    answer.extend(lenses)
    return answer


def _known(snapshot: Snapshot) -> set[str]:
    """Name the targets of this file that something has been run for, or is."""
    keys = (
        *snapshot.results, *snapshot.kernels, *snapshot.measured, *snapshot.running, *snapshot.waiting,
    )  # fmt: skip
    return {key.name for key in keys if key.path == snapshot.path}


def _lenses(snapshot: Snapshot, target: StaticTarget, place: PlainRange, *, has_inputs: bool) -> list[Lens]:
    uri = snapshot.document.uri
    if not snapshot.document.runnable:
        return [lens(place, NEEDS_FILE)] if target.compiled or target.directives else []
    run = [lens(place, "Run", RUN, {"uri": uri, "target": target.name})] if snapshot.can_run else []
    if has_inputs:
        running = _running(snapshot, target.name)
        if running is not None:
            cancel = lens(place, "Cancel", CANCEL, {"uri": uri})
            so_far = kernel_lens.lenses_so_far(snapshot, target.name, place)
            benchmark = bench_lens.running_lenses(snapshot, target.name, place)
            return [lens(place, describe(running)), cancel, *so_far, *benchmark]
        run += kernel_lens.target_lenses(snapshot, target.name, place)
        run += bench_lens.target_lenses(snapshot, target.name, place)
        result = snapshot.results.get(Key(snapshot.path, target.name))
        if result is not None:
            return [lens(place, summary(result)), *run, *_details(snapshot, place, target.name)]
    main = snapshot.results.get(Key(snapshot.path, "")) if target.compiled else None
    if main is not None and _was_traced(main, target.span):
        return [lens(place, summary(main, within=target.span)), *run, *_details(snapshot, place, "")]
    if has_inputs and kernel_lens.kernel_key(snapshot, target.name) in snapshot.kernels:
        run += _details(snapshot, place, target.name)
    if target.directives:
        lines = line_numbers(directive.line for directive in target.directives)
        return [lens(place, f"inputs from {lines}"), *run]
    return run


def _was_traced(result: Result, within: Span) -> bool:
    """Whether a frame of the report stands in `within`; `m = torch.compile(Net())` holds none of Net's."""
    last = within.end_line or within.line
    places = (
        result.places.now(span(frame.location))
        for frame in result.report.frames
        if frame.location.path == within.path
    )
    return any(within.line <= place.line <= last for place in places)


def _main_lenses(snapshot: Snapshot, place: PlainRange) -> list[Lens]:
    key = Key(snapshot.path, "")
    arguments = {"uri": snapshot.document.uri, "target": "__main__"}
    running = _running(snapshot, "")
    if running is not None:
        return [
            lens(place, describe(running)),
            lens(place, "Cancel", CANCEL, {"uri": snapshot.document.uri}),
            *kernel_lens.lenses_so_far(snapshot, "", place),
            *bench_lens.running_lenses(snapshot, "", place),
        ]
    run = [lens(place, "Run", RUN, arguments)] if snapshot.can_run else []
    run += kernel_lens.target_lenses(snapshot, "", place)
    result = snapshot.results.get(key)
    head = [lens(place, summary(result))] if result is not None else []
    return [*head, *run, *_details(snapshot, place, "")]


def _running(snapshot: Snapshot, target: str) -> Running | None:
    """Return the run of a target that is in flight, benchmarks apart: they go on for minutes beside others."""
    return snapshot.running.get(Key(snapshot.path, target)) or snapshot.running.get(
        kernel_lens.kernel_key(snapshot, target)
    )


def _details(snapshot: Snapshot, place: PlainRange, target: str) -> list[Lens]:
    if DETAILS not in snapshot.client.commands:
        return []
    return [lens(place, "Details", DETAILS, {"uri": snapshot.document.uri, "target": target})]


def _numbers(result: Result, within: Span | None) -> str:
    """Count the graphs, breaks and recompilations of a report, or of those frames that stand in `within`."""

    def inside(location: Location) -> bool:
        if within is None:
            return True
        last = within.end_line or within.line
        line = result.places.now(span(location)).line
        return location.path == within.path and within.line <= line <= last

    return str(counts(result.report, inside))


def summary(result: Result, within: Span | None = None) -> str:
    """Say in one line what a run found: `2 graphs, 1 break, 3 recompilations - inputs from line 12`."""
    text = _numbers(result if result.learnt or result.earlier is None else result.earlier, within)
    if result.report.failures and within is None:
        text = (
            f"failed: {result.report.failures[0].message}"[:120] if not result.learnt else f"{text}, failed"
        )
    if result.report.inputs is not None:
        text += f" - {inputs_words(result.report.inputs)}"
    if result.changes and within is None:
        text += f" - {first_of(result.changes)}"
    if result.stale:
        text += " (before your edit)"
    return text


def inputs_words(inputs: Inputs) -> str:
    """Say where the inputs came from."""
    words = {
        Rung.DIRECTIVE: "inputs",
        Rung.PROVIDER: "inputs",
        Rung.DUMMY_INPUTS: "inputs from the model's dummy_inputs",
        Rung.ANNOTATIONS: "inputs from its annotations",
        Rung.RECORDED: "inputs recorded by fuselight run",
        Rung.MAIN: "inputs from the __main__ block",
        Rung.PROGRAM: "inputs from fuselight run",
    }[inputs.rung]
    if words == "inputs":
        lines = {call.location.line for call in inputs.calls if call.location is not None}
        if inputs.line is not None:
            lines.add(inputs.line)
        return f"inputs from {line_numbers(lines)}" if lines else f"inputs from a {inputs.rung.value}"
    return words
