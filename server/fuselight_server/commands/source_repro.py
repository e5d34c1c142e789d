"""Small programs of faults in tracing.

They are a failure of TorchDynamo, a graph break for which torch asks for a report, or a compile that does not end.
Invariant: as in `repro`: a program is offered only after a new process of Python has shown the fault, and another one,
without compiled code, has not.
"""

from __future__ import annotations

import asyncio
import dataclasses
import re
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass

from fuselight.shared.protocol import CaptureRequest, GraphsRequest
from fuselight.shared.report import (
    Break,
    CodeSearch,
    Failure,
    RecordedCode,
    Report,
    Reproduction,
    ScriptOutcome,
    ScriptState,
)
from fuselight_server.base.cancellation import CancelToken
from fuselight_server.base.formatting import format_target
from fuselight_server.commands.targets import TargetRun
from fuselight_server.repro.issue import ConfirmedProgram
from fuselight_server.repro.source_program import (
    FINAL_SECONDS,
    FINAL_SECONDS_OF_CODE,
    SourceProgram,
    Tracing,
    program_of_code,
)
from fuselight_server.repro.source_reduction import SourceReduction

HANG_SECONDS = 30.0
"""A compile that takes longer does not end, if the limit of the run does not say less."""
_WORDS = 40
_CONFIRMING_SECONDS = 15.0
"""What new processes, which run at once, take besides the compile that does not end."""
_LEAST_SHARE = 0.2
"""Of the time: what the reduction gets at least, however long the recording has taken."""
_RECORDING_SECONDS = 60.0
"""What writing a call as Python may take on top of the time of the program."""
_ASKS = re.compile(r"(?:report|file|open|submit) an issue", re.IGNORECASE)
"""How torch's hints ask for a report of a graph break."""
_OF_DESIGN = re.compile(r"builtin (?:breakpoint|compile|eval|exec|globals|input|locals|open|print)\b")
"""Python's functions that a graph cannot have, whatever torch's hints say of functions of this kind."""
_BLAMES = (
    "may result in an error when running in eager",
    "is fundamental",
    "caused by an earlier graph break",
)
"""What hints say of a break that no change of torch cures, or that another one causes."""
_OF_COMPILER = frozenset({"TorchRuntimeError", "UncapturedHigherOrderOpError", "InternalTorchDynamoError"})
"""Exceptions that the code gets only if it is compiled: whether it is right in eager mode is tried."""


@dataclass(frozen=True)
class TracingFault:
    """What is wrong, and how the call is found in a further run."""

    name: str
    what: str
    """`failure`, `break` or `hang`."""
    search: CodeSearch


def is_of_compiler(failure: Failure) -> bool:
    """Whether eager mode may run what a compile failed on."""
    return failure.exception in _OF_COMPILER


def hang_of(report: Report, seconds: float) -> TracingFault | None:
    """A compile that may not end: the run came to its limit."""
    if not any(failure.kind == "timeout" for failure in report.failures):
        return None
    return TracingFault(report.target.name, "hang", CodeSearch(hang_seconds=min(HANG_SECONDS, seconds / 2)))


async def breaks_of(target_run: TargetRun) -> list[TracingFault]:
    """The graph breaks of a target for which torch asks for a report, one of each reason."""
    report = await target_run.run_report(target_run.request.of_kind(CaptureRequest))
    known: dict[str, TracingFault] = {}
    for each in report.breaks:
        reason = each.reason.strip().partition("\n")[0]
        if reason and each.stack and asks_for_report(each):
            search = CodeSearch(each.stack[-1], reason)
            known.setdefault(reason, TracingFault(each.frame_function or report.target.name, "break", search))
    return list(known.values())


def asks_for_report(graph_break: Break) -> bool:
    """Whether torch says of a graph break that it may be reported, and does not blame the code."""
    hints = " ".join((*graph_break.hints, graph_break.explanation))
    if _OF_DESIGN.match(graph_break.context):
        return False
    return bool(_ASKS.search(hints)) and not any(words in hints for words in _BLAMES)


@dataclass(frozen=True)
class SourceOutcome:
    """What a search has found."""

    confirmed: ConfirmedProgram | None = None
    why_not: str = ""
    tried: int = 0
    is_partial: bool = False


