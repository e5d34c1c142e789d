"""Python numbers taken from tensors, and random numbers of Python and NumPy: a tensor in their place.

Invariant: a number has no gradient, does not change with the tensor that it came from, and leaves the dtype of what it
meets as it is; Python's integers have no limit. So the tensor that replaces it is detached and has memory of its own,
and it meets only tensors to whose dtype its own contributes already, or comparisons, in float64. A number with a name
is kept as a tensor only if each use of the name is one of these; a branch on it becomes torch.where or torch.cond.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import libcst as cst

from fuselight_server.fixes.rewrites.branches import branch_remedies
from fuselight_server.fixes.rewrites.refused_uses import unknown_use
from fuselight_server.fixes.rewrites.remedy import FixClass, Remedy
from fuselight_server.fixes.syntax.refusals import RefusedRewrite, RewriteRefusedError
from fuselight_server.fixes.syntax.site import Replacement, Site
from fuselight_server.fixes.syntax.tensor_values import short_code
from fuselight_server.fixes.syntax.traced_names import (
    is_floating_point,
    is_integer_tensor,
    is_number,
    is_tensor,
    module_path,
    values_of,
)
from fuselight_server.fixes.syntax.tree import descendants, dotted

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


_TAKES_TENSORS = frozenset(
    {"add", "sub", "mul", "add_", "sub_", "mul_", "masked_fill", "masked_fill_", "fill_"}
)
"""Methods that compute the same with a tensor without dimensions as with a number, if the dtypes agree."""
_NEW_TENSORS = frozenset(
    {"max", "min", "amax", "amin", "sum", "mean", "prod", "norm", "std", "var", "any", "all"}
)
"""Reductions of all elements: their result has memory of its own."""
_KEEPS_DTYPE = frozenset({"max", "min", "amax", "amin", "mean", "norm", "std", "var"})
"""Those whose result has the dtype of the tensor, or which fail for it."""
_WIDENS = frozenset({"sum", "prod"})
"""Those whose result is int64 for all integers."""
_TESTS = (cst.If, cst.IfExp, cst.Assert)
_KEEP = "Keep the tensor"


def number_remedies(site: Site) -> Iterator[Remedy | RefusedRewrite]:
    """`.item()`, `float(t)` and `int(t)`, kept as a tensor where it is used or where its name is."""
    for call in site.nodes(cst.Call)[:3]:
        try:
            number = taken_number(site, call)
            if number is None or site.comments(*site.range_of(number.node)) != []:
                continue
            yield from kept_number(site, number)
        except RewriteRefusedError as error:
            yield RefusedRewrite("keep_tensor", _KEEP, str(error))
        return


def kept_number(
    site: Site, number: TakenNumber, kind: str = "keep_tensor", title: str = _KEEP
) -> Iterator[Remedy | RefusedRewrite]:
    """The remedies that keep a number as a tensor. Raises RewriteRefusedError."""
    uses = _uses(site, number.node)
    tests = [_test_of(site, use) for use in uses]
    for use, test in zip(uses, tests, strict=True):
        if test is None:
            _check_use(site, number, use)
    replaced = [
        _converted_use(site, use)
        for use, test in zip(uses, tests, strict=True)
        if test is not None and not _compares_exactly(site, use)
    ]
    is_test_only = all(test is not None for test in tests)
    text = number.text(is_detached=not is_test_only, is_own=not is_test_only or uses != [number.node])
    changes = _with_definition(site, number, text, replaced)
    branches = list(dict.fromkeys(test for test in tests if test is not None))
    if not branches:
        new = site.rewritten(*changes)
        if new is not None:
            yield Remedy(kind, title, FixClass.EQUAL, {site.finding.span.path: new})
    elif len(branches) == 1:
        yield from _with_branch(site, changes, branches[0])
    else:
        raise RewriteRefusedError(f"{len(branches)} branches depend on `{short_code(site, number.node)}`")


@dataclass(frozen=True)
class TakenNumber:
    """A number that the code takes from a tensor."""

    node: cst.Call | cst.Subscript
    """What gives the number, with the conversions around it."""
    tensor: cst.BaseExpression
    code: str
    """The tensor, so that an attribute can follow."""
    roots: frozenset[str]
    """The names that its dtype is that of; none where it is not certain."""
    is_new: bool
    """Whether the tensor is a reduction of all elements: one element in memory of its own."""
    needs_dimensions: bool
    """Whether it has a wider dtype for integers, which a tensor with dimensions does not take on."""
    is_count: bool = False
    """Whether it counts elements: an integer without a gradient, which changes no dtype of floating point."""

    def text(self, *, is_detached: bool, is_own: bool) -> str:
        """The tensor in place of the number."""
        shape = "" if self.is_new else ".reshape(())"  # fails where `item` does
        copied = ".clone()" if is_own and not self.is_new else ""
        is_detached = is_detached and not self.is_count
        return f"{self.code}{shape}{'.detach()' if is_detached else ''}{copied}"


def taken_number(site: Site, call: cst.Call) -> TakenNumber | None:
    """The number of `t.item()`, `float(t)` or `int(t)`; None for any other call. Raises RewriteRefusedError."""
    tensor = _converted(site, call)
    if tensor is None or (site.is_bound("float") or site.is_bound("int")):
        return None
    is_integer = dotted(call.func) == "int"
    around = _conversion_of(site, call)
    while around is not None:
        is_integer |= dotted(around.func) == "int"
        call, around = around, _conversion_of(site, around)
    if is_integer and not is_integer_tensor(site, tensor):
        raise RewriteRefusedError(
            f"`{short_code(site, call)}` fails for NaN and infinity, and a tensor does not"
        )
    if dotted(call.func) == "float" and is_integer_tensor(site, tensor):
        raise RewriteRefusedError(
            f"`{short_code(site, call)}` makes a number of floating point of an integer"
        )
    reduced = tensor.func if isinstance(tensor, cst.Call) and not tensor.args else None
    name = reduced.attr.value if isinstance(reduced, cst.Attribute) else ""
    is_kept = name in _KEEPS_DTYPE | _WIDENS
    inner = reduced.value if isinstance(reduced, cst.Attribute) and is_kept else None
    roots = dtype_roots(site, inner) if inner is not None else dtype_roots(site, tensor)
    is_new, widens = name in _NEW_TENSORS, name in _WIDENS
    return TakenNumber(call, tensor, site.operand(tensor), _unchanged(site, call, roots), is_new, widens)


def _unchanged(site: Site, node: cst.CSTNode, roots: frozenset[str]) -> frozenset[str]:
    """The names, if each assignment of the function to one leaves its dtype as it is; else none."""
    function = site.function(node)
    if function is None:
        return frozenset()
    values = [(name, value) for name in roots for value in site.assigned(function, name)]
    is_kept = all(
        _is_augmented(function, name)
        if value is None
        else name in dtype_roots(site, value) or _is_before(site, value, node)
        for name, value in values
    )
    return roots if is_kept else frozenset()


def _is_augmented(function: cst.FunctionDef, name: str) -> bool:
    """Whether each binding of a name that is no assignment is one like `name += value`, which keeps the dtype."""
    binding = (cst.For, cst.CompFor, cst.NamedExpr, cst.AsName, cst.Del, cst.AnnAssign)
    targets = (descendant for descendant in descendants(function.body) if isinstance(descendant, binding))
    return not any(
        name == node.value for target in targets for node in descendants(target) if isinstance(node, cst.Name)
    )


def _is_before(site: Site, value: cst.BaseExpression, node: cst.CSTNode) -> bool:
    """Whether an assignment comes before a node, and in no loop."""
    if any(isinstance(ancestor, (cst.For, cst.While)) for ancestor in site.ancestors(value)):
        return False
    return site.range_of(value)[1] <= site.range_of(node)[0]


def dtype_roots(  # noqa: PLR0911 - one return a kind of expression
    site: Site, node: cst.BaseExpression
) -> frozenset[str]:
    """The tensors whose dtypes, promoted, an expression has at least; none where that is not certain."""
    if isinstance(node, (cst.Name, cst.Attribute)):
        return frozenset({dotted(node)}) if dotted(node) and is_tensor(site, node) else frozenset()
    if isinstance(node, cst.UnaryOperation):
        return dtype_roots(site, node.expression)
    if isinstance(node, cst.BinaryOperation) and isinstance(
        node.operator, (cst.Add, cst.Subtract, cst.Multiply)
    ):
        return dtype_roots(site, node.left) | dtype_roots(site, node.right)
    if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Divide):
        return dtype_roots(site, node.left) | dtype_roots(site, node.right)
    if isinstance(node, cst.Subscript):
        return dtype_roots(site, node.value)
    if (
        isinstance(node, cst.Call)
        and isinstance(node.func, cst.Attribute)
        and is_tensor(site, node.func.value)
    ):
        name = node.func.attr.value
        return dtype_roots(site, node.func.value) if name in _PASSES_DTYPE else frozenset()
    return frozenset()


_PASSES_DTYPE = frozenset(
    """
    abs neg relu clamp clone contiguous detach reshape view flatten squeeze unsqueeze t transpose permute flip roll max
    min amax amin cummax cumsum square add sub mul masked_fill
    """.split()  # noqa: SIM905 - a table of words
)
"""Methods whose result has at least the dtype of the tensor."""


def _with_definition(
    site: Site, number: TakenNumber, text: str, uses: Sequence[Replacement]
) -> list[Replacement]:
    """The number as a tensor, and its uses; where it is its only use, both are one place."""
    start, end = site.range_of(number.node)
    for first, last, used in uses:
        if (first, last) == (start, end):
            return [(start, end, used.replace(site.source[start:end], text, 1))]
    return [(start, end, text), *uses]


def _with_branch(
    site: Site, replaced: Sequence[Replacement], test: cst.BaseExpression
) -> Iterator[Remedy | RefusedRewrite]:
    """The remedies of the branch on a number, in the text in which it is a tensor."""
    new = site.rewritten(*replaced)
    shift = sum(len(text) - (end - start) for start, end, text in replaced)
    if new is None or len(new) - len(site.text) != shift:
        return
    moved = Site.at(site, new, *(_moved(replaced, at) for at in site.outer_range(test)))
    yield from branch_remedies(moved) if moved is not None else ()


def _moved(replaced: Sequence[Replacement], offset: int) -> int:
    """An offset that is in no replaced range, in the new text."""
    return offset + sum(len(text) - (end - start) for start, end, text in replaced if end <= offset)


def _uses(site: Site, number: cst.BaseExpression) -> Sequence[cst.BaseExpression]:
    """The places where a number is used: its own, or those of the name that it is assigned to.

    Raises RewriteRefusedError where they are not known.
    """
    statement, function = site.parents[number], site.function(number)
    if not isinstance(statement, cst.Assign):
        return [number]
    target = statement.targets[0].target if len(statement.targets) == 1 else None
    if not isinstance(target, cst.Name) or function is None:
        raise RewriteRefusedError(f"`{short_code(site, number)}` is stored where other code may read it")
    name = target.value
    if len(site.assigned(function, name)) != 1 or site.is_declared(function, name):
        raise RewriteRefusedError(f"`{name}` is assigned in several places")
    uses = site.loads(function, name)
    if not uses or not all(site.is_plain(use) and site.function(use) is function for use in uses):
        raise RewriteRefusedError(
            f"`{name}` is read in a comprehension, a lambda, an f-string or a function inside, or not at all"
        )
    return uses


def _check_use(site: Site, number: TakenNumber, use: cst.BaseExpression) -> None:
    """Raise RewriteRefusedError unless the tensor may stand at a use that is not part of a branch's condition."""
    code = site.code(use)
    parent = site.parents[use]
    if isinstance(parent, cst.UnaryOperation) and isinstance(parent.operator, cst.Minus):
        raise RewriteRefusedError(
            f"`-{code}` is computed without a limit by Python, and wraps in a tensor of integers"
        )
    partner = _partner(site, use)
    if partner is None:
        raise unknown_use(site, use)
    if number.is_count and is_floating_point(site, partner):
        return
    roots = dtype_roots(site, partner)
    if (
        number.roots
        and number.roots <= roots
        and (not number.needs_dimensions or _has_dimensions(site, partner))
    ):
        return
    if (
        not roots
        and not is_tensor(site, partner)
        and isinstance(parent, (cst.Comparison, cst.ComparisonTarget))
    ):
        raise RewriteRefusedError("the comparison then gives a tensor, and a branch on it breaks the graph")
    if not roots and not is_tensor(site, partner):
        words = f"`{short_code(site, parent)}` is computed by Python: a tensor of integers wraps, and has another dtype"
        raise RewriteRefusedError(words)
    other = short_code(site, partner)
    words = f"the dtype of `{short_code(site, parent)}` may change: `{code}` may have another than `{other}`"
    raise RewriteRefusedError(words)


