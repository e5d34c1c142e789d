"""What Python decides by numbers taken from tensors, and compiled code otherwise: max, min, sorted, comparisons.

Invariant: of integers, Python and compiled code choose the same. Of other numbers, Python keeps the first of two that
are equal, with its type, and decides by the order of the arguments where one is NaN; compiled code does neither.
Python compares an integer with a float exactly, and NaN with itself as different; compiled code compares doubles, and
a number that is read twice from one tensor as equal.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Iterator, Sequence

import libcst as cst

from fuselight.shared.report import FactKind, Report
from fuselight_server.base.finding import Span
from fuselight_server.fixes.syntax.site import Site
from fuselight_server.fixes.syntax.tensor_values import short_code
from fuselight_server.fixes.syntax.traced_names import is_integer_tensor, values_of
from fuselight_server.fixes.syntax.tree import descendants, dotted

_CHOICES = frozenset({"max", "min", "sorted"})
_TAKING = frozenset({"item", "tolist"})
_CONVERSIONS = frozenset({"float", "int"})
_INTEGRAL = frozenset({"len", "int", "ord", "hash", "id"})
_OPERATORS = frozenset({"eq", "ne", "le", "ge", "lt", "gt", "isclose", "countOf", "indexOf", "contains"})
"""Functions of `operator` and `math` that compare numbers."""
_METHODS = frozenset({"__eq__", "__ne__", "__le__", "__ge__", "__lt__", "__gt__", "index", "count"})
_EXACT = 2.0**53
"""From here on, not every integer is a double."""
_DEEPEST = 6
"""Names of names that are looked at."""


def reason_of_choice(site: Site, reports: Iterable[Report], read: Callable[[str], str | None]) -> str:
    """Why numbers taken from tensors may not become part of graphs: Python decides by them; empty if it does not.

    `reports`: those of all targets, as the setting that traces numbers holds for each break.
    """
    reports = tuple(reports)
    return next(filter(None, (_reason_at(each, reports) for each in _sites(site, reports, read))), "")


def caveat_of_choice(site: Site, reports: Iterable[Report], read: Callable[[str], str | None]) -> str:
    """What no call shows where two numbers of tensors are compared that were integers or floats in all runs."""
    compares = any(
        _is_taken(known, left) and _is_taken(known, right)
        for known in _sites(site, reports, read)
        for node in known.parents
        for _, left, right in _compared(known, node)
    )
    return "compiled code compares an integer with a float as doubles, and NaN as equal to itself" * compares


def _sites(site: Site, reports: Iterable[Report], read: Callable[[str], str | None]) -> Iterator[Site]:
    """The sites of a break and of all others, one for each module."""
    seen = {id(site.module)}
    yield site
    for report in reports:
        lines = {(each.stack[-1].path, each.stack[-1].line): None for each in report.breaks if each.stack}
        for path, line in lines:
            text = read(path)
            finding = dataclasses.replace(site.finding, span=Span(path, line))
            there = Site.of(finding, report, text) if text is not None else None
            if there is not None and id(there.module) not in seen:
                seen.add(id(there.module))
                yield there


def _reason_at(site: Site, reports: Sequence[Report]) -> str:
    for call in _choices(site):
        numbers = [argument.value for argument in call.args if argument.keyword is None]
        is_chosen = any(_is_taken(site, number) for number in numbers) and not _is_bounded(
            site, call, numbers
        )
        is_integral = all(_is_integer(site, number) for number in numbers)
        if is_chosen and not is_integral and not _is_eager(site, call, reports):
            code = short_code(site, call)
            return f"`{code}` chooses by order and type where numbers are NaN or equal, and compiled code does not"
    for node in site.parents:
        compared = _compared(site, node)
        is_other = any(_differs(site, operator, left, right) for operator, left, right in compared)
        if is_other and not _is_eager(site, node, reports):
            code = short_code(site, node)
            return f"`{code}` compares numbers exactly, also NaN and integers above 2**53, and compiled code does not"
    return ""


def _is_eager(site: Site, node: cst.CSTNode, reports: Iterable[Report]) -> bool:
    """Whether a node is in a function that torch traced nothing of, and that called compiled code."""
    path, function = site.finding.span.path, site.function(node)
    if function is None or any(isinstance(around, cst.Lambda) for around in site.ancestors(node)):
        return False
    traced, callers = set[str](), set[str]()
    for report in reports:
        places = [place for graph_break in report.breaks for place in graph_break.stack]
        traced |= {place.function or "" for place in places if place.path == path}
        traced |= {frame.function for frame in report.frames if frame.location.path == path}
        above = (place for record in report.compiles for place in record.caller if place.path == path)
        callers |= {place.function or "" for place in above}
    called, known = ({name.rpartition(".")[2] for name in names} for names in (callers, traced))
    return function.name.value in called - known


_Compared = tuple[bool, cst.BaseExpression, cst.BaseExpression]
"""Whether the operator is `<` or `>`, and two operands."""


def _compared(site: Site, node: cst.CSTNode) -> Iterator[_Compared]:
    """The pairs that a comparison, or a call of `operator.eq`, compares."""
    if isinstance(node, cst.Comparison):
        left = node.left
        for target in node.comparisons:
            is_strict = isinstance(target.operator, (cst.LessThan, cst.GreaterThan))
            if not isinstance(target.operator, (cst.Is, cst.IsNot)):
                yield from ((is_strict, left, right) for right in _elements(site, target.comparator))
            left = target.comparator
    elif isinstance(node, cst.Call) and len(node.args) >= 2:  # noqa: PLR2004 - two operands
        if dotted(node.func).rpartition(".")[2] in _OPERATORS:
            yield False, node.args[0].value, node.args[1].value
    elif (
        isinstance(node, cst.Call)
        and len(node.args) == 1
        and isinstance(node.func, cst.Attribute)
        and node.func.attr.value in _METHODS
    ):
        yield False, node.func.value, node.args[0].value


def _elements(site: Site, node: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """The elements of what is written as a collection, or the operand itself."""
    values = _assigned(site, node, node) if isinstance(node, cst.Name) else []
    for value in [value for value in values if value is not None] or [node]:
        if isinstance(value, (cst.Tuple, cst.List, cst.Set)):
            yield from (element.value for element in value.elements)
        else:
            yield node


def _differs(site: Site, is_strict: bool, left: cst.BaseExpression, right: cst.BaseExpression) -> bool:  # noqa: FBT001
    """Whether compiled code may compare two operands otherwise: two numbers of tensors, or one and a large float."""
    taken = [side for side in (left, right) if _is_taken(site, side)]
    if not taken or all(_is_integer(site, side) for side in (left, right)):
        return False
    if len(taken) == 2:  # noqa: PLR2004 - both sides
        return not (is_strict and all(_is_float(site, side) for side in taken))
    return not _is_float(site, taken[0]) and _is_large(site, right if taken[0] is left else left)


def _is_large(site: Site, node: cst.BaseExpression) -> bool:
    """Whether a constant is a float next to which a double does not hold each integer."""
    if isinstance(node, cst.UnaryOperation):
        return _is_large(site, node.expression)
    if isinstance(node, cst.BinaryOperation):
        names = (child for child in descendants(node) if isinstance(child, (cst.Name, cst.Call)))
        is_float = any(isinstance(child, cst.Float) for child in descendants(node))
        return (
            is_float and not any(True for _ in names) and isinstance(node.operator, (cst.Power, cst.Multiply))
        )
    if isinstance(node, cst.Float):
        return _is_large_text(node.value)
    values = _assigned(site, node, node) if isinstance(node, cst.Name) else []
    return any(value is not None and _is_large(site, value) for value in values) or any(
        _is_large_text(value.text) for value in values_of(site, node)
    )


def _is_large_text(text: str) -> bool:
    try:
        value = float(text.replace("_", ""))
    except ValueError:
        return False
    is_integer = text.lstrip("-").isdigit()
    return not is_integer and _EXACT <= abs(value) < math.inf


def _choices(site: Site) -> Iterator[cst.Call]:
    """The calls of the chunk that choose among numbers."""
    for parent in site.parents:
        if (
            isinstance(parent, cst.Call)
            and isinstance(parent.func, cst.Name)
            and parent.func.value in _CHOICES
        ):
            name, function = parent.func.value, site.function(parent)
            is_own = site.is_bound(name) or (function is not None and bool(site.assigned(function, name)))
            if not is_own:
                yield parent


def _is_bounded(site: Site, call: cst.Call, numbers: Sequence[cst.BaseExpression]) -> bool:
    """Whether it is `max(n, 0.5)`, which is NaN for NaN as in compiled code; 1 in place of 1.0 only divides."""
    if dotted(call.func) == "sorted" or len(numbers) != 2:  # noqa: PLR2004 - a number and its bound
        return False
    around = site.parents[call]
    divides = isinstance(around, cst.BinaryOperation) and isinstance(around.operator, cst.Divide)
    is_float = isinstance(numbers[1], cst.Float) and not _is_integer(site, numbers[0])
    return is_float or (divides and isinstance(numbers[1], (cst.Integer, cst.Float)))


def _is_taken(site: Site, node: cst.BaseExpression, depth: int = 0) -> bool:
    """Whether a number may come from a tensor."""
    for descendant in descendants(node):
        if isinstance(descendant, cst.Call):
            is_method = isinstance(descendant.func, cst.Attribute) and descendant.func.attr.value in _TAKING
            if is_method or (dotted(descendant.func) in _CONVERSIONS and _may_read(site, descendant)):
                return True
        if isinstance(descendant, cst.Name) and depth < _DEEPEST:
            values = _assigned(site, node, descendant)
            if any(value is not None and _is_taken(site, value, depth + 1) for value in values):
                return True
    return False


def _may_read(site: Site, call: cst.Call) -> bool:
    """Whether `int(t)` may be of a tensor: not that of text or of a number that Dynamo saw."""
    if not any(
        isinstance(descendant, cst.Name) for argument in call.args for descendant in descendants(argument)
    ):
        return False
    seen = [value for argument in call.args for value in values_of(site, argument.value)]
    return not seen or any(value.kind is FactKind.TENSOR for value in seen)


def _is_float(site: Site, node: cst.BaseExpression, depth: int = 0) -> bool:
    """Whether a number is a float for certain."""
    if isinstance(node, cst.Call):
        if isinstance(node.func, cst.Attribute) and node.func.attr.value == "item":
            seen = site.values(node.func.value)
            return bool(seen) and all(value.text.startswith(("f", "bf")) for value in seen)
        return dotted(node.func) == "float"
    if isinstance(node, cst.Name) and depth < _DEEPEST:
        values = _assigned(site, node, node)
        return bool(values) and all(
            value is not None and _is_float(site, value, depth + 1) for value in values
        )
    return isinstance(node, cst.Float)


def _assigned(site: Site, node: cst.CSTNode, name: cst.Name) -> list[cst.BaseExpression | None]:
    """What the function gives a name, also by `n, k = ...` and `for n in t.tolist()`; None for what is not known."""
    function = site.function(node)
    values = site.assigned(function, name.value) if function is not None else []
    if function is None or None not in values:
        return values
    known = [value for child in descendants(function.body) for value in _given(child, name.value)]
    return [*known, *[None] * (len(values) - len(known))]


def _given(node: cst.CSTNode, name: str) -> Iterator[cst.BaseExpression]:
    if isinstance(node, cst.Assign):
        for target in node.targets:
            yield from _unpacked(target.target, node.value, name)
    elif isinstance(node, cst.For):
        yield from _unpacked(node.target, node.iter, name)
    elif isinstance(node, cst.AugAssign) and isinstance(node.operator, (cst.DivideAssign, cst.PowerAssign)):
        return  # of integers, it may give a float
    elif isinstance(node, (cst.AnnAssign, cst.AugAssign, cst.NamedExpr)) and node.value is not None:
        yield from _unpacked(node.target, node.value, name)


def _unpacked(
    target: cst.BaseExpression, value: cst.BaseExpression, name: str
) -> Iterator[cst.BaseExpression]:
    if isinstance(target, cst.Name) and target.value == name:
        yield value
    elif isinstance(target, (cst.Tuple, cst.List)):
        parts = value.elements if isinstance(value, (cst.Tuple, cst.List)) else ()
        same = len(parts) == len(target.elements)
        for index, element in enumerate(target.elements):
            yield from _unpacked(element.value, parts[index].value if same else value, name)


def _is_integer(  # noqa: PLR0911 - one return a kind of expression
    site: Site, node: cst.BaseExpression, depth: int = 0
) -> bool:
    """Whether a number is an integer for certain."""
    if isinstance(node, cst.Integer):
        return True
    if isinstance(node, cst.UnaryOperation):
        return _is_integer(site, node.expression, depth)
    if isinstance(node, cst.BinaryOperation):
        is_closed = isinstance(
            node.operator, (cst.Add, cst.Subtract, cst.Multiply, cst.FloorDivide, cst.Modulo)
        )
        return is_closed and _is_integer(site, node.left, depth) and _is_integer(site, node.right, depth)
    if isinstance(node, cst.Call):
        if isinstance(node.func, cst.Attribute):
            name = node.func.attr.value
            return name in {"size", "numel", "dim"} or (
                name in _TAKING and is_integer_tensor(site, node.func.value)
            )
        return dotted(node.func) in _INTEGRAL
    if isinstance(node, cst.Name) and depth < _DEEPEST:
        values = _assigned(site, node, node)
        if values:
            return all(
                expression is not None and _is_integer(site, expression, depth + 1) for expression in values
            )
    seen = values_of(site, node)
    return bool(seen) and all(value.text.lstrip("-").isdigit() for value in seen)
