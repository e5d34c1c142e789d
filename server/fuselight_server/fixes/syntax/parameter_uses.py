"""What a function does with a name, where a rewrite passes something else under it: a tensor, a copy.

Invariant: each use in the function is looked at; one that is not known to be the same raises RewriteRefusedError.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import libcst as cst

from fuselight_server.fixes.syntax.in_place import changes_of
from fuselight_server.fixes.syntax.refusals import RewriteRefusedError
from fuselight_server.fixes.syntax.site import Site
from fuselight_server.fixes.syntax.tensor_values import short_code
from fuselight_server.fixes.syntax.traced_names import is_float, is_tensor, values_of
from fuselight_server.fixes.syntax.tree import descendants, dotted

_READING = frozenset({"sum", "len", "zip", "enumerate", "reversed", "any", "all", "min", "max"})
"""Functions of Python that read the elements of a list."""
_JOINS = frozenset({"stack", "cat", "concat", "hstack", "vstack", "einsum"})
"""Functions of torch that read the elements of a list."""


def check_arithmetic(site: Site, function: cst.FunctionDef, name: str, *, is_integer: bool) -> None:
    """Raise RewriteRefusedError unless a number of this name may be a tensor without dimensions."""
    if site.assigned(function, name):
        raise RewriteRefusedError(f"`{name}` is assigned again in `{function.name.value}`")
    for use in site.loads(function, name):
        if site.function(use) is not function or not is_operand(site, use, is_integer=is_integer):
            code = short_code(site, _around(site, use))
            why = (
                "which may need a number"
                if _is_passed_on(site, use)
                else "where a tensor may differ from a number"
            )
            raise RewriteRefusedError(f"`{name}` is used in `{code}`, {why}")


def _is_passed_on(site: Site, use: cst.BaseExpression) -> bool:
    """Whether a function of the user's gets the value, of which nobody knows what it does with a tensor."""
    argument = site.parents[use]
    call = site.parents[argument] if isinstance(argument, cst.Arg) else None
    return isinstance(call, cst.Call) and isinstance(call.func, cst.Name)


def is_operand(site: Site, use: cst.BaseExpression, *, is_integer: bool) -> bool:
    """Whether a number is only computed with a tensor that has dimensions, whose dtype stays as it is.

    In type promotion a 0-dimensional tensor counts like a number beside a tensor with dimensions: `f16[4] * float64[]`
    stays f16. Two 0-dimensional tensors would be promoted to the wider dtype, so such a partner is refused.
    """
    parent = site.parents[use]
    partner: cst.BaseExpression | None = None
    if not site.is_plain(use):
        return False
    if isinstance(parent, cst.BinaryOperation):
        if isinstance(parent.operator, (cst.Add, cst.Subtract, cst.Multiply)):
            partner = parent.left if parent.right is use else parent.right
        elif isinstance(parent.operator, cst.Divide) and parent.right is use:
            partner = parent.left
    elif isinstance(parent, cst.AugAssign) and parent.value is use and isinstance(parent.target, cst.Name):
        plain = isinstance(parent.operator, (cst.AddAssign, cst.SubtractAssign, cst.MultiplyAssign))
        partner = parent.target if plain else None
    if partner is None or not is_tensor(site, partner):
        return False
    if isinstance(partner, (cst.Name, cst.Attribute)) and not is_integer:
        return is_float(site, partner)
    seen = (
        values_of(site, partner) if isinstance(partner, (cst.Name, cst.Attribute)) else site.values(partner)
    )
    if not seen or any(value.text.endswith("[]") for value in seen):
        return False
    return is_integer or all(value.text.startswith(("f32[", "f64[")) for value in seen)


def rounding_caveat(site: Site, source: str) -> str:
    """What a float64 tensor in place of a float changes in half precision: `lr * grad` rounds it first."""
    uses = (
        node
        for node in site.parents
        if isinstance(node, (cst.Name, cst.Attribute)) and dotted(node) == source
    )
    parents = ((use, site.parents[use]) for use in uses)
    rounds = any(
        isinstance(parent, cst.BinaryOperation)
        and isinstance(parent.operator, cst.Multiply)
        and parent.left is use
        for use, parent in parents
    )
    return f"`{source}` is rounded first where it multiplies half-precision tensors" if rounds else ""


def _around(site: Site, use: cst.BaseExpression) -> cst.CSTNode:
    """The expression around a use."""
    parent = site.parents[use]
    while isinstance(parent, (cst.Arg, cst.ComparisonTarget, cst.Index, cst.SubscriptElement, cst.Element)):
        parent = site.parents[parent]
    return parent if parent in site.ranges else use


