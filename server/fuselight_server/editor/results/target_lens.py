"""What the lens of a target says and runs: the two most important facts, its actions, where its inputs come from.

Invariant: a target has at most two facts before its actions, each at most 60 characters long; tooltips and the hover of
the same line have the rest. An action that cannot work is not there. docs/editor.md lists every state.
"""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Callable, Collection, Iterator

from fuselight.shared.notebooks.cells import SUFFIX
from fuselight.shared.protocol import DirectiveLine
from fuselight.shared.report import Inputs, Location, Rung, Tier
from fuselight_server.base.finding import SourceLine, Span
from fuselight_server.base.formatting import format_count, format_lines, format_target
from fuselight_server.editor.results.accuracy import AccuracyResult
from fuselight_server.editor.results.accuracy_words import accuracy_info
from fuselight_server.editor.results.captures import CaptureResult
from fuselight_server.editor.results.changes import first_of
from fuselight_server.editor.results.lens_facts import (
    ACCURACY,
    ADD_INPUTS,
    ASK_BENCHMARK,
    ASK_TUNE,
    CANCEL_ACCURACY,
    CANCEL_BENCHMARK,
    CANCEL_MEMORY,
    CANCEL_TUNING,
    DETAILS,
    KERNELS,
    MEMORY,
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
    tuning_info,
    with_state,
)
from fuselight_server.editor.results.memory_words import memory_info
from fuselight_server.editor.results.predictions import STARTING, Prediction
from fuselight_server.editor.results.run_ends import NOUNS
from fuselight_server.editor.results.run_progress import WAITING, describe
from fuselight_server.editor.results.snapshot import Snapshot
from fuselight_server.editor.results.target_result import CANCELED, STILL_RUNNING
from fuselight_server.execution.runs.keys import Key
from fuselight_server.execution.runs.queue import Running
from fuselight_server.explain.benchmarks.words import failed
from fuselight_server.explain.findings.common.counts import Counts, break_groups, counts
from fuselight_server.explain.findings.failures import lacks_inputs, short_end
from fuselight_server.explain.findings.forecasts.forecasts import lens_text
from fuselight_server.source.positions import span
from fuselight_server.source.reading import StaticTarget

RUN = "fuselight.server.run"
CANCEL = "fuselight.server.cancel"

UNPARSED = "Fuselight waits: the file does not parse here"

QUEUED = "queued"
ASKED = "waiting for your answer"
NEEDS_FILE = "Save this to a file: Fuselight runs files only."


@dataclasses.dataclass(frozen=True)
class _OnRequest:
    """A tier that a lens starts and cancels, which runs alongside others."""

    tier: Tier
    title: str
    cancel_title: str
    cancel: str
    start: str
    show: str
    """The command that shows what a run has found so far."""
    tooltip: str
    """With a place for the target."""

    @property
    def is_for_server(self) -> bool:
        """Whether the command that starts it is the server's, which needs the name of the target."""
        return self.start in {ACCURACY, MEMORY}


_ON_REQUEST = (
    _OnRequest(
        Tier.ACCURACY, "Accuracy", "Cancel Accuracy", CANCEL_ACCURACY, ACCURACY, DETAILS,
        "Compare the results of compiled {} with eager mode.",
    ),
    _OnRequest(
        Tier.MEMORY, "Memory", "Cancel Memory", CANCEL_MEMORY, MEMORY, DETAILS,
        "Estimate the memory that {} needs, eager and compiled, and what each line holds.",
    ),
    _OnRequest(
        Tier.MEASURED, "Benchmark", "Cancel Benchmark", CANCEL_BENCHMARK, ASK_BENCHMARK, SHOW_BENCHMARK,
        "Measure {}, eager against compiled.",
    ),
    _OnRequest(
        Tier.TUNED, "Tune", "Cancel Tuning", CANCEL_TUNING, ASK_TUNE, SHOW_TUNING,
        "Search for the fastest configuration of {}.",
    ),
)  # fmt: skip
_INFOS: dict[Tier, Callable[..., Info]] = {
    Tier.ACCURACY: accuracy_info,
    Tier.MEMORY: memory_info,
    Tier.KERNELS: kernel_info,
    Tier.MEASURED: benchmark_info,
    Tier.TUNED: tuning_info,
}
"""What the lens says of the result of each tier."""
_OWN_INPUTS = frozenset({Rung.DIRECTIVE, Rung.PROVIDER, Rung.DUMMY_INPUTS, Rung.ANNOTATIONS})
"""Inputs that a target has without the run of a program."""
_FACTS = 2
"""What the lens of a target says before its actions."""


