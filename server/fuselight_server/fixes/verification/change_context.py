"""What a change depends on besides its inputs: names that the changed code reads, and values that the workspace shows.

Invariant: source is read, never run, and nothing here decides: the worker tries the values in both texts. A text that
does not parse shows nothing.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fuselight.shared.foreign_data import parse_python, try_parse_python
from fuselight.shared.protocol import NameInUse
from fuselight_server.source.line_map import LineMap

_MAX_NAMES = 48
_MAX_VALUES = 8
"""Values of one name."""
_MAX_FILES = 40
"""Files of the workspace that are read for values."""
_MAX_CHARACTERS = 200_000
"""Of one file."""
_SIZES = range(3, 4097)
"""Numbers that may be sizes."""
_MAX_STEPS = 8
"""Assignments that a changed line depends on, one after the other."""
_DIRECTIVE = re.compile(r"#\s*fuselight:\s*(.*)")
_SETTING = re.compile(
    r"""^\s*["']?(\w+)["']?\s*[:=]\s*(true|false|null|none|-?\d+(?:\.\d+)?|["'][\w.-]+["'])\s*,?\s*$""",
    re.MULTILINE | re.IGNORECASE,
)
_CONFIGURATIONS = (".json", ".yaml", ".yml", ".toml")
_WORDS = {"true": "True", "false": "False", "null": "None", "none": "None"}
_Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class ChangeContext:
    """What further calls of a change vary besides its inputs."""

    names: tuple[NameInUse, ...] = ()
    sizes: tuple[int, ...] = ()


def neighbors(paths: Iterable[str]) -> list[str]:
    """Files next to changed ones and in the folder above, which may call them with other values; no large ones."""
    shown: dict[str, None] = {}
    for path in paths:
        folder = Path(path).parent
        for place in (folder, folder.parent):
            suffixes = (".py", *_CONFIGURATIONS) if place == folder else (".py",)
            try:
                files = sorted(
                    file for file in place.iterdir() if file.suffix in suffixes and _is_small(file)
                )
            except OSError:
                continue
            shown.update({str(file): None for file in files})
    return [path for path in shown if path not in set(paths)][:_MAX_FILES]


def _is_small(file: Path) -> bool:
    """Whether it is a plain file that takes no time to read."""
    return file.is_file() and file.stat().st_size <= _MAX_CHARACTERS


def context_of(old: Mapping[str, str], new: Mapping[str, str], others: Mapping[str, str]) -> ChangeContext:
    """What the changed lines of both texts depend on. `others`: further files of the workspace, by path."""
    reads = _Reads()
    for path, text in new.items():
        before = old.get(path, "")
        for part, other in ((before, text), (text, before)):
            tree = try_parse_python(part)
            if tree is not None:
                lines = LineMap.between(other, part)
                count = part.count("\n") + 1
                reads.read_lines(tree, {line for line in range(1, count + 1) if not lines.then(line)})
    names = [*reads.changed, *(name for name in reads.near if name not in reads.changed)][:_MAX_NAMES]
    values = _Values(names)
    for path, text in [*old.items(), *new.items(), *others.items()]:  # first what defines parameters
        if len(text) > _MAX_CHARACTERS:
            continue
        if path.endswith(_CONFIGURATIONS):
            values.add_settings(text)
        elif (tree := try_parse_python(text)) is not None:
            values.read_tree(tree)
            values.add_directives(text)
    shown = {number for name in reads.changed for number in values.numbers(name)}
    return ChangeContext(
        tuple(
            NameInUse(name, values.of(name), name in reads.changed, name in reads.derived) for name in names
        ),
        tuple(sorted(reads.sizes | {number for number in shown if number in _SIZES})),
    )


