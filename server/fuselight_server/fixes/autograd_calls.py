"""Calls of a torch.autograd.Function that torch.compile does not trace: the same tensor as several arguments.

Invariant: an argument is copied only where the call names it a second time. A copy passes its gradient on, so that the
sum of the gradients stays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from fuselight_server.fixes.remedy import FixClass, Remedy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fuselight_server.fixes.site import Site


def repeated_argument_remedies(site: Site) -> Iterator[Remedy]:
    """`Function.apply(x, x)` as `Function.apply(x, x.clone())`."""
    for call in site.nodes(cst.Call)[:2]:
        function = call.func
        if not isinstance(function, cst.Attribute) or function.attr.value != "apply":
            continue
        seen: set[str] = set()
        copies = []
        for argument in call.args:
            value = argument.value
            if argument.star or not isinstance(value, cst.Name):
                continue
            if value.value in seen:
                copies.append((*site.range_of(value), f"{value.value}.clone()"))
            seen.add(value.value)
        text = site.rewritten(*copies) if copies else None
        if text is not None:
            yield Remedy(
                "clone_argument",
                "Copy the repeated argument",
                FixClass.EQUAL,
                {site.finding.span.path: text},
            )
        return