def unparsed_line(snapshot: Snapshot) -> int | None:
    """The line of the syntax error for which a save ran nothing; what is wrong there, other tools report."""
    wrong = snapshot.reading.syntax_error
    is_waiting = snapshot.document.waits and snapshot.settings.run == "save"
    return wrong.line if wrong is not None and is_waiting else None


def line_of_program(snapshot: Snapshot) -> int | None:
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


def known_targets(snapshot: Snapshot) -> set[str]:
    """Name the targets of this file that something has been run for, or is."""
    keys = (*snapshot.results, *snapshot.running, *snapshot.waiting, *snapshot.asked, *snapshot.run_ends)
    return {key.name for key in keys if key.path == snapshot.path}


def lens_of(snapshot: Snapshot, target: StaticTarget, known: Collection[str]) -> TargetLens | None:
    """Return the lens of a target, or of what runs in its place; None where it has none."""
    serving = snapshot.reading.serving(target) if target.name not in known else None
    shown = serving or target
    has_inputs = bool(shown.directives) or shown.name in known
    is_offered = target.compiled or has_inputs or _is_shown(target, snapshot.settings.code_lens)
    if not is_offered and target.kind != "module":  # a class may have been compiled by a run of `__main__`
        return None
    seen = snapshot if is_offered else dataclasses.replace(snapshot, can_run=False)
    facts: list[Info] = []
    is_called = False
    if not (has_inputs and Key(snapshot.path, shown.name) in snapshot.captures):
        for main in _programs(snapshot, shown):
            facts += (*first_to_fix(snapshot, main, shown.span), *result_facts(main, within=shown.span))
            is_called = snapshot.reading.main_line is not None and _calls(main, shown.name)
    definition = None if shown.compiled else shown.span
    return TargetLens(
        seen, shown.name, has_inputs, shown.directives, tuple(facts), shown.compiled, is_called, definition
    )