class _Reads:
    """The names that changed lines depend on (`changed`), and those of the code around them (`near`)."""

    def __init__(self) -> None:
        self.changed: dict[str, None] = {}
        self.near: dict[str, None] = {}
        self.derived: set[str] = set()
        self.sizes: set[int] = set()

    def read_lines(self, tree: ast.Module, lines: set[int]) -> None:
        """Read what the changed lines of one text depend on."""
        changed = [node for node in ast.walk(tree) if getattr(node, "lineno", 0) in lines]
        names = dict.fromkeys(name for node in changed for name in _names_of(node))
        self.sizes |= set(_sizes_in(changed))
        functions = [node for node in ast.walk(tree) if isinstance(node, _Function)]
        touched = [
            function for function in functions if lines & set(range(function.lineno, _end(function) + 1))
        ]
        classes = [
            node
            for node in ast.walk(tree)
            if isinstance(node, ast.ClassDef) and any(function in node.body for function in touched)
        ]
        constructors = [function for node in classes for function in node.body if _is_constructor(function)]
        self._follow(names, [*touched, *constructors])
        self.changed.update(names)
        for part in (*touched, *constructors):
            self.near.update(dict.fromkeys(name for node in ast.walk(part) for name in _names_of(node)))
        parameters = {
            argument.arg
            for function in (*touched, *constructors)
            for node in ast.walk(function)
            if isinstance(node, ast.arguments)
            for argument in (*node.posonlyargs, *node.args, *node.kwonlyargs)
        }
        self.derived |= {
            name
            for name, values in _assigned([*touched, *constructors]).items()
            if all(_is_computed(value, parameters) for value in values)
        }

    def _follow(self, names: dict[str, None], functions: list[ast.stmt]) -> None:
        """Add what the names are computed of, in the changed functions and the constructors of their classes."""
        assigned = _assigned(functions)
        waiting = list(names)
        for _ in range(_MAX_STEPS):
            values = [value for name in waiting for value in assigned.get(name, ())]
            self.sizes |= {size for value in values for size in _sizes_in(ast.walk(value))}
            read = dict.fromkeys(name for value in values for name in _plain_names(value))
            waiting = [name for name in read if name not in names]
            names.update(dict.fromkeys(waiting))


def _is_computed(value: ast.expr, parameters: set[str]) -> bool:
    """Whether a value depends on parameters, and is not a parameter or a part of one itself."""
    is_copy = isinstance(value, (ast.Constant, ast.Name, ast.Attribute))
    return not is_copy and not parameters.isdisjoint(_plain_names(value))


def _is_constructor(statement: ast.stmt) -> bool:
    return isinstance(statement, _Function) and statement.name == "__init__"


def _end(node: ast.stmt) -> int:
    return node.end_lineno or node.lineno


def _sizes_in(nodes: Iterable[ast.AST]) -> Iterator[int]:
    """The numbers that may be sizes."""
    for node in nodes:
        value = node.value if isinstance(node, ast.Constant) else None
        if isinstance(value, int) and not isinstance(value, bool) and value in _SIZES:
            yield value


def _names_of(node: ast.AST) -> Iterator[str]:
    """The names that a node itself reads or defines."""
    if isinstance(node, ast.Name):
        yield node.id
    elif isinstance(node, ast.Attribute):
        yield node.attr
    elif isinstance(node, ast.arg):
        yield node.arg
    elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        yield from [node.slice.value] if isinstance(node.slice.value, str) else ()


def _plain_names(value: ast.expr) -> Iterator[str]:
    """The names in an expression."""
    for node in ast.walk(value):
        yield from _names_of(node)


def _assigned(functions: Iterable[ast.stmt]) -> dict[str, list[ast.expr]]:
    """What is assigned to each name, attribute and buffer."""
    assigned: dict[str, list[ast.expr]] = defaultdict(list)
    for function in functions:
        for node in ast.walk(function):
            if isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
                for name, value in _assignments(node):
                    assigned[name].append(value)
            elif isinstance(node, ast.Call) and len(node.args) > 1 and "register_" in ast.unparse(node.func):
                first = node.args[0]
                if isinstance(first, ast.Constant) and isinstance(first.value, str):
                    assigned[first.value].append(node.args[1])
    return assigned


def _assignments(node: ast.Assign | ast.AnnAssign | ast.AugAssign) -> Iterator[tuple[str, ast.expr]]:
    """The names and attributes that a statement assigns, each with its value."""
    for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
        if node.value is not None:
            yield from _unpacked(target, node.value)


