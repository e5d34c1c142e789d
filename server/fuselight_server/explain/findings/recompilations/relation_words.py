"""Relations between symbolic values in words: torch writes them in an algebra of its own, as `(32 + 8*n) != 128`.

Invariant: a condition of the user's stands for a relation only if nothing else on its line can have made the guard: it
calls nothing but sizes and lengths, and is no part of a longer one. All other relations keep torch's text.
"""

from __future__ import annotations

import ast
import re

from fuselight.shared.report import GuardCause, GuardFailure, Recompile
from fuselight.shared.torch_texts import in_user_words
from fuselight_server.base.formatting import cut_list, format_list
from fuselight_server.explain.findings.advice.expectations import is_of_general_code
from fuselight_server.explain.findings.common.context import Context
from fuselight_server.explain.findings.common.source_tree import tree_around
from fuselight_server.explain.findings.common.text import plain

_HOLDS = " no longer holds"
_OFFSET = re.compile(r"2 <= (?P<view>.+)\.storage_offset\(\) no longer holds: .* is (?P<now>\d+)$")
_RANGE = re.compile(r"-?\d+ <= .+ <= -?\d+$")
_ORDERS = (ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE)
_TAKEN_FOR_EQUAL = re.compile(
    r"(?P<one>\S+) == (?P<other>\S+) no longer holds: (?P=one) is (?P<first>\d+), (?P=other) is (?P<second>\d+) "
    r"\(they had the same size"
)
_SHORT = 20
"""Characters of a result of torch's that is as readable as the condition."""
_LONGEST = 60
"""Characters of a condition in a title."""
_SIZES = frozenset({"dim", "numel", "size"})
_SMALL = frozenset({"0", "1"})


def difference_words(context: Context, failure: GuardFailure) -> str:
    """What differs by a failed guard: for a relation, the condition of the user's whose outcome changed, if one did."""
    difference = plain(failure.difference or failure.code)
    if match := _OFFSET.match(difference):
        start = "a view that starts at element 2 or later of its memory"
        return f"{match['view']} was {start}, now at element {match['now']}"
    if match := _TAKEN_FOR_EQUAL.match(difference):
        return (
            f"{match['one']} and {match['other']} were equal, now {match['first']} and {match['second']} "
            "(torch takes equal sizes for one)"
        )
    condition = tested_condition(context, failure)
    values = difference.partition(f"{_HOLDS}: ")[2]
    if condition and f" was {failure.was}, now " in difference:
        result = difference.partition(" was ")[0]
        known = f": {result} is {failure.now}" if len(result) <= _SHORT else ""
        return f"the outcome of `{condition}` changed{known}"
    if not condition or not values:
        return difference
    return f"the outcome of `{condition}` changed: {values}"


def other_version(context: Context, recompilation: Recompile, failure: GuardFailure | None) -> str:
    """Why another version, which was compiled for the new value, does not fit: `; the version for it needs ...`."""
    if failure is None or failure.cause not in _CHOICES or not failure.source:
        return ""
    for entry in recompilation.entries[1:]:
        others = [item for item in entry.failures if item.difference and item.cause in _VALUES]
        if entry.failures and failure.source not in {item.source for item in entry.failures}:
            shown = cut_list([difference_words(context, item) for item in others], _MAX_NAMED)
            return f" (the version for it does not fit: {format_list(shown)})" if shown else ""
    return ""


_CHOICES = frozenset({GuardCause.VALUE, GuardCause.NONE})
"""Changes from one value to another of which each has a version."""
_VALUES = frozenset({*_CHOICES, GuardCause.NUMBER, GuardCause.DIMENSION, GuardCause.DTYPE, GuardCause.LENGTH})
_MAX_NAMED = 2


def tested_condition(context: Context, failure: GuardFailure) -> str:
    """The condition on the line of a relation, as the user wrote it; empty if that may not be what made the guard."""
    at = context.innermost_user_frame(failure.born)
    is_small = is_of_general_code(failure) and failure.now in _SMALL
    if failure.cause is not GuardCause.RELATION or at is None or is_small or at != failure.born[-1]:
        return ""
    if failure.now is None and _RANGE.match(failure.code):  # either end of it may be what failed
        return ""
    tree = tree_around(context, at)
    tests = [
        node.test
        for node in ast.walk(tree or ast.Module([], []))
        if isinstance(node, (ast.If, ast.While, ast.Assert))
        and node.test.lineno == at.line == node.test.end_lineno
        and (isinstance(node, ast.Assert) or node.body[0].lineno > at.line)
    ]
    if len(tests) != 1 or not _is_plain(tests[0]):
        return ""
    text = ast.unparse(tests[0])
    return text if len(text) <= _LONGEST else ""


def expected_outcomes(context: Context, recompilation: Recompile, failure: GuardFailure) -> str:
    """What to expect of a relation whose condition is known, or of which each value compiles; empty for any other."""
    if failure.cause is not GuardCause.RELATION:
        return ""
    compiled, result = context.compile_of(recompilation.compile_id), failure.difference.partition(" was ")[0]
    parts = (part for guard in (compiled.guards if compiled is not None else ()) for part in guard.code)
    if any(plain(in_user_words(part)) == f"{result} == {failure.now}" for part in parts):
        return f"Expect one compile for each value of `{result}`"
    if condition := tested_condition(context, failure):
        return (
            f"Expect one compile for each outcome of `{condition}`, also where the values in it are dynamic"
        )
    return ""


def _is_plain(test: ast.expr) -> bool:
    """Whether a condition only compares numbers: what it calls reads a size, and it has one comparison."""
    nodes = list(ast.walk(test))
    marks = [isinstance(mark, _ORDERS) for mark in nodes if isinstance(mark, ast.cmpop)]
    if marks != [True] and (marks or not isinstance(test, ast.BinOp)):
        return False
    calls = (node.func for node in nodes if isinstance(node, ast.Call))
    return not any(isinstance(node, ast.BoolOp) for node in nodes) and all(
        (isinstance(call, ast.Attribute) and call.attr in _SIZES)
        or (isinstance(call, ast.Name) and call.id in {"len", "int"})
        for call in calls
    )
