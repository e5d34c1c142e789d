"""`%fuselight net(x)`: runs one statement of the user, and compiles what it calls if nothing has compiled it yet."""

from __future__ import annotations

import ast
import sys
from types import FunctionType, MethodType
from typing import Any

from fuselight.notebook.cells import KernelCells

_BACKEND = "eager"
"""Captures graphs and generates no code: it needs no C++ compiler and takes no time."""


_FILE = "<fuselight>"
"""Stands for the file where the shell gives cells none."""


def parse_line(text: str) -> ast.Module:
    """Parse the statement. Raises SyntaxError."""
    return ast.parse(_statement(text), _FILE)


def run_line(text: str, backend: str | None, shell: Any, cells: KernelCells) -> tuple[Any, list[str]]:
    """Run the statement. Returns the value of an expression, and remarks. Raises what the user's code raises."""
    tree, path, text = parse_line(text), _FILE, _statement(text)
    running = cells.running()
    if running is not None:
        cell, line = running
        path = cell.path
        source = (cell.text.splitlines() or [""])[min(line, len(cell.text.splitlines())) - 1]
        _place(tree, line, max(source.find(text), 0))
    names = shell.user_ns
    if len(tree.body) != 1 or not isinstance(tree.body[0], ast.Expr):
        exec(compile(tree, path, "exec"), names)  # noqa: S102 - the user's own statement, in the user's kernel
        return None, []
    expression = tree.body[0].value
    if not isinstance(expression, ast.Call):
        return _evaluate(expression, path, names), []
    call = _call_of_user(expression, path, names)
    function = _evaluate(call.func, path, names)
    compiled, remarks = _compiled(function, ast.unparse(call.func), backend)
    # In the notebook's own names, so that what the arguments assign stays, and their functions see later changes.
    hidden = f"_fuselight_callee_{id(compiled)}"
    call.func = ast.copy_location(ast.Name(hidden, ast.Load()), call.func)
    names[hidden] = compiled
    try:
        return _evaluate(expression, path, names), remarks
    finally:
        names.pop(hidden, None)


def _call_of_user(call: ast.Call, path: str, names: dict[str, Any]) -> ast.Call:
    """The call to compile: in `net(x).sum()` that of `net`, as the other one is a method of a tensor."""
    torch: Any = sys.modules.get("torch")
    outer = call.func
    if torch is None or not isinstance(outer, ast.Attribute) or not hasattr(torch.Tensor, outer.attr):
        return call
    inner = outer.value
    while isinstance(inner, (ast.Attribute, ast.Subscript)):
        inner = inner.value
    if not isinstance(inner, ast.Call):
        return call
    if not isinstance(inner.func, ast.Name):  # to evaluate it could run code twice
        return _call_of_user(inner, path, names)
    function = _evaluate(inner.func, path, names)
    return inner if isinstance(function, (FunctionType, torch.nn.Module)) else call


def _statement(text: str) -> str:
    return text.removesuffix(";").rstrip()


def _evaluate(expression: ast.expr, path: str, names: dict[str, Any]) -> Any:
    return eval(compile(ast.Expression(expression), path, "eval"), names)  # noqa: S307 - as above


def _compiled(function: Any, name: str, backend: str | None) -> tuple[Any, list[str]]:
    """What to call, and what to remark about it."""
    torch: Any = sys.modules.get("torch")
    if torch is None or not isinstance(function, (FunctionType, MethodType, torch.nn.Module)):
        return function, []  # a class, a tensor's method, or what C code implements
    from fuselight.adapters.torch_api.dynamo import targets  # noqa: PLC0415 - torch, which the user has imported

    if targets.is_compiled(function):
        return function, [f"`{name}` is compiled already: `--backend` has no effect."] if backend else []
    if targets.disabled_reason(function) is not None:
        return function, [f"`{name}` is disabled with torch.compiler.disable, so it runs in eager mode."]
    chosen = backend or _BACKEND
    remark = f"`{name}` is not compiled in this notebook: it was compiled for this call, with the backend `{chosen}`."
    return torch.compile(function, backend=chosen), [remark]


def _place(tree: ast.AST, line: int, column: int) -> None:
    """Move a statement to where it stands in its cell."""
    for node in ast.walk(tree):
        if hasattr(node, "lineno"):
            first = node.lineno == 1
            last = getattr(node, "end_lineno", 1) == 1
            node.lineno, node.end_lineno = node.lineno + line - 1, getattr(node, "end_lineno", 1) + line - 1  # type: ignore[attr-defined]
            node.col_offset += column if first else 0  # type: ignore[attr-defined]
            node.end_col_offset += column if last else 0  # type: ignore[attr-defined]
