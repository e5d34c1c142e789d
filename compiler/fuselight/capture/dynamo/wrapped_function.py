"""The function that a user's wrapper passes its `*args` and `**kwargs` to, read from the wrapper's source.

Invariant: no user code runs. There is an answer only where every call that spreads the arguments passes them as they
came, to one function that can be looked up, and nothing else is assigned to them: `function(*args, **kwargs)`,
`self.function(self_of_wrapper, *args)`.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import CodeType, FunctionType, MethodType

import torch

from fuselight.adapters.torch_api.dynamo import frames
from fuselight.capture.dynamo import stacks

_DEPTH = 8
"""Wrappers around wrappers that are followed."""


@dataclass(frozen=True)
class WrappedFunction:
    """Where the arguments of a wrapper go."""

    code: CodeType
    """The wrapped function."""
    parameters: tuple[str, ...]
    """Names of the parameters of the wrapped function as the wrapper's caller passes them."""
    positional: tuple[str, ...]
    """The names of `args[0]`, `args[1]`, ..."""
    star: str
    """The wrapper's name for further positional arguments; empty if it accepts none."""
    stars: str
    """The wrapper's name for further keyword arguments; empty if it accepts none."""


def wrapped_function(
    code: CodeType, f_locals: Mapping[str, object], depth: int = _DEPTH
) -> WrappedFunction | None:
    """The function that gets the arguments of a call; None if the code is no wrapper, or changes them."""
    star, stars = _rest_names(code)
    if not star and not stars:
        return None
    expression = _callee_expression(code, star, stars)
    callee = None if expression is None else _looked_up(expression, f_locals)
    if isinstance(callee, torch.nn.Module):
        callee = MethodType(type(callee).forward, callee)
    bound = int(isinstance(callee, MethodType))
    function = callee.__func__ if isinstance(callee, MethodType) else callee
    if expression is None or not isinstance(function, FunctionType):
        return None
    wrapped = frames.original_code(function.__code__)
    inner = wrapped_function(wrapped, _closure(function), depth - 1) if depth else None
    known = inner.parameters if inner is not None else stacks.parameters(wrapped)
    names = (*wrapped.co_varnames[: wrapped.co_argcount], *(inner.positional if inner is not None else ()))
    owner = int("." in expression)
    taken = bound + code.co_argcount - owner
    return WrappedFunction(
        inner.code if inner is not None else wrapped,
        (*code.co_varnames[:owner], *known[bound:]),
        names[taken:],
        star,
        stars,
    )


def _closure(function: FunctionType) -> dict[str, object]:
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=False)
    try:
        return {name: cell.cell_contents for name, cell in cells}
    except ValueError:  # a variable that has no value yet
        return {}


def _rest_names(code: CodeType) -> tuple[str, str]:
    """The names of `*args` and `**kwargs`; empty for one that the function does not have."""
    names = iter(code.co_varnames[code.co_argcount + code.co_kwonlyargcount :])
    star = next(names, "") if code.co_flags & inspect.CO_VARARGS else ""
    stars = next(names, "") if code.co_flags & inspect.CO_VARKEYWORDS else ""
    return star, stars


def _callee_expression(code: CodeType, star: str, stars: str) -> str | None:
    """What the wrapper calls with its arguments as they came: `function`, `self.function`."""
    node = _definition(code)
    if node is None or any(_is_stored(node, {star, stars}) for node in ast.walk(node)):
        return None
    calls = [call for call in _calls(node) if _spreads(call, star, stars)]
    callees = {ast.unparse(call.func) for call in calls}
    callee = callees.pop() if len(callees) == 1 else ""
    own = code.co_varnames[: code.co_argcount]
    if own and callee.startswith(f"{own[0]}.") and star and stars:
        own = own[1:]  # a method that passes everything on to what its object holds
    elif callee not in code.co_freevars:
        return None
    expected = [*own, *([f"*{star}"] if star else [])]
    return callee if all([ast.unparse(arg) for arg in call.args] == expected for call in calls) else None


def _definition(code: CodeType) -> ast.FunctionDef | None:
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(code)))
    except (OSError, TypeError, ValueError, SyntaxError, RecursionError, MemoryError):
        return None
    first = tree.body[0] if tree.body else None
    return first if isinstance(first, ast.FunctionDef) and first.name == code.co_name else None


def _is_stored(node: ast.AST, names: set[str]) -> bool:
    """Whether a node assigns to one of the names, or to an item of it."""
    target = node.value if isinstance(node, ast.Subscript) else node
    is_changed = isinstance(node, (ast.Name, ast.Subscript)) and not isinstance(node.ctx, ast.Load)
    return is_changed and isinstance(target, ast.Name) and target.id in names


def _calls(node: ast.FunctionDef) -> Iterator[ast.Call]:
    return (node for node in ast.walk(node) if isinstance(node, ast.Call))


def _spreads(call: ast.Call, star: str, stars: str) -> bool:
    """Whether a call gets all further arguments of the wrapper."""
    keywords = [keyword.value for keyword in call.keywords if keyword.arg is None]
    values = [expression.value for expression in call.args if isinstance(expression, ast.Starred)] + keywords
    names = {expression.id for expression in values if isinstance(expression, ast.Name)}
    return names >= {name for name in (star, stars) if name}


def _looked_up(expression: str, f_locals: Mapping[str, object]) -> object:
    """A name, or an attribute of an object, without running its code; None for anything else."""
    name, _, attribute = expression.partition(".")
    value = f_locals.get(name)
    if not attribute:
        return value
    try:
        attributes = vars(value)
    except TypeError:
        return None
    parts = attributes.get("_modules")
    held = attributes.get(attribute)
    return parts.get(attribute) if held is None and isinstance(parts, dict) else held
