"""A list of tensors as one tensor, so that its length is a size.

Invariant: all uses of the list in the compiled function are known and rewritten, or none is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import libcst as cst

from fuselight.shared.report import GuardCause, GuardFailure
from fuselight_server.fixes.rewrites.remedy import FixClass, Remedy
from fuselight_server.fixes.syntax.prologue import marks, with_prologue
from fuselight_server.fixes.syntax.site import Replacement, Site
from fuselight_server.fixes.syntax.tree import dotted

_CHANGES = (
    "raises an exception for an empty list, for what is no list or tuple of tensors, and for tensors of different "
    "shapes, dtypes or devices"
)
_ROUNDING = "; half-precision sums round and overflow less often"


def stack_remedies(
    failure: GuardFailure,
    site: Site,
    function: cst.FunctionDef,
    taken: Callable[[str], bool],
) -> Iterator[Remedy]:
    """`torch.stack` before the compiled function, whose uses of the list become those of a tensor."""
    name = failure.source
    if failure.cause is not GuardCause.LENGTH:
        return
    changes = _rewritten_uses(site, function, name)
    if not changes:
        return
    text = with_prologue(
        *(site, function, {}),
        before=(
            f"{name} = {site.torch}.stack({name})",
            *marks(site, "decorators.mark_unbacked", [(name, 0)]),
        ),
        changes=changes,
        taken=taken,
    )
    if text is not None:
        title = f"Pass `{name}` as one tensor"
        adds = any(".sum(0, dtype=" in new for _, _, new in changes)
        differs = _CHANGES + (_ROUNDING if adds else "")
        yield Remedy("stack", title, FixClass.CHANGES, {site.finding.span.path: text}, differs)


def _rewritten_uses(site: Site, function: cst.FunctionDef, name: str) -> list[Replacement]:
    """The uses of the list, rewritten; empty where one of them is not known."""
    uses: list[Replacement] = []
    for node in site.parents:
        if not isinstance(node, cst.Name) or node.value != name or not _is_in(site, node, function.body):
            continue
        argument = site.parents[node]
        call = site.parents.get(argument)
        if isinstance(argument, cst.Attribute) and argument.value is not node:
            continue  # another name's attribute
        if (
            not isinstance(argument, cst.Arg)
            or not isinstance(call, cst.Call)
            or argument is not call.args[0]
        ):
            return []
        text = _use(site, call, name)
        if text is None:
            return []
        uses.append((*site.range_of(call), text))
    return uses


def _use(  # noqa: PLR0911 - one return a kind of expression
    site: Site, call: cst.Call, name: str
) -> str | None:
    """A call on the list, as one on the tensor of its items."""
    function, further = dotted(call.func), call.args[1:]
    if any(argument.star for argument in call.args) or site.comments(*site.range_of(call)) != []:
        return None
    if function in {"sum", "len"} and site.is_bound(function):
        return None
    if function == "sum" and not further:
        # Integers keep their dtype; Python's sum starts at 0, so that bools are counted.
        return f"{name}.sum(0, dtype={name}.dtype if {name}.dtype != {site.torch}.bool else None)"
    if function == "len" and not further:
        return f"{name}.size(0)"
    is_plain = not further or (
        len(further) == 1 and (further[0].keyword is None or further[0].keyword.value == "dim")
    )
    dimension = site.code(further[0].value) if further else "0"
    if function == f"{site.torch}.stack" and is_plain:
        return name if dimension == "0" else f"{name}.movedim(0, {dimension})"
    if function in {f"{site.torch}.cat", f"{site.torch}.concat"} and is_plain and dimension == "0":
        return f"{name}.flatten(0, 1)"
    return None


def _is_in(site: Site, node: cst.CSTNode, body: cst.CSTNode) -> bool:
    return any(ancestor is body for ancestor in site.ancestors(node))
