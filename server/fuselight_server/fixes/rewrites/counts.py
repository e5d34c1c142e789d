"""How many elements a selection has: torch.count_nonzero, whose result keeps its shape.

Invariant: rows of positions and of what a mask of bools selects are counted, never the elements of a selection whose
rank is not known. The count is an integer tensor, which stands where a tensor may stand for the number.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from fuselight_server.fixes.rewrites.masks import check_mask, index_of
from fuselight_server.fixes.rewrites.numbers import TakenNumber, kept_number
from fuselight_server.fixes.rewrites.remedy import Remedy
from fuselight_server.fixes.syntax.purity import is_pure
from fuselight_server.fixes.syntax.refusals import RefusedRewrite, RewriteRefusedError
from fuselight_server.fixes.syntax.site import Site
from fuselight_server.fixes.syntax.traced_names import is_tensor, module_of
from fuselight_server.fixes.syntax.tree import dotted

_KIND, _TITLE = "count_nonzero", "Count with torch.count_nonzero"
_POSITIONS = frozenset({"nonzero", "argwhere"})


def count_remedies(site: Site) -> Iterator[Remedy | RefusedRewrite]:
    """`(x > 0).nonzero().size(0)`, `len(torch.nonzero(m))` and `x[m].shape[0]` as `torch.count_nonzero`."""
    selection = next(iter(site.nodes((cst.Call, cst.Subscript))), None)
    counted = _counted(site, selection) if selection is not None else None
    rows = _rows(site, selection) if selection is not None else None
    if counted is None or rows is None or site.comments(*site.range_of(rows)) != []:
        return
    code = f"{site.torch}.count_nonzero({site.code(counted)})"
    number = TakenNumber(rows, counted, code, frozenset(), is_new=True, needs_dimensions=False, is_count=True)
    try:
        if isinstance(selection, cst.Subscript):
            check_mask(site, selection.value, counted)
        yield from kept_number(site, number, _KIND, _TITLE)
    except RewriteRefusedError as error:
        yield RefusedRewrite(_KIND, _TITLE, str(error))


def _counted(site: Site, node: cst.BaseExpression) -> cst.BaseExpression | None:
    """The tensor whose elements a selection has a row for, where they are not zero; None for any other."""
    if isinstance(node, cst.Subscript):
        mask = index_of(node)
        seen = site.values(mask) if mask is not None else ()
        is_mask = bool(seen) and all(value.text.startswith(("b8[", "bool[")) for value in seen)
        return mask if is_mask and mask is not None and is_pure(site, node.value) else None
    function = node.func if isinstance(node, cst.Call) else None
    if not isinstance(node, cst.Call) or not isinstance(function, cst.Attribute):
        return None
    if function.attr.value not in _POSITIONS:
        return None
    if module_of(site, dotted(function.value)) == "torch":
        only = node.args[0] if len(node.args) == 1 else None
        return only.value if only is not None and only.keyword is None and not only.star else None
    return function.value if not node.args and is_tensor(site, function.value) else None


def _rows(site: Site, node: cst.BaseExpression) -> cst.Call | cst.Subscript | None:
    """The expression around a selection that gives the number of its rows."""
    parent = site.parents[node]
    around = site.parents[parent] if isinstance(parent, (cst.Attribute, cst.Arg)) else None
    text = site.code(node)
    ends = {f"len({text})", f"{text}.size(0)", f"{text}.shape[0]"}
    is_rows = isinstance(around, (cst.Call, cst.Subscript)) and site.code(around) in ends
    return around if is_rows and isinstance(around, (cst.Call, cst.Subscript)) else None
