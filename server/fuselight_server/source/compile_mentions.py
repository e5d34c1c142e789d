"""Where a file calls torch's compiler, whatever it compiles: in a loop, in a function, an attribute, a list.

Invariant: reads the text alone. `targets.py` names what is compiled; this finds the calls that no name stands for. A
call counts as torch's by its name or by its arguments: `re.compile(...)` and `model.compile(optimizer=...)` are others.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator
from dataclasses import dataclass

from fuselight.shared.foreign_data import parse_python
from fuselight_server.source.syntax import COMPILE_KEYWORDS

_TORCH = "torch"
_OTHERS = frozenset({"re", "regex", "sre_compile", "builtins"})
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_ACTIONS = (ast.For, ast.While, ast.With)


@dataclass(frozen=True)
class CompileMentions:
    """The calls of torch's compiler in one file."""

    lines: tuple[int, ...] = ()
    """1-based, in order."""
    action_line: int | None = None
    """The first statement of the file itself that is more than a definition, an import or an assignment of a value
    that no call makes: what runs when the file does. None: it only defines."""
    is_reached: bool = False
    """Whether one of `lines` is outside of every function: importing the file compiles."""


def compile_mentions(text: str) -> CompileMentions:
    """The mentions of a text; none where it does not parse."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)  # the user's text
            tree = parse_python(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return CompileMentions()
    action = next((statement.lineno for statement in tree.body if _acts(statement)), None)
    if "compile" not in text:
        return CompileMentions(action_line=action)
    torch_names, compilers = _imported_names(tree)
    mentions = list(_mentions(tree, torch_names, compilers))
    lines = tuple(sorted({line for line, _ in mentions}))
    return CompileMentions(lines, action, any(not inside for _, inside in mentions))


def _acts(statement: ast.stmt) -> bool:
    """Whether a statement at the top of a file does something when the file runs."""
    if isinstance(statement, _ACTIONS):
        return True
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call)


def _imported_names(tree: ast.Module) -> tuple[set[str], set[str]]:
    """The names of torch, and of torch.compile, in a file."""
    modules, compilers = {_TORCH}, set[str]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules |= {name.asname for name in node.names if name.name == _TORCH and name.asname}
        elif isinstance(node, ast.ImportFrom) and node.module == _TORCH:
            compilers |= {name.asname or name.name for name in node.names if name.name == "compile"}
    return modules, compilers


def _mentions(tree: ast.Module, modules: set[str], compilers: set[str]) -> Iterator[tuple[int, bool]]:
    """The line of each mention, and whether a function is around it."""
    waiting: list[tuple[ast.AST, bool]] = [(tree, False)]
    while waiting:
        node, inside = waiting.pop()
        if _is_mention(node, modules, compilers):
            yield getattr(node, "lineno", 1), inside
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            waiting.extend((expression, inside) for expression in node.decorator_list)
            waiting.extend((statement, True) for statement in node.body)
        else:
            within = inside or isinstance(node, _FUNCTIONS)
            waiting.extend((child, within) for child in ast.iter_child_nodes(node))


def _is_mention(node: ast.AST, modules: set[str], compilers: set[str]) -> bool:
    if isinstance(node, ast.Name):
        return node.id in compilers
    if isinstance(node, ast.Attribute) and node.attr == "compile":
        return isinstance(node.value, ast.Name) and node.value.id in modules
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or node.args:
        return False
    owner = node.func.value
    is_other = isinstance(owner, ast.Name) and owner.id in _OTHERS
    keywords = {keyword.arg for keyword in node.keywords}
    return node.func.attr == "compile" and not is_other and keywords <= COMPILE_KEYWORDS