def check_unwritten(site: Site, function: cst.FunctionDef, name: str) -> None:
    """Raise RewriteRefusedError if the function writes into the tensor of a parameter, or may return it."""
    if next(changes_of(site, function, name), None) is not None:
        raise RewriteRefusedError(
            f"`{function.name.value}` changes `{name}` in place, which a copy would lose"
        )
    for descendant in descendants(function.body):
        if (
            isinstance(descendant, cst.Return)
            and descendant.value is not None
            and _gives(descendant.value, name)
        ):
            raise RewriteRefusedError(f"`{function.name.value}` returns `{name}` itself, not a copy of it")


def _gives(node: cst.BaseExpression, name: str) -> bool:
    if isinstance(node, (cst.Tuple, cst.List)):
        return any(_gives(element.value, name) for element in node.elements)
    return isinstance(node, cst.Name) and node.value == name


def check_list_is_read(site: Site, function: cst.FunctionDef, name: str) -> None:
    """Raise RewriteRefusedError unless a function only reads the elements of a list, so that a copy does."""
    _check_uses(site, function, name, _reads_list)


def check_order_is_free(site: Site, function: cst.FunctionDef, name: str) -> None:
    """Raise RewriteRefusedError unless a function only reads a dict, and in no order of its keys."""
    _check_uses(site, function, name, _reads_dict)


def adds_values(site: Site, function: cst.FunctionDef, name: str) -> bool:
    """Whether a function that reads a dict in no order adds its values, of which another order rounds otherwise."""
    uses = [site.parents[use] for use in site.loads(function, name)]
    return any(isinstance(use, cst.Attribute) and use.attr.value == "values" for use in uses)


def _check_uses(
    site: Site, function: cst.FunctionDef, name: str, accepts: Callable[[Site, cst.BaseExpression], bool]
) -> None:
    if site.assigned(function, name):
        raise RewriteRefusedError(f"`{name}` is assigned again in `{function.name.value}`")
    for use in site.loads(function, name):
        if not accepts(site, use):
            code = short_code(site, _around(site, use))
            raise RewriteRefusedError(
                f"`{code}` may change `{name}`, keep it, or depend on its type or order"
            )


def _reads_list(site: Site, use: cst.BaseExpression) -> bool:
    parent = site.parents[use]
    if isinstance(parent, (cst.For, cst.CompFor)):
        return parent.iter is use
    if isinstance(parent, cst.Subscript):
        return parent.value is use and not _is_target(site, parent) and not _is_slice(parent)
    if isinstance(parent, cst.Assign):
        return all(isinstance(target.target, (cst.Tuple, cst.List)) for target in parent.targets)
    if isinstance(parent, cst.Arg):
        call = site.parents[parent]
        return isinstance(call, cst.Call) and (parent.star == "*" or _is_reading(site, call))
    return False


def _is_reading(site: Site, call: cst.Call) -> bool:
    path = dotted(call.func)
    if path in _READING:
        return not site.is_bound(path)
    return path.partition(".")[0] == site.torch and path.rpartition(".")[2] in _JOINS


def _is_target(site: Site, node: cst.Subscript) -> bool:
    parent = site.parents[node]
    if isinstance(parent, cst.AugAssign):
        return parent.target is node
    return isinstance(parent, (cst.AssignTarget, cst.Del, cst.AnnAssign, cst.Element))


def _is_slice(node: cst.Subscript) -> bool:
    return any(isinstance(subscript_element.slice, cst.Slice) for subscript_element in node.slice)


def _reads_dict(  # noqa: PLR0911 - one return a kind of expression
    site: Site, use: cst.BaseExpression
) -> bool:
    parent = site.parents[use]
    if isinstance(parent, cst.Subscript):
        return (
            parent.value is use
            and not _is_target(site, parent)
            and all(_is_constant(subscript_element) for subscript_element in parent.slice)
        )
    if isinstance(parent, cst.ComparisonTarget):
        return isinstance(parent.operator, (cst.In, cst.NotIn))
    if isinstance(parent, cst.Arg):
        call = site.parents[parent]
        return isinstance(call, cst.Call) and dotted(call.func) == "len" and not site.is_bound("len")
    if not isinstance(parent, cst.Attribute):
        return False
    call = site.parents[parent]
    if not isinstance(call, cst.Call) or call.func is not parent:
        return False
    if parent.attr.value == "get":
        return True
    argument = site.parents[call]
    outer = site.parents[argument] if isinstance(argument, cst.Arg) else None
    is_sum = isinstance(outer, cst.Call) and dotted(outer.func) == "sum" and not site.is_bound("sum")
    return parent.attr.value == "values" and is_sum


def _is_constant(element: cst.SubscriptElement) -> bool:
    index = element.slice.value if isinstance(element.slice, cst.Index) else None
    return isinstance(index, (cst.SimpleString, cst.Integer))


def definitions(site: Site, name: str, line: int) -> Iterator[cst.FunctionDef]:
    """The functions of a name whose definition covers a line."""
    for node in site.parents:
        if isinstance(node, cst.FunctionDef) and node.name.value == name.rpartition(".")[2]:
            first = site.line_number(node.decorators[0] if node.decorators else node)
            if first <= line <= site.line_number(node):
                yield node
