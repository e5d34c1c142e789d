"""The line that called a compiled function, where torch's log leaves that frame out.

torch takes the stack of a compile without its two innermost frames (before 2.9: one). Of a module these are torch's
own. Of a function that is compiled itself, one of them is the user's: the log ends on the line that called the caller.
The source decides which line that is, if the functions that this line calls have one call of the compiled function.
Invariant: a line is given only if no other line of the file can be meant.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from fuselight.shared.foreign_data import try_parse_python
from fuselight.shared.report import Location

_Function = (ast.FunctionDef, ast.AsyncFunctionDef)
_MAX_LINES = 100_000


@dataclass(frozen=True)
class _CallingFunction:
    """A function and its calls: the names that are called, with their lines."""

    name: str
    calls: tuple[tuple[str, int], ...]


@dataclass
class FileCalls:
    """The calls of one file, by line and by function."""

    by_line: dict[int, set[str]] = field(default_factory=dict)
    functions: list[_CallingFunction] = field(default_factory=list)
    compiled: dict[str, set[str]] = field(default_factory=dict)
    """The names that `name = torch.compile(function)` gives a function."""


def read_calls(lines: Sequence[str]) -> FileCalls:
    """The calls of a file; none of one that does not parse."""
    calls = FileCalls()
    if len(lines) > _MAX_LINES:
        return calls
    tree = try_parse_python("\n".join(lines))
    if tree is None:
        return calls
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            for line in {node.lineno, node.func.end_lineno or node.lineno}:
                calls.by_line.setdefault(line, set()).add(_name(node.func))
        elif isinstance(node, _Function):
            calls.functions.append(_CallingFunction(node.name, tuple(_calls_in(node))))
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            names = {_name(target) for target in node.targets}
            for argument in node.value.args[: _name(node.value.func) == "compile"]:
                calls.compiled.setdefault(_name(argument), set()).update(names)
    return calls


def _calls_in(function: ast.AST) -> Iterator[tuple[str, int]]:
    """The calls in the body of a function, without those of functions in it."""
    waiting = list(ast.iter_child_nodes(function))
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Call):
            yield _name(node.func), node.func.end_lineno or node.lineno
        if not isinstance(node, (*_Function, ast.Lambda)):
            waiting += ast.iter_child_nodes(node)


def _name(node: ast.AST) -> str:
    """The last part of a dotted name; empty for all else."""
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def left_out_caller(calls: FileCalls, logged: Location, function: str) -> Location | None:
    """The line that calls `function`, in a function that the last logged line calls; None if it is not certain.

    None as well if the logged line calls it itself.
    """
    wanted = {function, *calls.compiled.get(function, ())} - {""}
    names = calls.by_line.get(logged.line, set())
    if names & wanted:
        return None
    lines = {
        (caller.name, line)
        for caller in calls.functions
        if caller.name in names
        for name, line in caller.calls
        if name in wanted
    }
    if len(lines) != 1 or sum(caller.name in names for caller in calls.functions) != 1:
        return None
    ((name, line),) = lines
    return Location(logged.path, line, function=name)
