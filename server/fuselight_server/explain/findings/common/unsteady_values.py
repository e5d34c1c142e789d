"""Values that are others in each call: those of a clock, of a source of random numbers, of an object's address.

Invariant: the statement that assigns such a value calls its source, or the value has many digits and never repeated.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import re
from collections.abc import Iterator

from fuselight.shared.foreign_data import parse_python
from fuselight.shared.report import GuardCause, GuardFailure, Recompile
from fuselight_server.explain.findings.common.context import Context
from fuselight_server.explain.findings.common.value_writes import write_of

_IN_EACH_CALL = " has another value in each call"
_IS_ANOTHER = " is another in each call"
_SOURCES = re.compile(
    r"(?:time\.(?:time|perf_counter|monotonic|process_time|thread_time)(?:_ns)?"
    r"|(?:datetime\.)*(?:datetime|date)\.(?:now|utcnow|today)"
    r"|(?:numpy\.)?random\.(?!seed$|default_rng$)[a-z]\w*"
    r"|secrets\.\w+|uuid\.uuid\d|os\.(?:urandom|times)|id)$"
)
"""Functions, by the names that they have in their modules."""
_CALL = re.compile(r"`([\w.]+)\(")
_VALUES = frozenset({GuardCause.NUMBER, GuardCause.VALUE, GuardCause.RELATION})
_LONG = re.compile(r"-?\d[\d.]{11,}$")
_MANY = 3


@dataclasses.dataclass(frozen=True)
class _ValueSources:
    """What a file says of sources of such values."""

    origins: dict[str, str]
    """What its names are that were imported: `clock` -> `time.perf_counter`."""
    assigned: tuple[tuple[str, int, int], ...]
    """Variables that get a value of a source, with the first and the last line of their function."""
    lines: frozenset[int]
    """Those of the assignments."""

    def is_source(self, function: str) -> bool:
        first, dot, rest = function.partition(".")
        return _SOURCES.match(f"{self.origins.get(first, first)}{dot}{rest}") is not None


def without_unsteady_value(context: Context, recompilation: Recompile, failure: GuardFailure) -> GuardFailure:
    """The failure; that of an unsteady value says that it differs in each call, and shows no value."""
    if failure.cause not in _VALUES or not failure.source or failure.was is None or failure.now is None:
        return failure
    if not _has_source(context, recompilation, failure) and not _never_repeats(
        context, recompilation, failure
    ):
        return failure
    words = _IS_ANOTHER if failure.source.startswith("the value of ") else _IN_EACH_CALL
    return dataclasses.replace(failure, difference=f"{failure.source}{words}")


def is_unsteady(failure: GuardFailure) -> bool:
    """Whether a failure in the user's words is of a value that differs in each call."""
    return failure.difference.endswith((_IN_EACH_CALL, _IS_ANOTHER))


def _has_source(context: Context, recompilation: Recompile, failure: GuardFailure) -> bool:
    """Whether the value is the result of a source, or what assigns it calls one."""
    at = recompilation.location
    code = _read(context.text_of(at.path))
    called = _CALL.search(failure.source)
    if called is not None:
        return code.is_source(called[1])
    if failure.source.isidentifier():
        return any(name == failure.source and first <= at.line <= last for name, first, last in code.assigned)
    write = write_of(context, recompilation, failure)
    return write is not None and write.place.line in _read(context.text_of(write.place.path)).lines


def _never_repeats(context: Context, recompilation: Recompile, failure: GuardFailure) -> bool:
    """Whether a number of many digits, as an address or a time, was another one at each of several compiles."""
    place = recompilation.function, recompilation.location, failure.source
    changes = context.value_changes.get(place, [])
    values = {value for change in changes for value in change}
    return _MANY <= len(values) == len(changes) + 1 and all(map(_LONG.match, values))


@functools.lru_cache(maxsize=8)
def _read(text: str) -> _ValueSources:
    try:
        tree = parse_python(text)
        code = _ValueSources(dict(_imports(tree)), (), frozenset())
        assignments = list(_assignments(tree, code))
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # a sum of a thousand terms is as deep
        return _ValueSources({}, (), frozenset())
    variables = tuple((name, first, last) for name, _, first, last in assignments)
    return dataclasses.replace(code, assigned=variables, lines=frozenset(line for _, line, *_ in assignments))


def _imports(tree: ast.AST) -> Iterator[tuple[str, str]]:
    for node in ast.walk(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            module = f"{node.module}." if isinstance(node, ast.ImportFrom) and node.module else ""
            for alias in node.names:
                yield alias.asname or alias.name, f"{module}{alias.name}"


def _assignments(
    node: ast.AST, code: _ValueSources, first: int = 1, last: int = 0
) -> Iterator[tuple[str, int, int, int]]:
    """The names of statements that assign a value of a source: name, line, lines of the function."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
            start = min([child.lineno, *(part.lineno for part in child.decorator_list)])
            yield from _assignments(child, code, start, child.end_lineno or start)
            continue
        value = getattr(child, "value", None)
        if isinstance(child, (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.NamedExpr)) and any(
            isinstance(part, ast.Call) and code.is_source(ast.unparse(part.func))
            for part in (ast.walk(value) if value is not None else ())
        ):
            targets = child.targets if isinstance(child, ast.Assign) else [child.target]
            for target in targets:
                for item in target.elts if isinstance(target, (ast.Tuple, ast.List)) else [target]:
                    yield ast.unparse(item), child.lineno, first, last
        yield from _assignments(child, code, first, last)
