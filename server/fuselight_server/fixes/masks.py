"""Selections whose size depends on data: masked assignments, reductions of a mask, repeat_interleave.

Invariant: an assignment into a tensor stays one: its other names see the change. A mask has the rank of the tensor as
far as Dynamo saw both.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from fuselight_server.fixes.purity import dotted, is_elementwise, is_pure
from fuselight_server.fixes.remedy import FixClass, Remedy
from fuselight_server.fixes.row_modules import is_row_wise
from fuselight_server.fixes.site import descendants

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fuselight_server.fixes.site import Replacement, Site

_NEUTRAL = {"sum": "0", "prod": "1"}
"""Reductions without a dimension, and the value that leaves them as they are."""


def mask_remedies(site: Site) -> Iterator[Remedy]:
    """Remedies for `y[mask] = c`, `y[mask] = f(x[mask])`, `x[mask].sum()` and repeat_interleave."""
    for call in site.nodes(cst.Call)[:3]:
        yield from _reductions(site, call)
        yield from _repeat_interleave(site, call)
    statement = next(iter(site.nodes(cst.Assign)), None) or _assignment_at(site)
    if statement is not None:
        yield from _assignment(site, statement)


def _assignment_at(site: Site) -> cst.Assign | None:
    """The assignment around the first expression of the finding."""
    node = next(iter(site.nodes((cst.Subscript, cst.Call, cst.Comparison))), None)
    if node is None:
        return None
    return next((one for one in site.ancestors(node) if isinstance(one, cst.Assign)), None)


def _remedy(
    site: Site, kind: str, title: str, fix_class: FixClass, *replacements: tuple[int, int, str]
) -> Iterator[Remedy]:
    text = site.rewritten(*replacements)
    if text is not None:
        yield Remedy(kind, title, fix_class, {site.finding.span.path: text})


def _mask(node: cst.CSTNode) -> cst.BaseExpression | None:
    """The only index of a subscript that could be a mask."""
    if not isinstance(node, cst.Subscript) or len(node.slice) != 1:
        return None
    index = node.slice[0].slice
    if not isinstance(index, cst.Index) or index.star:
        return None
    value = index.value
    return None if isinstance(value, (cst.Integer, cst.SimpleString, cst.List, cst.Ellipsis)) else value


def _may_be_mask(site: Site, tensor: cst.BaseExpression, mask: cst.BaseExpression) -> bool:
    """Whether nothing that Dynamo saw contradicts a mask of bools that has the tensor's rank."""
    masks, tensors = site.values(mask), site.values(tensor)
    if any(not value.text.startswith(("b8[", "bool[")) for value in masks):
        return False
    ranks = {_rank(value.text) for value in (*masks, *tensors)}
    return len(ranks) <= 1


def _selects_rows(site: Site, tensor: cst.BaseExpression, mask: cst.BaseExpression) -> bool:
    """Whether Dynamo saw a mask of bools that has all dimensions of the tensor but the last."""
    masks, tensors = site.values(mask), site.values(tensor)
    if not masks or not tensors or any(not value.text.startswith(("b8[", "bool[")) for value in masks):
        return False
    return {_rank(value.text) + 1 for value in masks} == {_rank(value.text) for value in tensors}


def _is_mask(site: Site, node: cst.BaseExpression) -> bool:
    """Whether an index is a mask of bools for certain: a comparison, or Dynamo saw one."""
    return isinstance(node, cst.Comparison) or (bool(site.values(node)) and _may_be_mask(site, node, node))


def _rank(text: str) -> int:
    inside = text.partition("[")[2].rstrip("]")
    return inside.count(",") + 1 if inside else 0


