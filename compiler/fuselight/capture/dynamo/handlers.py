"""Finds the handler that eager mode runs for an exception that left compiled code.

Dynamo runs handlers of what Python raises while it traces. It does not run those of an operator's exception: the
operator is in the graph, its handler is not. A handler is an `except`, a `finally` that returns, or a `with` whose
context manager suppresses the exception. Invariant: a handler is reported only if it is known to end what eager mode
raises; no code of the user's runs to find that out.
"""

from __future__ import annotations

import ast
import builtins
import functools
import inspect
import linecache
import re
import sys
import traceback
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from fuselight.adapters.torch_api.dynamo import errors
from fuselight.capture.dynamo import stacks
from fuselight.shared import suppression
from fuselight.shared.report import EagerHandler, Location, Stack
from fuselight.shared.report.failure import safe_text

_REFUSED = re.compile(r"got (\w+)\(['\"]")
"""How Dynamo quotes the exception of an operator that refused fake tensors."""
_OUT_OF_BOUNDS = "index out of bounds"
"""How a kernel refuses an index, in a RuntimeError."""
_BY_RUNTIME_ERROR = ("gather", "scatter", "index_add")
"""Operators that refuse an index in the same way in eager mode; others raise IndexError."""
_BASES = ("Exception", "BaseException", "object")


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
    eager = first = _eager_types(error, compiled[-1])
    is_tried = any(
        stacks.is_graph(frame.f_code.co_filename) for frame, _ in traceback.walk_tb(error.__traceback__)
    )
    raised: Types = tuple(kind.__name__ for kind in type(error).__mro__)
    for place, is_compiled in (
        *((place, True) for place in reversed(compiled)),
        *((place, False) for place in reversed(above)),
    ):
        handler, after = _walk(place, eager)
        outside, raised = (None, raised) if is_compiled else _walk(place, raised)
        if outside is not None:
            return None
        if handler is not None:
            line, text = handler
            return EagerHandler(
                location=Location(place.path, line, function=place.function),
                text=text,
                exception=first[0],
                is_compiled=is_compiled,
                # `try` alone, without what turns the exception into the one that it catches
                catches_outside=is_compiled and after == first and _walk(place, raised)[0] == handler,
                is_tried=is_tried,
            )
        eager = after
    return None


Types = tuple[str, ...]
"""The names of an exception's type and of its bases."""
_Handler = tuple[int, str]
"""Line and text."""


def _eager_types(error: Exception, line: Location) -> Types:
    """The names of what eager mode raises and of its bases."""
    kind: type[BaseException] = type(error)
    source = linecache.getline(line.path, line.line)
    if source.lstrip().startswith("assert"):
        return _names_of(AssertionError)  # in the graph it is an operator, which raises RuntimeError
    if isinstance(error, errors.exceptions.TorchDynamoException):
        match = _REFUSED.search(safe_text(error))
        named = getattr(builtins, match[1], None) if match else None
        kind = named if isinstance(named, type) and issubclass(named, BaseException) else RuntimeError
    elif kind is RuntimeError and _OUT_OF_BOUNDS in safe_text(error):
        return _names_of(RuntimeError if any(name in source for name in _BY_RUNTIME_ERROR) else IndexError)
    # A fake may raise another type than the operator, which is RuntimeError for most of torch's operators.
    return _names_of(kind) if kind is type(error) else (*_names_of(kind), RuntimeError.__name__)


def _names_of(kind: type) -> Types:
    return tuple(base.__name__ for base in kind.__mro__)


def _walk(place: Location, raised: Types) -> tuple[_Handler | None, Types]:
    """The handler that ends an exception of a line in its own function, or what the exception is by then.

    A handler that ends with a `raise` passes the same exception on, or another.
    """
    tree = _tree(place.path)
    blocks: list[ast.AST] = []
    for node in _holders(tree, place.line) if tree is not None else ():
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            blocks.clear()
        blocks.append(node)
    for node in reversed(blocks):
        handler: _Handler | None = None
        if isinstance(node, _TRIES):
            if _has_line(node.body, place.line):
                handler, raised = _of_clauses(node, place.path, raised)
            if handler is None and not _has_line(node.finalbody, place.line) and _leaves(node.finalbody):
                handler = _line_of_finally(node, place.path), "finally"
        elif isinstance(node, (ast.With, ast.AsyncWith)) and _has_line(node.body, place.line):
            handler = next(
                (
                    (node.lineno, f"with {ast.unparse(item.context_expr)}")
                    for item in reversed(node.items)
                    if _suppresses(item.context_expr, blocks[0], place, raised)
                ),
                None,
            )
        if handler is not None:
            return handler, raised
    return None, raised


_TRIES: tuple[Any, ...] = tuple(filter(None, (ast.Try, getattr(ast, "TryStar", None))))


def _holders(tree: ast.AST, line: int) -> Iterator[ast.AST]:
    """The statements that a line is in, outermost first."""
    for child in ast.iter_child_nodes(tree):
        first, last = getattr(child, "lineno", None), getattr(child, "end_lineno", None)
        if first is None and not isinstance(child, ast.ExceptHandler):
            continue
        if first is not None and last is not None and first <= line <= last:
            yield child
            yield from _holders(child, line)