def _unpacked(target: ast.expr, value: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(target, (ast.Tuple, ast.List)):
        is_pair = isinstance(value, (ast.Tuple, ast.List)) and len(value.elts) == len(target.elts)
        parts = (
            value.elts if is_pair and isinstance(value, (ast.Tuple, ast.List)) else [value] * len(target.elts)
        )
        for element, part in zip(target.elts, parts, strict=True):
            yield from _unpacked(element, part)
    elif isinstance(target, ast.Name):
        yield target.id, value
    elif isinstance(target, ast.Attribute):
        yield target.attr, value


class _Values:
    """The literals that texts show for names."""

    def __init__(self, names: Iterable[str]) -> None:
        self._values: dict[str, dict[str, None]] = {name: {} for name in names}
        self._parameters: dict[str, list[str]] = {}

    def of(self, name: str) -> tuple[str, ...]:
        """Those of a name."""
        return tuple(self._values.get(name, {}))[:_MAX_VALUES]

    def numbers(self, name: str) -> Iterator[int]:
        """The integers among them."""
        return (int(text) for text in self.of(name) if text.isdecimal())

    def add_settings(self, text: str) -> None:
        """Read `name: value` of a configuration."""
        for name, value in _SETTING.findall(text):
            self._put(name, _parsed_value(_WORDS.get(str(value).lower()) or str(value)))

    def add_directives(self, text: str) -> None:
        """Read the calls in comments."""
        for line in _DIRECTIVE.findall(text):
            tree = try_parse_python(line)
            if tree is not None:
                self.read_tree(tree)

    def read_tree(self, tree: ast.Module) -> None:
        """Read a text."""
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                constructor = next((part for part in node.body if _is_constructor(part)), None)
                if isinstance(constructor, _Function):
                    self._parameters[node.name] = [argument.arg for argument in constructor.args.args[1:]]
            elif isinstance(node, _Function):
                self._parameters.setdefault(node.name, [argument.arg for argument in node.args.args])
        for node in ast.walk(tree):
            self._add_node(node)

    def _add_node(self, node: ast.AST) -> None:
        if isinstance(node, ast.Call):
            called = next(_names_of(node.func), "")
            for parameter, value in zip(self._parameters.get(called, ()), node.args, strict=False):
                self._put(parameter, value)
        if isinstance(node, (ast.AnnAssign, ast.arg)) and node.annotation is not None:
            for name in [node.arg] if isinstance(node, ast.arg) else _names_of(node.target):
                self._put_literals(name, node.annotation)
        read = _READERS.get(type(node))
        for shown_name, shown in read(node) if read is not None else ():
            self._put(shown_name, shown)

    def _put_literals(self, name: str, annotation: ast.expr) -> None:
        """The values of `Literal["sum", "mean"]`."""
        for node in ast.walk(annotation):
            if isinstance(node, ast.Subscript) and ast.unparse(node.value).endswith("Literal"):
                self._put(name, node.slice)

    def _put(self, name: str | None, value: ast.expr | None) -> None:
        if name not in self._values or value is None:
            return
        for part in value.elts if isinstance(value, (ast.Tuple, ast.List, ast.Set)) else [value]:
            try:
                literal = ast.literal_eval(part)
            except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
                continue
            if literal is None or isinstance(literal, (bool, int, float, str)):
                self._values[name][repr(literal)] = None


_Shown = Iterable[tuple[str | None, ast.expr | None]]


def _of_call(node: ast.Call) -> _Shown:
    return ((keyword.arg, keyword.value) for keyword in node.keywords)


def _of_function(node: _Function) -> _Shown:
    arguments = [*node.args.posonlyargs, *node.args.args]
    for argument, value in zip(reversed(arguments), reversed(node.args.defaults), strict=False):
        yield argument.arg, value
    for argument, default in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True):
        yield argument.arg, default


def _of_comparison(node: ast.Compare) -> _Shown:
    return ((name, value) for name in _names_of(node.left) for value in node.comparators)


def _of_table(node: ast.Subscript) -> _Shown:
    """Of `{"relu": ...}[act]`."""
    if isinstance(node.value, ast.Dict):
        for name in _names_of(node.slice):
            for key in node.value.keys:
                yield name, key


def _of_match(node: ast.Match) -> _Shown:
    for name in _names_of(node.subject):
        for case in node.cases:
            for part in ast.walk(case.pattern):
                if isinstance(part, ast.MatchValue):
                    yield name, part.value


def _of_dict(node: ast.Dict) -> _Shown:
    for key, value in zip(node.keys, node.values, strict=True):
        if isinstance(key, ast.Constant) and isinstance(key.value, str):
            yield key.value, value


_READERS: dict[type[ast.AST], Callable[[Any], _Shown]] = {
    ast.Call: _of_call,
    ast.FunctionDef: _of_function,
    ast.AsyncFunctionDef: _of_function,
    ast.Assign: _assignments,
    ast.AnnAssign: _assignments,
    ast.Compare: _of_comparison,
    ast.Subscript: _of_table,
    ast.Match: _of_match,
    ast.Dict: _of_dict,
}
"""What each kind of node shows of the values of names."""


def _parsed_value(text: str) -> ast.expr | None:
    try:
        return parse_python(text, mode="eval").body
    except (SyntaxError, ValueError):
        return None
