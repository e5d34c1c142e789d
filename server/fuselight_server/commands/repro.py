"""Small programs that show what torch.compile does wrong in the targets, each confirmed in a new process of Python.

Invariant: a program is offered only after two runs of its own: one with the fault, one without compiled code and
without the fault. What could not be reproduced is listed with the reason.
"""

from __future__ import annotations

import asyncio
import dataclasses
import os
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field

from fuselight.shared.protocol import AccuracyRequest, GraphsRequest, Limits, ScriptRequest
from fuselight.shared.report import (
    RAISES_NOTHING,
    STAGE_BACKENDS,
    Aspect,
    CodeSearch,
    ComparedCall,
    Culprit,
    RecordedGraph,
    Report,
    Reproduction,
    ScriptOutcome,
    ScriptState,
    Stage,
)
from fuselight.shared.script_end import NAME
from fuselight_server.base.cancellation import CancelToken
from fuselight_server.base.formatting import format_target
from fuselight_server.commands.options import CommandOptions
from fuselight_server.commands.outcome import CheckOutcome
from fuselight_server.commands.source_repro import (
    SourceSearch,
    TracingFault,
    breaks_of,
    hang_of,
    is_of_compiler,
)
from fuselight_server.commands.targets import TargetRun, report_each
from fuselight_server.execution.interpreters import NoInterpreterError
from fuselight_server.execution.script_process import run_program
from fuselight_server.execution.torch_releases import check_installed, find_side, interpreters_of
from fuselight_server.explain.findings.common.result_words import STAGE_NAMES, cause_of, wrong_calls
from fuselight_server.fixes.verification.wrong_results import compare_results
from fuselight_server.repro.bisection import ReleaseChange, find_change
from fuselight_server.repro.issue import ConfirmedProgram, issue_of
from fuselight_server.repro.model import Observed, SmallProgram, program_of
from fuselight_server.repro.reduction import Reduction, kind_of, variants
from fuselight_server.repro.source_program import Tracing

SECONDS = 120.0
"""For the reduction of one fault."""
_TRIAL_SECONDS = 60.0
_FRESH_SECONDS = 900.0
"""For a new process of Python, which imports torch and compiles C++ headers first: on a busy machine, minutes."""
BISECT = "--bisect"
_MAX_FAULTS = 3
"""Faults of one target that are reproduced."""
_IN_TRACING = (
    "the fault is in tracing (TorchDynamo): no captured graph shows it, and a program of graphs cannot either"
)
_RAISES = (Observed.FAILURE, Tracing.FAILURE, Tracing.BREAK)
"""Faults whose programs may fail in another way in another release."""
_RANDOM = "its random numbers have another distribution, which one call in each mode cannot show"


@dataclass(frozen=True)
class ReproPlan:
    """How much is done."""

    seconds: float = SECONDS
    with_values: bool = False
    """Whether values of the program's tensors may stand in a small program."""
    releases: tuple[str, ...] = ()
    """Releases of torch among which the one is looked for in which a fault begins or ends."""
    installs: bool = False
    """Whether a release that is missing is installed."""


@dataclass(frozen=True)
class Fault:
    """A fault of the compiler, and the small program for it."""

    path: str
    target: str
    name: str
    """What was compiled."""
    what: str
    """`result`, `failure`, `break` or `hang`."""
    confirmed: ConfirmedProgram | None = None
    why_not: str = ""
    """Why there is no program."""
    tried: int = 0
    seconds: float = 0.0
    is_partial: bool = False
    """Whether the time ended before the program was the smallest."""
    change: ReleaseChange | None = None
    """In which release it begins or ends, if that was asked for."""

    @property
    def issue(self) -> str:
        """The text of an issue as Markdown; empty without a program."""
        releases = self.change.words if self.change is not None else ""
        return issue_of(self.confirmed, releases) if self.confirmed is not None else ""


@dataclass
class ReproOutcome:
    """The faults, and the runs that showed them."""

    check: CheckOutcome = field(default_factory=CheckOutcome)
    faults: list[Fault] = field(default_factory=list)

    @property
    def exit_code(self) -> int:
        """0: each fault has a confirmed program, or there is no fault; 1: one has none; 2: a target failed."""
        if self.check.problems or not (self.check.reports or self.faults):
            return 2
        if any(_is_unanalyzed(report) and not self._has_program(report) for report in self.check.reports):
            return 2
        return int(any(fault.confirmed is None for fault in self.faults))

    def _has_program(self, report: Report) -> bool:
        """Whether a fault of the target has a program: what ended the run may be the fault."""
        target = report.target.path, report.target.name
        return any(fault.confirmed and (fault.path, fault.target) == target for fault in self.faults)


