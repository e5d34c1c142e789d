"""Classes of the workspace as they are written, and the files that their names lead to.

Invariant: nothing is run, and nothing is evaluated. Each file is read once for one answer.
"""

from __future__ import annotations

import ast
import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fuselight.shared.foreign_data import parse_python
from fuselight.shared.foreign_files import read_regular
from fuselight_server.source.imported_classes import module_files

_HOPS = 4
"""Files that one name is followed through."""
_MAX_BASES = 10
"""Classes above a class that are looked through: some that are being edited are bases of each other."""
_MAX_STEPS = 5_000
"""Objects that are built and methods that are entered for one answer, some 0.1 s: classes that build or call each other
several times would take exponentially many."""
_LARGEST = 1_000_000
"""Bytes of a file that is read."""


@dataclass(frozen=True)
class ClassSource:
    """A class and the file that it is in."""

    node: ast.ClassDef
    file: FileSource

    def method(self, name: str) -> ast.FunctionDef | None:
        """A method, also of a base class of the workspace."""
        definition = self.definition_of(name)
        return definition[1] if definition is not None else None

    def definition_of(self, name: str, depth: int = _MAX_BASES) -> tuple[ClassSource, ast.FunctionDef] | None:
        """A method and the class that defines it: this one, or a base class of the workspace."""
        for statement in self.node.body:
            if isinstance(statement, ast.FunctionDef) and statement.name == name:
                return self, statement
        return self.inherited(name, depth)

    def inherited(self, name: str, depth: int = _MAX_BASES) -> tuple[ClassSource, ast.FunctionDef] | None:
        """What `super()` in this class leads to: a method, and the base class of the workspace that defines it."""
        for base in self.node.bases if depth else ():
            source = self.file.find_class(base)
            if source is not None and source.node is not self.node:
                definition = source.definition_of(name, depth - 1)
                if definition is not None:
                    return definition
        return None

    @property
    def is_dataclass(self) -> bool:
        """Whether its fields are the parameters of its constructor."""
        names = (
            dotted_name(expression.func if isinstance(expression, ast.Call) else expression)
            for expression in self.node.decorator_list
        )
        return any(name.rpartition(".")[2] in {"dataclass", "define", "frozen"} for name in names) or any(
            dotted_name(base).rpartition(".")[2] in {"NamedTuple", "BaseModel"} for base in self.node.bases
        )

    def first_member(self) -> str:
        """The first member of an enumeration; empty for another class."""
        bases = {dotted_name(base).rpartition(".")[2] for base in self.node.bases}
        if bases.isdisjoint({"Enum", "StrEnum", "IntEnum", "Flag", "IntFlag"}):
            return ""
        assigned = (statement.targets[0] for statement in self.node.body if isinstance(statement, ast.Assign))
        return next((expression.id for expression in assigned if isinstance(expression, ast.Name)), "")

    def fields(self) -> Iterator[tuple[str, ast.expr | None, ast.expr]]:
        """Name, default and annotation of each annotated attribute of its body."""
        for statement in self.node.body:
            if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                yield statement.target.id, statement.value, statement.annotation


@dataclass
class AnswerBounds:
    """What the files of one answer share: each is read once, however they import each other."""

    files: dict[Path, FileSource | None] = field(default_factory=dict)
    steps: int = 0

    def take_step(self) -> bool:
        """Whether one more object may be built, or one more method entered."""
        self.steps += 1
        return self.steps <= _MAX_STEPS


class FileSource:
    """One file: its classes, the names that it imports, what its names are assigned."""

    def __init__(self, path: str, statements: Iterable[ast.stmt], bounds: AnswerBounds | None = None) -> None:
        self.path = path
        self.bounds = AnswerBounds() if bounds is None else bounds
        self.bounds.files[Path(path)] = self
        self.classes: dict[str, ClassSource] = {}
        self.imported: dict[str, str] = {}
        """Names to what they stand for: `.config.Config`, `torch.nn`."""
        self.assignments: list[tuple[str, ast.expr]] = []
        """Names of the module and what they are assigned, in their order."""
        self.constants: dict[str, Any] | None = None
        """Values of the assignments; None until one is asked for."""
        self.statements = tuple(statements)
        for statement in self.statements:
            with contextlib.suppress(RecursionError):
                self._read(statement)

    def _read(self, statement: ast.stmt) -> None:
        if isinstance(statement, ast.ClassDef):
            self.classes[statement.name] = ClassSource(statement, self)
        elif isinstance(statement, ast.ImportFrom):
            module = "." * statement.level + (statement.module or "")
            between = "." if module.strip(".") else ""
            for alias in statement.names:
                self.imported[alias.asname or alias.name] = f"{module}{between}{alias.name}"
        elif isinstance(statement, ast.Import):
            for alias in statement.names:
                name = alias.asname or alias.name.partition(".")[0]
                self.imported[name] = alias.name if alias.asname else name
        elif isinstance(statement, ast.Assign) and len(statement.targets) == 1:
            target = statement.targets[0]
            if isinstance(target, ast.Name):
                self.assignments.append((target.id, statement.value))

    def find_class(self, node: ast.expr | str, hops: int = _HOPS) -> ClassSource | None:
        """The class of the workspace that an expression names."""
        name = node if isinstance(node, str) else dotted_name(node)
        if name in self.classes:
            return self.classes[name]
        first, _, rest = name.partition(".")
        full = self.imported.get(first)
        if full is None or not hops:
            return None
        module, _, last = (f"{full}.{rest}" if rest else full).rpartition(".")
        if not module or module.partition(".")[0] == "torch":
            return None
        if not module.strip("."):
            module = module or "."
        file = self._file(module)
        return file.find_class(last, hops - 1) if file is not None else None

    def _file(self, module: str) -> FileSource | None:
        files = self.bounds.files
        for path in module_files(Path(self.path), module):
            if path not in files:
                files[path] = None
                statements = _statements(path)
                if statements is not None:
                    FileSource(str(path), statements, self.bounds)
            if files[path] is not None:
                return files[path]
        return None


def _statements(path: Path) -> list[ast.stmt] | None:
    try:
        return parse_python(read_regular(path, _LARGEST)).body
    except (OSError, ValueError, SyntaxError, RecursionError, MemoryError):
        return None


def file_source(path: str, chunks: Iterable[str]) -> FileSource:
    """Read a file from its top-level statements; those that do not parse are left out."""
    statements: list[ast.stmt] = []
    for chunk in chunks:
        try:
            statements += parse_python(chunk).body
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
    return FileSource(path, statements)


def dotted_name(node: ast.AST) -> str:
    """`a.b.c`; of a string, the name in it; empty for any other expression."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    parts = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else ""


def super_call(statement: ast.stmt, method: str) -> ast.Call | None:
    """The call of `super().<method>(...)` that a statement is."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
        return None
    owner = call.func.value
    is_super = isinstance(owner, ast.Call) and dotted_name(owner.func) == "super"
    return call if is_super and call.func.attr == method else None