def _has_dimensions(site: Site, node: cst.BaseExpression) -> bool:
    """Whether Dynamo saw dimensions of a tensor, or of one that it is computed from."""
    seen = values_of(site, node) if isinstance(node, (cst.Name, cst.Attribute)) else site.values(node)
    if seen:
        return all("[" in value.text and not value.text.endswith("[]") for value in seen)
    return isinstance(node, cst.BinaryOperation) and (
        _has_dimensions(site, node.left) or _has_dimensions(site, node.right)
    )


def _partner(  # noqa: PLR0911 - one return a kind of expression
    site: Site, use: cst.BaseExpression
) -> cst.BaseExpression | None:
    """The tensor that a number is computed with, where a tensor without dimensions gives the same; else None."""
    parent = site.parents[use]
    if isinstance(parent, cst.BinaryOperation):
        if isinstance(parent.operator, (cst.Add, cst.Subtract, cst.Multiply)):
            return parent.left if parent.right is use else parent.right
        is_divisor = isinstance(parent.operator, cst.Divide) and parent.right is use
        return parent.left if is_divisor else None  # number / tensor multiplies by the reciprocal
    if isinstance(parent, cst.AugAssign):
        plain = isinstance(parent.operator, (cst.AddAssign, cst.SubtractAssign, cst.MultiplyAssign))
        is_name = isinstance(parent.target, cst.Name)
        return parent.target if parent.value is use and plain and is_name else None
    if isinstance(parent, (cst.Comparison, cst.ComparisonTarget)):
        comparison = parent if isinstance(parent, cst.Comparison) else site.parents[parent]
        if not isinstance(comparison, cst.Comparison) or len(comparison.comparisons) != 1:
            return None
        first, second = comparison.left, comparison.comparisons[0].comparator
        return second if first is use else first
    call = site.parents[parent] if isinstance(parent, cst.Arg) else None
    if isinstance(call, cst.Call) and isinstance(call.func, cst.Attribute) and isinstance(parent, cst.Arg):
        is_plain = not parent.star and parent.keyword is None and call.func.attr.value in _TAKES_TENSORS
        is_last = call.args[-1] is parent
        return call.func.value if is_plain and is_last and not module_path(site, call.func.value) else None
    return None


