"""Code objects for the functions of an edited file, without running any statement of it.

Invariant: only what a function does when it is called is taken from the edited text. What is decided when a `def` or
`class` statement runs (decorators, defaults, the classes, all other statements of the module) stays as the run made it.
"""

from __future__ import annotations

import ast
import builtins
import copy
import functools
import inspect
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from types import CodeType
from typing import Any

from fuselight.capture.calls.devices import redirect_devices
from fuselight.shared.notebooks.cells import SUFFIX
from fuselight.shared.notebooks.run_selection import parse_cells

_BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")
_CALLED_LATER = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
Function = ast.FunctionDef | ast.AsyncFunctionDef


class NotApplicableError(Exception):
    """A function of the edited text cannot take the place of the one that ran. `reason` is of `RETRACE_REASONS`."""

    def __init__(self, reason: str, why: str) -> None:
        super().__init__(why)
        self.reason = reason


@dataclass(frozen=True)
class FunctionText:
    """A `def` statement."""

    name: str
    """Qualified name, as `Net.forward` and `outer.<locals>.inner`."""
    node: Function
    around: tuple[ast.stmt, ...]
    """The statements around it, the outermost first."""

    @property
    def first(self) -> int:
        """1-based line of its first decorator, else of its `def`: where its code object says that it starts."""
        return min([self.node.lineno, *(expression.lineno for expression in self.node.decorator_list)])


class ParsedFile:
    """The text of a file, parsed. Raises SyntaxError, and ValueError for a text with null characters."""

    def __init__(self, text: str, path: str) -> None:
        self.path = path
        self.lines = text.split("\n")
        self.tree = parse_cells(text) if path.endswith(SUFFIX) else ast.parse(text, path)
        self.functions: dict[str, list[FunctionText]] = {}
        for function in _functions(self.tree.body, "", ()):
            self.functions.setdefault(function.name, []).append(function)

    def source(self, function: FunctionText) -> list[str]:
        """The lines of a function, its decorators included."""
        return self.lines[function.first - 1 : function.node.end_lineno]

    def compiled(self, functions: Iterable[FunctionText], *, redirect: bool) -> dict[int, CodeType]:
        """Compile functions, by the identity of their nodes, with what surrounds them but nothing else of the file."""
        functions = list(functions)
        if redirect and any("cuda" in line or "triton" in line for line in self.lines):
            redirect_devices(self.tree, self.path)
        future = [
            statement
            for statement in self.tree.body
            if isinstance(statement, ast.ImportFrom) and statement.module == "__future__"
        ]
        body = [*future, *_pruned(functions)]
        module = compile(ast.Module(body, []), self.path, "exec", dont_inherit=True)
        codes: dict[tuple[str, int], CodeType] = {}
        _collect(module, codes)
        return {
            id(function.node): code
            for function in functions
            if (code := codes.get((function.node.name, function.first))) is not None
        }

    @functools.cached_property
    def bound(self) -> set[str]:
        """The names that statements of the module bind."""
        return {name for statement in _statements(self.tree.body) for name in _bound(statement)}


def check_replaceable(old: FunctionText, new: FunctionText) -> None:
    """Raise NotApplicableError if the new `def` statement makes another kind of function than the old one."""
    before, after = old.node.args, new.node.args
    if _parameters(before) != _parameters(after):
        raise NotApplicableError("signature", "its parameters changed: callers pass other arguments")
    if _dump(_defaults(before)) != _dump(_defaults(after)):
        raise NotApplicableError(
            "defaults", "a default of a parameter changed, which is set when the file runs"
        )
    if _dump(old.node.decorator_list) != _dump(new.node.decorator_list):
        raise NotApplicableError("decorators", "its decorators changed, which act when the file runs")
    if type(old.node) is not type(new.node):
        raise NotApplicableError("kind", "it became a coroutine, or is one no longer")


