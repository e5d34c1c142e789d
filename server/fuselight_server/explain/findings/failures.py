"""FL401 to FL410, FL501 and FL504: what ended a run, on the line that did, each with its next step.

Invariant: whose failure it is comes from the report's `culprit` and `kind`, never from the words of a
message.
"""

from __future__ import annotations

import platform
import re
from collections.abc import Iterator
from pathlib import PurePath

from fuselight.shared.codec import read_table
from fuselight.shared.protocol import RunRequest
from fuselight.shared.report import (
    CallCure,
    Culprit,
    CureKind,
    CureTrial,
    EagerHandler,
    Failure,
    Location,
    Report,
    Rung,
    TargetRef,
    Tier,
    Versions,
)
from fuselight_server.base.finding import Finding, Related, Severity
from fuselight_server.base.formatting import cut_list, format_list
from fuselight_server.explain.findings.breaks.break_remedies import failure_words
from fuselight_server.explain.findings.breaks.numpy_numbers import array_steps
from fuselight_server.explain.findings.common.context import Context, span_of
from fuselight_server.explain.findings.common.source_tree import is_decorated_with_compile
from fuselight_server.explain.findings.common.text import place, plain
from fuselight_server.explain.findings.held_tensors import held_in_words, holding_lines, requested_size
from fuselight_server.explain.findings.recompilations.limit_remedies import limit_cures, limit_remedies
from fuselight_server.explain.findings.recompilations.recompilations import (
    about_limit_call,
    limit_filled_by,
)
from fuselight_server.explain.findings.recompilations.recompile_limit import stopped_by_limit

_LONGEST_TITLE = 300
_MAX_LINES = 8
"""Lines of other graph breaks that are named."""
_HIGHER_ORDER = "UncapturedHigherOrderOpError"
_TEXTS = read_table(dict[str, dict[str, str]], __file__)
"""By kinds of failures, by codes, or by phases of a run."""
_BY_CULPRIT = {
    Culprit.USER: "FL401",
    Culprit.COMPILER: "FL402",
    Culprit.FUSELIGHT: "FL403",
    Culprit.ENVIRONMENT: "FL504",
}

_DISABLE = "Put torch.compiler.disable on the function"
_WORKS = f"{_DISABLE}: without torch.compile, the program goes on here (tried)"
_ENDS = frozenset({"FL405", "FL406", "FL407", "FL408", "FL409"})
"""Codes of runs that did not end by themselves."""
_RUNS = {
    Tier.KERNELS: "kernels: ",
    Tier.MEASURED: "benchmark: ",
    Tier.TUNED: "search: ",
    Tier.ACCURACY: "accuracy: ",
    Tier.MEMORY: "memory: ",
}
"""Which run it was, if not the usual one."""
_CALLED_BY_CODE = frozenset({Rung.MAIN, Rung.SCRIPT, Rung.PROGRAM, Rung.KERNEL, Rung.TRACE, Rung.CALLER})
"""Rungs whose calls are the user's own."""
_NEEDS_GRADIENTS = "does not require grad"
_ASK_FOR_GRADIENTS = (
    "Add no_grad=False to the call in the `# fuselight:` comment: Fuselight turns gradients off by default"
)


def short_end(failure: Failure) -> str:
    """How a run ended, in a few words for a lens: `stopped at the time limit`, `failed: ...`."""
    if failure.kind == "signal" and (name := _SIGNAL.search(failure.message)):
        return f"crashed: {name[0]}"
    return _TEXTS["short_ends"].get(failure.kind) or f"failed: {plain(failure.message)}"


def failure_findings(context: Context) -> Iterator[Finding]:
    """The findings of the report's failures; the same failure in several calls is one, with a count."""
    groups: dict[tuple[object, ...], list[Failure]] = {}
    for failure in context.report.failures:
        if _is_of_specialization(context, failure):
            continue
        home = context.innermost_user_frame(failure.stack)
        key = (
            failure.kind,
            failure.exception,
            failure.message,
            home.path if home else None,
            home.line if home else None,
        )
        groups.setdefault(key, []).append(failure)
    for group in groups.values():
        yield _finding(context, group)


def lacks_inputs(report: Report) -> bool:
    """Whether a target was not run because nobody gives it inputs, or because the program that should do it failed."""
    return any(failure.phase == "program" or code_of(failure) == "FL502" for failure in report.failures)


def _is_of_specialization(context: Context, failure: Failure) -> bool:
    """Whether it only says that a size that was marked dynamic is fixed, which FL301 says on the line that fixes it."""
    return failure.exception == "ConstraintViolationError" and any(
        symbol.marked and symbol.specialized_to is not None and context.innermost_user_frame(symbol.stack)
        for compiled in context.report.compiles
        if compiled.call == failure.call
        for symbol in compiled.symbols
    )


