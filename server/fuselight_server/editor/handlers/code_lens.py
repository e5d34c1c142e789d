"""Code lenses: on a target its actions and its results, on a line its part in kernels.

Invariant: a target has at most two facts before its actions, each at most 60 characters long; tooltips and the hover of
the same line have the rest. An action that cannot work is not there. docs/editor.md lists every state.
"""

from __future__ import annotations

import asyncio
import dataclasses
import enum
import os
from typing import TYPE_CHECKING

from fuselight.shared.notebooks.cells import SUFFIX
from fuselight.shared.report import Rung, Tier
from fuselight_server.base.formatting import format_lines
from fuselight_server.editor.handlers import job_lines
from fuselight_server.editor.handlers.protocol import Encoded
from fuselight_server.editor.handlers.status import describe
from fuselight_server.editor.handlers.sync import NEEDS_FILE
from fuselight_server.editor.presenters import convert
from fuselight_server.editor.presenters.client_commands import NO_ACTION, lenses_for
from fuselight_server.editor.presenters.lens import (
    ADD_INPUTS,
    ASK_BENCHMARK,
    ASK_TUNE,
    CANCEL_BENCHMARK,
    CANCEL_TUNING,
    DETAILS,
    KERNELS,
    LONGEST,
    SHOW_BENCHMARK,
    SHOW_FIRST,
    SHOW_TUNING,
    STALE,
    USE_INPUTS,
    Info,
    age,
    benchmark_info,
    caveats,
    format_where,
    kernel_info,
    lens,
    line_lenses,
    shorten,
    tuning_info,
    with_state,
)
from fuselight_server.editor.results.captures import CaptureResult
from fuselight_server.editor.results.changes import first_of
from fuselight_server.editor.results.run_ends import NOUNS
from fuselight_server.editor.results.target_result import CANCELED, STILL_RUNNING
from fuselight_server.editor.session.live_edits import STARTING
from fuselight_server.execution.runs.keys import Key
from fuselight_server.explain.benchmarks.words import failed
from fuselight_server.explain.findings.common.counts import Counts, counts
from fuselight_server.explain.findings.failures import lacks_inputs, short_end
from fuselight_server.explain.findings.forecasts.forecasts import lens_text
from fuselight_server.source.positions import span

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from lsprotocol import types

    from fuselight.shared.protocol import DirectiveLine
    from fuselight.shared.report import Inputs, Location
    from fuselight_server.base.finding import Span
    from fuselight_server.editor.handlers.server import Server
    from fuselight_server.editor.messages.answers import MessagePosition, MessageRange
    from fuselight_server.editor.presenters.lens import Lens
    from fuselight_server.editor.results.predictions import Prediction
    from fuselight_server.editor.results.snapshot import Snapshot
    from fuselight_server.execution.runs.queue import Running
    from fuselight_server.source.reading import StaticTarget

RUN = "fuselight.server.run"
CANCEL = "fuselight.server.cancel"

WAITING = "waiting for another benchmark"
UNPARSED = "Fuselight waits: the file does not parse here"

QUEUED = "queued"
ASKED = "waiting for your answer"

_FACTS = 2
"""What the lens of a target says before its actions."""

SLICE = 200
"""Targets whose lenses are made before the event loop runs on: some 2 ms."""


async def code_lens(server: Server, params: types.CodeLensParams) -> Encoded | None:
    """Answer `textDocument/codeLens`."""
    uri = params.text_document.uri
    while True:
        answer = Encoded()
        state = await _add_lenses(server, uri, answer.extend)
        if state is not _Lenses.OUTDATED:
            return answer if state is _Lenses.COMPLETE else None


async def lenses_on(server: Server, uri: str, first: int, last: int) -> list[Lens]:
    """Return the lenses on some lines, 0-based, that run something: for clients without lenses."""
    lenses: list[Lens] = []
    while await _add_lenses(server, uri, lenses.extend) is _Lenses.OUTDATED:
        lenses.clear()
    return [
        shown
        for shown in lenses
        if first <= shown["range"]["start"]["line"] <= last
        and shown["command"]["command"] not in {"", NO_ACTION}
    ]


class _Lenses(enum.Enum):
    """How the making of lenses ended."""

    COMPLETE = "complete"
    OUTDATED = "outdated"
    """The text changed meanwhile."""
    NONE = "none"


