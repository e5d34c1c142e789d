"""Python numbers taken from tensors, and random numbers of Python and NumPy: a tensor in their place.

Invariant: a number carries no gradient, so the tensor that replaces it is detached. It replaces an operand of
arithmetic or of a comparison only, where a tensor of no dimensions computes the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from fuselight_server.fixes.purity import dotted
from fuselight_server.fixes.remedy import FixClass, Remedy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fuselight_server.fixes.site import Site

_CREATORS = {"zeros", "ones", "empty", "full", "rand", "randn", "eye", "arange", "tensor", "linspace"}
_RANDOM = {
    "np.random.rand": "rand",
    "np.random.random": "rand",
    "np.random.randn": "randn",
    "numpy.random.rand": "rand",
    "numpy.random.random": "rand",
    "numpy.random.randn": "randn",
    "random.random": "rand",
}
"""Calls without arguments that return one number."""
_UNIFORM = {"np.random.uniform", "numpy.random.uniform", "random.uniform"}


def number_remedies(site: Site) -> Iterator[Remedy]:
    """`.item()`, `float(t)` and `int(t)` as a factor or summand, kept as a tensor."""
    for call in site.nodes(cst.Call)[:3]:
        text = _as_tensor(site, call)
        if text is not None and _is_operand(site, call):
            new = site.rewritten((*site.range_of(call), text))
            if new is not None and site.comments(*site.range_of(call)) == []:
                yield Remedy("keep_tensor", "Keep the tensor", FixClass.EQUAL, {site.finding.span.path: new})
                return


def _as_tensor(site: Site, call: cst.Call) -> str | None:
    function = call.func
    if isinstance(function, cst.Attribute) and function.attr.value == "item" and not call.args:
        return f"{site.operand(function.value)}{_detached(site, function.value)}"
    name = dotted(function)
    plain = len(call.args) == 1 and not call.args[0].star and call.args[0].keyword is None
    if name not in {"float", "int"} or not plain:
        return None
    value = call.args[0].value
    if isinstance(value, (cst.SimpleString, cst.Integer, cst.Float)):
        return None
    if name == "int":
        return f"{site.operand(value)}.long()"
    return f"{site.operand(value)}{_detached(site, value)}"


def _detached(site: Site, node: cst.BaseExpression) -> str:
    """`.detach()` unless Dynamo saw that there is no gradient to stop."""
    values = site.values(node)
    return "" if values and all(value.requires_grad is False for value in values) else ".detach()"


def _is_operand(site: Site, node: cst.BaseExpression) -> bool:
    parent = site.parents[node]
    if isinstance(parent, cst.ComparisonTarget):
        parent = site.parents[parent]
    if isinstance(parent, cst.Comparison):
        tests = (cst.If, cst.IfExp, cst.While, cst.Assert, cst.BooleanOperation, cst.UnaryOperation)
        return not isinstance(site.parents[parent], tests)  # would be a branch on a tensor
    return isinstance(parent, cst.BinaryOperation)


def random_remedies(site: Site) -> Iterator[Remedy]:
    """A random number of NumPy or Python as one of torch."""
    for call in site.nodes(cst.Call)[:3]:
        name = dotted(call.func)
        if name in _RANDOM and not call.args:
            text = f"{site.torch}.{_RANDOM[name]}(())"
        elif name in _UNIFORM and (limits := _limits(site, call)) is not None:
            text = f"{site.torch}.empty(()).uniform_({limits})"
        else:
            continue
        new = site.rewritten((*site.range_of(call), text))
        if new is not None:
            path = site.finding.span.path
            yield Remedy(
                "torch_random", "Use torch's random numbers", FixClass.CHANGES, {path: new}, "random numbers"
            )
        return


def _limits(site: Site, call: cst.Call) -> str | None:
    """The arguments of `uniform` where they are two numbers or none."""
    values = [one.value for one in call.args if one.keyword is None and not one.star]
    if len(values) != len(call.args) or len(values) not in {0, 2}:
        return None
    return (
        ", ".join(site.code(value) for value in values) if not site.comments(*site.range_of(call)) else None
    )


def parameter_remedies(site: Site) -> Iterator[Remedy]:
    """`nn.Parameter(...)` of a local value as a plain tensor, which stops gradients as the parameter does."""
    for call in site.nodes(cst.Call)[:3]:
        name = dotted(call.func)
        if name not in {"nn.Parameter", f"{site.torch}.nn.Parameter", "Parameter"}:
            continue
        if len(call.args) != 1 or call.args[0].star or call.args[0].keyword or _is_registered(site, call):
            return
        value = call.args[0].value
        creates = isinstance(value, cst.Call) and dotted(value.func).rpartition(".")[2] in _CREATORS
        text = site.operand(value) if creates else f"{site.operand(value)}.detach()"
        new = site.rewritten((*site.range_of(call), text))
        if new is not None and site.comments(*site.range_of(call)) == []:
            yield Remedy("plain_tensor", "Use a plain tensor", FixClass.EQUAL, {site.finding.span.path: new})
        return


def _is_registered(site: Site, call: cst.Call) -> bool:
    """Whether the parameter is assigned to an attribute, which registers it."""
    statement = next((one for one in site.ancestors(call) if isinstance(one, cst.Assign)), None)
    return statement is not None and not all(isinstance(one.target, cst.Name) for one in statement.targets)
