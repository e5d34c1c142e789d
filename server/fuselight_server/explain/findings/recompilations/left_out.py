"""A function that compiled code calls, left out of it: for a value that only this function reads.

Invariant: it is tried last, where nothing else is known to help, and named only if it cures: it costs operators inside
graphs. Of several functions, one in the other, the innermost one that is enough is named.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from fuselight.shared.report import CallCure, CureKind, GuardFailure, Location, Recompile, Stack
from fuselight_server.base.formatting import format_count
from fuselight_server.base.remedies import FindingRemedy, RemedyState
from fuselight_server.explain.findings.advice.advice import TriedAdvice, tried_remedies
from fuselight_server.explain.findings.advice.trial_verdict import is_inside
from fuselight_server.explain.findings.common.context import Context
from fuselight_server.explain.findings.common.source_tree import function_tree

EXPECT = "Expect "
"""How the advice begins that nothing is known to help."""


def without_function(
    context: Context,
    recompilation: Recompile,
    failure: GuardFailure | None,
    remedies: Sequence[FindingRemedy],
) -> tuple[tuple[FindingRemedy, ...], tuple[CallCure, ...]]:
    """The remedies with a function left out, if that helps and nothing else does, and what to try of it."""
    is_open = all(
        remedy.state is RemedyState.REFUSED
        or (remedy.state is RemedyState.ADVICE and remedy.text.startswith(EXPECT))
        for remedy in remedies
    )
    cures: list[CallCure] = []
    for item in _candidates(context, recompilation, failure) if is_open else ():
        cures.append(item.cure)
        trial = context.trials.get(item.cure)
        if trial is None:
            break  # those around it are tried only if it does not help
        if trial.cures:
            others = (remedy for remedy in remedies if remedy.state is RemedyState.REFUSED)
            return (*tried_remedies((item,), context.trials), *others), tuple(cures)
    return tuple(remedies), tuple(cures)


def _candidates(
    context: Context, recompilation: Recompile, failure: GuardFailure | None
) -> Iterator[TriedAdvice]:
    """The user's functions that lead to the read of a value, innermost first, without the compiled one."""
    code = recompilation.location
    for frame in reversed(_read_at(context, recompilation, failure)):
        function = context.def_above(frame) if context.is_user_file(frame.path) else None
        if function is None or (function.path, function.line) == (code.path, code.line):
            continue
        tree = function_tree(context.read_line, function)
        last = max((getattr(node, "end_lineno", 0) for node in ast.walk(tree)), default=0) if tree else 0
        if last >= frame.line:
            yield _left_out(context, recompilation, function, last)


def _read_at(context: Context, recompilation: Recompile, failure: GuardFailure | None) -> Stack:
    """The lines that lead to the read of a value, as recorded: the finding may be on a graph break above them."""
    recorded = (
        other.born
        for again in context.report.recompiles
        if (again.location, again.compile_id) == (recompilation.location, recompilation.compile_id)
        for entry in again.entries
        for other in entry.failures
        if failure is not None and other.code == failure.code
    )
    return next(recorded, ())


def _left_out(context: Context, recompilation: Recompile, function: Location, last: int) -> TriedAdvice:
    code, name = recompilation.location, context.qualified_name(function)
    place = f"{function.path}:{function.line}:{last}"
    cure = CallCure(CureKind.OUTSIDE, code.path, code.line, value=place)
    count = _operators(context, recompilation, cure)
    eager = f"Its {format_count(count, 'operator')} then run{'s' if count == 1 else ''} in eager mode, and the call"
    return TriedAdvice(
        f"Put `@torch.compiler.disable` above the `def` of `{name}`",
        cure,
        f"{eager if count else 'The call'} breaks the graph, unless it moves out of the compiled code",
    )


def _operators(context: Context, recompilation: Recompile, cure: CallCure) -> int:
    """How many operators of a version ran in the function."""
    entry = next(iter(recompilation.entries), None)
    compiled = context.compile_of(entry.compile_id) if entry is not None else None
    graph = compiled.graph if compiled is not None else None
    return sum(is_inside(stack, cure) for stack in graph.lines) if graph is not None else 0