def _has_line(body: Sequence[ast.stmt], line: int) -> bool:
    return bool(body) and body[0].lineno <= line <= (body[-1].end_lineno or body[-1].lineno)


def _of_clauses(node: Any, path: str, raised: Types) -> tuple[_Handler | None, Types]:
    """What the first clause does that catches an exception: it ends it, or raises one."""
    for clause in node.handlers:
        parts = clause.type.elts if isinstance(clause.type, ast.Tuple) else [clause.type]
        caught = {name for part in parts if part is not None for name in _names(part, path)}
        if clause.type is not None and caught.isdisjoint(raised):
            continue
        ends = _raises_at_end(clause.body)
        if not ends:
            text = "except" if clause.type is None else f"except {ast.unparse(clause.type)}"
            return (clause.lineno, text), raised
        kinds = [_raised_by(end, clause, path, raised) for end in ends]
        return None, tuple(name for name in kinds[0] if all(name in others for others in kinds))
    return None, raised


def _raises_at_end(body: Sequence[ast.stmt]) -> tuple[ast.Raise, ...]:
    """The statements of which each run of a handler ends with one; none where a run may end otherwise."""
    last = body[-1] if body else None
    if isinstance(last, ast.Raise):
        return (last,)
    if isinstance(last, ast.With):
        return _raises_at_end(last.body)
    if isinstance(last, ast.If):
        sides = [_raises_at_end(side) for side in (last.body, last.orelse)]
        return tuple(end for side in sides for end in side) if all(sides) else ()
    return ()


def _raised_by(end: ast.Raise, clause: ast.ExceptHandler, path: str, raised: Types) -> Types:
    """What a `raise` at the end of a handler raises: the same again, or another exception."""
    if end.exc is None or (isinstance(end.exc, ast.Name) and end.exc.id == clause.name):
        return raised
    kind = end.exc.func if isinstance(end.exc, ast.Call) else end.exc
    value = _value(ast.unparse(kind), path)
    return _names_of(value) if isinstance(value, type) else _BASES


def _leaves(body: Sequence[ast.stmt]) -> bool:
    """Whether a `finally` leaves the block by a statement of its own, which ends every exception."""
    return any(
        isinstance(statement, (ast.Return, ast.Break, ast.Continue))
        or (isinstance(statement, ast.With) and _leaves(statement.body))
        for statement in body
    )


def _line_of_finally(node: Any, path: str) -> int:
    """The line of `finally:`, which the parser does not keep: comments may follow it."""
    first = node.finalbody[0].lineno
    above = range(first, (node.handlers or node.body)[-1].lineno, -1)
    lines = (line for line in above if linecache.getline(path, line).lstrip().startswith("finally"))
    return next(lines, first)


def _suppresses(manager: ast.expr, function: ast.AST, place: Location, raised: Types) -> bool:
    """Whether a context manager ends an exception: contextlib's, or one of the user's whose code says so."""
    if isinstance(manager, ast.Name):  # as `guard = Quiet()` in the same function
        targets = (node for node in ast.walk(function) if isinstance(node, ast.Assign))
        values = [
            node.value
            for node in targets
            if any(isinstance(name, ast.Name) and name.id == manager.id for name in node.targets)
        ]
        if len(values) == 1 and isinstance(values[0], ast.Call):
            return _suppresses(values[0], function, place, raised)
    if not isinstance(manager, ast.Call):
        return suppression.exit_suppresses(type(_value(ast.unparse(manager), place.path)), raised, _tree)
    if ast.unparse(manager.func).split(".")[-1] == "suppress":
        caught = {name for part in manager.args for name in _names(part, place.path)}
        return not caught.isdisjoint(raised)
    factory = _value(ast.unparse(manager.func), place.path)
    if isinstance(factory, type):
        return suppression.exit_suppresses(factory, raised, _tree)
    generator: Any = inspect.getattr_static(factory, "__wrapped__", None)  # of contextlib.contextmanager
    line = suppression.yield_line(generator, _tree)
    return line is not None and _walk(Location(generator.__code__.co_filename, line), raised)[0] is not None


def _names(node: ast.expr, path: str) -> Iterable[str]:
    """The names of the exceptions that an expression of a handler stands for."""
    text = ast.unparse(node)
    value = _value(text, path)
    values = value if isinstance(value, tuple) else (value,)
    classes = [kind.__name__ for kind in values if isinstance(kind, type)]
    return classes or (text.rpartition(".")[2],)


def _value(text: str, path: str) -> Any:
    first = text.partition(".")[0]
    for module in list(sys.modules.values()):
        names = getattr(module, "__dict__", {})
        if names.get("__file__") == path and first in names:
            return suppression.static_value(text, names)
    return suppression.static_value(text, {})


def _tree(path: str) -> ast.Module | None:
    return _parsed("".join(linecache.getlines(path)))


@functools.lru_cache(maxsize=8)
def _parsed(text: str) -> ast.Module | None:
    try:
        return ast.parse(text) if text else None
    except (SyntaxError, ValueError, RecursionError):
        return None