def code_of(failure: Failure) -> str:
    """The code of a failure. Inputs without a directive that is at fault are inputs that nobody gave."""
    if failure.kind == "inputs" and failure.directive_line is None:
        return "FL502"
    if _lacks_a_module(failure):
        return "FL401"
    if failure.handler is not None:
        return "FL410"
    return _TEXTS["codes"].get(failure.kind) or _BY_CULPRIT[failure.culprit]


def _lacks_a_module(failure: Failure) -> bool:
    """Whether an import found nothing: one more package, not another interpreter, is what the file needs."""
    return failure.kind == "import" and failure.exception == "ModuleNotFoundError"


def _finding(context: Context, group: list[Failure]) -> Finding:
    failure = group[0]
    code, home = code_of(failure), context.innermost_user_frame(failure.stack)
    if code == "FL102":
        return _of_limit(context, group, home)
    if failure.handler is not None and code == "FL410":
        return _of_handler(context, group, home, failure.handler)
    words = failure_words(context, failure) if code == "FL404" else None
    steps = words.hints if words is not None else ()
    tried = context.trials.get(asked) if (asked := _question(code, failure, home)) is not None else None
    if code == "FL401" and tried is not None and tried.cures:
        steps = array_steps(context, failure)
    related = [*holding_lines(failure), *context.trail(failure.stack, without=home, verb="in")]
    line, path = failure.directive_line, context.report.target.path
    directive = Location(path, line) if line is not None else None
    if directive is not None and failure.kind != "inputs" and home and (home.path, home.line) != (path, line):
        related.append(Related(span_of(directive), "with the inputs of this directive"))
    return context.finding(
        code,
        _title(context, code, failure),
        _phase_text(code, failure, home),
        words.text if words is not None else held_in_words(failure),
        at=home or directive,
        call=failure.call,
        hints=(*steps, _next_step(context, code, failure, tried)),
        cures=(asked,) if asked is not None else (),
        related=tuple(related),
        # Editors list no hints, and the user has asked for this run.
        severity=Severity.INFORMATION if code == "FL502" else None,
        count=len(group),
        gb_ids=(failure.gb_id,) if failure.gb_id and code != "FL501" else (),
        fixes=("insert_inputs",) if code == "FL502" else (),
        data=(("target", context.report.target.name),) if code == "FL502" else (),
    )


def _question(code: str, failure: Failure, home: Location | None) -> CallCure | None:
    """What tells more of a failure: the program without torch.compile, or without fullgraph=True; else None."""
    if home is None:
        return None
    if code == "FL404" and failure.exception != _HIGHER_ORDER:
        return CallCure(CureKind.FULLGRAPH, home.path, home.line)
    is_compiled = failure.phase == "main" and failure.kind == "exception" and "_dynamo" in failure.traceback
    return CallCure(CureKind.EAGER, home.path, home.line) if code == "FL401" and is_compiled else None


def _of_limit(context: Context, group: list[Failure], home: Location | None) -> Finding:
    """The recompile limit as an error of the call, with the cause and the cure of the recompilation that it stopped."""
    failure = group[0]
    stopped = next(
        (recompilation for recompilation in stopped_by_limit(context) if recompilation.call == failure.call),
        None,
    )
    filled = limit_filled_by(context, stopped)
    name = f"`{plain(stopped.function)}`" if stopped else "the compiled function"
    setting = "fullgraph=True" if "graph" in failure.message else "fail_on_recompile_limit_hit"
    related = list(context.trail(failure.stack, without=home, verb="in"))
    if (
        stopped is not None
        and home
        and (stopped.location.path, stopped.location.line) != (home.path, home.line)
    ):
        related.append(Related(span_of(stopped.location), f"{name} is defined here"))
    return context.finding(
        "FL102",
        f"{name} reached the recompile limit, which is an error with {setting}",
        f"The call raises {failure.exception}: no compiled version matches it." if failure.exception else "",
        about_limit_call(context, stopped),
        at=home,
        call=failure.call,
        hints=limit_remedies(context, filled) if filled else (plain(failure.next_step),),
        cures=limit_cures(context, filled),
        related=tuple(related),
        severity=Severity.ERROR,
        count=len(group),
        gb_ids=(failure.gb_id,) if failure.gb_id else (),
    )