def _assignment(site: Site, statement: cst.Assign) -> Iterator[Remedy]:
    target = statement.targets[0].target if len(statement.targets) == 1 else None
    mask = _mask(target) if target is not None else None
    if not isinstance(target, cst.Subscript) or mask is None or site.line_of(statement) is None:
        return
    start, end = site.range_of(statement)
    value = statement.value
    if site.comments(start, end) != [] or not is_pure(mask, None) or not is_pure(target.value, None):
        return
    rows = _selects_rows(site, target.value, mask)
    if not (rows or _may_be_mask(site, target.value, mask)) or isinstance(mask, cst.Tuple):
        return
    name = site.operand(target.value)
    condition = f"{site.operand(mask)}.unsqueeze(-1)" if rows else site.code(mask)
    if _is_scalar(value):
        text = f"{name}.masked_fill_({condition}, {site.code(value)})"
        yield from _remedy(site, "masked_fill", "Use masked_fill_", FixClass.EXACT, (start, end, text))
        return
    new = _without_mask(site, value, mask, rows=rows)
    if new is not None:
        text = f"{name}.copy_({site.torch}.where({condition}, {new}, {site.code(target.value)}))"
        yield from _remedy(site, "where", "Use torch.where", FixClass.EQUAL, (start, end, text))


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
    if not (is_elementwise(value) or (rows and is_row_wise(site, value))):
        return None
    is_known = _selects_rows if rows else _may_be_mask
    start = site.range_of(value)[0]
    text = site.code(value)
    found: list[cst.Subscript] = []
    waiting: list[cst.CSTNode] = [value]
    while waiting:
        node = waiting.pop()
        if isinstance(node, cst.Subscript):
            mask = _mask(node)
            if mask is None or site.code(mask) != site.code(selecting):
                return None
            if not is_known(site, node.value, mask):
                return None
            found.append(node)
        elif isinstance(node, (cst.Tuple, cst.List)):
            return None
        else:
            waiting += node.children
    for masked in sorted(found, key=lambda one: -site.range_of(one)[0]):
        first, last = site.range_of(masked)
        text = f"{text[: first - start]}{site.operand(masked.value)}{text[last - start :]}"
    return text if found else None


@dataclass(frozen=True)
class MaskedReduction:
    """A reduction of what a mask selects, and the text in its place."""

    name: str
    replacement: Replacement
    mask: cst.BaseExpression


def _reductions(site: Site, call: cst.Call) -> Iterator[Remedy]:
    """The reduction of what a mask selects, and all others of its statement: each breaks the graph for itself."""
    first = _reduction(site, call)
    if first is None:
        return
    statement = next((one for one in site.ancestors(call) if isinstance(one, cst.BaseSmallStatement)), None)
    there = descendants(statement) if statement is not None else ()
    replaced = [first.replacement]
    for one in there:
        found = _reduction(site, one) if isinstance(one, cst.Call) and site.is_plain(one) else None
        if found is None or not (
            site.code(found.mask) == site.code(first.mask) or _is_mask(site, found.mask)
        ):
            continue
        start, end, _ = found.replacement
        if all(end <= other[0] or other[1] <= start for other in replaced):  # none is part of another
            replaced.append(found.replacement)
    title = f"Use torch.where before {first.name}"
    yield from _remedy(site, "where", title, FixClass.EQUAL, *replaced)


def _reduction(site: Site, call: cst.Call) -> MaskedReduction | None:
    """`x[mask].sum()`, `torch.sum(x[mask])` and the same with prod and mean, over all elements."""
    function = call.func
    if not isinstance(function, cst.Attribute):
        return None
    name = function.attr.value
    if dotted(function) == f"{site.torch}.{name}":
        selected = call.args[0].value if len(call.args) == 1 and not call.args[0].keyword else None
    else:
        selected = function.value if not call.args else None
    mask = _mask(selected) if selected is not None else None
    if not isinstance(selected, cst.Subscript) or mask is None or name not in {*_NEUTRAL, "mean"}:
        return None
    tensor = selected.value
    pure = is_pure(mask, None) and is_pure(tensor, None) and not isinstance(mask, cst.Tuple)
    if not pure or not _may_be_mask(site, tensor, mask) or site.comments(*site.range_of(call)) != []:
        return None
    condition, neutral = site.code(mask), _NEUTRAL.get(name, "0")
    text = f"{site.torch}.where({condition}, {site.code(tensor)}, {neutral})"
    reduced = f"({text}.sum() / {site.operand(mask)}.sum())"
    text = reduced if name == "mean" else f"{text}.{name}()"
    return MaskedReduction(name, (*site.range_of(call), text), mask)


def _repeat_interleave(site: Site, call: cst.Call) -> Iterator[Remedy]:
    """`output_size=` where the repeats are integers that the function itself writes down."""
    if dotted(call.func) != f"{site.torch}.repeat_interleave" or len(call.args) not in {2, 3}:
        return
    known = {one.keyword.value for one in call.args if one.keyword is not None}
    repeats = call.args[1]
    if known - {"dim"} or repeats.keyword is not None or any(one.star for one in call.args):
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
    values = [one.value for one in elements]
    if not values or not all(isinstance(value, cst.Integer) for value in values):
        return None
    return [value.evaluated_value for value in values if isinstance(value, cst.Integer)]