def check_code(old: CodeType, new: CodeType, available: Iterable[str]) -> None:
    """Raise NotApplicableError if `new` cannot run in the place of `old`, with the `available` closure variables."""
    if (old.co_flags ^ new.co_flags) & _CALLED_LATER:
        raise NotApplicableError("kind", "it became a generator, or is one no longer")
    lacking = [name for name in new.co_freevars if name not in available]
    if lacking:
        raise NotApplicableError(
            "closure", f"it uses `{lacking[0]}` of the function around it, which it did not use before"
        )


def unknown_globals(code: CodeType, names: dict[str, Any]) -> Iterator[str]:
    """Name the globals that a code object, or one inside it, uses and that do not exist."""
    for name in code.co_names:
        if name not in names and not hasattr(builtins, name):
            yield name
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from unknown_globals(constant, names)


def uses_global(code: CodeType, name: str) -> bool:
    """Whether a code object loads `name` as a global: `co_names` has the names of attributes too."""
    import dis  # noqa: PLC0415 - for an error alone

    return any(
        instruction.argval == name and instruction.opname.startswith("LOAD_GLOBAL")
        for instruction in dis.get_instructions(code)
    ) or any(uses_global(constant, name) for constant in code.co_consts if isinstance(constant, CodeType))


def moved(code: CodeType, lines: int) -> CodeType:
    """The same code, `lines` further down in its file."""
    constants = tuple(
        moved(constant, lines) if isinstance(constant, CodeType) else constant for constant in code.co_consts
    )
    return code.replace(co_firstlineno=code.co_firstlineno + lines, co_consts=constants)


def _functions(body: Iterable[Any], prefix: str, around: tuple[ast.stmt, ...]) -> Iterator[FunctionText]:
    for node in body:
        inside = (*around, node)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            name = prefix + node.name
            yield FunctionText(name, node, around)
            yield from _functions(node.body, f"{name}.<locals>.", inside)
        elif isinstance(node, ast.ClassDef):
            yield from _functions(node.body, f"{prefix}{node.name}.", inside)
        else:
            for block in _BLOCKS:
                yield from _functions(getattr(node, block, ()), prefix, inside)


def _pruned(functions: Iterable[FunctionText]) -> Iterator[ast.stmt]:
    """The outermost statements with these functions; of a class, no other statement."""
    for function in functions:
        node: ast.stmt = function.node
        for outer in reversed(function.around):
            if isinstance(outer, ast.ClassDef):
                inside, node = node, copy.copy(outer)
                node.body = [inside]
            else:
                node = outer
        yield node


def _collect(code: CodeType, codes: dict[tuple[str, int], CodeType]) -> None:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            codes.setdefault((constant.co_name, constant.co_firstlineno), constant)
            _collect(constant, codes)


def _statements(body: Iterable[Any]) -> Iterator[ast.stmt]:
    for node in body:
        yield node
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            for block in _BLOCKS:
                yield from _statements(getattr(node, block, ()))


def _bound(node: ast.stmt) -> set[str]:
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return {node.name}
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return {alias.asname or alias.name.partition(".")[0] for alias in node.names}
    return {
        node.id for node in ast.walk(node) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }


def _parameters(arguments: ast.arguments) -> tuple[object, ...]:
    lists = (arguments.posonlyargs, arguments.args, arguments.kwonlyargs)
    stars = (arguments.vararg, arguments.kwarg)
    return (
        *(tuple(name.arg for name in names) for names in lists),
        *(argument and argument.arg for argument in stars),
        len(arguments.defaults),
        tuple(default is None for default in arguments.kw_defaults),
    )


def _defaults(arguments: ast.arguments) -> list[ast.expr]:
    return [
        *arguments.defaults,
        *(expression for expression in arguments.kw_defaults if expression is not None),
    ]


def _dump(nodes: Iterable[ast.AST]) -> list[str]:
    return [ast.dump(node) for node in nodes]
