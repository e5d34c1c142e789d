"""Python numbers taken from tensors, and random numbers of Python and NumPy: a tensor in their place.

Invariant: a number carries no gradient, so the tensor that replaces it is detached. It replaces an operand of
arithmetic, of a comparison, or an argument of a function that takes a tensor there too. A number with a name is kept as
a tensor only if each use of the name is one of these; a branch on it becomes torch.where or torch.cond.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import libcst as cst

from fuselight_server.fixes.branches import branch_remedies
from fuselight_server.fixes.purity import dotted
from fuselight_server.fixes.remedy import FixClass, Remedy
from fuselight_server.fixes.site import Site, descendants

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fuselight_server.fixes.site import Replacement

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


_TAKES_TENSORS = {
    *("add", "sub", "mul", "div", "pow", "add_", "sub_", "mul_", "div_", "pow_", "clamp", "clamp_", "where"),
    *("masked_fill", "masked_fill_", "fill_", "lerp", "abs"),
}
"""Functions and methods that compute the same with a tensor of no dimensions as with a number."""
_TESTS = (cst.If, cst.IfExp, cst.Assert)


def number_remedies(site: Site) -> Iterator[Remedy]:
    """`.item()`, `float(t)` and `int(t)`, kept as a tensor where it is used or where its name is."""
    for call in site.nodes(cst.Call)[:3]:
        number, text = _as_tensor(site, call)
        if number is None or site.comments(*site.range_of(number)) != []:
            continue
        uses = _uses(site, number)
        found = [_test_of(site, use) for use in uses or ()]
        if uses is None or not all(
            _takes_tensor(site, use) or test for use, test in zip(uses, found, strict=True)
        ):
            continue
        if any(_meets_half_precision(site, call, use) for use in uses):
            continue
        tests = list(dict.fromkeys(test for test in found if test is not None))
        replaced = (*site.range_of(number), text)
        if not tests:
            new = site.rewritten(replaced)
            if new is not None:
                yield Remedy("keep_tensor", "Keep the tensor", FixClass.EQUAL, {site.finding.span.path: new})
        elif len(tests) == 1:
            yield from _with_branch(site, replaced, tests[0])
        return


def _with_branch(site: Site, replaced: Replacement, test: cst.BaseExpression) -> Iterator[Remedy]:
    """The remedies of the branch on a number, in the text in which it is a tensor."""
    start, end, text = replaced
    text = (
        text.removesuffix(".detach()") if site.contains(test, start) else text
    )  # a condition has no gradient
    new = site.rewritten((start, end, text))
    if new is None or len(new) - len(site.text) != len(text) - (end - start):
        return
    first, last = (one if one <= start else one + len(text) - (end - start) for one in site.outer_range(test))
    moved = Site.at(site, new, first, last)
    yield from branch_remedies(moved) if moved is not None else ()


def _uses(site: Site, number: cst.Call) -> list[cst.BaseExpression] | None:
    """The places where a number is used: its own, or those of the name that it is assigned to; None if unknown."""
    statement, function = site.parents[number], site.function(number)
    if not isinstance(statement, cst.Assign):
        return [number]
    target = statement.targets[0].target if len(statement.targets) == 1 else None
    if (
        not isinstance(target, cst.Name)
        or function is None
        or len(site.assigned(function, target.value)) != 1
    ):
        return None
    uses = site.loads(function, target.value)
    return (
        uses if uses and all(site.is_plain(use) and site.function(use) is function for use in uses) else None
    )


def _test_of(site: Site, node: cst.BaseExpression) -> cst.BaseExpression | None:
    """The condition of the branch that a number decides, by a comparison or by its truth."""
    inner: cst.CSTNode = node
    for parent in site.ancestors(node):
        if isinstance(parent, _TESTS):
            return parent.test if parent.test is inner else None
        if not isinstance(
            parent, (cst.Comparison, cst.ComparisonTarget, cst.BooleanOperation, cst.UnaryOperation)
        ):
            return None
        inner = parent
    return None


def _as_tensor(site: Site, call: cst.Call) -> tuple[cst.Call | None, str]:
    """The call that makes a number of a tensor, with the conversions around it, and the tensor in its place."""
    tensor = _converted(site, call)
    if tensor is None:
        return None, ""
    text, detached = site.operand(tensor), _detached(site, tensor)
    is_integer = dotted(call.func) == "int"
    around = _conversion_of(site, call)
    while around is not None:
        is_integer |= dotted(around.func) == "int"
        call, around = around, _conversion_of(site, around)
    return call, f"{text}.long()" if is_integer else f"{text}{detached}"


def _meets_half_precision(site: Site, call: cst.Call, use: cst.BaseExpression) -> bool:
    """Whether a number of more range is computed with a tensor of float16 or bfloat16.

    A number keeps its digits there; a tensor without dimensions is converted first: 70,000 is infinity in float16.
    """
    tensor = _converted(site, call)
    if tensor is not None and _is_half(site, tensor):
        return False
    inner: cst.CSTNode = use
    for parent in site.ancestors(use):
        partner: cst.BaseExpression | None = None
        if isinstance(parent, cst.BinaryOperation):
            partner = parent.left if parent.right is inner else parent.right
        elif isinstance(parent, cst.AugAssign):
            partner = parent.target
        elif isinstance(parent, cst.Call) and isinstance(parent.func, cst.Attribute):
            partner = parent.func.value
        elif not isinstance(parent, (cst.UnaryOperation, cst.Arg)):
            return False
        if partner is not None and _is_half(site, partner):
            return True
        inner = parent
    return False


def _is_half(site: Site, node: cst.BaseExpression) -> bool:
    """Whether Dynamo saw a tensor of float16 or bfloat16."""
    return any(value.text.startswith(("f16[", "bf16[")) for value in site.values(node))


def _conversion_of(site: Site, call: cst.Call) -> cst.Call | None:
    """The `int(...)` or `float(...)` whose only argument the call is."""
    argument = site.parents[call]
    outer = site.parents[argument] if isinstance(argument, cst.Arg) else None
    is_one = isinstance(outer, cst.Call) and _only_argument(outer) is call
    return (
        outer if is_one and isinstance(outer, cst.Call) and dotted(outer.func) in {"int", "float"} else None
    )


def _converted(site: Site, call: cst.Call) -> cst.BaseExpression | None:
    """The tensor of `t.item()`, `float(t)` and `int(t)`."""
    function = call.func
    if isinstance(function, cst.Attribute) and function.attr.value == "item" and not call.args:
        return function.value
    value = _only_argument(call)
    if dotted(function) not in {"float", "int"} or value is None:
        return None
    inner = _converted(site, value) if isinstance(value, cst.Call) else None
    return inner or (None if isinstance(value, (cst.SimpleString, cst.Integer, cst.Float)) else value)


def _only_argument(call: cst.Call) -> cst.BaseExpression | None:
    argument = call.args[0] if len(call.args) == 1 else None
    plain = argument is not None and not argument.star and argument.keyword is None
    return argument.value if argument is not None and plain else None


def _detached(site: Site, node: cst.BaseExpression) -> str:
    """`.detach()` unless Dynamo saw that there is no gradient to stop."""
    values = site.values(node)
    return "" if values and all(value.requires_grad is False for value in values) else ".detach()"


def _takes_tensor(site: Site, node: cst.BaseExpression) -> bool:
    """Whether a number may be a tensor there."""
    parent = site.parents[node]
    if isinstance(parent, cst.ComparisonTarget):
        parent = site.parents[parent]
    if isinstance(parent, cst.Comparison):
        return not isinstance(
            site.parents[parent], (*_TESTS, cst.While, cst.BooleanOperation, cst.UnaryOperation)
        )
    if isinstance(parent, cst.BinaryOperation):
        return not isinstance(parent.left, (cst.BaseString, cst.BaseList, cst.Tuple))
    if isinstance(parent, cst.UnaryOperation):
        return isinstance(parent.operator, cst.Minus) and _takes_tensor(site, parent)
    if isinstance(parent, cst.Arg):
        call = site.parents[parent]
        name = dotted(call.func).rpartition(".")[2] if isinstance(call, cst.Call) else ""
        return not parent.star and name in _TAKES_TENSORS
    return isinstance(parent, cst.AugAssign) and parent.value is node


def random_remedies(site: Site) -> Iterator[Remedy]:
    """A random number of NumPy or Python as one of torch, and the branch that it decides as one on a tensor."""
    found = next(((call, text) for call in _random_calls(site) if (text := _torch_random(site, call))), None)
    if found is None:
        return
    call, text = found
    replaced = (*site.range_of(call), text)
    tests = [test for use in _uses(site, call) or () if (test := _test_of(site, use)) is not None]
    remedies: tuple[Remedy, ...] = ()
    if tests:
        remedies = tuple(_with_branch(site, replaced, tests[0])) if len(set(tests)) == 1 else ()
    elif (new := site.rewritten(replaced)) is not None:
        kind, title = "torch_random", "Use torch's random numbers"
        changed = {site.finding.span.path: new}
        yield Remedy(kind, title, FixClass.CHANGES, changed, "random numbers")
    for one in remedies:
        if one.kind != "random_cond":  # the same text as `cond`, whose random numbers change as well
            title = f"{one.title}, with torch's random numbers"
            changes = one.changes or "random numbers"
            yield replace(one, title=title, fix_class=FixClass.CHANGES, changes=changes)


def _random_calls(site: Site) -> Iterator[cst.Call]:
    """The calls in the place of the finding, and those whose number decides the branch there."""
    yield from site.nodes(cst.Call)[:3]
    for branch in site.nodes(cst.If)[:1]:
        function = site.function(branch)
        names = [one.value for one in descendants(branch.test) if isinstance(one, cst.Name)]
        for name in names if function is not None else ():
            values = site.assigned(function, name) if function is not None else []
            if len(values) == 1 and isinstance(values[0], cst.Call):
                yield values[0]


def _torch_random(site: Site, call: cst.Call) -> str:
    """The call of torch that gives such a random number; empty for a call that gives none."""
    name = dotted(call.func)
    if name in _RANDOM and not call.args:
        return f"{site.torch}.{_RANDOM[name]}(())"
    limits = _limits(site, call) if name in _UNIFORM else None
    return f"{site.torch}.empty(()).uniform_({limits})" if limits is not None else ""


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