@dataclass(frozen=True)
class SourceSearch:
    """The search for the small program of one fault in tracing."""

    target_run: TargetRun
    clock: Callable[[], float]
    seconds: float
    versions: str
    run_script: Callable[..., Awaitable[ScriptOutcome]]
    """As `repro.run_script`."""

    async def outcome(self, fault: TracingFault) -> SourceOutcome:
        """The program, or why there is none."""
        given, start = self.target_run.request, self.clock()
        more = fault.search.hang_seconds + _RECORDING_SECONDS if given.limits.seconds else 0.0  # 0: no limit
        limits = dataclasses.replace(given.limits, seconds=given.limits.seconds + more)
        request = given.of_kind(GraphsRequest, code=fault.search, preload=False, limits=limits)
        recorded = await self.target_run.run_report(request)
        parts = recorded.reproduction
        if parts is None or not parts.codes:
            return SourceOutcome(why_not=_unrecorded(recorded, fault))
        codes = [code for code in parts.codes if not code.unprintable]
        if not codes:
            why = parts.codes[-1].unprintable
            return SourceOutcome(why_not=f"its code cannot be a program of torch alone: {why}")
        reduction = SourceReduction(
            self._trial,
            self.clock,
            self._left(fault, start),
            on_step=lambda text: self.target_run.show(f"reducing {format_target(fault.name)}: {text}"),
        )
        try:
            await reduction.reduce(self._programs(fault, codes, parts))
        except SyntaxError as error:
            return SourceOutcome(why_not=f"its code cannot be read: {error}")
        except asyncio.CancelledError:
            if reduction.best is None:
                raise
            return await self._outcome_of_canceled(reduction)
        if reduction.best is None:
            why = _not_shown(codes[-1], reduction)
            return SourceOutcome(why_not=why, tried=reduction.tried, is_partial=reduction.is_spent)
        confirmed, why = await self._confirmed(reduction.best, reduction.last)
        return SourceOutcome(confirmed, why, reduction.tried, reduction.is_spent)

    def _left(self, fault: TracingFault, start: float) -> float:
        """The time for the reduction: what the recording leaves, and for a hang the confirmation."""
        confirming = FINAL_SECONDS + _CONFIRMING_SECONDS if fault.what == "hang" else 0.0
        return max(self.seconds - (self.clock() - start) - confirming, _LEAST_SHARE * self.seconds)

    async def _outcome_of_canceled(self, reduction: SourceReduction) -> SourceOutcome:
        """The smallest program so far, if it shows the fault also with neutral names: with others it is not shown."""
        confirmed, why = None, ""
        for program in reduction.neutral_programs():
            confirmed, why = await self._confirmed(program, reduction.last)
            if confirmed is not None:
                break
        return SourceOutcome(confirmed, why, reduction.tried, is_partial=True)

    def _programs(
        self, fault: TracingFault, codes: Sequence[RecordedCode], parts: Reproduction
    ) -> Iterator[SourceProgram]:
        """Each call, the innermost first, then the whole with more and more of what the program asks for."""
        observed = {"break": Tracing.BREAK, "hang": Tracing.HANG}.get(fault.what, Tracing.FAILURE)
        for each in codes if observed is Tracing.BREAK else codes[:-1]:
            # A break is an error of the program, if no other one comes before it.
            yield dataclasses.replace(
                program_of_code(each, observed, self.versions), expected=_first_words(each)
            )
        code = codes[-1]
        program = program_of_code(code, observed, self.versions)
        if observed is Tracing.BREAK:
            program = dataclasses.replace(program, reason=fault.search.reason)
        dynamic = parts.options.get("dynamic")
        options = (f"dynamic={dynamic}",) if dynamic else ()
        whole = ("fullgraph=True",) if parts.options.get("fullgraph") == "True" else ()
        backends = ("eager",) if observed is Tracing.BREAK else ("eager", "aot_eager", "inductor")
        for backend in backends:
            other = dataclasses.replace(
                program, backend=backend, options=whole if observed is Tracing.FAILURE else ()
            )
            yield other
            if options or parts.settings:
                yield dataclasses.replace(
                    other, options=(*other.options, *options), settings=dict(parts.settings)
                )

    async def _trial(self, program: SourceProgram) -> ScriptOutcome:
        return await self.run_script(self.target_run, program.script)

    async def _confirmed(
        self, program: SourceProgram, last: ScriptOutcome | None
    ) -> tuple[ConfirmedProgram | None, str]:
        """The program, if a new process fails in the same way and one without compiled code does not."""
        is_traced = program.backend == "eager"
        final = dataclasses.replace(program, seconds=FINAL_SECONDS if is_traced else FINAL_SECONDS_OF_CODE)
        target_run = dataclasses.replace(self.target_run, token=CancelToken())  # also after Ctrl-C: seconds
        # At once: each process imports torch, and a compile that does not end takes its whole time.
        shown, plain = await asyncio.gather(
            self.run_script(target_run, final.script, fresh=True),
            self.run_script(target_run, final.script, "eager", fresh=True),
        )
        if shown.state is not ScriptState.FAULT:
            return None, f"a new process of Python does not show the fault: {shown.text or 'it compiles'}"
        expected = _kind(program, last)
        if expected and _kind(program, shown) != expected:
            return None, f"a new process of Python fails in another way: {shown.text}"
        if plain.state is not ScriptState.RIGHT:
            return None, f"the program fails without compiled code, too: {plain.text}"
        return ConfirmedProgram(
            final, shown, "tracing (TorchDynamo)" if program.backend == "eager" else ""
        ), ""


def _first_words(code: RecordedCode) -> str:
    """How the error of the recorded call begins, up to what may depend on the call."""
    return code.error[:_WORDS]


def _kind(program: SourceProgram, outcome: ScriptOutcome | None) -> str:
    return program.signature(dataclasses.replace(outcome, place="")) if outcome is not None else ""


def _unrecorded(recorded: Report, fault: TracingFault) -> str:
    if fault.what == "hang":
        return (
            f"no compile took longer than {fault.search.hang_seconds:g} s: the program itself does not end in time, or "
            "compiles often"
        )
    failures = "; ".join(failure.message for failure in recorded.failures)
    return f"a further run does not come to it{': ' if failures else ''}{failures}"


def _not_shown(code: RecordedCode, reduction: SourceReduction) -> str:
    missing = (
        f" (it uses {', '.join(code.missing[:3])}, which a program of torch alone lacks)"
        if code.missing
        else ""
    )
    shown = f": {reduction.refusals[-1].partition(chr(10))[0]}" if reduction.refusals else ""
    return f"the call alone, with torch alone, does not show it{missing}{shown}"
