"""FL101 to FL106: a frame that runs in eager as a whole, on its `def` line.

Invariant: the title says that the function is NOT compiled; the reason is torch's own, in plain text. A function that
torch skipped for a graph break of the report only refers to that break, whose finding says what to do.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from fuselight.shared.report import (
    Break,
    Location,
    NotCompiled,
    Recompile,
    Rung,
    is_pythons_own,
    is_user_file,
)
from fuselight.shared.report import NotCompiledKind as Kind
from fuselight_server.base.finding import Finding, Related, Severity
from fuselight_server.base.formatting import format_count
from fuselight_server.base.remedies import FindingRemedy, advice
from fuselight_server.explain.findings.breaks.break_costs import calls_compiled, of_compiled_calls
from fuselight_server.explain.findings.breaks.break_remedies import ASKED_FOR, break_at, title_at, words_of
from fuselight_server.explain.findings.breaks.generators import (
    is_comprehension,
    is_lone_comprehension,
    why_alone,
    written_name,
)
from fuselight_server.explain.findings.breaks.iterators import expected_generator
from fuselight_server.explain.findings.breaks.thread_settings import for_thread
from fuselight_server.explain.findings.common.context import Context, is_machinery, span_of
from fuselight_server.explain.findings.common.resume_functions import resumed_at
from fuselight_server.explain.findings.common.text import place, plain, sentence
from fuselight_server.explain.findings.recompilations.limit_remedies import limit_cures, limit_remedies
from fuselight_server.explain.findings.recompilations.recompilation_groups import finding_place
from fuselight_server.explain.findings.recompilations.recompilations import (
    about_limit_call,
    limit_filled_by,
)
from fuselight_server.explain.findings.recompilations.recompile_limit import about_growth, stopped_at

_CODES = {
    Kind.SKIPPED: "FL101",
    Kind.RECOMPILE_LIMIT: "FL102",
    Kind.ACCUMULATED_LIMIT: "FL102",
    Kind.GENERATOR: "FL103",
    Kind.DISABLED: "FL104",
    Kind.COMPILER_ERROR: "FL105",
    Kind.NO_TENSORS: "FL106",
}
_LIMITS = (Kind.RECOMPILE_LIMIT, Kind.ACCUMULATED_LIMIT)

_TITLES = {
    Kind.SKIPPED: "`{}` is not compiled: torch skipped it",
    Kind.RECOMPILE_LIMIT: "`{}` is no longer compiled: it reached the recompile limit",
    Kind.ACCUMULATED_LIMIT: "`{}` is no longer compiled: it reached the accumulated recompile limit of all its objects",
    Kind.GENERATOR: "`{}` is not compiled: it is a generator",
    Kind.DISABLED: "`{}` is not compiled: it is disabled in the code",
    Kind.COMPILER_ERROR: "`{}` is not compiled: the compiler failed and torch fell back to eager mode",
    Kind.NO_TENSORS: "nothing to compile in `{}`: its first call ran no tensor operators",
}

_REST = "the rest of `{}`, from line {} on, is not compiled: torch cannot resume it after a graph break"

_HINTS = {
    Kind.SKIPPED: "Remove the cause, or move the parts that can be compiled to a separate function",
    Kind.GENERATOR: "Compile a function that consumes the generator, or return a list instead of yielding",
    Kind.DISABLED: "Remove torch.compiler.disable if it is no longer needed",
    Kind.COMPILER_ERROR: (
        "Set torch._dynamo.config.suppress_errors = False to see the failure, and report it to "
        "PyTorch if PyTorch raised it"
    ),
    Kind.NO_TENSORS: (
        "Compile the function that does the tensor work instead; if other calls of this function do tensor work, make "
        "one of them first, because torch does not trace it again"
    ),
}


_CALLER_FIRST = "See why its caller runs in eager mode: no compiled code goes through the generator"
_BREAK_FIRST = "See the graph break on line {} first: because of it, eager code goes through the generator"
_GENERATOR_TEXT = "torch traces a generator only as a part of the compiled function that goes through it."


def not_compiled_findings(context: Context) -> Iterator[Finding]:
    """Yield the findings of frames that run in eager mode."""
    groups: dict[tuple[object, ...], list[NotCompiled]] = {}
    for uncompiled_code in context.report.not_compiled:
        if context.is_of_refused_call(uncompiled_code.call, uncompiled_code.gb_id) or not _is_worth_telling(
            context, uncompiled_code
        ):
            continue
        groups.setdefault(
            (_CODES[uncompiled_code.kind], uncompiled_code.location.path, uncompiled_code.location.line), []
        ).append(uncompiled_code)
    for group in groups.values():
        yield _finding(context, group)


def _is_worth_telling(context: Context, uncompiled_code: NotCompiled) -> bool:
    """Whether the user wants this frame compiled.

    After a break Dynamo gets every frame that the line calls in eager mode, frames of libraries too. The break has
    a finding of its own; the library frames have none.
    """
    if uncompiled_code.kind is Kind.NO_TENSORS:
        return not (
            _called_from_eager(context, uncompiled_code)
            or has_graph(context, uncompiled_code)
            or _is_traced(context, uncompiled_code)
            or calls_compiled(context, uncompiled_code.location.path, uncompiled_code.function)
        )
    if is_lone_comprehension(uncompiled_code.gb_id, uncompiled_code.function):
        return False  # its break says why
    if uncompiled_code.kind in {Kind.GENERATOR, Kind.SKIPPED} and is_pythons_own(
        uncompiled_code.location.path
    ):
        return False  # nobody can act on it, and nobody asked to compile it
    if uncompiled_code.kind not in {Kind.GENERATOR, Kind.SKIPPED} or _is_users(
        context, uncompiled_code.location.path
    ):
        return True
    return not _called_from_eager(context, uncompiled_code)


def _is_users(context: Context, path: str) -> bool:
    """Whether a file is the user's. That of a trace's target is not if all that the trace names is a library."""
    inputs = context.report.inputs
    if inputs is not None and inputs.rung is Rung.TRACE:
        return is_user_file(path, context.roots)
    return context.is_user_file(path)


def _called_from_eager(context: Context, uncompiled_code: NotCompiled) -> bool:
    """Whether Dynamo got the frame only because its caller runs in eager mode, and nothing asked to compile it."""
    known = {(frame.location.path, frame.function.rsplit(".", 1)[-1]) for frame in context.report.frames}
    return any((above.path, above.function) in known for above in uncompiled_code.caller)


def has_graph(context: Context, uncompiled_code: NotCompiled) -> bool:
    """Whether another call of the function, or an earlier part of it, gave a graph."""
    return any(
        (frame := context.frame_of(item)) is not None
        and (frame.location.path, frame.location.line)
        == (uncompiled_code.location.path, uncompiled_code.location.line)
        for item in context.report.compiles
        if item.graph is not None and item.graph.operators > 0
    )


def _is_traced(context: Context, uncompiled_code: NotCompiled) -> bool:
    """Whether a graph break ended the trace of it: there was something to compile."""
    own = (uncompiled_code.location.path, uncompiled_code.function.rpartition(".")[2])
    return any((frame.path, frame.function) == own for item in context.report.breaks for frame in item.stack)


def _finding(context: Context, group: list[NotCompiled]) -> Finding:
    """One finding for the frames of a group, all of one kind and place.

    `follows` orders the work: a limit costs more than the recompilations or the break that lead to it, so that by cost
    alone it was named as the first to fix.
    """
    uncompiled_code = group[0]
    home = context.innermost_user_frame(
        (uncompiled_code.location,), uncompiled_code.stack, uncompiled_code.caller
    )
    name = plain(uncompiled_code.function) or "this function"
    exceeded = stopped_at(context, uncompiled_code.location) if uncompiled_code.kind in _LIMITS else None
    stopped = limit_filled_by(context, exceeded)
    part = resumed_at(context, stopped) if stopped is not None else None
    # A resumption of it was skipped, after a part of it was compiled.
    partly = uncompiled_code.kind is Kind.SKIPPED and has_graph(context, uncompiled_code)
    title = _TITLES[uncompiled_code.kind].format(name)
    if is_comprehension(name):
        what = written_name(context, name, uncompiled_code.location)
        title = title.replace(f"`{name}`", what, 1).removesuffix(": it is a generator")
    if uncompiled_code.rest_from is not None:
        title = _REST.format(name, uncompiled_code.rest_from)
    elif part is not None:
        part_title = f"the part of `{name}` after the graph break on line {part}"
        title = title.replace(f"`{name}`", part_title, 1)
    elif partly:
        title = f"the rest of {title}"
    cause = _cause(context, uncompiled_code)
    if cause is not None:
        return _reference(context, group, home, title, cause)
    related = (
        []
        if home == uncompiled_code.location
        else [Related(span_of(uncompiled_code.location), f"`{name}` is defined here")]
    )
    related += [
        item
        for item in context.trail(uncompiled_code.stack, without=home, verb="decided in")
        if context.is_user_file(item.span.path)
    ]
    callers = [frame for frame in uncompiled_code.caller if not is_machinery(frame.path)]
    related += context.trail(callers[-1:], without=home, verb="called from")
    before = _followed(context, uncompiled_code, stopped)
    is_elsewhere = before is not None and home is not None and before.span.line != home.line
    if before is not None and is_elsewhere and stopped is not None:
        related.append(before)
    is_generator = uncompiled_code.kind is Kind.GENERATOR
    follows = is_generator and _called_from_eager(context, uncompiled_code)
    before = why_alone(context, uncompiled_code.caller) if follows else before
    return context.finding(
        _CODES[uncompiled_code.kind],
        title,
        _GENERATOR_TEXT if is_generator else _reason(context, uncompiled_code),
        about_limit_call(context, exceeded),
        about_growth(context, stopped),
        at=home,
        severity=Severity.INFORMATION if follows or _is_asked_for(group) else None,
        cost=_cost(context, uncompiled_code, name, partly=partly),
        hints=for_thread(
            context,
            advice((_caller_first(context, before),))
            if follows
            else _remedies(context, uncompiled_code, stopped),
            in_thread=uncompiled_code.in_thread,
        ),
        cures=limit_cures(context, stopped) if uncompiled_code.kind in _LIMITS else (),
        call=uncompiled_code.call,
        related=tuple(related),
        count=len(group),
        follows=before,
        gb_ids=tuple(dict.fromkeys(item.gb_id for item in group if item.gb_id)),
    )


def _reason(context: Context, uncompiled_code: NotCompiled) -> str:
    at = uncompiled_code.stack[-1] if uncompiled_code.stack else None
    return sentence(title_at(context, uncompiled_code.gb_id, uncompiled_code.reason, at))


def _caller_first(context: Context, cause: Related | None) -> str:
    span = cause.span if cause is not None else None
    if span is not None and (step := expected_generator(context, Location(span.path, span.line))):
        return step
    return _BREAK_FIRST.format(cause.span.line) if cause is not None else _CALLER_FIRST


def _is_asked_for(group: list[NotCompiled]) -> bool:
    return all(item.kind is Kind.SKIPPED and item.gb_id in ASKED_FOR for item in group)


def _cause(context: Context, uncompiled_code: NotCompiled) -> Break | None:
    """The graph break of the report for which a function was skipped; None where the report has none."""
    if uncompiled_code.kind is not Kind.SKIPPED or not uncompiled_code.stack:
        return None
    return break_at(context, uncompiled_code.gb_id, uncompiled_code.stack[-1])


def _reference(
    context: Context, group: list[NotCompiled], home: Location | None, title: str, cause: Break
) -> Finding:
    """A function that was skipped for a graph break, whose finding has the reason, the cost and what to do."""
    uncompiled_code = group[0]
    broke = context.innermost_user_frame(cause.stack, cause.above) or cause.stack[-1]
    is_near = home is not None and broke.path == home.path
    where = f"on line {broke.line}" if is_near else f"at {place(broke)}"
    before = Related(span_of(broke), f"it follows from the graph break {where}")
    is_rest = uncompiled_code.rest_from is not None
    return context.finding(
        _CODES[uncompiled_code.kind],
        title,
        sentence(f"The cause is the graph break {where}: {words_of(context, cause).title}"),
        at=home,
        severity=Severity.INFORMATION,
        cost=(_compiled_before(context, uncompiled_code),) if is_rest else (),
        call=uncompiled_code.call,
        related=(replace(before, message="the graph break"),),
        count=len(group),
        follows=before,
        gb_ids=tuple(dict.fromkeys(item.gb_id for item in group if item.gb_id)),
    )


def _followed(context: Context, uncompiled_code: NotCompiled, stopped: Recompile | None) -> Related | None:
    """What to fix before it: the break under a function that was skipped, the recompilations that reached a limit."""
    if stopped is not None:
        return Related(
            span_of(finding_place(context, stopped)), "it follows from the recompilations for this line"
        )
    broke = context.innermost_user_frame(uncompiled_code.stack)
    if broke is None or uncompiled_code.kind is not Kind.SKIPPED:
        return None
    return Related(span_of(broke), f"it follows from the graph break on line {broke.line}")


def _cost(context: Context, uncompiled_code: NotCompiled, name: str, *, partly: bool) -> tuple[str, ...]:
    if uncompiled_code.kind in _LIMITS:
        return ("later calls that match no compiled version run in eager mode, without a warning",)
    called = of_compiled_calls(context, uncompiled_code.location.path, uncompiled_code.function)
    if uncompiled_code.rest_from is not None:
        return (
            _compiled_before(context, uncompiled_code),
            f"`{name}` runs in eager mode from line {uncompiled_code.rest_from} on",
        )
    if partly and uncompiled_code.stack:
        return (f"the part with line {uncompiled_code.stack[0].line} runs in eager mode{called}",)
    if called and uncompiled_code.kind in {Kind.SKIPPED, Kind.GENERATOR, Kind.DISABLED}:
        return (f"its own lines run in eager mode{called}",)
    return ("all of it runs in eager mode",) if uncompiled_code.kind is not Kind.NO_TENSORS else ()


def _compiled_before(context: Context, uncompiled_code: NotCompiled) -> str:
    """What torch compiled of a function before the line from which on it runs in eager mode."""
    sizes = [
        item.graph.operators if item.graph is not None else 0
        for item in context.compiles_of(uncompiled_code.function, uncompiled_code.location)
        if item.call == uncompiled_code.call
    ]
    return f"its graph ends there, after {format_count(max(sizes, default=0), 'operator')}"


def _remedies(
    context: Context, uncompiled_code: NotCompiled, stopped: Recompile | None
) -> tuple[FindingRemedy, ...]:
    if uncompiled_code.kind in _LIMITS:
        return limit_remedies(context, stopped)
    if uncompiled_code.kind is Kind.SKIPPED and uncompiled_code.stack:
        at = context.innermost_user_frame(uncompiled_code.stack) or uncompiled_code.stack[-1]
        where = f"on line {at.line}" if at.path == uncompiled_code.location.path else f"at {place(at)}"
        step = "move the parts that can be compiled to a separate function"
        return advice((f"See the graph break {where}, or {step}",))
    return advice((_HINTS[uncompiled_code.kind],))
