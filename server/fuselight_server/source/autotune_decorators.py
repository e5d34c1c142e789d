"""The `@triton.autotune` decorators of a text: where their arguments stand, and the text with other ones.

Invariant: a configuration that the text lists stays as it is written; all else of the text stays, too.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass

from fuselight.shared.foreign_data import parse_python

_BEFORE_RESETS = 3
"""Positional arguments of `triton.autotune` before `reset_to_zero` and `restore_value`."""


class CannotKeepError(Exception):
    """The arguments cannot be replaced; the message says why."""


@dataclass(frozen=True)
class DecoratorEdit:
    """New text for a part of a file. Lines are 1-based, columns 0-based UTF-8 bytes."""

    line: int
    column: int
    end_line: int
    end_column: int
    text: str


def keep_configurations(
    text: str, function: str, line: int, kept: Sequence[int], texts: Sequence[str]
) -> DecoratorEdit:
    """Return the edit that leaves an autotuner with the configurations `kept`, by position.

    `line` is that of the function's `def`; `texts` has all configurations as Python, each empty if it has no notation.
    Raises CannotKeepError.
    """
    argument = _configs_argument(text, function, line)
    listed = argument.elts if isinstance(argument, (ast.List, ast.Tuple)) else None
    if (
        listed is not None
        and len(listed) == len(texts)
        and all(isinstance(item, ast.Call) for item in listed)
    ):
        parts = [ast.get_source_segment(text, listed[at]) or "" for at in kept]
    else:
        parts = [texts[at] for at in kept]
        if not _imports_triton(text):
            raise CannotKeepError("the file does not import `triton` by that name")
    if not all(parts):
        raise CannotKeepError("a configuration has a hook or a value without a notation")
    return _edit(argument, f"[{', '.join(parts)}]")


def write_arguments(text: str, function: str, arguments: Sequence[str]) -> str:
    """Return the text in which the autotuner of a function has `arguments`, as `restore_value=["x"]`.

    Raises CannotKeepError: for a call that has more positional arguments, or sets an argument that these leave out.
    """
    call = _autotune_call(text, function)
    values = dict(argument.split("=", 1) for argument in arguments)
    present = {keyword.arg: keyword.value for keyword in call.keywords}
    removed = {"reset_to_zero", "restore_value"} & present.keys() - values.keys()
    if len(call.args) > _BEFORE_RESETS or None in present or removed or not (call.args or call.keywords):
        raise CannotKeepError("its arguments are not written by name")
    last = max(
        [*call.args, *present.values()], key=lambda node: (node.end_lineno or 0, node.end_col_offset or 0)
    )
    edits = [_edit(present[name], value) for name, value in values.items() if name in present]
    added = "".join(f", {name}={value}" for name, value in values.items() if name not in present)
    edits += [_edit(last, added, is_after=True)] if added else []
    for edit in sorted(edits, key=lambda edit: (edit.line, edit.column), reverse=True):
        text = applied(text, edit)
    return text


def _edit(node: ast.expr, text: str, *, is_after: bool = False) -> DecoratorEdit:
    """The edit that puts a text in the place of an expression, or after it."""
    if node.end_lineno is None or node.end_col_offset is None:
        raise CannotKeepError("Python does not say where the arguments end")
    start = (node.end_lineno, node.end_col_offset) if is_after else (node.lineno, node.col_offset)
    return DecoratorEdit(*start, node.end_lineno, node.end_col_offset, text)


def _configs_argument(text: str, function: str, line: int) -> ast.expr:
    call = _autotune_call(text, function, line)
    keywords = [keyword.value for keyword in call.keywords if keyword.arg == "configs"]
    arguments = [*keywords, *call.args[:1]]
    if not arguments:
        raise CannotKeepError(f"`{function}` has no `@triton.autotune` on its lines")
    return arguments[0]


def _autotune_call(text: str, function: str, line: int | None = None) -> ast.Call:
    """The call that decorates a function; `line` is that of its `def`, None for the only one of the name."""
    try:
        tree = parse_python(text)
    except SyntaxError:
        raise CannotKeepError("the file does not parse") from None
    named = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and node.name == function and line in (None, node.lineno)
    ]
    for decorator in named[0].decorator_list if len(named) == 1 else ():
        if isinstance(decorator, ast.Call) and ast.unparse(decorator.func).rpartition(".")[2] == "autotune":
            return decorator
    raise CannotKeepError(f"`{function}` has no `@triton.autotune` on its lines")


def _imports_triton(text: str) -> bool:
    tree = parse_python(text)
    return any(
        isinstance(node, ast.Import)
        and any(alias.name == "triton" and alias.asname in (None, "triton") for alias in node.names)
        for node in ast.walk(tree)
    )


def applied(text: str, edit: DecoratorEdit) -> str:
    """Return the text with an edit."""
    lines = text.encode("utf-8", "surrogatepass").splitlines(keepends=True)
    before = b"".join(lines[: edit.line - 1]) + lines[edit.line - 1][: edit.column]
    after = lines[edit.end_line - 1][edit.end_column :] + b"".join(lines[edit.end_line :])
    whole = before + edit.text.encode("utf-8", "surrogatepass") + after
    return whole.decode("utf-8", "surrogatepass")
