"""Programs of a workspace that build or call a class or function: what a target without inputs can get them from.

Invariant: nothing is run. The number and the sizes of the files that are read are bounded, links are not followed, and
a file that does not parse has no program. A program that is found by name alone may turn out to make no call: running
it tells.
"""

from __future__ import annotations

import ast
import itertools
import os
import re
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from fuselight.shared.foreign_data import parse_python
from fuselight.shared.foreign_files import read_regular
from fuselight.shared.notebooks.cells import SUFFIX
from fuselight.shared.notebooks.module_text import module_of_notebook
from fuselight_server.base.files import walk_sources
from fuselight_server.source.class_sources import dotted_name
from fuselight_server.source.imported_classes import module_files

_MAX_FILES = 3000
_MAX_PARSED = 120
_LARGEST = 500_000
_MAX_BYTES = 30_000_000
_ROUNDS = 3
"""A program may call a function that calls a function that builds the class."""
_MAX_BUILDERS = 20
_TEST = re.compile(r"(?:test_.*|.*_test)\.py$")


@dataclass(frozen=True)
class InputProgram:
    """A program that gives a target's inputs, once it runs."""

    path: str
    line: int
    """1-based: the first call of the target, else where it is built, or handed to what builds it."""
    calls: bool
    """Whether the file itself calls the target."""
    kind: str
    """`script`, `test` or `notebook`."""

    @property
    def name(self) -> str:
        """The file's name."""
        return os.path.basename(self.path)  # noqa: PTH119 - paths stay text


@dataclass(frozen=True)
class _Wanted:
    """A name of a module: the target, or what builds it."""

    path: str
    name: str


@dataclass(frozen=True)
class _File:
    path: str
    tree: ast.Module

    @property
    def kind(self) -> str:
        if self.path.endswith(SUFFIX):
            return "notebook"
        return "test" if _TEST.match(os.path.basename(self.path)) else "script"  # noqa: PTH119 - paths stay text


@dataclass(frozen=True)
class _Uses:
    """What a file does with what is wanted."""

    calls: tuple[int, ...]
    """Lines."""
    builds: tuple[int, ...]
    builders: tuple[str, ...]
    """Functions and classes at the top of the file in which it is built."""
    at_top: bool
    """Whether the file builds or calls it when it is imported or run, or has a `__main__` block."""


def find_programs(
    path: str, name: str, folders: Sequence[str], *, is_function: bool = False
) -> tuple[InputProgram, ...]:
    """Return the programs in `folders` that may call the target `name` of the file `path`, the best first.

    First those that call it themselves: scripts, then tests, then notebooks. Then those that build it, or call what
    builds it. The nearest file comes first.
    """
    sources = _Sources(path, folders)
    wanted = [_Wanted(path, name.partition(".")[0])]
    seen: set[_Wanted] = set(wanted)
    programs: dict[str, tuple[int, InputProgram]] = {}
    for distance in range(_ROUNDS):
        builders: list[_Wanted] = []
        for wanted_name in wanted:
            for file in sources.mentioning(wanted_name):
                uses = _uses(file, wanted_name)
                if uses is None:
                    continue
                if is_function and not distance:
                    uses = replace(uses, calls=uses.builds)
                for program in _programs(file, uses, calls=not distance):
                    programs.setdefault(file.path, (distance, program))
                builders += [_Wanted(file.path, builder) for builder in uses.builders]
        if any(program.calls for _, program in programs.values()):
            break  # those of further rounds come after them
        wanted = [builder for builder in dict.fromkeys(builders) if builder not in seen][:_MAX_BUILDERS]
        seen.update(wanted)
    ranked = sorted(programs.values(), key=lambda item: _rank(path, *item))
    return tuple(program for _, program in ranked)


def _rank(path: str, distance: int, program: InputProgram) -> tuple[object, ...]:
    kinds = ("script", "test", "notebook")
    away = len(Path(os.path.relpath(program.path, Path(path).parent)).parts)
    return (not program.calls, distance, kinds.index(program.kind), away, program.path)


class _Sources:
    """The files of the workspace, each read once."""

    def __init__(self, path: str, folders: Sequence[str]) -> None:
        self._texts = dict(_texts(path, folders))
        self._parsed: dict[str, _File | None] = {}

    def mentioning(self, wanted: _Wanted) -> Iterator[_File]:
        """Yield the files with the name in their text, and that of a module that has it."""
        modules = "|".join(re.escape(place.name) for place in _places(wanted.path))
        word = re.compile(rf"\b{re.escape(wanted.name)}\b")
        module = re.compile(
            rf"^[ \t]*(?:from|import)\b.*(?:\b(?:{modules})\b|\.[ \t]*import\b)", re.MULTILINE
        )
        for path, text in self._texts.items():
            if word.search(text) and module.search(text):
                file = self._file(path, text)
                if file is not None:
                    yield file

    def _file(self, path: str, text: str) -> _File | None:
        if path not in self._parsed and len(self._parsed) < _MAX_PARSED:
            tree = _parse(text)
            self._parsed[path] = _File(path, tree) if tree is not None else None
        return self._parsed.get(path)


