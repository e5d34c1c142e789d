"""Numbers taken from tensors that decide a branch: torch._check promises the side that was seen.

With `capture_scalar_outputs`, a number stays in the graph, but torch cannot decide `if k > 10`. After
`torch._check(k <= 10)` it can, and calls in which that does not hold fail.

Invariant: a promise is a condition of the function itself, and its operands have their values where it stands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import libcst as cst

from fuselight.shared.report import Report
from fuselight_server.base.finding import Finding
from fuselight_server.explain.findings.advice.break_cures import SCALARS
from fuselight_server.fixes.rewrites.configuration import switch
from fuselight_server.fixes.rewrites.new_arrays import is_member
from fuselight_server.fixes.rewrites.number_choices import reason_of_choice
from fuselight_server.fixes.rewrites.remedy import FixClass, Remedy
from fuselight_server.fixes.syntax.site import Site
from fuselight_server.fixes.syntax.tree import descendants

_NEGATED = {
    cst.LessThan: ">=",
    cst.LessThanEqual: ">",
    cst.GreaterThan: "<=",
    cst.GreaterThanEqual: "<",
    cst.Equal: "!=",
    cst.NotEqual: "==",
}
_BOOLS = {"True": True, "False": False}
_CHANGES = "calls in which that does not hold fail"
_NUMBERS = frozenset({"GB0124", "GB0033", "GB0109"})
_MAX = 3
"""Promises of one remedy."""


def bound_remedies(
    finding: Finding, report: Report, read: Callable[[str], str | None], others: Sequence[Report] = ()
) -> Iterator[Remedy]:
    """`capture_scalar_outputs` with promises for a number; promises alone for a branch on one that is captured.

    `others`: the reports of other targets, for which the setting holds, too.
    """
    text = read(finding.span.path)
    site = Site.of(finding, report, text) if text is not None else None
    if site is None:
        return
    if {finding.code, *finding.gb_ids[:1]} & _NUMBERS:
        yield from _with_setting(site, read, others)
    elif finding.code == "GB0170":
        for is_taken in (False, True):
            yield from _branch(site, is_taken=is_taken)


def _with_setting(
    site: Site, read: Callable[[str], str | None], others: Sequence[Report]
) -> Iterator[Remedy]:
    call = next(iter(site.nodes(cst.Call)), None)
    statement = (
        next((ancestor for ancestor in site.ancestors(call) if isinstance(ancestor, cst.Assign)), None)
        if call
        else None
    )
    name = _name(statement)
    function = site.function(statement) if statement is not None else None
    if statement is None or function is None or not name or len(site.assigned(function, name)) != 1:
        return
    conditions = (_condition(site, function, use) for use in site.loads(function, name))
    promises = list(dict.fromkeys(condition for condition in conditions if condition is not None))
    if not promises or len(promises) > _MAX:
        return
    new = _after(site, statement, promises)
    if new is None or reason_of_choice(site, (site.report, *others), read):
        return
    path = site.finding.span.path
    for setting in switch(site.report, lambda other: new if other == path else read(other), SCALARS):
        texts = {path: new, **setting.texts}
        yield _remedy(f"Set {SCALARS} and promise", promises, texts, is_setting=True)


def _branch(site: Site, *, is_taken: bool) -> Iterator[Remedy]:
    """A promise for a condition, of which nothing is known but that one of its sides was taken."""
    node = next(iter(site.nodes((cst.If, cst.IfExp))), None)
    function = site.function(node) if node is not None else None
    if not isinstance(node, (cst.If, cst.IfExp)) or function is None:
        return
    for use in descendants(node.test):
        if not isinstance(use, cst.Name):
            continue
        values = site.assigned(function, use.value)
        statement = site.parents[values[0]] if len(values) == 1 and values[0] is not None else None
        if statement is None or not _is_number(values[0]):
            continue
        promise = _condition(site, function, use, is_taken=is_taken)
        new = _after(site, statement, [promise]) if promise is not None else None
        if promise is not None and new is not None:
            yield _remedy("Promise", [promise], {site.finding.span.path: new})
        return


def _remedy(words: str, promises: list[str], texts: dict[str, str], *, is_setting: bool = False) -> Remedy:
    title = f"{words} {', '.join(f'`{promise}`' for promise in promises)}"
    return Remedy("check", title, FixClass.CHANGES, texts, _CHANGES, is_setting=is_setting)


def _name(statement: cst.Assign | None) -> str:
    target = statement.targets[0].target if statement is not None and len(statement.targets) == 1 else None
    return target.value if isinstance(target, cst.Name) else ""


def _is_number(node: cst.BaseExpression | None) -> bool:
    """Whether an expression takes a number from a tensor: `t.item()`, `int(t)`."""
    if not isinstance(node, cst.Call):
        return False
    if isinstance(node.func, cst.Attribute):
        return node.func.attr.value == "item" and not node.args
    return isinstance(node.func, cst.Name) and node.func.value in {"int", "bool"} and len(node.args) == 1


def _after(site: Site, statement: cst.CSTNode, promises: list[str]) -> str | None:
    """The text with promises on the lines after a statement."""
    line = site.line_of(statement)
    indent = site.indentation(line) if line is not None else None
    if line is None or indent is None:
        return None
    end = site.end_of_line(site.range_of(line)[1])
    rows = "".join(f"{site.newline}{indent}{site.torch}._check({promise})" for promise in promises)
    return site.rewritten((end, end, rows))


def _condition(
    site: Site, function: cst.FunctionDef, use: cst.BaseExpression, *, is_taken: bool | None = None
) -> str | None:
    """What a use of a number that decides a branch promises; None where it decides none, or both sides were taken.

    `is_taken`: whether the branch was taken; None: as Dynamo saw it.
    """
    values = {value.text for value in site.values(use)}
    if (values and values <= _BOOLS.keys()) or _is_bool(site, function, use):
        is_true = is_taken if is_taken is not None else _only(values)
        return _of_bool(site, use, is_true=is_true) if is_taken is None or _decides(site, use) else None
    parent = site.parents[use]
    inner: cst.BaseExpression = use
    if isinstance(parent, cst.ComparisonTarget):
        parent = site.parents[parent]
    if isinstance(parent, cst.Comparison):
        inner = parent
    if not _decides(site, inner):
        return None
    seen = {value.text for value in site.values(inner)}
    if isinstance(inner, cst.Comparison):
        is_true = is_taken if is_taken is not None else _only(seen)
        return _of_comparison(site, function, inner, use, is_true=is_true)
    if is_taken is None and not all(text.lstrip("-").isdigit() for text in seen):
        return None
    truth = {text != "0" for text in seen}
    is_true = is_taken if is_taken is not None else (truth.pop() if len(truth) == 1 else None)
    return None if is_true is None else f"{site.code(use)} {'!=' if is_true else '=='} 0"


def _is_bool(site: Site, function: cst.FunctionDef, use: cst.BaseExpression) -> bool:
    """Whether the number is a bool by what it is taken from: `t.any().item()`."""
    values = site.assigned(function, use.value) if isinstance(use, cst.Name) else []
    value = values[0] if len(values) == 1 else None
    source = (
        value.func.value if isinstance(value, cst.Call) and isinstance(value.func, cst.Attribute) else None
    )
    if isinstance(source, cst.Call) and isinstance(source.func, cst.Attribute):
        return source.func.attr.value in {"any", "all"}
    return isinstance(source, cst.Comparison)


def _only(values: set[str]) -> bool | None:
    return _BOOLS.get(next(iter(values))) if len(values) == 1 else None


def _of_bool(site: Site, use: cst.BaseExpression, *, is_true: bool | None) -> str | None:
    if is_true is None:
        return None
    return site.code(use) if is_true else f"{site.torch}.sym_not({site.code(use)})"


def _of_comparison(
    site: Site,
    function: cst.FunctionDef,
    node: cst.Comparison,
    use: cst.BaseExpression,
    *,
    is_true: bool | None,
) -> str | None:
    """`k > 10` or `k <= 10`, if the other operand is an integer, a parameter, or a size of one."""
    operator = node.comparisons[0].operator
    if is_true is None or len(node.comparisons) != 1 or type(operator) not in _NEGATED:
        return None
    parameters = {parameter.name.value for parameter in function.params.params}
    for side in (node.left, node.comparisons[0].comparator):
        names = {
            descendant.value
            for descendant in descendants(side)
            if isinstance(descendant, cst.Name)
            and not (is_member(site, descendant) and descendant.value in {"size", "shape"})
        }
        calls = [descendant for descendant in descendants(side) if isinstance(descendant, cst.Call)]
        own = {name for name in names if name in parameters and not site.assigned(function, name)}
        if side is not use and (names - own or any(_is_not_size(call) for call in calls)):
            return None
    if is_true:
        return site.code(node)
    left, right = (
        site.source[slice(*site.outer_range(expression))]
        for expression in (node.left, node.comparisons[0].comparator)
    )
    return f"{left} {_NEGATED[type(operator)]} {right}"


def _is_not_size(call: cst.Call) -> bool:
    return not (isinstance(call.func, cst.Attribute) and call.func.attr.value == "size")


def _decides(site: Site, node: cst.CSTNode) -> bool:
    """Whether a condition, or an operand of one, decides a branch."""
    inner = node
    for parent in site.ancestors(node):
        if isinstance(parent, (cst.If, cst.IfExp, cst.Assert)):
            return parent.test is inner
        if not isinstance(parent, (cst.BooleanOperation, cst.UnaryOperation)):
            return False
        inner = parent
    return False
