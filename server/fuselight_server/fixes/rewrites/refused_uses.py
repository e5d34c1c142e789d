"""Why a tensor may not stand where the code uses a number, and what the user could do.

Invariant: a reason names what gets the number, as it is written.
"""

from __future__ import annotations

import libcst as cst

from fuselight_server.fixes.syntax.refusals import RewriteRefusedError
from fuselight_server.fixes.syntax.site import Site
from fuselight_server.fixes.syntax.tensor_values import short_code


def unknown_use(site: Site, use: cst.BaseExpression) -> RewriteRefusedError:
    """Why a tensor may not stand at a use that computes nothing with another tensor, and what the user could do."""
    code, parent = short_code(site, use), site.parents[use]
    while isinstance(parent, (cst.Element, cst.DictElement, cst.BaseDict, cst.BaseList, cst.Tuple)):
        parent = site.parents[parent]
    call = site.parents[parent] if isinstance(parent, cst.Arg) else None
    if isinstance(call, cst.Call):
        function = short_code(site, call.func)
        return RewriteRefusedError(
            f"`{function}` gets `{code}`, and may need a number: if it takes a tensor, pass the tensor"
        )
    if isinstance(parent, cst.Return):
        return RewriteRefusedError(
            f"callers get `{code}` as a number: if they take a tensor, return the tensor"
        )
    whole = parent if isinstance(parent, cst.BaseExpression) else use
    return RewriteRefusedError(
        f"`{short_code(site, whole)}` may have other values with a tensor for the number"
    )
