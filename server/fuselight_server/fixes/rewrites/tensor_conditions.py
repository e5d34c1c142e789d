"""Conditions on the data of a tensor: as a tensor of bools, and what of them decides without one.

Invariant: a condition that may have side effects is computed once, in its place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import libcst as cst

from fuselight_server.fixes.syntax.purity import is_pure
from fuselight_server.fixes.syntax.refusals import RewriteRefusedError
from fuselight_server.fixes.syntax.site import Site
from fuselight_server.fixes.syntax.tensor_values import value_of
from fuselight_server.fixes.syntax.traced_names import is_number, is_tensor, module_path, runs_code, values_of
from fuselight_server.fixes.syntax.tree import descendants, dotted

_BOOLEAN = {
    *(
        "any",
        "all",
        "isnan",
        "isinf",
        "isfinite",
        "isclose",
        "logical_and",
        "logical_or",
        "logical_not",
        "logical_xor",
    ),
    *("eq", "ne", "lt", "le", "gt", "ge", "bool", "is_nonzero"),
}
"""Functions that return a tensor of bools."""
_COMPARISONS = (
    *(cst.LessThan, cst.LessThanEqual, cst.GreaterThan, cst.GreaterThanEqual, cst.Equal, cst.NotEqual),
)


def condition_of(site: Site, node: cst.BaseExpression) -> str | None:
    """The condition as a tensor of bools, None where Python's operators decide without a tensor.

    `and`, `or` and `not` call `bool()` on their operands, so they become functions of torch. An operand may be a bool
    or a number of Python in some calls: `torch.as_tensor` accepts both, where `.bool()` alone would raise.
    """
    torch, text = site.torch, None
    if isinstance(node, cst.Comparison):
        if len(node.comparisons) == 1 and isinstance(node.comparisons[0].operator, _COMPARISONS):
            text = f"{torch}.as_tensor({site.code(node)})" if _is_python(site, node) else site.code(node)
    elif isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Not):
        inner = condition_of(site, node.expression)
        text = f"{torch}.logical_not({inner})" if inner else None
    elif isinstance(node, cst.BooleanOperation):
        left, right = _operand(site, node.left), _operand(site, node.right)
        name = "logical_and" if isinstance(node.operator, cst.And) else "logical_or"
        text = f"{torch}.{name}({left}, {right})" if left and right else None
    elif isinstance(node, cst.Call):
        name = node.func.attr.value if isinstance(node.func, cst.Attribute) else ""
        text = site.code(node) if name in _BOOLEAN else f"{site.code(node)}.bool()"
    elif isinstance(node, (cst.Name, cst.Attribute, cst.Subscript)):
        is_bool = _is_python(site, node) or _is_flag(site, node)
        text = f"{torch}.as_tensor({site.code(node)})" if is_bool else f"{site.code(node)}.bool()"
        if not is_bool and (is_number(site, node) or _may_be_python(site, node)):
            text = f"{torch}.as_tensor({site.code(node)}).bool()"
    return text


def _operand(site: Site, node: cst.BaseExpression) -> str | None:
    """An operand of torch.logical_and, which may be no tensor where Dynamo has not seen it."""
    if isinstance(node, (cst.Name, cst.Attribute)) and not site.values(node):
        return f"{site.torch}.as_tensor({site.code(node)})"
    return condition_of(site, node)


def _is_python(site: Site, node: cst.BaseExpression) -> bool:
    """Whether Dynamo saw that an expression is True or False without a tensor."""
    values = site.values(node)
    return bool(values) and all(value.text in {"True", "False"} for value in values)


def _is_flag(site: Site, node: cst.BaseExpression) -> bool:
    """Whether the function assigns True or False to the name, so that it is not always a tensor."""
    function = site.function(node)
    if not isinstance(node, cst.Name) or function is None:
        return False
    return any(
        isinstance(value, cst.Name) and value.value in {"True", "False"}
        for value in site.assigned(function, node.value)
    )


def _may_be_python(site: Site, node: cst.BaseExpression) -> bool:
    """Whether Python may have decided the value of a name without a tensor: `skips = self.training and t < 0.1`."""
    function = site.function(node)
    if not isinstance(node, cst.Name) or function is None:
        return False
    waiting = site.assigned(function, node.value)
    while waiting:
        value = waiting.pop()
        if isinstance(value, cst.BooleanOperation):
            waiting += [value.left, value.right]
        elif isinstance(value, cst.IfExp):
            waiting += [value.body, value.orelse]
        elif value is not None and (_decides_early(site, value) or _is_bool(value) or is_number(site, value)):
            return True
    return False


def _is_bool(node: cst.BaseExpression) -> bool:
    """Whether an expression is True or False for any operands: a constant, or `not x`."""
    if isinstance(node, cst.Name):
        return node.value in {"True", "False"}
    return isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Not)


def _parts(node: cst.BaseExpression) -> list[cst.BaseExpression]:
    """The operands of `a and b and c`."""
    if isinstance(node, cst.BooleanOperation) and isinstance(node.operator, cst.And):
        return [*_parts(node.left), *_parts(node.right)]
    return [node]


def _decides_early(site: Site, node: cst.BaseExpression) -> bool:
    """Whether an operand of `and` needs no tensor: `x is not None`, `isinstance(x, y)`, `self.training`."""
    if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Not):
        return _decides_early(site, node.expression)
    if isinstance(node, cst.Comparison):
        operators = (cst.Is, cst.IsNot, cst.In, cst.NotIn)
        if all(isinstance(comparison.operator, operators) for comparison in node.comparisons):
            return True
    return dotted(node) == "self.training" or _is_python(site, node)


def is_pure_test(site: Site, test: cst.BaseExpression) -> bool:
    """Whether a condition can be computed as a whole: `a and b` without stopping at a."""
    if isinstance(test, cst.BooleanOperation):
        return is_pure_test(site, test.left) and is_total(site, test.right)
    if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
        return is_pure_test(site, test.expression)
    return is_pure(site, test)


def is_total(site: Site, test: cst.BaseExpression) -> bool:
    """Whether a condition can be computed where Python would have stopped before it: it cannot fail or act."""
    if runs_code(site, test):
        return False
    if isinstance(test, cst.BooleanOperation):
        return is_total(site, test.left) and is_total(site, test.right)
    if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
        return is_total(site, test.expression)
    if isinstance(test, (cst.Name, cst.Attribute)):
        is_bool = _is_python(site, test) or _is_flag(site, test)
        return is_bool or is_number(site, test) or is_tensor(site, test)  # torch.as_tensor takes no other
    try:
        value_of(site, test)
    except RewriteRefusedError:
        return False
    return True


def is_computed_once(site: Site, test: cst.BaseExpression) -> bool:
    """Whether a condition that the new code computes where the old did may have side effects: a random number."""
    if isinstance(test, cst.BooleanOperation):
        return is_computed_once(site, test.left) and is_total(site, test.right)
    if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
        return is_computed_once(site, test.expression)
    for descendant in descendants(test):
        if isinstance(
            descendant, (cst.NamedExpr, cst.Await, cst.Yield, cst.Lambda, cst.BaseComp, cst.Comment)
        ):
            return False
        if isinstance(descendant, cst.Call) and not _gives_tensor(descendant):
            return False
    return True


def _gives_tensor(call: cst.Call) -> bool:
    """Whether a call may return a tensor, by its name: a function without an owner is unknown."""
    return isinstance(call.func, cst.Attribute) and call.func.attr.value not in {"item", "tolist", "numpy"}


@dataclass(frozen=True)
class TensorTest:
    """The condition of a statement: what decides without a tensor, and what is left."""

    known: Sequence[cst.BaseExpression]
    rest: cst.BaseExpression

    @classmethod
    def of(cls, site: Site, node: cst.If) -> TensorTest | None:
        """Split `a and b`; None where no tensor is left, or a part cannot move before another one."""
        parts = _parts(node.test)
        known = [expression for expression in parts if _decides_early(site, expression)]
        tests = [expression for expression in parts if expression not in known]
        late = (
            [expression for expression in known if parts.index(expression) > parts.index(tests[0])]
            if tests
            else []
        )
        if not tests or not all(
            is_pure(site, expression) and _cannot_fail(expression) for expression in known
        ):
            return None
        if not all(_may_come_first(site, expression) for expression in late):
            return None
        rest = tests[0]
        for test in tests[1:]:
            rest = cst.BooleanOperation(rest, cst.And(), test)
        return cls(known, rest)


def _cannot_fail(node: cst.BaseExpression) -> bool:
    """Whether a condition without a tensor cannot fail where an operand before it was false."""
    return not any(
        isinstance(descendant, (cst.Subscript, cst.Call, cst.BinaryOperation))
        and _called_name(descendant) != "isinstance"
        for descendant in descendants(node)
    )


def _may_come_first(site: Site, node: cst.BaseExpression) -> bool:
    """Whether a condition without a tensor runs no code of the user's, as far as Dynamo saw all of it.

    Python stops at the tensor before it, so that Dynamo may not have seen it. Of two objects, `==` and `in` may be
    those of the user's.
    """
    for descendant in descendants(node):
        if isinstance(descendant, cst.Comparison) and not all(
            isinstance(at.operator, (cst.Is, cst.IsNot)) for at in descendant.comparisons
        ):
            operands = (descendant.left, *(at.comparator for at in descendant.comparisons))
            if not all(_is_known(site, operand) for operand in operands):
                return False
        if (
            isinstance(descendant, cst.Attribute)
            and not _is_part(site, descendant)
            and not _is_known(site, descendant)
        ):
            return False
    return not runs_code(site, node)


def _is_known(site: Site, node: cst.BaseExpression) -> bool:
    """Whether Dynamo saw the value, which is a tensor or Python's own; `self.training` is."""
    if isinstance(node, (cst.Integer, cst.Float, cst.SimpleString, cst.Tuple, cst.List, cst.Set)):
        return True
    return dotted(node) == "self.training" or bool(values_of(site, node)) or bool(module_path(site, node))


def _is_part(site: Site, node: cst.Attribute) -> bool:
    """Whether an attribute is that of which another one is taken, or what a call calls."""
    parent = site.parents.get(node)
    return isinstance(parent, (cst.Attribute, cst.Call))


def _called_name(node: cst.CSTNode) -> str:
    """The name of what a node calls; empty for no call."""
    return dotted(node.func) if isinstance(node, cst.Call) else ""


def under_known(site: Site, node: cst.If, known: Sequence[cst.BaseExpression], lines: list[str]) -> list[str]:
    """Lines under the conditions that need no tensor."""
    if not known:
        return lines
    head = " and ".join(_operand_of_and(site, expression) for expression in known)
    return [f"if {head}:", *(f"{site.step(node)}{line}" for line in lines)]


def _operand_of_and(site: Site, node: cst.BaseExpression) -> str:
    return site.source[slice(*site.outer_range(node))]