def _of_handler(
    context: Context, group: list[Failure], home: Location | None, handler: EagerHandler
) -> Finding:
    """An exception that eager mode catches: which handler does not run in compiled code, and what runs it."""
    failure = group[0]
    clause = f"`{plain(handler.text)}` on line {handler.location.line}"
    message = _title(context, "FL401", failure)
    if handler.is_compiled:
        title = f"compiled code does not run {clause}"
        why = (
            "The operator is part of the graph, and its handler is not: the exception ends the compiled call"
        )
    else:
        title = f"{clause} does not catch what compiled code raises"
        raised = failure.exception or "another exception"
        why = f"For {handler.exception} of eager mode, compiled code raises {raised}"
    eager = (
        "Eager mode goes on there."
        if handler.is_tried
        else "If the line fails in eager mode, it goes on there."
    )
    return context.finding(
        "FL410",
        title,
        f"{message}. {eager}",
        f"{why}.",
        at=home,
        call=failure.call,
        hints=_cures(context, failure, handler),
        related=(
            Related(span_of(handler.location), "the handler"),
            *context.trail(failure.stack, without=home, verb="in"),
        ),
        count=len(group),
        gb_ids=(failure.gb_id,) if failure.gb_id else (),
    )


def _cures(context: Context, failure: Failure, handler: EagerHandler) -> Iterator[str]:
    if handler.exception == "AssertionError":
        yield "Test the condition with `if` in place of `assert`, and do there what the handler does"
    else:
        yield "Test with `if` what makes the operator fail, before the line, in place of the handler"
    if not handler.is_compiled:
        yield "Or catch RuntimeError too, which compiled code raises"
        return
    function = handler.location.function
    if not context.report.fullgraph and function:
        uncompiled = _uncompiled(context, failure, handler.location)
        step = uncompiled or f"put torch.compiler.disable on `{plain(function)}`"
        yield f"Or {step}: eager mode runs the handler in it"
    if handler.catches_outside:
        block = "with" if handler.text.startswith("with ") else "try"
        yield f"Or move the `{block}` out of compiled code, around the compiled call"


def _uncompiled(context: Context, failure: Failure, at: Location) -> str:
    """How the function of a line is left uncompiled if it is the compiled function itself; empty for one that it calls.

    torch.compiler.disable has an effect only above @torch.compile, where it undoes it.
    """
    name = f"`{plain(at.function or '')}`"
    if is_decorated_with_compile(context, at):
        return f"remove torch.compile from {name}"
    compiled = {(frame.location.path, frame.function.rpartition(".")[2]) for frame in context.report.frames}
    called = ((place.path, (place.function or "").rpartition(".")[2]) for place in failure.stack)
    outermost = next((place for place in called if place in compiled), None)
    is_outermost = outermost == (at.path, (at.function or "").rpartition(".")[2])
    return f"call {name} without torch.compile" if is_outermost else ""


def _next_step(context: Context, code: str, failure: Failure, asked: CureTrial | None = None) -> str:
    """What to do: the worker's own words where it has some. `asked`: what tells more of the failure."""
    missing = _MODULE.search(failure.message) if _lacks_a_module(failure) else None
    if missing is not None:
        where = context.report.versions.executable or "this interpreter"
        return f"Install {missing[1]} in {where}, or choose another interpreter"
    if code == "FL401" and _NEEDS_GRADIENTS in failure.message and _without_gradients(context, failure):
        return _ASK_FOR_GRADIENTS
    step = plain(failure.next_step) or _TEXTS["next_steps"][code]
    if code == "FL404" and failure.exception != _HIGHER_ORDER:
        return _without_fullgraph(context, failure, asked)
    if asked is not None and asked.is_made:
        step = _WORKS if asked.cures else f"Correct the code: without torch.compile, {asked.refused} (tried)"
    called = _called_of_a_library(context, failure) if _DISABLE in step else None
    frame = context.innermost_user_frame(failure.stack)
    if (
        called is None
        and frame is not None
        and frame.function
        and (own := _uncompiled(context, failure, frame))
    ):
        return step.replace(_DISABLE, f"{own[0].upper()}{own[1:]}")
    if called is None:
        name = plain(frame.function or "") if frame is not None else ""
        # With fullgraph=True, the call of a disabled function is an error.
        also = " and remove fullgraph=True" if context.report.fullgraph else ""
        return (
            step.replace(f"{_DISABLE}:", f"Put torch.compiler.disable on `{name}`{also}:") if name else step
        )
    return step.replace(
        _DISABLE, f"Call `torch.compiler.disable({called})(...)` on this line, which breaks the graph"
    )


def _without_fullgraph(context: Context, failure: Failure, tried: CureTrial | None) -> str:
    """What else breaks the graph: with fullgraph=True, torch stops at the first break."""
    if tried is None or not tried.is_made or not tried.cures:
        return "Or remove fullgraph=True: this line then runs in eager mode"
    home = context.innermost_user_frame(failure.stack)
    places = sorted({(item.path, item.line) for item in tried.next})
    if not places:
        return "Or remove fullgraph=True: this line then runs in eager mode, and no other line breaks the graph (tried)"
    shown = [
        f"{'' if home and path == home.path else f'{PurePath(path).name}:'}{line}" for path, line in places
    ]
    named = format_list(cut_list(shown, _MAX_LINES))
    lines, verb = ("line", "this line breaks") if len(places) == 1 else ("lines", "they break")
    return f"Correct {lines} {named}, too: without fullgraph=True, {verb} the graph (tried)"