async def _add_lenses(server: Server, uri: str, add: Callable[[list[Lens]], None]) -> _Lenses:
    """Make the lenses of a file, piece by piece."""
    document = server.state.documents.get(uri)
    if document is None:
        return _Lenses.NONE
    await document.source.read()
    snapshot = server.snapshot(uri)
    if snapshot is None or snapshot.settings.code_lens == "off":
        return _Lenses.NONE
    client, version = server.view, document.version
    view = dataclasses.replace(client, read_line=lambda _, line: document.line(line))
    known = _known(snapshot)
    lenses: list[Lens] = []
    for index, target in enumerate(snapshot.reading.targets, start=1):
        serving = snapshot.reading.serving(target) if target.name not in known else None
        shown = serving or target
        has_inputs = bool(shown.directives) or shown.name in known
        is_offered = target.compiled or has_inputs or _is_shown(target, snapshot.settings.code_lens)
        if is_offered or target.kind == "module":  # a class may have been compiled by a run of `__main__`
            place = convert.plain_range(target.name_span, view)
            seen = snapshot if is_offered else dataclasses.replace(snapshot, can_run=False)
            lenses += _lenses(seen, shown, place, is_known=has_inputs)
        if index % SLICE == 0:
            add(lenses_for(lenses, snapshot.client))
            lenses = []
            await asyncio.sleep(0)
            if document.version != version:
                return _Lenses.OUTDATED
    has_run = "" in known
    main = _line_of_program(snapshot) if has_run else await server.analysis.saves.program_lines.of(document)
    if document.version != version:
        return _Lenses.OUTDATED
    if main is not None:
        at: MessagePosition = {"line": main - 1, "character": 0}
        lenses += TargetLenses(snapshot, "", {"start": at, "end": at}, is_known=has_run).make()
    lenses += _waiting(snapshot)
    lenses += line_lenses(snapshot)
    lenses += job_lines.lenses(snapshot, view)
    add(lenses_for(lenses, snapshot.client))
    return _Lenses.COMPLETE


def _waiting(snapshot: Snapshot) -> Iterator[Lens]:
    """Say on a syntax error that a save ran nothing; what is wrong there, other tools report."""
    wrong = snapshot.reading.syntax_error
    if snapshot.document.waits and wrong is not None and snapshot.settings.run == "save":
        at: MessagePosition = {"line": wrong.line - 1, "character": 0}
        yield lens({"start": at, "end": at}, UNPARSED)


def _line_of_program(snapshot: Snapshot) -> int | None:
    """Where the program of the file begins: its `__main__` block, or else what the run of its statements named."""
    if snapshot.reading.main_line is not None:
        return snapshot.reading.main_line
    result = snapshot.captures.get(Key(snapshot.path, ""))
    if result is None:
        return None
    place = result.places.line_now(snapshot.path, result.report.target.line)
    return place.line if place is not None else None


def _is_shown(target: StaticTarget, setting: str) -> bool:
    """Whether the setting asks for lenses on a target that nothing compiles and that has no inputs."""
    return setting == "all" or (setting == "compilable" and target.computes)


def _known(snapshot: Snapshot) -> set[str]:
    """Name the targets of this file that something has been run for, or is."""
    keys = (*snapshot.results, *snapshot.running, *snapshot.waiting, *snapshot.asked, *snapshot.run_ends)
    return {key.name for key in keys if key.path == snapshot.path}


