"""The code of a file by definition: functions without the functions in them, and the statements of module and classes.

Invariant: two texts have equal parts where they differ only in comments, blank lines, docstrings, annotations of
parameters, and positions. Pure; the standard library's parser reads the text.
"""

from __future__ import annotations

import ast
import collections
import copy
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

from fuselight.shared.foreign_data import parse_python
from fuselight_server.source.chunks import Memory, cut

AnyFunction = ast.FunctionDef | ast.AsyncFunctionDef

LOCALS = ".<locals>."
_BOM = b"\xef\xbb\xbf"
_GOES_ON = (b"@", b"from")
"""Beginnings of lines at which a statement may go on that looks complete."""
_MAX_JOINED = 4
"""Chunks before or after another one with which it is parsed: a file may have hundreds that begin so."""
_DEFINED = re.compile(rb"^(?:def|class|async[ \t]+def)[ \t]+(\w+)", re.MULTILINE)


class UnreadableError(Exception):
    """A text does not parse."""


class FunctionPart:
    """One definition of a function; two are equal where their code is. What its source shows is computed when asked."""

    def __init__(self, node: AnyFunction, name: str, of_class: str, source: bytes) -> None:
        self.name = name
        """Qualified name, as `Net.forward` or `outer.<locals>.inner`."""
        self.of_class = of_class
        """Qualified name of the class whose method it is; empty for none."""
        self.first, self.last = node.lineno, node.end_lineno or node.lineno
        """Line of its `def`, 1-based, and its last line."""
        self._node, self._source = node, source

    def __eq__(self, other: object) -> bool:
        """Whether the code is equal: the lines, else the syntax."""
        if not isinstance(other, FunctionPart):
            return NotImplemented
        return self._source == other._source or (self.has_same_frame(other) and self.inner == other.inner)

    __hash__ = None  # type: ignore[assignment]  # parts are compared, not collected

    def has_same_frame(self, other: FunctionPart) -> bool:
        """Whether nothing but the bodies of functions inside differs."""
        return (self.signature, self.decorators, self.body) == (
            other.signature,
            other.decorators,
            other.body,
        )

    @cached_property
    def statements(self) -> tuple[ast.stmt, ...]:
        """Its statements, without its docstring and without the bodies of functions in it."""
        body = copy.deepcopy(_without_docstring(self._node.body))
        for node in (node for statement in body for node in ast.walk(statement)):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                node.body = []
        return tuple(body)

    @cached_property
    def body(self) -> tuple[str, ...]:
        """Its statements as text that can be compared."""
        return tuple(map(ast.dump, self.statements))

    @cached_property
    def inner(self) -> tuple[str, ...]:
        """The bodies of the functions in it."""
        return tuple(
            ast.dump(statement)
            for node in ast.walk(self._node)
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node is not self._node
            for statement in _without_docstring(node.body)
        )

    @cached_property
    def signature(self) -> str:
        """Its parameters with their defaults, and whether it is a coroutine."""
        arguments = copy.deepcopy(self._node.args)
        for node in ast.walk(arguments):
            if isinstance(node, ast.arg):
                node.annotation, node.type_comment = None, None
        return f"{type(self._node).__name__} {ast.dump(arguments)}"

    @cached_property
    def decorators(self) -> str:
        """Its decorators."""
        return " ".join(map(ast.dump, self._node.decorator_list))

    @cached_property
    def names(self) -> frozenset[str]:
        """Names that it reads, with those that functions in it read."""
        return frozenset(node.id for node in ast.walk(self._node) if isinstance(node, ast.Name))

    @cached_property
    def attributes(self) -> frozenset[str]:
        """Names of attributes that it reads, of whatever object."""
        return frozenset(node.attr for node in ast.walk(self._node) if isinstance(node, ast.Attribute))

    @cached_property
    def parameters(self) -> tuple[str, ...]:
        """Names of its parameters."""
        return tuple(node.arg for node in ast.walk(self._node.args) if isinstance(node, ast.arg))


@dataclass
class CodeParts:
    """What a text, or a part of one, defines."""

    functions: dict[str, list[FunctionPart]] = field(default_factory=lambda: collections.defaultdict(list))
    """By qualified name, in the order of the text: a name may be defined several times."""
    statements: dict[str, list[ast.stmt]] = field(default_factory=lambda: collections.defaultdict(list))
    """By class; those of the module under the empty name. Without definitions."""
    headers: dict[str, list[tuple[str, int]]] = field(default_factory=lambda: collections.defaultdict(list))
    """By class: its bases and decorators, and its line."""
    left_out: set[str] = field(default_factory=set)
    """Names that top-level statements define which are left out, as both texts have them."""


def changed_parts(ran: bytes, now: bytes) -> tuple[CodeParts, CodeParts]:
    """Return the parts of two texts in UTF-8, without those top-level statements that both have.

    Raises UnreadableError where a text does not parse.
    """
    old, new = _chunks(ran), _chunks(now)
    same = collections.Counter(data for data, _ in old) & collections.Counter(data for data, _ in new)
    # The text now first: it may be half-typed, and parsing the other one would be in vain.
    now_parts = _parts(new, same.copy())
    return _parts(old, same), now_parts


def bindings(statement: ast.stmt) -> tuple[set[str], set[str]]:
    """Return the names and the attributes that a statement may bind or change."""
    names: set[str] = set()
    attributes: set[str] = set()
    for node in ast.walk(statement):
        if isinstance(node, ast.Name) and isinstance(node.ctx, (ast.Store, ast.Del)):
            names.add(node.id)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            names |= {name.asname or name.name.partition(".")[0] for name in node.names}
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, (ast.Attribute, ast.Subscript)) and isinstance(node.ctx, (ast.Store, ast.Del)):
            if isinstance(node, ast.Attribute):
                attributes.add(node.attr)
            names |= {node.id for node in ast.walk(node.value) if isinstance(node, ast.Name)}
    return names, attributes


