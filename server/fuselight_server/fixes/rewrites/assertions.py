"""A `raise` or an `assert` that depends on the data of a tensor: torch._assert_async.

Invariant: only a message that is a constant is kept, and the remedy says what changes about the exception.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from fuselight_server.fixes.rewrites.output import effect_in
from fuselight_server.fixes.rewrites.remedy import FixClass, Remedy
from fuselight_server.fixes.rewrites.tensor_conditions import TensorTest, condition_of, under_known
from fuselight_server.fixes.syntax.exception_classes import only_keeps_arguments
from fuselight_server.fixes.syntax.refusals import RefusedRewrite
from fuselight_server.fixes.syntax.site import Site
from fuselight_server.fixes.syntax.tensor_values import short_code
from fuselight_server.fixes.syntax.tree import dotted

_TITLE = "Use torch._assert_async"
_RAISES = "when it raises, and the type of the exception"
_RAISES_WITHOUT_TEXT = "when it raises, and the type and the message of the exception"


def raise_remedy(site: Site, node: cst.If, test: TensorTest, indent: str) -> Remedy | RefusedRewrite | None:
    """`if known and test: raise ...` as an assert of the graph."""
    body = node.body.body if isinstance(node.body, cst.IndentedBlock) and node.orelse is None else ()
    line = body[0] if len(body) == 1 else None
    if not isinstance(line, cst.SimpleStatementLine) or len(line.body) != 1:
        return None
    statement = line.body[0]
    if not isinstance(statement, cst.Raise) or statement.cause is not None or statement.exc is None:
        return None
    condition, torch = condition_of(site, test.rest), site.torch
    start, end = site.range_of(node)
    end = site.end_of_line(end)
    comments = site.comments(start, end)
    if condition is None or comments is None or site.comments(*site.range_of(node.test)):
        return None
    if site.comments(*site.range_of(statement)):
        return None
    lost = _lost_effect(site, statement.exc)
    if lost is not None:
        return lost
    message = _message(site, statement.exc)
    text = f"{torch}._assert_async({torch}.logical_not({condition}){message})"
    lines = (*comments, *under_known(site, node, test.known, [text]))
    new = site.rewritten((start, end, f"{site.newline}{indent}".join(lines)))
    return _assertion(site, new, _RAISES if message else _RAISES_WITHOUT_TEXT)


def _lost_effect(site: Site, exception: cst.BaseExpression) -> RefusedRewrite | None:
    """Why the assert of a graph, which makes no such exception, would leave out more than the exception."""
    raised = dotted(exception.func if isinstance(exception, cst.Call) else exception)
    if not only_keeps_arguments(site, raised):
        reason = f"`{raised or short_code(site, exception)}` may do more than keep its arguments when it is created"
        return RefusedRewrite("assert_async", _TITLE, reason)
    arguments = exception.args if isinstance(exception, cst.Call) else ()
    return _lost_call(site, [argument.value for argument in arguments])


def _lost_call(site: Site, values: list[cst.BaseExpression]) -> RefusedRewrite | None:
    effect = effect_in(site, values)
    if effect is None:
        return None
    reason = f"`{short_code(site, effect)}` may have an effect, which is lost with the message"
    return RefusedRewrite("assert_async", _TITLE, reason)


def _message(site: Site, exception: cst.BaseExpression) -> str:
    """The message as a further argument: only one that is a constant can be part of a graph."""
    arguments = exception.args if isinstance(exception, cst.Call) else ()
    first = arguments[0].value if arguments and not arguments[0].star else None
    return f", {site.code(first)}" if isinstance(first, cst.SimpleString) else ""


def _assertion(site: Site, text: str | None, changes: str) -> Remedy | None:
    if text is None:
        return None
    path = site.finding.span.path
    return Remedy("assert_async", _TITLE, FixClass.CHANGES, {path: text}, changes)


def assert_remedies(site: Site, node: cst.Assert) -> Iterator[Remedy | RefusedRewrite]:
    """An assert as one of the graph."""
    condition = condition_of(site, node.test)
    if condition is None or site.line_of(node) is None or dotted(node.test) == "self":
        return
    start, end = site.range_of(node)
    if site.comments(start, end):
        return
    lost = _lost_call(site, [node.msg]) if node.msg is not None else None
    if lost is not None:
        yield lost
        return
    message = f", {site.code(node.msg)}" if isinstance(node.msg, cst.SimpleString) else ""
    text = site.rewritten((start, end, f"{site.torch}._assert_async({condition}{message})"))
    remedy = _assertion(site, text, _RAISES if message or node.msg is None else _RAISES_WITHOUT_TEXT)
    if remedy is not None:
        yield remedy