@dataclasses.dataclass(frozen=True)
class TargetLenses:
    """The lenses of one target: the two most important facts, then its actions, then where its inputs come from.

    A state that both facts share stands once, on the first.
    """

    snapshot: Snapshot
    name: str
    """Empty for the file's `__main__` block."""
    place: MessageRange
    is_known: bool
    """Whether something has been run for it, or inputs are written for it."""
    directives: tuple[DirectiveLine, ...] = ()

    @property
    def _argument(self) -> dict[str, str | int]:
        return {"uri": self.snapshot.document.uri, "target": self.name}

    @property
    def _words(self) -> str:
        return self.name or "__main__"

    def _key(self, tier: Tier = Tier.CAPTURE) -> Key:
        return Key(self.snapshot.path, self.name, tier)

    @property
    def _capture(self) -> CaptureResult | None:
        result = self.snapshot.results.get(self._key())
        return result if isinstance(result, CaptureResult) else None

    @property
    def _running(self) -> Running | None:
        """The run that is in flight, benchmarks apart: those take minutes and run alongside others."""
        running = self.snapshot.running
        return running.get(self._key()) or running.get(self._key(Tier.KERNELS))

    @property
    def _is_queued(self) -> bool:
        return any(self._key(tier) in self.snapshot.waiting for tier in (Tier.CAPTURE, Tier.KERNELS))

    def _is_timed(self, tier: Tier) -> bool:
        key = self._key(tier)
        return key in self.snapshot.running or key in self.snapshot.waiting

    @property
    def _has_inputs(self) -> bool:
        """Whether kernels, a benchmark and a search can work: inputs are written, or the last run had some."""
        result = self._capture
        if result is not None and result.report.failures and not counts(result.report).graphs:
            return bool(self.directives) and lacks_inputs(result.report)  # written since
        tiers = (self._key(tier) for tier in Tier)
        return bool(self.directives) or any(
            (known := self.snapshot.results.get(key)) is not None and known.has_data for key in tiers
        )

    def make(self, facts: Iterable[Info] = ()) -> list[Lens]:
        """Make the lenses; `facts` are shown where the target has no results of its own."""
        every = [*self._facts(), *facts]
        shown = every[:_FACTS]
        if len(shown) == _FACTS and shown[0].state == shown[1].state:
            shown[1] = dataclasses.replace(shown[1], state="")
        actions = list(self._actions())
        report = next((info for info in every if info.command == DETAILS), None)
        if report is not None:
            tooltip = f"Open the report of {self._words}: frames, breaks, recompilations and forecasts."
            details = lens(self.place, "Details", DETAILS, self._named(report), tooltip=tooltip)
            actions.insert(1, details)
        inputs = [] if len(shown) == _FACTS else [self._lens(info) for info in self._inputs()]
        return [*map(self._lens, shown), *actions, *inputs]

    def _lens(self, info: Info) -> Lens:
        text = shorten(info.text, LONGEST - len(info.state))
        tooltip = info.tooltip or (info.text if text != info.text else "")
        argument = self._named(info) if info.command else None
        return lens(self.place, with_state(text, info.state), info.command, argument, tooltip=tooltip)

    def _named(self, info: Info) -> dict[str, str | int]:
        return self._argument if info.target is None else {**self._argument, "target": info.target}

    def _actions(self) -> Iterator[Lens]:
        named, words = {**self._argument, "target": self._words}, self._words
        is_active = self._running is not None or self._is_queued
        if is_active:
            cancel = {"uri": self.snapshot.document.uri}
            yield lens(self.place, "Cancel", CANCEL, cancel, tooltip="Cancel the runs of this file.")
        elif self.snapshot.can_run:
            tooltip = f"Run {words} under torch.compile, and show its graph breaks and recompilations."
            yield lens(self.place, "Run", RUN, named, tooltip=tooltip)
            if self._has_inputs:
                tooltip = (
                    f"Generate the kernels of {words}, and show them with estimated times on their lines."
                )
                yield lens(self.place, "Kernels", KERNELS, named, tooltip=tooltip)
        timed = (
            (
                Tier.MEASURED, "Benchmark", "Cancel Benchmark", CANCEL_BENCHMARK, ASK_BENCHMARK,
                f"Measure {words}, eager against compiled.",
            ),
            (
                Tier.TUNED, "Tune", "Cancel Tuning", CANCEL_TUNING, ASK_TUNE,
                f"Search for the fastest configuration of {words}.",
            ),
        )  # fmt: skip
        active = [entry for entry in timed if self._is_timed(entry[0])]
        for _, _, title, cancel_command, _, _ in active:
            yield lens(self.place, title, cancel_command, self._argument)
        if not active and not is_active and self.snapshot.can_run and self._has_inputs:
            for _, title, _, _, ask, tooltip in timed:
                yield lens(self.place, title, ask, self._argument, tooltip=tooltip)

    def _facts(self) -> Iterator[Info]:
        """Yield what is in progress, then what to do and the results, the most important first."""
        if not self.is_known:
            return
        snapshot, running = self.snapshot, self._running
        if running is not None:
            yield Info(describe(running))
        elif self._is_queued:
            yield Info(QUEUED, tooltip=f"{self._words} runs when the runs before it have ended.")
        if any(self._key(tier) in snapshot.asked for tier in Tier):
            yield Info(ASKED, tooltip="Fuselight asked whether it may run code. Press Run to be asked again.")
        is_timed = False
        for tier, title, show in (
            (Tier.MEASURED, "Benchmark", SHOW_BENCHMARK),
            (Tier.TUNED, "Tune", SHOW_TUNING),
        ):
            if self._is_timed(tier):
                running_job = snapshot.running.get(self._key(tier))
                text = describe(running_job) if running_job is not None else f"{title}: {WAITING}"
                yield Info(text, "", show)
                is_timed = True
        yield from self._ends()
        tiers = [info for _, info in sorted(self._of_tiers(), key=lambda item: item[0])]
        if running is not None or is_timed:  # what is partial belongs to what is in progress
            tiers.sort(key=lambda info: info.state != STILL_RUNNING)
            yield from tiers[: 1 if tiers and tiers[0].state == STILL_RUNNING else 0]
            tiers = [info for info in tiers if info.state != STILL_RUNNING]
        yield from self._of_results(tiers[:1])

    def _ends(self) -> Iterator[Info]:
        """Yield why runs that were asked for have no result."""
        for tier in NOUNS:
            end = self.snapshot.run_ends.get(self._key(tier))
            known = self.snapshot.results.get(self._key(tier))
            if end is not None and not (known is not None and known.unfinished == CANCELED):
                yield Info(end.short(tier), tooltip=end.sentence(tier))

    def _of_results(self, tiers: list[Info]) -> Iterator[Info]:
        """Yield the results; `tiers`: the most important one of kernels, benchmark and search."""
        result = self._capture
        edits = (Info(text) for prediction in self.snapshot.predictions if (text := self._edit(prediction)))
        if result is None:
            yield from (*edits, *tiers)
            return
        yield from edits
        if not result.stale:
            yield from self._fix_first(result)
        yield from (info for info in tiers if info.state != STALE)
        yield from self._of_capture(result)
        yield from (info for info in tiers if info.state == STALE)
        if result.changes:
            yield Info(first_of(result.changes_now), "", DETAILS, tooltip="; ".join(result.changes_now))
        if not result.stale and (expected := lens_text(result.expected_changes)):
            yield Info(expected, age(result), DETAILS)

    def _of_capture(self, result: CaptureResult) -> Iterator[Info]:
        """Yield what a capture found; for a target without inputs, what gives it some."""
        if result.has_data or not lacks_inputs(result.report):
            yield from result_facts(result)
            return
        if self.directives:  # written since
            return
        failure = result.report.failures[0]
        if self.snapshot.can_run and result.input_programs:
            name = result.input_programs[0].name
            tooltip = f"Run {name} up to its first call of {self._words}, and use the inputs of that call."
            yield Info(f"Use the inputs of {name}", "", USE_INPUTS, tooltip=tooltip)
        if failure.phase == "program":
            yield Info(short_end(failure), tooltip=failed(failure))
        tooltip = f"{failed(failure)}. Inserts a line above {self._words} with the inputs of an example call."
        yield Info("needs inputs: add a line", "", ADD_INPUTS, tooltip=tooltip)

    def _fix_first(self, result: CaptureResult) -> Iterator[Info]:
        """Yield which line to fix first."""
        fix, line = self.snapshot.first_fixes.get(result.key, ""), result.first_line
        if line is not None:
            text = f"Fix {format_where(line, self.snapshot.path)} first{' (fix verified)' if fix else ''}"
            command = SHOW_FIRST if self.snapshot.client.show_document else DETAILS
            yield Info(text, age(result), command, tooltip=result.fix_first(fix))

    def _inputs(self) -> Iterator[Info]:
        """Yield where the inputs come from."""
        result = self._capture
        if result is not None and result.report.inputs is not None:
            yield Info(result.text_now(inputs_words(result.report.inputs)), "", DETAILS)
        elif self.directives and (result is None or lacks_inputs(result.report)):
            yield Info(f"inputs from {format_lines(line.line for line in self.directives)}")

    def _edit(self, prediction: Prediction) -> str:
        """Say what an edit would change, as `edit: +1 break (predicted)`, or why that takes a run."""
        if prediction.key != Key(self.snapshot.path, self.name):
            return ""
        if effect := prediction.effect(self.snapshot.predicted):
            return f"edit: {effect} (predicted)"
        if not prediction.deferred:
            return ""
        reason = str(prediction.deferred[0])
        # Rules answer while the tracer starts.
        return f"edit: {reason}" if reason == STARTING else f"edit: not predicted, {reason}"

    def _of_tiers(self) -> Iterator[tuple[tuple[bool, int], Info]]:
        """Yield kernels, benchmark and search with their rank: current before stale, then the newest first."""
        snapshot = self.snapshot
        kernels = snapshot.kernels.get(Key(snapshot.path, self.name, Tier.KERNELS))
        if kernels is not None:
            info = kernel_info(kernels, is_running=self._running is not None)
            yield (kernels.shown.stale, -kernels.generation), info
        measured = snapshot.measured.get(Key(snapshot.path, self.name, Tier.MEASURED))
        if measured is not None:
            info = benchmark_info(measured, is_running=self._is_timed(Tier.MEASURED))
            yield (measured.shown.stale, -measured.generation), info
        tuned = snapshot.tunings.get(Key(snapshot.path, self.name, Tier.TUNED))
        if tuned is not None:
            yield (
                (tuned.shown.stale, -tuned.generation),
                tuning_info(tuned, is_running=self._is_timed(Tier.TUNED)),
            )