def _chunks(text: bytes) -> list[tuple[bytes, int]]:
    """Return the top-level statements of a text with the line on which each starts."""
    chunks, line = [], 1
    for piece in cut(_with_line_feeds(text), Memory()):
        chunks.append((piece.rstrip(), line))
        line += piece.count(b"\n")
    return chunks


def _parts(chunks: list[tuple[bytes, int]], leave_out: collections.Counter[bytes]) -> CodeParts:
    """The parts of a text. Raises UnreadableError."""
    parts = CodeParts()
    parsed = 0
    """Chunks up to which all is collected: some are parsed together with their neighbors."""
    for index, (data, _) in enumerate(chunks):
        if leave_out[data] > 0:
            leave_out[data] -= 1
            parts.left_out.update(name.decode() for name in _DEFINED.findall(data))
        elif index >= parsed:
            parsed = _collect(parts, chunks, index)
    return parts


def _collect(parts: CodeParts, chunks: list[tuple[bytes, int]], index: int) -> int:
    """Collect a chunk, with its neighbors if it does not parse by itself; returns the number of the next chunk."""
    first, following = index, index + 1
    try:
        tree = _parse(*chunks[index])
    except UnreadableError:
        first, following = _statement_around(chunks, index)
        if following - first == 1:
            raise
        tree = _parse(_joined(chunks[first:following]), chunks[first][1])
    data = _joined(chunks[first:following])
    _Collector(parts, data, chunks[first][1]).collect(tree.body, "", in_function=False)
    return following


def _statement_around(chunks: list[tuple[bytes, int]], index: int) -> tuple[int, int]:
    """The chunks that may be one statement with the one that does not parse by itself: its first, and past its last.

    In brackets a line may begin with the operator `@`, or with `from` after `yield`, and is cut off there.
    """
    first, last = index, index
    while first > 0 and index - first < _MAX_JOINED and chunks[first][0].startswith(_GOES_ON):
        first -= 1
    while last + 1 < len(chunks) and last - index < _MAX_JOINED and chunks[last + 1][0].startswith(_GOES_ON):
        last += 1
    return first, last + 1


def _joined(chunks: list[tuple[bytes, int]]) -> bytes:
    """Chunks as one, each on its lines."""
    start, text = chunks[0][1], b""
    for data, line in chunks:
        text += b"\n" * (line - start - text.count(b"\n")) + data
    return text


def _parse(data: bytes, line: int) -> ast.Module:
    """The syntax of a chunk that starts on `line` of its file. Raises UnreadableError."""
    text = data.decode("utf-8", "surrogatepass")  # as text: a declared encoding is that of the file
    try:
        return parse_python("\n" * (line - 1) + text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise UnreadableError(str(error)) from None


def _with_line_feeds(text: bytes) -> bytes:
    return text.removeprefix(_BOM).replace(b"\r\n", b"\n").replace(b"\r", b"\n")


class _Collector:
    """Collects the definitions of one part of a text, which starts on `line`."""

    def __init__(self, parts: CodeParts, data: bytes, line: int) -> None:
        self._parts = parts
        self._lines, self._line = data.split(b"\n"), line

    def collect(self, body: list[ast.stmt], owner: str, *, in_function: bool) -> None:
        """Collect what the body of the module, of a class or of a function defines; functions keep their statements."""
        prefix = f"{owner}{LOCALS}" if in_function else f"{owner}." if owner else ""
        for statement in body:
            for node in _nearest_definitions(statement):
                self._definition(node, prefix + node.name, "" if in_function else owner)
            is_definition = isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
            if not in_function and not is_definition:
                self._parts.statements[owner].append(_without_bodies(statement))

    def _definition(self, node: AnyFunction | ast.ClassDef, name: str, owner: str) -> None:
        if isinstance(node, ast.ClassDef):
            header = (*node.bases, *node.keywords, *node.decorator_list)
            self._parts.headers[name].append((" ".join(map(ast.dump, header)), node.lineno))
            self.collect(node.body, name, in_function=False)
            return
        first = min([node.lineno, *(expression.lineno for expression in node.decorator_list)])
        lines = self._lines[first - self._line : (node.end_lineno or node.lineno) + 1 - self._line]
        self._parts.functions[name].append(FunctionPart(node, name, owner, b"\n".join(lines)))
        self.collect(node.body, name, in_function=True)


def _without_bodies(statement: ast.stmt) -> ast.stmt:
    """Return a statement without the bodies of functions in it, which are compared by themselves."""
    if not any(True for _ in _nearest_definitions(statement)):
        return statement
    statement = copy.deepcopy(statement)
    for node in ast.walk(statement):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            node.body = []
    return statement


def _nearest_definitions(statement: ast.stmt) -> Iterator[AnyFunction | ast.ClassDef]:
    """Yield the functions and classes that a statement defines, without those inside of them."""
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        yield statement
        return
    for field_name in ("body", "orelse", "finalbody", "handlers", "cases"):
        for node in getattr(statement, field_name, ()):
            if isinstance(node, ast.stmt):
                yield from _nearest_definitions(node)
            else:  # a handler or a case
                for value in node.body:
                    yield from _nearest_definitions(value)


def _without_docstring(body: list[ast.stmt]) -> list[ast.stmt]:
    first = body[0] if body else None
    is_docstring = (
        isinstance(first, ast.Expr)
        and isinstance(first.value, ast.Constant)
        and isinstance(first.value.value, str)
    )
    return body[1:] if is_docstring else body