def _is_unanalyzed(report: Report) -> bool:
    return any(failure.culprit is not Culprit.COMPILER for failure in report.failures)


async def reproduce(
    options: CommandOptions, show: Callable[[str], None], token: CancelToken, *, plan: ReproPlan
) -> ReproOutcome:
    """Find faults of the targets, and reduce each. A cancel keeps what is confirmed, if there is anything.

    Raises NoInterpreterError if a release of the plan is missing and may not be installed.
    """
    outcome = ReproOutcome()
    sides = [find_side(release, BISECT, os.environ) for release in plan.releases]
    check_installed(sides, installs=plan.installs)  # before anything takes time

    async def reported(target_run: TargetRun, check: CheckOutcome) -> Report:
        outcome.check = check

        async def run(request: AccuracyRequest, words: str) -> Report:
            shown = target_run.with_show(lambda text: target_run.show(f"{words}: {text}"))
            return await shown.run_report(request)

        report = await compare_results(target_run.request, run, locate_seconds=0.0, tries=0)
        search = _Search(target_run, plan, report)
        async for fault in search.faults():
            outcome.faults.append(fault)
            token.check()
            if plan.releases and fault.confirmed is not None:
                change = await token.run(bisect(fault.confirmed, target_run, plan, options.log))
                outcome.faults[-1] = dataclasses.replace(fault, change=change)
        return report

    try:
        outcome.check = await report_each(options, show, token, reported)
    except asyncio.CancelledError:
        if not any(fault.confirmed for fault in outcome.faults):
            raise
    return outcome


def _faults(report: Report) -> Iterator[tuple[str, str, int | None, Stage | None]]:
    """What is wrong: name, kind, the call, the stage; one of each function and stage."""
    seen: set[tuple[object, ...]] = set()
    wrong = wrong_calls(report.results) if report.results is not None else ()
    for call in wrong:
        cause = cause_of(report.results, call) if report.results is not None else None
        stage = cause.stage if cause is not None else None
        key = call.name, call.location, stage
        if key in seen or len(seen) >= _MAX_FAULTS:
            continue
        seen.add(key)
        fails = any(
            other.aspect is Aspect.EXCEPTION
            and other.text.startswith("compiled code raises")
            and not other.text.startswith(RAISES_NOTHING)
            for other in call.others
        )
        yield call.name, "failure" if fails else "result", None if fails else call.index, stage
    if not seen and any(
        failure.culprit is Culprit.COMPILER or is_of_compiler(failure) for failure in report.failures
    ):
        yield report.target.name, "failure", None, None


async def run_script(target_run: TargetRun, text: str, *arguments: str, fresh: bool = False) -> ScriptOutcome:
    """What a small program shows in the worker of a run; `fresh`: in a new process of Python."""
    limits = target_run.request.limits
    request = target_run.request.of_kind(
        ScriptRequest,
        script=text,
        arguments=arguments,
        fresh=fresh,
        preload=False,
        limits=Limits(_FRESH_SECONDS if fresh else _TRIAL_SECONDS, limits.memory_mb, limits.output_kb),
    )
    report = await target_run.with_show(lambda _text: None).run_report(request)
    if report.reproduction is None or report.reproduction.outcome is None or report.failures:
        why = "; ".join(failure.message for failure in report.failures)
        return ScriptOutcome(ScriptState.ERROR, why or "there is no answer")
    return report.reproduction.outcome


async def bisect(
    confirmed: ConfirmedProgram | None, target_run: TargetRun, plan: ReproPlan, log: Callable[[str], None]
) -> ReleaseChange | None:
    """In which release of the plan the fault of a program begins or ends; a release without an answer says why.

    The program runs by itself, without a worker of that torch: such a worker imports torch first, and where a release
    was just installed and the machine is busy, that takes longer than a start of a worker may.
    """
    if confirmed is None:
        return None
    script = confirmed.script

    async def run(release: str) -> ScriptOutcome:
        target_run.show(f"torch {release}")
        try:
            (interpreter,) = await interpreters_of([find_side(release, BISECT, os.environ)], target_run.show)
        except NoInterpreterError as error:  # the other releases may have an answer
            return ScriptOutcome(ScriptState.ERROR, str(error))
        log(f"bisect: torch {release}: {interpreter.executable} {NAME}")
        outcome = await run_program(interpreter, script, _FRESH_SECONDS, os.environ)
        log(f"bisect: torch {release}: {outcome.state.value}: {outcome.text}")
        return with_same_kind(confirmed, outcome)

    return await find_change(plan.releases, run)


