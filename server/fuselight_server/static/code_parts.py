"""The code of a file by definition: functions without the functions in them, and the statements of module and classes.

Invariant: two texts have equal parts where they differ only in comments, blank lines, docstrings, annotations of
parameters, and positions. Pure; the standard library's parser reads the text.
"""

from __future__ import annotations

import ast
import collections
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fuselight_server.static.chunks import Memory, cut

if TYPE_CHECKING:
    from collections.abc import Iterator

AnyFunction = ast.FunctionDef | ast.AsyncFunctionDef

LOCALS = ".<locals>."
_BOM = b"\xef\xbb\xbf"
_DEFINED = re.compile(rb"^(?:def|class|async[ \t]+def)[ \t]+(\w+)", re.MULTILINE)


class UnreadableError(Exception):
    """A text does not parse."""


@dataclass(frozen=True)
class FunctionPart:
    """One definition of a function; two are equal where their code is."""

    name: str
    """Qualified name, as `Net.forward` or `outer.<locals>.inner`."""
    of_class: str
    """Qualified name of the class whose method it is; empty for none."""
    first: int = field(compare=False)
    """Line of its `def`, 1-based."""
    last: int = field(compare=False)
    signature: str
    """Its parameters with their defaults, and whether it is a coroutine."""
    decorators: str
    body: tuple[str, ...]
    """Its statements, without the bodies of functions in it."""
    inner: tuple[str, ...]
    """The bodies of the functions in it."""
    statements: tuple[ast.stmt, ...] = field(compare=False)
    names: frozenset[str] = field(compare=False)
    """Names that it reads, with those that functions in it read."""
    attributes: frozenset[str] = field(compare=False)
    """Names of attributes that it reads, of whatever object."""
    parameters: tuple[str, ...] = field(compare=False)


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
    try:
        return _parts(old, same.copy()), _parts(new, same)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return _whole(ran), _whole(now)  # what looks like two statements may be one


def bindings(statement: ast.stmt) -> tuple[set[str], set[str]]:
    """Return the names and the attributes that a statement may bind or change."""
    names: set[str] = set()
    attributes: set[str] = set()
    for node in ast.walk(statement):
        if isinstance(node, ast.Name) and isinstance(node.ctx, (ast.Store, ast.Del)):
            names.add(node.id)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            names |= {one.asname or one.name.partition(".")[0] for one in node.names}
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, (ast.Attribute, ast.Subscript)) and isinstance(node.ctx, (ast.Store, ast.Del)):
            if isinstance(node, ast.Attribute):
                attributes.add(node.attr)
            names |= {one.id for one in ast.walk(node.value) if isinstance(one, ast.Name)}
    return names, attributes


def _chunks(text: bytes) -> list[tuple[bytes, int]]:
    """Return the top-level statements of a text with the line on which each starts."""
    data = text.removeprefix(_BOM).replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    found, line = [], 1
    for piece in cut(data, Memory()):
        found.append((piece.rstrip(), line))
        line += piece.count(b"\n")
    return found


def _parts(chunks: list[tuple[bytes, int]], leave_out: collections.Counter[bytes]) -> CodeParts:
    parts = CodeParts()
    for data, line in chunks:
        if leave_out[data] > 0:
            leave_out[data] -= 1
            parts.left_out.update(name.decode() for name in _DEFINED.findall(data))
        else:
            tree = _parse(data)
            ast.increment_lineno(tree, line - 1)
            _Collector(parts).module(tree.body)
    return parts


def _whole(text: bytes) -> CodeParts:
    parts = CodeParts()
    try:
        _Collector(parts).module(_parse(text.removeprefix(_BOM)).body)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise UnreadableError(str(error)) from None
    return parts


def _parse(data: bytes) -> ast.Module:
    return ast.parse(
        data.decode("utf-8", "surrogatepass")
    )  # as text: a declared encoding is that of the file


class _Collector:
    """Collects definitions, and empties the body of each function once it is collected."""

    def __init__(self, parts: CodeParts) -> None:
        self._parts = parts

    def module(self, body: list[ast.stmt]) -> None:
        self._scope(body, "", in_function=False)

    def _scope(self, body: list[ast.stmt], owner: str, *, in_function: bool) -> None:
        """Collect what the body of the module, of a class or of a function defines; functions keep their statements."""
        prefix = f"{owner}{LOCALS}" if in_function else f"{owner}." if owner else ""
        for statement in body:
            self._definitions(statement, prefix, "" if in_function else owner)
            if not in_function and not isinstance(
                statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
            ):
                self._parts.statements[owner].append(statement)

    def _definitions(self, statement: ast.stmt, prefix: str, owner: str) -> None:
        for node in _nearest_definitions(statement):
            name = prefix + node.name
            if isinstance(node, ast.ClassDef):
                header = (*node.bases, *node.keywords, *node.decorator_list)
                self._parts.headers[name].append((" ".join(map(_dump, header)), node.lineno))
                self._scope(node.body, name, in_function=False)
                node.body = [
                    one for one in node.body if not isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef))
                ]
            else:
                self._function(node, name, owner)

    def _function(self, node: AnyFunction, name: str, owner: str) -> None:
        names = frozenset(one.id for one in ast.walk(node) if isinstance(one, ast.Name))
        attributes = frozenset(one.attr for one in ast.walk(node) if isinstance(one, ast.Attribute))
        body = _without_docstring(node.body)
        self._scope(body, name, in_function=True)
        inner = tuple(
            text
            for key, found in self._parts.functions.items()
            if key.startswith(f"{name}{LOCALS}")
            for one in found
            for text in one.body
        )
        self._parts.functions[name].append(
            FunctionPart(
                name=name,
                of_class=owner,
                first=node.lineno,
                last=node.end_lineno or node.lineno,
                signature=_signature(node),
                decorators=" ".join(map(_dump, node.decorator_list)),
                body=tuple(map(_dump, body)),
                inner=inner,
                statements=tuple(body),
                names=names,
                attributes=attributes,
                parameters=tuple(one.arg for one in ast.walk(node.args) if isinstance(one, ast.arg)),
            )
        )
        node.body = []


def _nearest_definitions(statement: ast.stmt) -> Iterator[AnyFunction | ast.ClassDef]:
    """Yield the functions and classes that a statement defines, without those inside of them."""
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        yield statement
        return
    for node in ast.iter_child_nodes(statement):
        if isinstance(node, ast.stmt):
            yield from _nearest_definitions(node)
        elif isinstance(node, (ast.ExceptHandler, ast.match_case)):
            for one in node.body:
                yield from _nearest_definitions(one)


def _without_docstring(body: list[ast.stmt]) -> list[ast.stmt]:
    first = body[0] if body else None
    is_docstring = (
        isinstance(first, ast.Expr)
        and isinstance(first.value, ast.Constant)
        and isinstance(first.value.value, str)
    )
    return body[1:] if is_docstring else body


def _signature(node: AnyFunction) -> str:
    for one in ast.walk(node.args):
        if isinstance(one, ast.arg):
            one.annotation, one.type_comment = None, None
    node.returns = None
    return f"{type(node).__name__} {_dump(node.args)}"


def _dump(node: ast.AST) -> str:
    return ast.dump(node)