def _texts(path: str, folders: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The texts of the Python files and notebooks, but for that of the target."""
    size = 0
    files = (file for folder in dict.fromkeys(folders) for file in _files(folder))
    for file in itertools.islice(dict.fromkeys(files), _MAX_FILES):
        if file == path:
            continue
        try:
            data = read_regular(file, _LARGEST, follow_link=False)
        except OSError:
            continue
        size += len(data)
        if size > _MAX_BYTES:
            return
        text = data.decode("utf-8-sig", "replace")
        try:
            yield file, module_of_notebook(text) if file.endswith(SUFFIX) else text
        except ValueError:  # no notebook
            continue


def _files(folder: str) -> Iterator[str]:
    for parent, names in walk_sources(Path(folder)):
        yield from (str(parent / name) for name in names if name.endswith((".py", SUFFIX)))


def _parse(text: str) -> ast.Module | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the user's escapes
            return parse_python(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _programs(file: _File, uses: _Uses, *, calls: bool) -> Iterator[InputProgram]:
    lines = uses.calls or uses.builds
    if not lines or (file.kind == "script" and not uses.at_top):
        return
    yield InputProgram(file.path, min(lines), calls and bool(uses.calls), file.kind)


def _uses(file: _File, wanted: _Wanted) -> _Uses | None:
    """What a file does with `wanted`; None where it does not import it."""
    aliases = frozenset(_aliases(file, wanted))
    calls = [node for node in ast.walk(file.tree) if isinstance(node, ast.Call)] if aliases else []
    builds = [node for node in calls if _builds(node, aliases)]
    if not builds:
        return None
    held = frozenset(_held(file.tree, builds))
    nodes = [node for node in calls if dotted_name(node.func) in held or _is_built(node.func, builds)]
    statements = file.tree.body
    at_top = any(
        _is_main(statement)
        or (not isinstance(statement, _DEFINITIONS) and _holds(statement, [*builds, *nodes]))
        for statement in statements
    )
    builders = [
        statement.name
        for statement in statements
        if isinstance(statement, _DEFINITIONS) and _holds(statement, builds)
    ]
    lines = [[node.lineno for node in nodes] for nodes in (nodes, builds)]
    return _Uses(tuple(lines[0]), tuple(lines[1]), tuple(builders), at_top)


_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def _is_built(function: ast.expr, builds: Iterable[ast.Call]) -> bool:
    """Whether what is called is an object just built, as in `Net()(x)` and `compile(Net().eval())(x)`."""
    return isinstance(function, ast.Call) and _holds(function, builds)


def _holds(node: ast.expr | ast.stmt, calls: Iterable[ast.Call]) -> bool:
    """Whether one of the calls stands in a node."""
    start, end = _range(node)
    return any(start <= first and last <= end for first, last in map(_range, calls))


def _range(node: ast.expr | ast.stmt) -> tuple[tuple[int, int], tuple[int, int]]:
    return (node.lineno, node.col_offset), (node.end_lineno or 0, node.end_col_offset or 0)


def _is_main(statement: ast.stmt) -> bool:
    """Whether a statement is `if __name__ == "__main__":`."""
    if not isinstance(statement, ast.If) or not isinstance(statement.test, ast.Compare):
        return False
    sides = (statement.test.left, *statement.test.comparators)
    return any(isinstance(expression, ast.Name) and expression.id == "__name__" for expression in sides)


def _builds(node: ast.Call, aliases: frozenset[str]) -> bool:
    """Whether a call is of what is wanted, or of a constructor of it such as `Net.from_pretrained`."""
    name = dotted_name(node.func)
    return name in aliases or name.rpartition(".")[0] in aliases


def _held(tree: ast.Module, builds: Sequence[ast.Call]) -> Iterator[str]:
    """Names to which an expression is assigned that builds it, as `model` and `self.model`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            targets: list[ast.expr] = node.targets
        elif isinstance(node, (ast.AnnAssign, ast.NamedExpr)):
            targets = [node.target]
        else:
            continue
        if node.value is not None and _holds(node.value, builds):
            yield from filter(None, map(dotted_name, targets))


def _aliases(file: _File, wanted: _Wanted) -> Iterator[str]:
    """The names by which a file knows what is wanted."""
    for node in ast.walk(file.tree):
        if isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            between = "." if module.strip(".") else ""
            for name in node.names:
                if name.name in {wanted.name, "*"} and _may_name(file.path, module, wanted):
                    yield name.asname or wanted.name
                elif _may_name(file.path, f"{module}{between}{name.name}", wanted):
                    yield f"{name.asname or name.name}.{wanted.name}"
        elif isinstance(node, ast.Import):
            for name in node.names:
                if _may_name(file.path, name.name, wanted):
                    yield f"{name.asname or name.name}.{wanted.name}"


def _may_name(importer: str, module: str, wanted: _Wanted) -> bool:
    """Whether `module`, as a file imports it, may be the wanted file, or a package around it that exports its names."""
    places = _places(wanted.path)
    written = module.lstrip(".")
    dots = len(module) - len(written)
    parts = written.split(".") if written else []
    if dots:
        parents = Path(importer).parents
        if dots > len(parents):
            return False
        return parents[dots - 1].joinpath(*parts) in places
    if not parts:
        return False
    nearest = next((file for file in module_files(Path(importer), module) if file.is_file()), None)
    if nearest is not None:
        return (nearest.parent if nearest.name == "__init__.py" else nearest.with_suffix("")) in places
    # Installed, or found by a path that only the program knows.
    return any(place.parts[-len(parts) :] == tuple(parts) for place in places)


def _places(path: str) -> list[Path]:
    """The wanted file as a module, and the packages around it."""
    file = Path(path)
    places = [file.with_suffix("")] if file.name != "__init__.py" else []
    folder = file.parent
    while (folder / "__init__.py").is_file() and folder.parent != folder:
        places.append(folder)
        folder = folder.parent
    return places
