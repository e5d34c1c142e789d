"""What to do about a size that varied, by all values that it had in the run.

Invariant: a mark is advised only for a size that was 2 or more at the first compile, and only if it saves a compile.
No number of compiles is promised: how many follow, the cost of the finding says.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from fuselight.shared.report import Branch, GuardCause, GuardFailure, Recompile
from fuselight_server.explain.findings.advice.expectations import (
    CARRIED,
    ZERO_OR_ONE,
    fixed_by_torch,
)
from fuselight_server.explain.findings.common.context import Context
from fuselight_server.explain.findings.common.resume_functions import nearest, resumed_at
from fuselight_server.explain.findings.common.source_tree import function_tree

_SETTING = "automatic_dynamic_shapes"
_RELATION = re.compile(r"no longer holds: (?P<name>\S+)\.size\((?P<dimension>\d+)\) is (?P<now>\d+)$")
_RANGE = re.compile(r"\[(\d+), (\d+|inf|int_oo)\]")
_SMALL = frozenset({0, 1})
Size = tuple[str, int]
"""A tensor and a dimension of it."""


@dataclass(frozen=True)
class SizeHistory:
    """The values of one size, in the order of the compiles."""

    first: int | None
    """At the first compile; None if that is not known."""
    later: tuple[int, ...]

    @property
    def general(self) -> set[int]:
        """The values that torch can compile together."""
        return {value for value in (self.first, *self.later) if value is not None} - _SMALL

    @property
    def small(self) -> set[int]:
        """Later values that torch compiles separately."""
        return set(self.later) & _SMALL


def size_of(failure: GuardFailure) -> Size | None:
    """The size that a failed guard is about."""
    if failure.sizes:
        return failure.sizes[0].name, failure.sizes[0].dimension
    match = _RELATION.search(failure.difference)
    return (match["name"], int(match["dimension"])) if match is not None else None


def history_of(context: Context, recompilation: Recompile, size: Size) -> SizeHistory:
    """The values of a size in all recompilations of the function, or of its part after a break."""
    first: int | None = None
    later: list[int] = []
    for other in _same(context, recompilation):
        changes = list(_changes(other, size))
        if not changes:
            continue
        was, now = changes[0]
        first = was if not later else first
        later.append(now)
    return SizeHistory(first, tuple(later))


def _same(context: Context, recompilation: Recompile) -> Iterator[Recompile]:
    line = resumed_at(context, recompilation)
    for other in context.report.recompiles:
        is_same = (other.function, other.location) == (recompilation.function, recompilation.location)
        if is_same and resumed_at(context, other) == line:
            yield other


def _changes(recompilation: Recompile, size: Size) -> Iterator[tuple[int | None, int]]:
    for failure in nearest(recompilation):
        for change in failure.sizes:
            if (change.name, change.dimension) == size:
                yield change.was, change.now
        match = _RELATION.search(failure.difference)
        if match is not None and (match["name"], int(match["dimension"])) == size:
            yield None, int(match["now"])


def starts_small(context: Context, recompilation: Recompile, size: Size) -> bool:
    """Whether the size was 0 or 1 at the first compile: torch fixes such a size, and a mark changes nothing."""
    return history_of(context, recompilation, size).first in _SMALL


def size_remedy(context: Context, recompilation: Recompile, failure: GuardFailure) -> tuple[str, ...]:
    """What to expect of a size that a branch decides on; empty for all else."""
    branch = branch_on_size(context, recompilation, failure)
    return (
        ()
        if branch is None
        else (f"Expect it: each side of the branch on line {branch} needs its own compile",)
    )


def is_small_alone(context: Context, recompilation: Recompile, failure: GuardFailure) -> bool:
    """Whether a size changed to or from 0 or 1, and has no two other values that torch could compile together."""
    size = size_of(failure)
    is_small = size is not None and fixed_by_torch(failure)
    return is_small and size is not None and len(history_of(context, recompilation, size).general) < 2  # noqa: PLR2004


def small_size(failure: GuardFailure) -> tuple[str, ...]:
    """What to expect of a size of 0 or 1; empty for all else."""
    size = size_of(failure)
    if size is None or not fixed_by_torch(failure):
        return ()
    return (f"Expect it: {ZERO_OR_ONE}",)


def varying_sizes(*failures: GuardFailure) -> tuple[Size, ...]:
    """Tensor and dimension of each size that differs and that torch can keep symbolic; a guard may name several."""
    sizes = (
        (size.name, size.dimension)
        for failure in failures
        for size in failure.sizes
        if not size.name.startswith(CARRIED) and {0, 1}.isdisjoint((size.was, size.now))
    )
    return tuple(dict.fromkeys(sizes))


def keeps_sizes_fixed(context: Context, recompilation: Recompile) -> bool:
    """Whether the program forbids torch to make a size of the function dynamic: a setting, or dynamic=False."""
    compiles = context.compiles_of(recompilation.function, recompilation.location)
    return _SETTING in context.report.environment.config or any(
        item.makes_dynamic is False for item in compiles
    )


# Branches


def branch_on_size(context: Context, recompilation: Recompile, failure: GuardFailure) -> int | None:
    """The line of a branch on the size whose two sides were compiled: one cannot be valid for the other."""
    size = size_of(failure)
    if size is None or fixed_by_torch(failure) or not context.is_user_file(recompilation.location.path):
        return None
    tree = function_tree(context.read_line, recompilation.location)
    facts = context.report.facts.files.get(recompilation.location.path)
    if tree is None or facts is None:
        return None
    both = [branch for branch in facts.branches if branch.true and branch.false]
    tests: Iterable[ast.expr] = _tests_of_size(tree, size)
    if failure.cause is not GuardCause.RELATION and not _is_out_of_range(
        context, recompilation, failure, size
    ):
        tests = [test for test in tests if _decides_between(test, failure, size)]
    return next((test.lineno for test in tests if any(_is_at(branch, test) for branch in both)), None)


def _is_out_of_range(context: Context, recompilation: Recompile, failure: GuardFailure, size: Size) -> bool:
    """Whether the code of the new size, although it is symbolic, does not accept the size before."""
    compiled = context.compile_of(recompilation.compile_id)
    if compiled is None or len(failure.sizes) != 1:
        return False
    was, source = failure.sizes[0].was, f"{size[0]}.size({size[1]})"
    for symbol in compiled.symbols:
        match = _RANGE.match(symbol.range or "")
        if symbol.source == source and symbol.specialized_to is None and match is not None:
            return was < int(match[1]) or (match[2].isdecimal() and was > int(match[2]))
    return False


def _is_at(branch: Branch, test: ast.expr) -> bool:
    return branch.line <= (test.end_lineno or test.lineno) and test.lineno <= branch.end_line


def _tests_of_size(tree: ast.AST, size: Size) -> Iterator[ast.expr]:
    """The conditions that mention the size, or a name that was assigned from it."""
    names = {
        target.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and _mentions(node.value, size[0], frozenset())
        for part in node.targets
        for target in ast.walk(part)
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(tree):
        if isinstance(node, (ast.If, ast.IfExp, ast.While, ast.Assert)) and _mentions(
            node.test, size[0], frozenset(names)
        ):
            yield node.test


def _decides_between(test: ast.expr, failure: GuardFailure, size: Size) -> bool:
    """Whether a condition on the size alone, as `x.shape[1] == 8`, is another for the new size than for the old one."""
    if len(failure.sizes) != 1 or any(
        value is None for value in (failure.sizes[0].was, failure.sizes[0].now)
    ):
        return False
    outcomes = [_outcome(test, size, value) for value in (failure.sizes[0].was, failure.sizes[0].now)]
    return None not in outcomes and outcomes[0] != outcomes[1]


def _outcome(node: ast.expr, size: Size, value: int) -> bool | None:
    """What a condition is for a value of the size; None if it depends on anything else."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        outcome = _outcome(node.operand, size, value)
        return None if outcome is None else not outcome
    if not isinstance(node, ast.Compare):
        return None
    parts = (node.left, *node.comparators)
    numbers = [number for part in parts if (number := _number(part, size, value)) is not None]
    compares = [_COMPARISONS.get(type(mark)) for mark in node.ops]
    if len(numbers) < len(parts) or None in compares:
        return None
    return all(
        compare(left, right)
        for compare, left, right in zip(compares, numbers, numbers[1:], strict=False)
        if compare is not None
    )


def _number(node: ast.expr, size: Size, value: int) -> int | None:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    name, dimension = size
    return value if ast.unparse(node) in {f"{name}.shape[{dimension}]", f"{name}.size({dimension})"} else None


_COMPARISONS: dict[type[ast.cmpop], Callable[[int, int], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


def _mentions(node: ast.AST, tensor: str, names: frozenset[str]) -> bool:
    for part in ast.walk(node):
        if isinstance(part, ast.Name) and part.id in names:
            return True
        if (
            isinstance(part, ast.Attribute)
            and part.attr in {"shape", "size"}
            and ast.unparse(part.value) == tensor
        ):
            return True
        if _is_length(part) and ast.unparse(part) == f"len({tensor})":
            return True
    return False


def _is_length(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "len"