def _lenses(snapshot: Snapshot, target: StaticTarget, place: MessageRange, *, is_known: bool) -> list[Lens]:
    if not snapshot.document.runnable:
        return [lens(place, NEEDS_FILE)] if target.compiled or target.directives else []
    facts: list[Info] = []
    if not (is_known and Key(snapshot.path, target.name) in snapshot.captures):
        for main in _programs(snapshot, target):
            facts += result_facts(main, within=target.span)
    return TargetLenses(snapshot, target.name, place, is_known, target.directives).make(facts)


def _programs(snapshot: Snapshot, target: StaticTarget) -> Iterator[CaptureResult]:
    """Yield the run of `__main__` if it compiled code of `target`, which is compiled or a class."""
    main = snapshot.captures.get(Key(snapshot.path, ""))
    if main is None or not (target.compiled or target.kind == "module"):
        return
    # `m = torch.compile(Net())` holds no frame of Net.
    if any(_stands_in(main, frame.location, target.span) for frame in main.report.frames):
        yield main


def _stands_in(result: CaptureResult, at: Location, within: Span) -> bool:
    """Whether a place of the report is in `within` now."""
    last = within.end_line or within.line
    return at.path == within.path and within.line <= result.places.now(span(at)).line <= last


def result_facts(result: CaptureResult, within: Span | None = None) -> Iterator[Info]:
    """Yield how a run ended, if not well, and what it found: `2 graphs, 1 break`."""
    shown = result.shown
    failure = next(iter(result.report.failures), None) if within is None else None
    if failure is not None:
        yield Info(short_end(failure), age(result), DETAILS, result.key.name, failed(failure))
    counted = _counts(shown, within)
    if shown.has_data and (failure is None or counted.is_any):
        yield Info(counted.short, age(shown), DETAILS, result.key.name, f"{counted}{caveats(shown)}")


