"""The graph break that a recompilation follows from, which is to be fixed first.

Invariant: calls are said to be compiled separately because of a break only if one compiled function makes both that
differ, one inside and one outside of a block that sets the grad mode, and each at a line that breaks. A recompilation
for a value that the caller gives, or that the function only hands on, comes after no break.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass

from fuselight.shared.report import GuardCause, GuardFailure, Location, Recompile, Stack
from fuselight_server.explain.findings.common.context import Context
from fuselight_server.explain.findings.common.resume_functions import break_at, nearest, resumed_at
from fuselight_server.explain.findings.common.source_tree import tree_around
from fuselight_server.explain.findings.common.text import place
from fuselight_server.explain.findings.recompilations.changed_containers import is_filled_on
from fuselight_server.explain.findings.recompilations.remedies import is_made_by_the_function
from fuselight_server.explain.findings.recompilations.value_remedies import is_grad_mode

_MODES = frozenset({"no_grad", "enable_grad", "set_grad_enabled", "inference_mode"})
_OF_MODES = frozenset({GuardCause.GLOBAL_STATE, GuardCause.REQUIRES_GRAD, GuardCause.DISPATCH})
"""What differs between tensors that are made under different grad modes."""


@dataclass(frozen=True)
class RootBreak:
    """The break to fix before a recompilation."""

    at: Location
    is_inside: bool
    """Whether it is in the function, which its caller then calls in eager mode."""

    def words(self, home: Location) -> str:
        """How a recompilation that is shown at `home` follows from it."""
        where = f"line {self.at.line}" if self.at.path == home.path else place(self.at)
        relation = "is called in eager mode because of" if self.is_inside else "is in the code after"
        return f"it {relation} the graph break on {where}"

    def about_part(self) -> str:
        """That a part after the break makes the value itself, so that the break is what to fix."""
        return (
            "" if self.is_inside else "The part exists only because of that graph break: fix the break first."
        )


def root_break(context: Context, recompilation: Recompile, failure: GuardFailure | None) -> RootBreak | None:
    """The break to fix before a recompilation for `failure`; None if no fact shows one."""
    of_mode = _break_between_modes(context, recompilation)
    if of_mode is not None:
        return RootBreak(of_mode, is_inside=True)
    line = resumed_at(context, recompilation)
    if line is None or failure is None:
        return None
    is_made = is_made_by_the_function(context, recompilation, failure)
    if not is_made and not is_filled_on(context, failure, line):
        return None
    at = break_at(context, recompilation, line)
    broke = next((item for item in context.report.breaks if item.stack[:1] == (at,)), None)
    home = context.innermost_user_frame(broke.stack) if broke is not None else at
    return RootBreak(home, is_inside=False) if home is not None else None


def _break_between_modes(context: Context, recompilation: Recompile) -> Location | None:
    """The break that lets a function be compiled separately in and out of a block that sets the grad mode."""
    failures = nearest(recompilation)
    is_of_modes = {failure.cause for failure in failures} <= _OF_MODES and any(map(is_grad_mode, failures))
    earlier = context.compile_of(recompilation.entries[0].compile_id) if recompilation.entries else None
    if not is_of_modes or earlier is None:
        return None
    stacks = (earlier.caller, recompilation.caller)
    calls = [call for stack in stacks if (call := context.innermost_user_frame(stack)) is not None]
    broken = [at for stack in stacks if (at := _broken_under(context, stack)) is not None]
    functions = {(call.path, call.function) for call in calls}
    modes = {_is_in_mode(context, call) for call in calls}
    return broken[1] if len(broken) == len(modes) == len(stacks) and len(functions) == 1 else None


def _broken_under(context: Context, caller: Stack) -> Location | None:
    """The line that broke a compiled function at the call which is the innermost on a stack."""
    call = context.innermost_user_frame(caller)
    for graph_break in context.report.breaks:
        if call is None or len(graph_break.stack) == 1 or graph_break.frame_skipped:
            continue
        at = next(iter(graph_break.stack), call)
        if at.path == call.path and at.line <= call.line <= (at.end_line or at.line):
            return context.innermost_user_frame(graph_break.stack)
    return None


def _is_in_mode(context: Context, at: Location) -> bool:
    """Whether a line is in a block of its function that sets the grad mode."""
    tree = tree_around(context, at)
    blocks = [node for node in ast.walk(tree) if isinstance(node, ast.With)] if tree is not None else []
    return any(
        block.body[0].lineno <= at.line <= (block.end_lineno or block.lineno)
        and any(_sets_mode(item.context_expr) for item in block.items)
        for block in blocks
    )


def _sets_mode(expression: ast.expr) -> bool:
    called = expression.func if isinstance(expression, ast.Call) else expression
    return (getattr(called, "attr", None) or getattr(called, "id", "")) in _MODES
