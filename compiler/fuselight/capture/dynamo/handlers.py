"""Finds the `except` that eager mode runs for an exception that left compiled code.

Dynamo runs handlers of what Python raises while it traces. It does not run those of an operator's exception: the
operator is in the graph, its handler is not. Invariant: a handler is reported only if its types are known to catch what
eager mode raises.
"""

from __future__ import annotations

import ast
import builtins
import functools
import linecache
import re
import sys
import traceback
from collections.abc import Iterable, Iterator
from typing import Any

from fuselight.adapters.torch_api.dynamo import errors
from fuselight.capture.dynamo import stacks
from fuselight.shared.report import EagerHandler, Location, Stack
from fuselight.shared.report.failure import safe_text

_REFUSED = re.compile(r"got (\w+)\(['\"]")
"""How Dynamo quotes the exception of an operator that refused fake tensors."""
_SUPPRESS = "suppress"


def handler_of(error: BaseException, above: Stack, compiled: Stack) -> EagerHandler | None:
    """The handler around the line that raised; None where compiled code runs the same one as eager mode.

    `compiled` are the frames in compiled code, `above` those of the calls up to it, both outermost first.
    """
    is_of_dynamo = isinstance(error, errors.exceptions.TorchDynamoException)
    if (
        not compiled
        or not isinstance(error, Exception)
        or (is_of_dynamo and not isinstance(error, errors.exceptions.TorchRuntimeError))
    ):
        return None
    eager = _eager_types(error, compiled[-1])
    is_tried = any(
        stacks.is_graph(frame.f_code.co_filename) for frame, _ in traceback.walk_tb(error.__traceback__)
    )
    raised = tuple(kind.__name__ for kind in type(error).__mro__)
    for place in reversed(compiled):
        for line, text, types in _around(place):
            if _catches(types, eager):
                return EagerHandler(
                    location=_at(place, line),
                    text=text,
                    exception=eager[0],
                    is_compiled=True,
                    catches_outside=_catches(types, raised),
                    is_tried=is_tried,
                )
    for place in reversed(above):
        for line, text, types in _around(place):
            if _catches(types, raised):
                return None
            if _catches(types, eager):
                return EagerHandler(
                    location=_at(place, line),
                    text=text,
                    exception=eager[0],
                    is_compiled=False,
                    catches_outside=False,
                    is_tried=is_tried,
                )
    return None


def _at(place: Location, line: int) -> Location:
    return Location(place.path, line, function=place.function)


def _eager_types(error: Exception, line: Location) -> tuple[str, ...]:
    """The names of what eager mode raises and of its bases."""
    kind: type[BaseException] = type(error)
    if linecache.getline(line.path, line.line).lstrip().startswith("assert"):
        kind = AssertionError  # in the graph it is an operator, which raises RuntimeError
    elif isinstance(error, errors.exceptions.TorchDynamoException):
        match = _REFUSED.search(safe_text(error))
        named = getattr(builtins, match[1], None) if match else None
        kind = named if isinstance(named, type) and issubclass(named, BaseException) else RuntimeError
    names = tuple(base.__name__ for base in kind.__mro__)
    # A fake may raise another type than the operator, which is RuntimeError for most of torch's operators.
    return (
        (*names, RuntimeError.__name__) if kind is not type(error) and kind is not AssertionError else names
    )


_Handler = tuple[int, str, "tuple[str, ...] | None"]
"""Line, text, and the names of the exceptions that it catches: None for all of them."""


def _around(place: Location) -> Iterator[_Handler]:
    """The handlers around a line in its own function, innermost first."""
    tree = _tree(place.path)
    if tree is None:
        return
    blocks: list[ast.AST] = []
    for node in _holders(tree, place.line):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            blocks.clear()
        else:
            blocks.append(node)
    for node in reversed(blocks):
        if isinstance(node, ast.Try) and _has_line(node.body, place.line):
            yield from _clauses(node, place.path)
        elif isinstance(node, (ast.With, ast.AsyncWith)) and _has_line(node.body, place.line):
            for item in node.items:
                call = item.context_expr
                if isinstance(call, ast.Call) and ast.unparse(call.func).split(".")[-1] == _SUPPRESS:
                    types = tuple(name for part in call.args for name in _names(part, place.path))
                    yield node.lineno, f"with {ast.unparse(call)}", types


def _holders(tree: ast.AST, line: int) -> Iterator[ast.AST]:
    """The statements that a line is in, outermost first."""
    for child in ast.iter_child_nodes(tree):
        first, last = getattr(child, "lineno", None), getattr(child, "end_lineno", None)
        if first is None and not isinstance(child, ast.ExceptHandler):
            continue
        if first is not None and last is not None and first <= line <= last:
            yield child
            yield from _holders(child, line)


def _has_line(body: list[ast.stmt], line: int) -> bool:
    return body[0].lineno <= line <= (body[-1].end_lineno or body[-1].lineno)


def _clauses(node: ast.Try, path: str) -> Iterator[_Handler]:
    for handler in node.handlers:
        last = handler.body[-1]
        if isinstance(last, ast.Raise) and last.exc is None:
            continue  # what it catches leaves it again
        if handler.type is None:
            yield handler.lineno, "except", None
        else:
            parts = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
            names = tuple(name for part in parts for name in _names(part, path))
            yield handler.lineno, f"except {ast.unparse(handler.type)}", names


def _names(node: ast.expr, path: str) -> Iterable[str]:
    """The names of the exceptions that an expression of a handler stands for."""
    text = ast.unparse(node)
    value = _value(text, path)
    values = value if isinstance(value, tuple) else (value,)
    classes = [kind.__name__ for kind in values if isinstance(kind, type)]
    return classes or (text.rpartition(".")[2],)


def _value(text: str, path: str) -> Any:
    first, *rest = text.split(".")
    for module in list(sys.modules.values()):
        names = getattr(module, "__dict__", {})
        if names.get("__file__") == path and first in names:
            value = names[first]
            break
    else:
        value = getattr(builtins, first, None)
    for name in rest:
        value = getattr(value, name, None)
    return value


def _catches(types: tuple[str, ...] | None, raised: Iterable[str]) -> bool:
    return types is None or not set(types).isdisjoint(raised)


def _tree(path: str) -> ast.Module | None:
    return _parsed("".join(linecache.getlines(path)))


@functools.lru_cache(maxsize=8)
def _parsed(text: str) -> ast.Module | None:
    try:
        return ast.parse(text) if text else None
    except (SyntaxError, ValueError, RecursionError):
        return None