@dataclasses.dataclass(frozen=True)
class TargetLens:
    """The lens of one target: the two most important facts, then its actions, then where its inputs come from.

    A state that both facts share stands once, on the first.
    """

    snapshot: Snapshot
    name: str
    """Empty for the file's `__main__` block."""
    is_known: bool
    """Whether something has been run for it, or inputs are written for it."""
    directives: tuple[DirectiveLine, ...] = ()
    of_program: tuple[Info, ...] = ()
    """What the run of the file's program found of it, shown where it has no results of its own."""
    is_compiled: bool = False
    is_called: bool = False
    """Whether the run of the file's program recorded calls of it, which give it inputs."""
    definition: Span | None = None
    """The lines of a class or function that the source does not compile: code around it may be what is compiled."""

    @property
    def _words(self) -> str:
        return format_target(self.name)

    def _key(self, tier: Tier = Tier.CAPTURE) -> Key:
        return Key(self.snapshot.path, self.name, tier)

    @property
    def _capture(self) -> CaptureResult | None:
        result = self.snapshot.results.get(self._key())
        return result if isinstance(result, CaptureResult) else None

    @property
    def _running(self) -> Running | None:
        """The run that is in flight, but for those that take minutes and run alongside others."""
        running = self.snapshot.running
        return running.get(self._key()) or running.get(self._key(Tier.KERNELS))

    @property
    def _is_queued(self) -> bool:
        return any(self._key(tier) in self.snapshot.waiting for tier in (Tier.CAPTURE, Tier.KERNELS))

    def _is_timed(self, tier: Tier) -> bool:
        """Whether a run of the tier that the user has asked for waits or is in flight."""
        key = self._key(tier)
        is_active = key in self.snapshot.running or key in self.snapshot.waiting
        return is_active and key not in self.snapshot.background

    @property
    def _has_inputs(self) -> bool:
        """Whether kernels, benchmarks and comparisons can work: inputs are written, or the last run had some."""
        result = self._capture
        if result is not None and result.report.failures and not counts(result.report).graphs:
            return bool(self.directives) and lacks_inputs(result.report)  # written since
        tiers = (self._key(tier) for tier in Tier)
        return (
            bool(self.directives)
            or self.is_called
            or any((known := self.snapshot.results.get(key)) is not None and known.has_data for key in tiers)
        )

    def infos(self) -> list[Info]:
        """What is said, and what is offered."""
        if not self.snapshot.document.runnable:
            return [Info(NEEDS_FILE)] if self.is_compiled or self.directives else []
        every = [*self._facts(), *self.of_program]
        shown = every[:_FACTS]
        if len(shown) == _FACTS and shown[0].state == shown[1].state:
            shown[1] = dataclasses.replace(shown[1], state="")
        actions = list(self._actions())
        report = next((info for info in every if info.command == DETAILS), None)
        if report is not None:
            tooltip = f"Open the report of {self._words}: frames, breaks, recompilations and forecasts."
            actions.insert(1, Info("Details", "", DETAILS, report.target, tooltip))
        return [*shown, *actions, *(() if len(shown) == _FACTS else self._inputs())]

    def _actions(self) -> Iterator[Info]:
        words, name = self._words, self.name or "__main__"
        is_active = self._running is not None or self._is_queued
        if is_active:
            yield Info("Cancel", "", CANCEL, tooltip="Cancel the runs of this file.", is_for_file=True)
        elif self.snapshot.can_run:
            tooltip = f"Run {words} under torch.compile, and show its graph breaks and recompilations."
            yield Info("Run", "", RUN, name, tooltip)
            if self._has_inputs:
                tooltip = (
                    f"Generate the kernels of {words}, and show them with estimated times on their lines."
                )
                yield Info("Kernels", "", KERNELS, name, tooltip)
        active = [entry for entry in _ON_REQUEST if self._is_timed(entry.tier)]
        yield from (Info(entry.cancel_title, "", entry.cancel) for entry in active)
        if not active and not is_active and self.snapshot.can_run and self._has_inputs:
            for entry in _ON_REQUEST:
                if self._key(entry.tier) in self.snapshot.background:
                    yield Info(entry.cancel_title, "", entry.cancel)
                elif self._is_offered(entry.tier):
                    tooltip = entry.tooltip.format(words)
                    yield Info(entry.title, "", entry.start, name if entry.is_for_server else None, tooltip)

    def _is_offered(self, tier: Tier) -> bool:
        """Whether the settings offer a tier; memory is estimated of targets with inputs of their own."""
        settings = self.snapshot.settings
        if tier is Tier.MEMORY:
            result = self._capture
            inputs = result.report.inputs if result is not None else None
            has_own_inputs = bool(self.directives) or (inputs is not None and inputs.rung in _OWN_INPUTS)
            return settings.memory != "off" and bool(self.name) and has_own_inputs
        return tier is not Tier.ACCURACY or settings.accuracy != "off"

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
        for entry in _ON_REQUEST:
            if self._is_timed(entry.tier):
                running_job = snapshot.running.get(self._key(entry.tier))
                title = entry.title
                text = f"{title}: {WAITING}" if running_job is None else describe(running_job, title)
                yield Info(text, "", entry.show)
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
        """Yield the results; `tiers`: the most important one of kernels, benchmark, search, accuracy and memory."""
        result = self._capture
        edits = (Info(text) for prediction in self.snapshot.predictions if (text := self._edit(prediction)))
        if result is None:
            yield from (*edits, *tiers)
            return
        yield from edits
        around = self._around(result)
        yield from first_to_fix(self.snapshot, result, self.definition if around else None)
        yield from (info for info in tiers if info.state != STALE)
        yield from self._of_capture(result)
        yield from (info for info in tiers if info.state == STALE)
        if result.changes:
            yield Info(first_of(result.changes_now), "", DETAILS, tooltip="; ".join(result.changes_now))
        if not result.stale and not around and (expected := lens_text(result.expected_changes)):
            yield Info(expected, age(result), DETAILS)

    def _of_capture(self, result: CaptureResult) -> Iterator[Info]:
        """Yield what a capture found; for a target without inputs, what gives it some."""
        if result.has_data or not lacks_inputs(result.report):
            around = self._around(result)
            if self.definition is not None and around:
                yield from _facts_of_part(result, self.definition, around)
            else:
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

    def _around(self, result: CaptureResult) -> str:
        """The function that a program compiled with this class or function in it; empty if it is compiled by itself."""
        report = result.report
        is_of_program = report.inputs is not None and report.inputs.rung is Rung.MAIN
        if self.definition is None or not is_of_program or not report.frames or _calls(result, self.name):
            return ""
        first = report.frames[0]
        return "" if _stands_in(result, first.location, self.definition) else first.function

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
        """Yield results of further tiers with their rank: current before stale, then the newest first.

        Results that differ come before everything else.
        """
        for tier, info_of in _INFOS.items():
            result = self.snapshot.results.get(self._key(tier))
            if result is None:
                continue
            is_running = self._running is not None if tier is Tier.KERNELS else self._is_timed(tier)
            is_wrong = isinstance(result, AccuracyResult) and result.shown.is_wrong
            generation = sys.maxsize if is_wrong else result.generation
            yield (result.shown.stale, -generation), info_of(result, is_running=is_running)


