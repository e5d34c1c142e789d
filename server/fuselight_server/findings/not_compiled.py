"""FL101 to FL106: a frame that runs in eager as a whole, on its `def` line.

Invariant: the title says that the function is NOT compiled; the reason is torch's own, in plain text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fuselight.report import NotCompiledKind as Kind
from fuselight_server.finding import Related
from fuselight_server.findings.causes import advice
from fuselight_server.findings.context import span_of, trail
from fuselight_server.findings.recompilations import difference_of, nearest
from fuselight_server.findings.text import compose, plain, sentence

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fuselight.report import NotCompiled, Recompile
    from fuselight_server.finding import Finding
    from fuselight_server.findings.context import Context

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
    Kind.RECOMPILE_LIMIT: "`{}` is not compiled any more: it reached the recompile limit",
    Kind.ACCUMULATED_LIMIT: "`{}` is not compiled any more: it reached the limit over all its objects",
    Kind.GENERATOR: "`{}` is not compiled: it is a generator",
    Kind.DISABLED: "`{}` is not compiled: it is switched off in the code",
    Kind.COMPILER_ERROR: "`{}` is not compiled: the compiler failed and torch went on in eager",
    Kind.NO_TENSORS: "nothing to compile in `{}`: it has no tensor operators",
}

_HINTS = {
    Kind.SKIPPED: "Remove the cause, or call the parts that can be compiled from a function of their own",
    Kind.GENERATOR: "Compile a function that consumes the generator, or return a list instead of yielding",
    Kind.DISABLED: "Remove torch.compiler.disable if it is not wanted any more",
    Kind.COMPILER_ERROR: (
        "Set torch._dynamo.config.suppress_errors = False to see the failure, and report it to "
        "PyTorch if it is theirs"
    ),
    Kind.NO_TENSORS: "Compile the function that does the tensor work instead",
}


def not_compiled_findings(context: Context) -> Iterator[Finding]:
    """The findings of frames that were left to eager."""
    groups: dict[tuple[object, ...], list[NotCompiled]] = {}
    for one in context.report.not_compiled:
        groups.setdefault((_CODES[one.kind], one.location.path, one.location.line), []).append(one)
    for group in groups.values():
        yield _finding(context, group)


def _finding(context: Context, group: list[NotCompiled]) -> Finding:
    one = group[0]
    home = one.location if context.is_ours(one.location) else context.innermost_ours(one.stack, one.caller)
    name = plain(one.function) or "this function"
    stopped = _stopped(context, one) if one.kind in _LIMITS else None
    hints = _hints(one, stopped)
    cost = ("nothing in it is compiled: all of it runs in eager",) if one.kind is not Kind.NO_TENSORS else ()
    if one.kind in _LIMITS:
        cost = ("calls that no compiled version fits run in eager from here on, silently",)
    related = [] if home == one.location else [Related(span_of(one.location), f"`{name}` is defined here")]
    related += [
        item
        for item in trail(one.stack, without=home, verb="decided in")
        if context.is_ours_path(item.span.path)
    ]
    related += trail(one.caller[-1:], without=home, verb="called from")
    return context.finding(
        _CODES[one.kind],
        title=_TITLES[one.kind].format(name),
        message=compose(
            sentence(plain(one.reason)),
            f"The call that went over it: {difference_of(stopped)}." if stopped else "",
            cost=cost,
            hints=hints,
        ),
        span=span_of(home) if home else context.target_span(),
        call=one.call,
        hints=hints,
        related=tuple(related),
        count=len(group),
        gb_ids=tuple(dict.fromkeys(item.gb_id for item in group if item.gb_id)),
        cost=cost,
    )


def _stopped(context: Context, one: NotCompiled) -> Recompile | None:
    """The recompilation that the limit stopped."""
    return next(
        (
            item
            for item in context.report.recompiles
            if item.compile_id is None
            and (item.location.path, item.location.line) == (one.location.path, one.location.line)
        ),
        None,
    )


def _hints(one: NotCompiled, stopped: Recompile | None) -> tuple[str, ...]:
    if one.kind in _LIMITS:
        failures = nearest(stopped) if stopped else ()
        first = advice(failures[0]) if failures else ()
        return (
            *first,
            "Raising torch._dynamo.config.recompile_limit only helps where the number of versions is bounded",
        )
    return (_HINTS[one.kind],)
