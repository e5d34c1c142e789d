"""The `@triton.autotune` decorators of a text: where their configurations stand, and the text with only some of them.

Invariant: a configuration that the text lists stays as it is written; all else of the text stays, too.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fuselight.shared.foreign_data import parse_python

if TYPE_CHECKING:
    from collections.abc import Sequence


class CannotKeepError(Exception):
    """The configurations cannot be replaced; the message says why."""


@dataclass(frozen=True)
class ConfigurationsEdit:
    """New text for a part of a file. Lines are 1-based, columns 0-based UTF-8 bytes."""

    line: int
    column: int
    end_line: int
    end_column: int
    text: str


def keep_configurations(
    text: str, function: str, line: int, kept: Sequence[int], texts: Sequence[str]
) -> ConfigurationsEdit:
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
    if argument.end_lineno is None or argument.end_col_offset is None:
        raise CannotKeepError("Python does not say where the configurations end")
    return ConfigurationsEdit(
        argument.lineno,
        argument.col_offset,
        argument.end_lineno,
        argument.end_col_offset,
        f"[{', '.join(parts)}]",
    )


def _configs_argument(text: str, function: str, line: int) -> ast.expr:
    try:
        tree = parse_python(text)
    except SyntaxError:
        raise CannotKeepError("the file does not parse") from None
    named = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and node.name == function and node.lineno == line
    ]
    for decorator in named[0].decorator_list if named else ():
        if isinstance(decorator, ast.Call) and ast.unparse(decorator.func).rpartition(".")[2] == "autotune":
            keywords = [keyword.value for keyword in decorator.keywords if keyword.arg == "configs"]
            arguments = [*keywords, *decorator.args[:1]]
            if arguments:
                return arguments[0]
    raise CannotKeepError(f"`{function}` has no `@triton.autotune` on its lines")


def _imports_triton(text: str) -> bool:
    tree = parse_python(text)
    return any(
        isinstance(node, ast.Import)
        and any(alias.name == "triton" and alias.asname in (None, "triton") for alias in node.names)
        for node in ast.walk(tree)
    )


def applied(text: str, edit: ConfigurationsEdit) -> str:
    """Return the text with an edit."""
    lines = text.encode("utf-8", "surrogatepass").splitlines(keepends=True)
    before = b"".join(lines[: edit.line - 1]) + lines[edit.line - 1][: edit.column]
    after = lines[edit.end_line - 1][edit.end_column :] + b"".join(lines[edit.end_line :])
    whole = before + edit.text.encode("utf-8", "surrogatepass") + after
    return whole.decode("utf-8", "surrogatepass")
