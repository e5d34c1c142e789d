"""The line of the user's that gives a guarded value another one: an assignment, or the step of a scheduler.

Invariant: only the files of the call are read, and a line is named only if it is the only one that can be meant. What a
constructor assigns is the first value, not a change.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from fuselight.shared.foreign_data import parse_python
from fuselight.shared.report import GuardFailure, Location, Recompile
from fuselight_server.explain.findings.common.context import Context
from fuselight_server.explain.findings.common.text import plain

_LAST_PART = re.compile(r"(?:\.(?P<attribute>\w+)|\['(?P<key>\w+)'\])(?:\[\d+\])?$")
_SETTING = re.compile(r"\bparam_groups\[\d+\]\['(?P<name>\w+)'\]")
_CYCLIC = frozenset({"OneCycleLR", "CyclicLR"})
"""Schedulers that set the momentum too."""
_SET_BY_ALL = frozenset({"lr"})


@dataclass(frozen=True)
class ValueWrite:
    """A line that writes a guarded value."""

    place: Location
    by_scheduler: bool = False


_Place = tuple[int, int, int, int]


@dataclass(frozen=True)
class _Assigned:
    """An assignment of an attribute or a key."""

    name: str
    place: _Place
    owner: str = ""
    """The class whose methods' first parameter has the attribute; empty for attributes of other variables."""


@dataclass(frozen=True)
class _Writes:
    """What the code of one file writes, with the places."""

    assigned: tuple[_Assigned, ...]
    steps: tuple[tuple[str, _Place], ...]
    """Classes of the schedulers whose `step` is called."""
    bases: tuple[tuple[str, frozenset[str]], ...]
    """Each class, with the names of its bases."""

    def is_of_another(self, assigned: _Assigned, owner: str) -> bool:
        """Whether an attribute is one of objects of a class that `owner`, if it is known, has nothing to do with."""
        bases = dict(self.bases)
        if "Function" in bases.get(assigned.owner, ()):  # its first parameter is a context of autograd's
            return True
        if not assigned.owner or owner not in bases:
            return False
        return assigned.owner not in _above(bases, owner) and owner not in _above(bases, assigned.owner)


def write_of(context: Context, recompilation: Recompile, failure: GuardFailure) -> ValueWrite | None:
    """The only line in the files of the call that writes the guarded value; None where it is not certain."""
    part = _LAST_PART.search(failure.source)
    if part is None:
        return None
    name = part["attribute"] or part["key"]
    writes = [
        ValueWrite(Location(path, *place), by_scheduler)
        for path in _files(context, recompilation)
        for place, by_scheduler in _places(
            _writes(context.text_of(path)), name, failure.source, _owner(recompilation, failure.source)
        )
    ]
    return writes[0] if len({(item.place.path, item.place.line) for item in writes}) == 1 else None


def _files(context: Context, recompilation: Recompile) -> dict[str, None]:
    places = (*recompilation.caller, recompilation.location, context.target_location())
    return dict.fromkeys(place.path for place in places if context.is_user_file(place.path))


def _owner(recompilation: Recompile, source: str) -> str:
    """The class that has a guarded attribute, if it is one of the compiled method's own object."""
    is_own = re.fullmatch(r"self\.\w+", source) is not None
    return plain(recompilation.function).rpartition(".")[0].rpartition(".")[2] if is_own else ""


def _places(writes: _Writes, name: str, source: str, owner: str) -> Iterator[tuple[_Place, bool]]:
    setting = _SETTING.search(source)
    if setting is not None:
        name = setting["name"]
    for written in writes.assigned:
        if written.name == name and not writes.is_of_another(written, owner):
            yield written.place, False
    for kind, place in writes.steps:
        if setting is not None and (name in _SET_BY_ALL or kind in _CYCLIC):
            yield place, True


@functools.lru_cache(maxsize=32)
def _writes(text: str) -> _Writes:
    try:
        return _writes_of(parse_python(text))
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # a sum of a thousand terms is as deep
        return _Writes((), (), ())


def _writes_of(tree: ast.Module) -> _Writes:
    schedulers = dict(_schedulers(tree))
    owners = dict(_owners(tree))
    assigned, steps = [], []
    for node in _outside_of_constructors(tree):
        place = (
            getattr(node, "lineno", 0),
            getattr(node, "col_offset", 0),
            getattr(node, "end_lineno", 0),
            getattr(node, "end_col_offset", 0),
        )
        assigned += [_Assigned(name, place, owners.get(item, "")) for name, item in _names_assigned(node)]
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "step":
            kind = schedulers.get(ast.unparse(node.func.value))
            steps += [(kind, place)] if kind else []
    bases = (
        (node.name, frozenset(ast.unparse(base).rpartition(".")[2] for base in node.bases))
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    )
    return _Writes(tuple(assigned), tuple(steps), tuple(bases))


def _owners(tree: ast.Module) -> Iterator[tuple[ast.AST, str]]:
    """Each attribute of a method's first parameter, with the class."""
    for owner in ast.walk(tree):
        for method in owner.body if isinstance(owner, ast.ClassDef) else ():
            if isinstance(method, ast.FunctionDef) and method.args.args:
                first = method.args.args[0].arg
                for node in ast.walk(method):
                    if (
                        isinstance(node, ast.Attribute)
                        and isinstance(node.value, ast.Name)
                        and node.value.id == first
                    ):
                        yield node, owner.name if isinstance(owner, ast.ClassDef) else ""


def _above(bases: Mapping[str, frozenset[str]], name: str) -> set[str]:
    """A class and those of the file that it inherits from."""
    classes, left = set[str](), [name]
    while left:
        name = left.pop()
        if name not in classes:
            classes.add(name)
            left.extend(bases.get(name, ()))
    return classes


def _outside_of_constructors(tree: ast.AST) -> Iterator[ast.AST]:
    for node in ast.iter_child_nodes(tree):
        if not (isinstance(node, ast.FunctionDef) and node.name == "__init__"):
            yield node
            yield from _outside_of_constructors(node)


def _names_assigned(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """Names of the attributes and keys that a statement assigns, with their expressions."""
    if isinstance(node, ast.Assign):
        targets = node.targets
    elif isinstance(node, (ast.AugAssign, ast.AnnAssign, ast.For)):
        targets = [node.target]
    else:
        return
    for target in targets:
        for item in target.elts if isinstance(target, (ast.Tuple, ast.List)) else [target]:
            if isinstance(item, ast.Attribute):
                yield item.attr, item
            elif isinstance(item, ast.Subscript) and isinstance(item.slice, ast.Constant):
                yield str(item.slice.value), item


def _schedulers(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """The variables that hold a scheduler of torch's, with its class."""
    imported = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == "torch.optim.lr_scheduler"
        for alias in node.names
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            kind = ast.unparse(node.value.func)
            if kind in imported or "lr_scheduler." in kind:
                for target in node.targets:
                    yield ast.unparse(target), kind.rpartition(".")[2]
