"""Selections whose size depends on data: masked assignments, reductions of a mask, repeat_interleave.

Invariant: an assignment into a tensor stays one: its other names see the change. A mask has the shape of the tensor
because both are computed from the same tensors: one of fewer dimensions would select rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from fuselight_server.fixes.rewrites.remedy import FixClass, Remedy
from fuselight_server.fixes.syntax.in_place import changes_of
from fuselight_server.fixes.syntax.purity import is_elementwise, is_pure
from fuselight_server.fixes.syntax.refusals import RefusedRewrite, RewriteRefusedError
from fuselight_server.fixes.syntax.row_modules import is_row_wise, is_row_wise_module
from fuselight_server.fixes.syntax.site import Replacement, Site
from fuselight_server.fixes.syntax.tensor_values import short_code, value_of
from fuselight_server.fixes.syntax.traced_names import is_float, is_tensor
from fuselight_server.fixes.syntax.tree import children_of, descendants, dotted

_NEUTRAL = {"sum": "0", "prod": "1"}
"""Reductions without a dimension, and the value that leaves them as they are."""


def mask_remedies(site: Site) -> Iterator[Remedy | RefusedRewrite]:
    """Remedies for `y[mask] = c`, `y[mask] = f(x[mask])`, `x[mask].sum()` and repeat_interleave."""
    for call in site.nodes(cst.Call)[:3]:
        yield from _refusable("where", _reductions(site, call))
        yield from _repeat_interleave(site, call)
    statement = next(iter(site.nodes(cst.Assign)), None) or _assignment_at(site)
    if statement is not None:
        yield from _refusable("where", _assignment(site, statement))


def _assignment_at(site: Site) -> cst.Assign | None:
    """The assignment around the first expression of the finding."""
    node = next(iter(site.nodes((cst.Subscript, cst.Call, cst.Comparison))), None)
    if node is None:
        return None
    return next((ancestor for ancestor in site.ancestors(node) if isinstance(ancestor, cst.Assign)), None)


def _refusable(kind: str, remedies: Iterator[Remedy]) -> Iterator[Remedy | RefusedRewrite]:
    """The remedies, and the reason why there are no more."""
    try:
        yield from remedies
    except RewriteRefusedError as error:
        yield RefusedRewrite(kind, _WHERE, str(error))


_WHERE = "Use torch.where"


def _remedy(
    site: Site,
    kind: str,
    title: str,
    fix_class: FixClass,
    *replacements: tuple[int, int, str],
) -> Iterator[Remedy]:
    text = site.rewritten(*replacements)
    if text is not None:
        yield Remedy(kind, title, fix_class, {site.finding.span.path: text})


def index_of(node: cst.CSTNode) -> cst.BaseExpression | None:
    """The only index of a subscript that could be a mask."""
    if not isinstance(node, cst.Subscript) or len(node.slice) != 1:
        return None
    index = node.slice[0].slice
    if not isinstance(index, cst.Index) or index.star:
        return None
    value = index.value
    return None if isinstance(value, (cst.Integer, cst.SimpleString, cst.List, cst.Ellipsis)) else value


def check_mask(site: Site, tensor: cst.BaseExpression, mask: cst.BaseExpression) -> None:
    """Raise RewriteRefusedError unless an index is a mask of bools that has the shape of the tensor."""
    selecting, selected = value_of(site, mask), value_of(site, tensor)
    if selecting.dtype != "bool":
        raise RewriteRefusedError(
            f"nothing in the run shows that `{short_code(site, mask)}` is a mask of bools"
        )
    if selecting.shape != selected.shape:
        names = f"`{short_code(site, mask)}` and `{short_code(site, tensor)}`"
        raise RewriteRefusedError(f"{names} may have different shapes for other inputs")


_OVER_ROWS = frozenset({"sum", "mean", "amax", "amin", "any", "all", "prod", "norm"})


def _selects_rows(site: Site, tensor: cst.BaseExpression, mask: cst.BaseExpression) -> bool:
    """Whether Dynamo saw a mask of bools that has all dimensions of the tensor but the last."""
    masks, tensors = site.values(mask), site.values(tensor)
    if not masks or not tensors or any(not value.text.startswith(("b8[", "bool[")) for value in masks):
        return False
    return {value.rank + 1 for value in masks} == {value.rank for value in tensors}


def _check_rows(
    site: Site, tensor: cst.BaseExpression, mask: cst.BaseExpression, value: cst.BaseExpression
) -> None:
    """Raise RewriteRefusedError unless a mask has all dimensions of the tensor but the last for every call."""
    if any(
        isinstance(descendant, cst.Call) and is_row_wise_module(site, descendant)
        for descendant in descendants(value)
    ):
        return  # a layer takes rows only
    function = site.function(mask)
    expressions: list[cst.BaseExpression | None] = [mask]
    if isinstance(mask, cst.Name) and function is not None:
        expressions = site.assigned(function, mask.value)
    only = expressions[0] if len(expressions) == 1 else None
    reduced = only.left if isinstance(only, cst.Comparison) else only
    arguments = [site.code(argument) for argument in reduced.args] if isinstance(reduced, cst.Call) else []
    if (
        isinstance(reduced, cst.Call)
        and isinstance(reduced.func, cst.Attribute)
        and reduced.func.attr.value in _OVER_ROWS
        and arguments in (["-1"], ["dim=-1"])
        and value_of(site, reduced.func.value).shape == value_of(site, tensor).shape
    ):
        return
    raise RewriteRefusedError(
        f"`{short_code(site, mask)}` may have other dimensions than `{short_code(site, tensor)}`"
    )


def _assignment(site: Site, statement: cst.Assign) -> Iterator[Remedy]:
    """An assignment to what a mask selects. Raises RewriteRefusedError."""
    target = statement.targets[0].target if len(statement.targets) == 1 else None
    mask = index_of(target) if target is not None else None
    if not isinstance(target, cst.Subscript) or mask is None or site.line_of(statement) is None:
        return
    start, end = site.range_of(statement)
    value = statement.value
    if site.comments(start, end) != [] or not is_pure(site, mask) or not is_pure(site, target.value):
        return
    if isinstance(mask, cst.Tuple):
        return
    name = site.operand(target.value)
    rows = _selects_rows(site, target.value, mask)
    if _is_scalar(value):
        if rows:
            _check_rows(site, target.value, mask, value)
        else:
            check_mask(site, target.value, mask)
        if not isinstance(value, cst.Integer) and not is_float(site, target.value):
            raise RewriteRefusedError(
                f"masked_fill_ fails for `{short_code(site, value)}` where `{name}` holds integers"
            )
        condition = f"{site.operand(mask)}.unsqueeze(-1)" if rows else site.code(mask)
        text = f"{name}.masked_fill_({condition}, {site.code(value)})"
        yield from _remedy(site, "masked_fill", "Use masked_fill_", FixClass.EXACT, (start, end, text))
        return
    new = _without_mask(site, value, mask, rows=rows)
    if new is None:
        return
    _check_values(site, target, mask, value, rows=rows)
    condition = f"{site.operand(mask)}.unsqueeze(-1)" if rows else site.code(mask)
    text = f"{name}.copy_({site.torch}.where({condition}, {new}, {site.code(target.value)}))"
    yield from _remedy(site, "where", _WHERE, FixClass.EQUAL, (start, end, text))


def _check_values(
    site: Site, target: cst.Subscript, mask: cst.BaseExpression, value: cst.BaseExpression, *, rows: bool
) -> None:
    """Raise RewriteRefusedError unless torch.where assigns the same for every call."""
    name, function = dotted(target.value), site.function(target)
    if function is None or not is_new_tensor(site, function, name):
        raise RewriteRefusedError(
            f"`{name or short_code(site, target.value)}` may share its memory with another tensor"
        )
    read = site.names_read(value)
    if name in read:
        raise RewriteRefusedError(
            f"the value reads `{name}`, which the assignment changes: backward would fail"
        )
    attributes = (dotted(node) for node in descendants(value) if isinstance(node, cst.Attribute))
    # The assignment itself, and a value that is known to go row by row, or element by element.
    inside = {*site.ancestors(target), *descendants(value)}
    for path in sorted({*read, *filter(None, attributes)}):
        changes = (change for change in changes_of(site, function, path) if change.node not in inside)
        change = next(changes, None)
        if change is not None:
            raise RewriteRefusedError(
                f"`{path}` may change in place, so that backward could fail: {change.words} on line {change.line}"
            )
    if rows:
        _check_rows(site, target.value, mask, value)
        return
    check_mask(site, target.value, mask)
    known = value_of(site, value, mask=site.code(mask))
    if known.shape != value_of(site, target.value).shape:
        raise RewriteRefusedError(
            f"`{short_code(site, value)}` and `{name}` may have different shapes for other inputs"
        )
    if not known.is_smooth:
        raise RewriteRefusedError(
            f"`{short_code(site, value)}` may turn gradients into NaN where the mask is False"
        )


_NEW = frozenset({"clone", "zeros_like", "ones_like", "empty_like", "full_like"})


def is_new_tensor(site: Site, function: cst.FunctionDef, name: str) -> bool:
    """Whether the function itself makes the tensor of a name, which shares its memory with nothing."""
    values = site.assigned(function, name) if name.isidentifier() else []
    value = values[0] if len(values) == 1 else None
    if isinstance(value, cst.Call) and isinstance(value.func, cst.Attribute):
        return value.func.attr.value in _NEW
    return isinstance(value, cst.BinaryOperation) and is_tensor(site, value)


def _is_scalar(node: cst.BaseExpression) -> bool:
    """Whether it is a number as it is written: -1, 0.5, float("-inf"), torch.inf, True."""
    if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, (cst.Minus, cst.Plus)):
        node = node.expression
    if isinstance(node, cst.Call):
        argument = node.args[0].value if len(node.args) == 1 else None
        return dotted(node.func) == "float" and isinstance(argument, cst.SimpleString)
    if isinstance(node, cst.Name):
        return node.value in {"True", "False"}
    constants = ("inf", "nan", "pi")
    return isinstance(node, (cst.Integer, cst.Float)) or (
        isinstance(node, cst.Attribute) and node.attr.value in constants
    )


def _without_mask(
    site: Site, value: cst.BaseExpression, selecting: cst.BaseExpression, *, rows: bool
) -> str | None:
    """The text of `f(x[mask])` as `f(x)`; None where f is not known to go element by element, or row by row."""
    if not (is_elementwise(site, value) or (rows and is_row_wise(site, value))):
        return None
    start = site.range_of(value)[0]
    text = site.code(value)
    subscripts: list[cst.Subscript] = []
    waiting: list[cst.CSTNode] = [value]
    while waiting:
        node = waiting.pop()
        if isinstance(node, cst.Subscript):
            mask = index_of(node)
            if mask is None or site.code(mask) != site.code(selecting):
                return None
            if rows and not _selects_rows(site, node.value, mask):
                return None
            subscripts.append(node)
        elif isinstance(node, (cst.Tuple, cst.List)):
            return None
        else:
            waiting += children_of(node)
    for masked in sorted(subscripts, key=lambda subscript: -site.range_of(subscript)[0]):
        first, last = site.range_of(masked)
        text = f"{text[: first - start]}{site.operand(masked.value)}{text[last - start :]}"
    return text if subscripts else None


@dataclass(frozen=True)
class MaskedReduction:
    """A reduction of what a mask selects, and the text in its place."""

    name: str
    replacement: Replacement


def _reductions(site: Site, call: cst.Call) -> Iterator[Remedy]:
    """The reduction of what a mask selects, and all others of its statement: each breaks the graph for itself."""
    first = _reduction(site, call)
    if first is None:
        return
    statement = next(
        (ancestor for ancestor in site.ancestors(call) if isinstance(ancestor, cst.BaseSmallStatement)), None
    )
    there = descendants(statement) if statement is not None else ()
    replaced = [first.replacement]
    for node in there:
        try:
            reduction = _reduction(site, node) if isinstance(node, cst.Call) and site.is_plain(node) else None
        except RewriteRefusedError:
            continue
        if reduction is None:
            continue
        start, end, _ = reduction.replacement
        if all(end <= other[0] or other[1] <= start for other in replaced):  # none is part of another
            replaced.append(reduction.replacement)
    title = f"Use torch.where before {first.name}"
    yield from _remedy(site, "where", title, FixClass.EQUAL, *replaced)


def _reduction(site: Site, call: cst.Call) -> MaskedReduction | None:
    """`x[mask].sum()`, `torch.sum(x[mask])` and the same with prod and mean, over all elements.

    Raises RewriteRefusedError where the mask may be no mask of all elements.
    """
    function = call.func
    if not isinstance(function, cst.Attribute):
        return None
    name = function.attr.value
    if dotted(function) == f"{site.torch}.{name}":
        selected = call.args[0].value if len(call.args) == 1 and not call.args[0].keyword else None
    else:
        selected = function.value if not call.args else None
    mask = index_of(selected) if selected is not None else None
    if not isinstance(selected, cst.Subscript) or mask is None or name not in {*_NEUTRAL, "mean"}:
        return None
    tensor = selected.value
    pure = is_pure(site, mask) and is_pure(site, tensor) and not isinstance(mask, cst.Tuple)
    if not pure or site.comments(*site.range_of(call)) != []:
        return None
    check_mask(site, tensor, mask)
    condition, neutral = site.code(mask), _NEUTRAL.get(name, "0")
    text = f"{site.torch}.where({condition}, {site.code(tensor)}, {neutral})"
    text = _mean(site, tensor, mask, text) if name == "mean" else f"{text}.{name}()"
    return MaskedReduction(name, (*site.range_of(call), text))


def _mean(site: Site, tensor: cst.BaseExpression, mask: cst.BaseExpression, selected: str) -> str:
    """The mean of what a mask selects. Raises RewriteRefusedError where a sum could overflow that a mean does not."""
    names = [
        descendant
        for descendant in descendants(tensor)
        if isinstance(descendant, cst.Name) and is_tensor(site, descendant)
    ]
    if not names or not all(is_float(site, name) for name in names):
        raise RewriteRefusedError(
            f"the sum of `{short_code(site, tensor)}` may overflow where its mean does not"
        )
    dtype = f"{site.torch}.promote_types({site.operand(tensor)}.dtype, {site.torch}.float32)"
    return f"({selected}.sum(dtype={dtype}) / {site.operand(mask)}.sum()).to({site.operand(tensor)}.dtype)"


def _repeat_interleave(site: Site, call: cst.Call) -> Iterator[Remedy]:
    """`output_size=` where the repeats are integers that the function itself writes down."""
    if dotted(call.func) != f"{site.torch}.repeat_interleave" or len(call.args) not in {2, 3}:
        return
    known = {argument.keyword.value for argument in call.args if argument.keyword is not None}
    repeats = call.args[1]
    if known - {"dim"} or repeats.keyword is not None or any(argument.star for argument in call.args):
        return
    numbers = _written_integers(site, repeats.value)
    if numbers is None:
        return
    at = site.outer_range(call.args[-1].value)[1]
    yield from _remedy(
        *(site, "output_size", f"Pass output_size={sum(numbers)}", FixClass.EXACT),
        (at, at, f", output_size={sum(numbers)}"),
    )


def _written_integers(site: Site, node: cst.BaseExpression) -> list[int] | None:
    """The elements of `torch.tensor([1, 2])`."""
    if not isinstance(node, cst.Call) or dotted(node.func) != f"{site.torch}.tensor" or not node.args:
        return None
    first = node.args[0].value
    elements = first.elements if isinstance(first, (cst.List, cst.Tuple)) else ()
    values = [element.value for element in elements]
    if not values or not all(isinstance(value, cst.Integer) for value in values):
        return None
    return [value.evaluated_value for value in values if isinstance(value, cst.Integer)]