def _called_of_a_library(context: Context, failure: Failure) -> str | None:
    """What the user's line calls if the failure is inside a library, where nobody can put a decorator."""
    frame = context.innermost_user_frame(failure.stack)
    inside = failure.stack[failure.stack.index(frame) + 1 :] if frame is not None else ()
    if frame is None or not inside or not inside[0].function:
        return None
    call = re.search(
        rf"(?<![\w.\])])\w[\w.]*(?<=\b{re.escape(inside[0].function)})(?=\()", context.source(frame) or ""
    )
    return call[0] if call is not None else None


def _without_gradients(context: Context, failure: Failure) -> bool:
    """Whether Fuselight made the call as inference, which is what it does where nobody asks for more."""
    inputs = context.report.inputs
    if inputs is None or inputs.rung in _CALLED_BY_CODE:
        return False
    text = next((call.text for call in inputs.calls if call.index == failure.call), "")
    return not any(option in text for option in ("train=True", "no_grad=False"))


def _title(context: Context, code: str, failure: Failure) -> str:
    inner, kind = _inner(failure), failure.exception
    requested = requested_size(failure.message)
    if code == "FL406" and requested:
        return f"{_RUNS.get(context.report.tier, '')}{requested}"
    message = inner or plain(failure.message).rstrip(".")
    name = f"{kind}: " if kind and kind != "SystemExit" and kind not in message and not inner else ""
    if code == "FL404":
        what = failure_words(context, failure).title if failure.gb_id else message
        where = "inside a higher-order operator" if kind == _HIGHER_ORDER else "under fullgraph=True"
        return f"graph break {where}: {what}"
    if code in {"FL402", "FL403"}:
        return f"{'the compiler' if code == 'FL402' else 'Fuselight'} failed: {name}{message}"
    # A message of the user's code has any length; the report keeps it whole.
    noun = _RUNS.get(context.report.tier, "") if code in _ENDS else ""
    title = f"{noun}{name}{message}" or "the run failed"
    return title if len(title) <= _LONGEST_TITLE else f"{title[:_LONGEST_TITLE].rstrip()}..."


def _inner(failure: Failure) -> str:
    """What the operator itself said, where torch wraps its refusal of the traced inputs in an error of its own."""
    if failure.exception != "TorchRuntimeError":
        return ""
    match = _REFUSAL.search(failure.traceback)
    return f"{match[1]}: {plain(match[2])}".rstrip(".") if match else ""


_OF_MACHINE = "The cause is the machine of the job, not your code and not torch.compile."


def _phase_text(code: str, failure: Failure, home: Location | None) -> str:
    """What the title leaves out: in which phase it was, and what that means for the other findings."""
    if failure.exception == _HIGHER_ORDER:
        return "torch.cond, while_loop and similar operators do not allow graph breaks in their functions."
    if code == "FL501" and len(failure.stack) > 1:
        return "The call fails with and without torch.compile."
    if code == "FL402":
        backward = " It compiled the backward of this function." if failure.phase == "backward" else ""
        is_of_machine = failure.culprit is Culprit.ENVIRONMENT
        return f"{_OF_MACHINE if is_of_machine else _TEXTS['meanings'][code]}{backward}"
    if code in _TEXTS["meanings"]:
        return _TEXTS["meanings"][code]
    phase = _TEXTS["phases"].get(failure.phase or "", failure.phase)
    during = f" while {phase}" if phase else ""
    last = failure.stack[-1] if failure.stack and failure.stack[-1] != home else None
    where = f", at {place(last)}" if last is not None else ""
    what = "The exception was raised" if code == "FL401" else "It happened"
    return f"{what}{during}{where}. Findings from before it are still valid." if during or where else ""


_SIGNAL = re.compile(r"\bSIG[A-Z0-9]+\b|\bsignal \d+")
_MODULE = re.compile(r"No module named '([^'.]+)")
_REFUSAL = re.compile(r"got (\w+(?:Error|Exception))\(['\"](.*?)['\"](?:,\))?\)$", re.MULTILINE)


def failure_report(
    request: RunRequest, failure: Failure, versions: Versions | None, *, executable: str = ""
) -> Report:
    """A report, of the tier that was requested, with one failure. `versions` is None where no worker said hello."""
    if versions is None:
        here = platform.platform()
        versions = Versions("", torch=None, triton=None, fuselight="", platform=here, executable=executable)
    target = request.target
    return Report(
        versions=versions,
        target=TargetRef(path=target.path, name=target.name, line=target.line, kind=target.kind),
        tier=request.tier,
        generation=request.generation,
        failures=(failure,),
        roots=request.roots,
    )