def _calls(program: CaptureResult, name: str) -> bool:
    """Whether a program made calls of a target that it compiles by itself."""
    return any(
        call.compiled_at is not None
        and (call.path, call.target) == (program.key.path, name.replace(".<locals>", ""))
        for call in program.report.recorded
    )


def _programs(snapshot: Snapshot, target: StaticTarget) -> Iterator[CaptureResult]:
    """Yield a run of the program if it compiled code of `target`, which is compiled or a class.

    Several names that the program compiles may each have run it: the newest run has the present results.
    """
    if not (target.compiled or target.kind == "module"):
        return
    programs = [
        result
        for key, result in snapshot.captures.items()
        if key.path == snapshot.path
        and (not key.name or (result.report.inputs is not None and result.report.inputs.rung is Rung.MAIN))
        # `m = torch.compile(Net())` holds no frame of Net.
        and any(_stands_in(result, frame.location, target.span) for frame in result.report.frames)
    ]
    yield from sorted(programs, key=lambda result: -result.generation)[:1]


def _stands_in(result: CaptureResult, at: Location, within: Span) -> bool:
    """Whether a place of the report is in `within` now."""
    return _contains(within, SourceLine(at.path, result.places.now(span(at)).line))


def _contains(within: Span, line: SourceLine) -> bool:
    return line.path == within.path and within.line <= line.line <= (within.end_line or within.line)


def first_to_fix(snapshot: Snapshot, result: CaptureResult, within: Span | None = None) -> Iterator[Info]:
    """Yield which line to fix first, if it is `within` a target that the run of a program compiled."""
    fix, line = snapshot.first_fixes.get(result.key, ""), result.first_line
    if result.stale or line is None:
        return
    if within is None or _contains(within, line):
        text = f"Fix {format_where(line, snapshot.path)} first{' (fix verified)' if fix else ''}"
        command = SHOW_FIRST if snapshot.client.show_document else DETAILS
        detail = result.fix_first(fix)
        if not fix and result.key in snapshot.on_choice:
            detail += ". Its fixes are verified when you choose one: the program runs only when you ask."
        yield Info(text, age(result), command, result.key.name, detail)


def _facts_of_part(result: CaptureResult, within: Span, around: str) -> Iterator[Info]:
    """Yield what a run found in the lines of a class or function that was compiled as a part of `around`."""
    failure = next(iter(result.report.failures), None)
    if failure is not None:
        yield Info(short_end(failure), age(result), DETAILS, result.key.name, failed(failure))
    shown = result.shown
    inside = [
        each for each in shown.report.breaks if each.stack and _stands_in(shown, each.stack[-1], within)
    ]
    breaks = len(break_groups(inside))
    text = f"{format_count(breaks, 'break') if breaks else 'no breaks'} here, compiled in {around}"
    whole = f"{counts(shown.report)} of the whole program{caveats(shown)}"
    yield Info(text, age(shown), DETAILS, result.key.name, f"{text}: {whole}")


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
