"""What to do about a guarded value by what the value is: a string, a mode of torch, new state.

Invariant: what each program has to compile again is expected, not advised against.
"""

from __future__ import annotations

import ast

from fuselight.shared.report import GuardCause, GuardFailure, Location, Recompile
from fuselight_server.base.formatting import cut_list, format_list
from fuselight_server.explain.findings.advice.expectations import CARRIED
from fuselight_server.explain.findings.common.context import Context
from fuselight_server.explain.findings.common.library_remedies import is_new_state
from fuselight_server.explain.findings.common.source_tree import (
    cached_function_around,
    function_tree,
)
from fuselight_server.explain.findings.common.text import with_short_strings
from fuselight_server.explain.findings.recompilations.expected_versions import in_total
from fuselight_server.explain.findings.recompilations.python_values import outside_step

_MAX_NAMED = 4
"""Strings that are listed."""
_MANY = 4
"""Strings from which on there may be many more."""
_GRAD_MODE = "Expect one compile for each grad mode: training and evaluation need different code"


def value_remedy(context: Context, recompilation: Recompile, failure: GuardFailure) -> tuple[str, ...]:
    """What to do about a value of a kind that this module knows; empty for all others."""
    if is_grad_mode(failure):
        return (_GRAD_MODE,)
    cached = cached_function(context, failure)
    if cached is not None and _is_changed_in(context, cached, failure.source):
        return (
            f"Call `{cached.function}` outside the compiled code and pass its result in, as its cache works there",
        )
    is_text = _is_text(failure) and CARRIED not in failure.code  # a text that waits for a break goes with it
    return _text_hints(context, recompilation, failure) if is_text else ()


def cached_function(context: Context, failure: GuardFailure) -> Location | None:
    """The function with a cache of its results whose body reads the value: torch runs it in each call."""
    user = (place for place in failure.born if context.is_user_file(place.path))
    return next(filter(None, (cached_function_around(context, place) for place in user)), None)


def _is_changed_in(context: Context, function: Location, source: str) -> bool:
    """Whether a function assigns a value or an element of it, or calls a method of it."""
    tree = function_tree(context.read_line, function) or ast.Module([], [])
    return any(
        (
            isinstance(node, (ast.Name, ast.Attribute, ast.Subscript))
            and isinstance(node.ctx, ast.Store)
            and ast.unparse(node) in {source, f"{source}[{ast.unparse(getattr(node, 'slice', node))}]"}
        )
        or (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and ast.unparse(node.func.value) == source
        )
        for node in ast.walk(tree)
    )


def is_expected(recompilation: Recompile, failure: GuardFailure) -> bool:
    """Whether every such program compiles again for it: there is nothing to change."""
    return is_grad_mode(failure) or is_new_state(failure, recompilation.location)


def is_grad_mode(failure: GuardFailure) -> bool:
    """Whether grad mode differs in torch's global state: what changes with it, as autocast, belongs to evaluation."""
    return failure.cause is GuardCause.GLOBAL_STATE and "grad mode was" in failure.difference


def _is_text(failure: GuardFailure) -> bool:
    return failure.cause is GuardCause.VALUE and all(
        (value or "").startswith(("'", '"')) for value in (failure.was, failure.now)
    )


def _text_hints(context: Context, recompilation: Recompile, failure: GuardFailure) -> tuple[str, ...]:
    """What code makes of a string can be passed in its place; else each string is expected to compile."""
    strings = _strings(context, recompilation, failure)
    each = f"Expect one compile for each string: {format_list(cut_list(strings, _MAX_NAMED))} so far"
    (expected,) = in_total(context, recompilation, failure, (each,))
    outside = "Where there are many strings, as names or ids, use them outside the compiled code: each new one compiles"
    first = next(iter(outside_step(context, failure)), expected)
    return (first, *([outside] if first == expected and len(strings) >= _MANY else []))


def _strings(context: Context, recompilation: Recompile, failure: GuardFailure) -> list[str]:
    """The strings that a value of a function had so far, in their order."""
    code = recompilation.location
    seen: dict[str, None] = {}
    for other in context.report.recompiles:
        if (other.location.path, other.location.line) != (code.path, code.line):
            continue
        same = (item for entry in other.entries for item in entry.failures if item.source == failure.source)
        for item in sorted(same, key=lambda item: item.now is not None):
            seen.update({_shown(value): None for value in (item.was, item.now) if value})
    return list(seen) or [_shown(value) for value in (failure.was, failure.now) if value]


def _shown(string: str) -> str:
    return f"`{with_short_strings(string)}`"
