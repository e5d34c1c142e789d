"""Functions of Python that choose among numbers taken from tensors: max, min, sorted.

Invariant: of integers, Python and compiled code choose the same. Of other numbers, Python keeps the first of two that
are equal, with its type, and decides by the order of the arguments where one is NaN; compiled code does neither.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from fuselight_server.fixes.syntax.tensor_values import short_code
from fuselight_server.fixes.syntax.traced_names import is_integer_tensor, values_of
from fuselight_server.fixes.syntax.tree import descendants, dotted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fuselight_server.fixes.syntax.site import Site

_CHOICES = frozenset({"max", "min", "sorted"})
_TAKING = frozenset({"item", "tolist"})
_CONVERSIONS = frozenset({"float", "int"})
_INTEGRAL = frozenset({"len", "int", "ord", "hash", "id"})
_DEEPEST = 6
"""Names of names that are looked at."""


def reason_of_choice(site: Site) -> str:
    """Why a number taken from a tensor may not become part of a graph: Python chooses by it; empty if it does not."""
    for call in _choices(site):
        numbers = [argument.value for argument in call.args if argument.keyword is None]
        is_chosen = any(_is_taken(site, number) for number in numbers) and not _is_bounded(
            site, call, numbers
        )
        if is_chosen and not all(_is_integer(site, number) for number in numbers):
            code = short_code(site, call)
            return f"`{code}` chooses by order and type where numbers are NaN or equal, and compiled code does not"
    return ""


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
            if is_method or dotted(descendant.func) in _CONVERSIONS:
                return True
        if isinstance(descendant, cst.Name) and depth < _DEEPEST:
            values = _assigned(site, node, descendant)
            if any(value is not None and _is_taken(site, value, depth + 1) for value in values):
                return True
    return False


def _assigned(site: Site, node: cst.CSTNode, name: cst.Name) -> list[cst.BaseExpression | None]:
    function = site.function(node)
    return site.assigned(function, name.value) if function is not None else []


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