def _counts(result: CaptureResult, within: Span | None) -> Counts:
    if within is None:
        return counts(result.report)
    return counts(result.report, lambda at: _stands_in(result, at, within))


def summary(result: CaptureResult) -> str:
    """Say all in one line: `2 graphs, 1 break, 3 recompilations - inputs from line 12`."""
    failure = next(iter(result.report.failures), None)
    parts = [str(_counts(result.shown, None))] if result.shown.has_data else []
    text = "; ".join([*parts, *([failed(failure)] if failure is not None else [])])
    if result.report.inputs is not None:
        text += f" - {result.text_now(inputs_words(result.report.inputs))}"
    if result.changes:
        text += f" - {first_of(result.changes_now)}"
    return with_state(text, age(result))


def inputs_words(inputs: Inputs) -> str:
    """Say where the inputs came from."""
    words = {
        Rung.DIRECTIVE: "inputs",
        Rung.PROVIDER: "inputs",
        Rung.DUMMY_INPUTS: "inputs from the model's dummy_inputs",
        Rung.ANNOTATIONS: "inputs from its annotations",
        Rung.RECORDED: f"inputs recorded by {'the kernel' if inputs.path.endswith(SUFFIX) else 'fuselight run'}",
        Rung.MAIN: "inputs from the __main__ block",
        Rung.SCRIPT: "inputs from the file itself",
        Rung.PROGRAM: "inputs from fuselight run",
        Rung.KERNEL: "calls of the notebook",
        Rung.TRACE: "trace of a job",
        Rung.CALLER: f"inputs from {os.path.basename(inputs.path)}",  # noqa: PTH119 - paths stay text
    }[inputs.rung]
    if words == "inputs":
        lines = {call.location.line for call in inputs.calls if call.location is not None}
        if inputs.line is not None:
            lines.add(inputs.line)
        return f"inputs from {format_lines(lines)}" if lines else f"inputs from a {inputs.rung.value}"
    return words