_EXACT = 256
"""Integers up to it are numbers of every dtype of floating point."""


def _compares_exactly(site: Site, use: cst.BaseExpression) -> bool:
    """Whether a comparison of the tensor decides as that of the number: with a small number, or by its truth."""
    parent = site.parents[use]
    comparison = site.parents[parent] if isinstance(parent, cst.ComparisonTarget) else parent
    if not isinstance(comparison, cst.Comparison):
        return True
    sides = [comparison.left, *(node.comparator for node in comparison.comparisons)]
    return all(expression is use or _is_small(expression) for expression in sides)


def _is_small(node: cst.BaseExpression) -> bool:
    """Whether a literal is a number of every dtype, unsigned integers included."""
    if not isinstance(node, (cst.Integer, cst.Float)):
        return False
    value = float(node.evaluated_value)
    return (value.is_integer() and 0 <= value < _EXACT // 2) or value == 0.5  # noqa: PLR2004 - a half


def _converted_use(site: Site, use: cst.BaseExpression) -> Replacement:
    """A use in a comparison in float64, which compares as Python does."""
    return (*site.range_of(use), f"{site.operand(use)}.double()")


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


def random_remedies(site: Site) -> Iterator[Remedy | RefusedRewrite]:
    """A random number of NumPy or Python as one of torch, and the branch that it decides as one on a tensor."""
    call_and_text = next(
        ((call, text) for call in _random_calls(site) if (text := _torch_random(site, call))), None
    )
    if call_and_text is None:
        return
    call, text = call_and_text
    try:
        yield from _drawn(site, call, (*site.range_of(call), text))
    except RewriteRefusedError as error:
        yield RefusedRewrite("torch_random", _RANDOM_TITLE, str(error))


_RANDOM_TITLE = "Use torch's random numbers"


def _drawn(site: Site, call: cst.Call, replaced: Replacement) -> Iterator[Remedy | RefusedRewrite]:
    """The remedies that draw a number with torch. Raises RewriteRefusedError."""
    uses = _uses(site, call)
    tests = [_test_of(site, use) for use in uses]
    for use, test in zip(uses, tests, strict=True):
        if test is None:
            _check_random_use(site, use)
    branches = list(dict.fromkeys(test for test in tests if test is not None))
    if len(branches) > 1:
        raise RewriteRefusedError(f"{len(branches)} branches depend on `{short_code(site, call)}`")
    if not branches:
        new = site.rewritten(replaced)
        if new is not None:
            changed = {site.finding.span.path: new}
            yield Remedy("torch_random", _RANDOM_TITLE, FixClass.CHANGES, changed, "random numbers")
        return
    for remedy in _with_branch(site, [replaced], branches[0]):
        if isinstance(remedy, RefusedRewrite):
            yield remedy
        elif remedy.kind != "random_cond":  # the same text as `cond`, whose random numbers change as well
            title = f"{remedy.title}, with torch's random numbers"
            changes = "; ".join(filter(None, ("random numbers", remedy.changes)))
            if "random numbers" in remedy.changes:
                changes = remedy.changes
            yield replace(remedy, title=title, fix_class=FixClass.CHANGES, changes=changes)


def _check_random_use(site: Site, use: cst.BaseExpression, depth: int = 0) -> None:
    """Raise RewriteRefusedError unless a random number meets a tensor whose dtype it leaves as it is.

    Where what is calculated of it has a name of its own, each use of that name counts.
    """
    inner: cst.CSTNode = use
    for parent in site.ancestors(use):
        if isinstance(parent, cst.Assign) and inner is not use and depth < _MAX_NAMES:
            for next_use in _uses(site, parent.value):
                _check_random_use(site, next_use, depth + 1)
            return
        partner = _random_partner(parent, inner)
        if partner is not None and is_tensor(site, partner):
            if all(not value.text.endswith("[]") for value in site.values(partner)):
                return
            break
        is_negated = isinstance(parent, cst.UnaryOperation) and isinstance(parent.operator, cst.Minus)
        if not is_negated and (partner is None or not is_number(site, partner)):
            break
        inner = parent
    raise RewriteRefusedError(f"`{short_code(site, use)}` is used for more than arithmetic with tensors")


def _random_partner(parent: cst.CSTNode, use: cst.CSTNode) -> cst.BaseExpression | None:
    """What Python's arithmetic calculates with a random number."""
    if isinstance(parent, cst.BinaryOperation) and isinstance(parent.operator, _COMPUTED):
        return parent.left if parent.right is use else parent.right
    is_changed = isinstance(parent, cst.AugAssign) and parent.value is use
    target = parent.target if is_changed and isinstance(parent, cst.AugAssign) else None
    return target if isinstance(target, cst.Name) else None


_COMPUTED = (cst.Add, cst.Subtract, cst.Multiply, cst.Divide, cst.Power)
_MAX_NAMES = 3
"""Names, one calculated of the other, that are followed."""


def _random_calls(site: Site) -> Iterator[cst.Call]:
    """The calls in the place of the finding, and those whose number decides the branch there."""
    yield from site.nodes(cst.Call)[:3]
    for branch in site.nodes(cst.If)[:1]:
        function = site.function(branch)
        names = [
            descendant.value for descendant in descendants(branch.test) if isinstance(descendant, cst.Name)
        ]
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
    values = [argument.value for argument in call.args if argument.keyword is None and not argument.star]
    if len(values) != len(call.args) or len(values) not in {0, 2}:
        return None
    return (
        ", ".join(site.code(value) for value in values) if not site.comments(*site.range_of(call)) else None
    )


def parameter_remedies(site: Site) -> Iterator[Remedy | RefusedRewrite]:
    """`nn.Parameter(...)` of a local value as a plain tensor, where nothing records gradients."""
    for call in site.nodes(cst.Call)[:3]:
        name = dotted(call.func)
        if name not in {"nn.Parameter", f"{site.torch}.nn.Parameter", "Parameter"}:
            continue
        if len(call.args) != 1 or call.args[0].star or call.args[0].keyword or _is_registered(site, call):
            return
        if not _is_without_gradients(site, call):
            reason = "what is computed from the parameter would no longer require a gradient"
            yield RefusedRewrite("plain_tensor", _PLAIN_TITLE, reason)
            return
        value = call.args[0].value
        creates = isinstance(value, cst.Call) and dotted(value.func).rpartition(".")[2] in _CREATORS
        text = site.operand(value) if creates else f"{site.operand(value)}.detach()"
        new = site.rewritten((*site.range_of(call), text))
        if new is not None and site.comments(*site.range_of(call)) == []:
            yield Remedy("plain_tensor", _PLAIN_TITLE, FixClass.EQUAL, {site.finding.span.path: new})
        return


_PLAIN_TITLE = "Use a plain tensor"
_NO_GRADIENTS = frozenset({"no_grad", "inference_mode"})


def _is_without_gradients(site: Site, call: cst.Call) -> bool:
    """Whether the parameter is only computed with, where no gradient is recorded."""
    try:
        uses = _uses(site, call)
    except RewriteRefusedError:
        return False
    for use in uses:
        parent = site.parents[use]
        if not isinstance(parent, (cst.BinaryOperation, cst.AugAssign)) or not any(
            _records_nothing(site, ancestor) for ancestor in site.ancestors(use)
        ):
            return False
    return True


def _records_nothing(site: Site, node: cst.CSTNode) -> bool:
    """Whether gradients are off in a function or in a `with` block."""
    calls: list[cst.BaseExpression] = []
    if isinstance(node, cst.FunctionDef):
        calls = [decorator.decorator for decorator in node.decorators]
    elif isinstance(node, cst.With):
        calls = [with_item.item for with_item in node.items]
    names = [dotted(call.func) for call in calls if isinstance(call, cst.Call) and not call.args]
    return any(name.removeprefix(f"{site.torch}.") in _NO_GRADIENTS for name in names)


def _is_registered(site: Site, call: cst.Call) -> bool:
    """Whether the parameter is assigned to an attribute, which registers it."""
    statement = next(
        (ancestor for ancestor in site.ancestors(call) if isinstance(ancestor, cst.Assign)), None
    )
    return statement is not None and not all(
        isinstance(target.target, cst.Name) for target in statement.targets
    )