def with_same_kind(confirmed: ConfirmedProgram, outcome: ScriptOutcome) -> ScriptOutcome:
    """The outcome in another release; another error than the one that is looked for is none of it."""
    if outcome.state is not ScriptState.FAULT or confirmed.program.observed not in _RAISES:
        return outcome
    if outcome.text.startswith(kind_of(confirmed.fault.text)):
        return outcome
    return ScriptOutcome(ScriptState.ERROR, f"it fails in another way: {outcome.text.partition(chr(10))[0]}")


class _Search:
    """The search for the small program of one fault."""

    def __init__(self, target_run: TargetRun, plan: ReproPlan, report: Report) -> None:
        self._target_run, self._plan, self._report = target_run, plan, report

    async def faults(self) -> AsyncIterator[Fault]:
        """The faults of the target: of results and failures, of a compile that does not end, of graph breaks."""
        count = 0
        for name, what, call, stage in _faults(self._report):
            count += 1
            yield await self.fault(name, what, call, stage)
        hang = None if count else hang_of(self._report, self._target_run.request.limits.seconds)
        if hang is not None:
            yield await self._traced(hang)
        if count or hang is not None or self._report.failures:
            return
        for graph_break in (await breaks_of(self._target_run))[:_MAX_FAULTS]:
            yield await self._traced(graph_break)

    async def fault(self, name: str, what: str, call: int | None, stage: Stage | None) -> Fault:
        """The fault with its program, or with why there is none."""
        start = time.monotonic()
        fault = Fault(self._report.target.path, self._report.target.name, name, what)
        if stage is Stage.CAPTURE:
            return dataclasses.replace(fault, why_not=_IN_TRACING)
        compared = self._compared(call)
        if compared is not None and compared.draws is not None and compared.draws.why:
            return dataclasses.replace(fault, why_not=_RANDOM)
        reduced = await self._reduced(fault, call, stage)
        return dataclasses.replace(reduced, seconds=time.monotonic() - start)

    async def _reduced(self, fault: Fault, call: int | None, stage: Stage | None) -> Fault:
        request = self._target_run.request.of_kind(
            GraphsRequest, call=call, with_values=self._plan.with_values, preload=False
        )
        recorded = await self._target_run.run_report(request)
        parts = recorded.reproduction
        if call is None and not any(graph.error for graph in (parts.graphs if parts is not None else ())):
            return await self._traced(TracingFault(fault.name, fault.what, CodeSearch()))
        why = _unrecorded(recorded, parts)
        if parts is None or why:
            return dataclasses.replace(fault, why_not=why)
        reduction = Reduction(
            self._trial,
            time.monotonic,
            self._plan.seconds,
            on_step=lambda text: self._target_run.show(f"reducing {format_target(fault.name)}: {text}"),
            with_values=self._plan.with_values,
        )
        is_cancelled = False
        try:
            await reduction.reduce(self._programs(parts, call, stage))
        except asyncio.CancelledError:
            if reduction.best is None:
                raise
            is_cancelled = True
        fault = dataclasses.replace(
            fault, tried=reduction.tried, is_partial=is_cancelled or reduction.is_spent
        )
        if reduction.best is None:
            return dataclasses.replace(fault, why_not=_unconfirmed(parts, reduction, self._plan))
        return await self._confirmed(fault, reduction.best, stage)

    async def _traced(self, tracing: TracingFault) -> Fault:
        """A fault of which no captured graph is made: its program is one of source."""
        start = time.monotonic()
        target = self._report.target
        seconds, versions = self._plan.seconds, _versions(self._report)
        search = SourceSearch(self._target_run, time.monotonic, seconds, versions, run_script)
        result = await search.outcome(tracing)
        return Fault(
            target.path,
            target.name,
            tracing.name,
            tracing.what,
            result.confirmed,
            result.why_not,
            result.tried,
            time.monotonic() - start,
            result.is_partial,
        )

    def _programs(self, parts: Reproduction, call: int | None, stage: Stage | None) -> Iterator[SmallProgram]:
        """The programs to try first, the likelier ones first."""
        compared = self._compared(call)
        graphs = [graph for graph in parts.graphs if graph.nodes]
        if call is None:
            graphs = [graph for graph in graphs if graph.error]
        settings = {**parts.settings, **_options(parts.options)}
        backend = STAGE_BACKENDS.get(stage, "inductor") if stage is not None else "inductor"
        orders = [Observed.FAILURE] if call is None else list(_observed(compared))
        for observed in orders:
            for graph in graphs:
                program = program_of(graph, observed, _versions(self._report))
                program = dataclasses.replace(program, backend=backend)
                yield from variants(
                    program,
                    settings,
                    dynamic=_is_dynamic(graph, parts),
                    with_values=self._plan.with_values,
                    may_train=graph.grad
                    and any(
                        graph.traits[name].requires_grad for name in graph.inputs if name in graph.traits
                    ),
                )

    def _compared(self, call: int | None) -> ComparedCall | None:
        results = self._report.results
        known = results.calls if results is not None else ()
        return next((each for each in known if each.index == call), None)

    async def _trial(self, text: str) -> ScriptOutcome:
        return await run_script(self._target_run, text)

    async def _confirmed(self, fault: Fault, program: SmallProgram, stage: Stage | None) -> Fault:
        """The fault with a program, if a new process shows the fault and one without compiled code does not."""
        target_run = dataclasses.replace(self._target_run, token=CancelToken())  # also after Ctrl-C: seconds
        confirmed = ConfirmedProgram(program, ScriptOutcome(ScriptState.ERROR), _stage_words(stage))
        shown = await run_script(target_run, confirmed.script, fresh=True)
        if shown.state is not ScriptState.FAULT:
            why = f"a new process of Python does not show the fault: {shown.text or 'results are as in eager mode'}"
            return dataclasses.replace(fault, why_not=why)
        plain = await run_script(target_run, confirmed.script, "eager", fresh=True)
        if plain.state is not ScriptState.RIGHT:
            why = f'the program ends in the same way with `backend="eager"`: {plain.text}'
            return dataclasses.replace(fault, why_not=why)
        return dataclasses.replace(fault, confirmed=dataclasses.replace(confirmed, fault=shown))


