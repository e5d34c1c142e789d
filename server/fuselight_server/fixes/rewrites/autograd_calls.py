"""What torch.compile does not trace of autograd: repeated arguments of a Function, and `requires_grad = True`.

Invariant: an argument is copied only where the call names it a second time. A copy passes its gradient on, so that the
sum of the gradients stays. The flag of a tensor is left out of compiled calls only: a verification compares the
gradients of both, and which outputs require one.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from fuselight_server.fixes.rewrites.remedy import FixClass, Remedy
from fuselight_server.fixes.syntax.refusals import RefusedRewrite
from fuselight_server.fixes.syntax.site import Replacement, Site
from fuselight_server.fixes.syntax.tensor_values import not_a_tensor
from fuselight_server.fixes.syntax.traced_names import is_tensor

_COPY = "Copy the repeated argument"


def repeated_argument_remedies(site: Site) -> Iterator[Remedy | RefusedRewrite]:
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
            if value.value in seen and not is_tensor(site, value):
                reason = str(not_a_tensor(site, value))
                yield RefusedRewrite("clone_argument", _COPY, reason)
                return
            if value.value in seen:
                copies.append((*site.range_of(value), f"{value.value}.clone()"))
            seen.add(value.value)
        if copies and "mark_dirty" in site.text:
            reason = "the function may change its arguments in place (`mark_dirty`), and a copy loses that"
            yield RefusedRewrite("clone_argument", _COPY, reason)
            return
        text = site.rewritten(*copies) if copies else None
        if text is not None:
            yield Remedy(
                "clone_argument",
                _COPY,
                FixClass.EQUAL,
                {site.finding.span.path: text},
            )
        return


def gradient_flag_remedies(site: Site) -> Iterator[Remedy]:
    """`x.requires_grad = True` and `x.requires_grad_()`, in eager calls only."""
    nodes = site.nodes((cst.Assign, cst.Call))
    test = f"{site.torch}.compiler.is_compiling()"
    line = next((at for child in nodes if (at := _flag_line(site, child))), None)
    indent = site.indentation(line) if line is not None else None
    if line is not None and indent is not None:
        start, end = site.range_of(line)
        head = f"if not {test}:{site.newline}{indent}{site.step(line)}"
        yield from _eager_flag(site, (start, end, f"{head}{site.source[start:end]}"))
        return
    for node in nodes:
        if (
            isinstance(node, cst.Call)
            and isinstance(node.func, cst.Attribute)
            and _is_flagged_value(site, node)
        ):
            text = f"{site.operand(node.func.value)} if {test} else {site.code(node)}"
            yield from _eager_flag(site, (*site.range_of(node), text))
            return


def _eager_flag(site: Site, replaced: Replacement) -> Iterator[Remedy]:
    text = site.rewritten(replaced)
    if text is not None:
        title = "Leave `requires_grad` as it is in compiled code"
        yield Remedy("eager_requires_grad", title, FixClass.EQUAL, {site.finding.span.path: text})


def _flag_line(site: Site, node: cst.CSTNode) -> cst.SimpleStatementLine | None:
    """The line of a statement that does nothing but set the flag to True."""
    if isinstance(node, cst.Assign):
        target = node.targets[0].target if len(node.targets) == 1 else None
        is_set = isinstance(target, cst.Attribute) and target.attr.value == "requires_grad"
        is_flag = is_set and isinstance(node.value, cst.Name) and node.value.value == "True"
        return (
            site.line_of(node)
            if is_flag and isinstance(site.parents[node], cst.SimpleStatementLine)
            else None
        )
    if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Attribute):
        return None
    return site.line_of(node) if _is_flag(node) and isinstance(site.parents[node], cst.Expr) else None


def _is_flag(call: cst.Call) -> bool:
    """Whether a call is `x.requires_grad_()`."""
    name = call.func.attr.value if isinstance(call.func, cst.Attribute) else ""
    values = [argument.value.value if isinstance(argument.value, cst.Name) else "" for argument in call.args]
    return name == "requires_grad_" and values in ([], ["True"])


def _is_flagged_value(site: Site, call: cst.Call) -> bool:
    """Whether a call that sets the flag is all that a statement returns or assigns, on one line."""
    is_value = isinstance(site.parents[call], (cst.Return, cst.Assign)) and not call.lpar
    return _is_flag(call) and is_value and "\n" not in site.code(call)