def _unrecorded(recorded: Report, parts: Reproduction | None) -> str:
    if parts is None or not parts.graphs:
        failures = "; ".join(failure.message for failure in recorded.failures)
        return f"no graph was recorded{': ' if failures else ''}{failures}"
    if not any(graph.nodes for graph in parts.graphs):
        reasons = dict.fromkeys(graph.unprintable or "it has no operators" for graph in parts.graphs)
        return f"its graphs cannot be written as Python: {'; '.join(reasons)}"
    return ""


def _unconfirmed(parts: Reproduction, reduction: Reduction, plan: ReproPlan) -> str:
    foreign = dict.fromkeys(node.foreign for graph in parts.graphs for node in graph.nodes if node.foreign)
    if parts.replaced:
        return (
            f"with torch alone the results are right, and the program sets `{parts.replaced[0]}`, which a small "
            "program cannot have: look there first"
        )
    if foreign:
        return (
            f"without `{next(iter(foreign))}`, which is not torch's, the results are right: look at its declaration "
            "first"
        )
    values = "" if plan.with_values else "; `--with-values` also tries the values of the program's tensors"
    time_words = "the time was over" if reduction.is_spent else f"{reduction.tried} programs were tried"
    return (
        "with torch alone and inputs of the same range the results are right: the program changes torch, or the fault "
        f"needs its values or its earlier calls ({time_words}{values})"
    )


def _observed(call: ComparedCall | None) -> Iterator[Observed]:
    """What to compare: what differs in the user's call first."""
    first: list[Observed] = []
    if call is not None:
        wrong = [tensor.what for tensor in call.accuracy.tensors if not tensor.passed]
        if any(other.aspect is Aspect.MEMORY for other in call.others) and not wrong:
            first.append(Observed.MEMORY)
        if wrong and all(what.startswith("gradient") for what in wrong):
            first.append(Observed.GRADIENTS)
        elif wrong and not any(what.startswith("output") for what in wrong):
            first.append(Observed.ARGUMENTS)
    first += [Observed.OUTPUTS, Observed.ARGUMENTS]
    if call is not None and Observed.GRADIENTS not in first and "gradient" in call.accuracy.why:
        first.append(Observed.GRADIENTS)
    yield from dict.fromkeys(first)


def _options(options: dict[str, str]) -> dict[str, str]:
    """The options of a torch.compile call as settings."""
    prefix = "options."
    return {
        f"torch._inductor.config.{name.removeprefix(prefix)}": text
        for name, text in options.items()
        if name.startswith(prefix)
    }


def _is_dynamic(graph: RecordedGraph, parts: Reproduction) -> bool:
    return parts.options.get("dynamic") == "True" or any(".shape[" in node.code for node in graph.nodes)


def _versions(report: Report) -> str:
    versions = report.versions
    triton = f", Triton {versions.triton}" if versions.triton else ""
    return f"torch {versions.torch}, Python {versions.python}{triton}, {versions.platform}"


def _stage_words(stage: Stage | None) -> str:
    return STAGE_NAMES[stage] if stage is not None else ""
