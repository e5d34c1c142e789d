"""Which functions of a file an edit changed, and which of them can be traced again without importing the file again.

A process that has imported the file can get new code for a function; everything else stays as it was imported.
Invariant: a function is listed in `functions` only if nothing that it reads of the file has changed, as far as names
show. Every other change of code is a `DeferredChange`, in words.
"""

from __future__ import annotations

import ast
import collections
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from fuselight_server.source.code_parts import LOCALS, CodeParts, FunctionPart, bindings, changed_parts

_INIT = "__init__"
_REGISTERS = frozenset({"register_buffer", "register_parameter", "register_module", "add_module", "setattr"})
"""Calls that bind an attribute whose name is a string."""


@dataclass(frozen=True)
class ChangedFunction:
    """A function whose code has changed."""

    name: str
    """Qualified name, as `Net.forward` or `outer.<locals>.inner`."""
    first: int
    """Line of its `def`, 1-based."""
    last: int


@dataclass(frozen=True)
class DeferredChange:
    """A change of code that takes effect only in a new run."""

    what: str
    """What cannot be traced again, as `Net.forward`; empty for code of the module."""
    why: str
    line: int
    """1-based; where it is now, else where it was."""

    def __str__(self) -> str:
        """`Net.forward: its signature has changed`."""
        return f"{self.what}: {self.why}" if self.what else self.why


@dataclass(frozen=True)
class CodeChanges:
    """What differs between the text that ran and the text now."""

    functions: tuple[ChangedFunction, ...] = ()
    deferred: tuple[DeferredChange, ...] = ()

    def __bool__(self) -> bool:
        """Whether any code differs."""
        return bool(self.functions or self.deferred)


def code_changes(ran: bytes, now: bytes, traced: Collection[str]) -> CodeChanges:
    """Compare two texts of a file in UTF-8; `traced` names the functions that can be traced again.

    Raises UnreadableError where a text does not parse.
    """
    if ran == now:
        return CodeChanges()
    return _CodeComparison(*changed_parts(ran, now), traced).changes()


class _CodeComparison:
    """Compares the parts of two texts."""

    def __init__(self, old: CodeParts, new: CodeParts, traced: Collection[str]) -> None:
        self._old, self._new, self._traced = old, new, traced
        self._names: dict[str, str] = {}
        """Names that mean something else in the text now, and why."""
        self._attributes: dict[str, str] = {}
        self._everything = ""
        """Why no function can be traced again."""
        self._classes: dict[str, str] = {}
        """Why no method of a class can be."""
        self._needing_run: set[str] = set()
        self._deferred: list[DeferredChange] = []
        self._candidates: list[FunctionPart] = []

    def changes(self) -> CodeChanges:
        self._compare_module()
        for name in {**self._old.headers, **self._new.headers}:
            self._compare_class(name)
        for name in {**self._old.functions, **self._new.functions}:
            self._compare_function(name)
        self._leave_out()
        functions = tuple(
            ChangedFunction(candidate.name, candidate.first, candidate.last) for candidate in self._candidates
        )
        return CodeChanges(functions, tuple(dict.fromkeys(self._deferred)))

    # What is not a function

    def _compare_module(self) -> None:
        for statement in _difference(self._old.statements[""], self._new.statements[""]):
            if _is_main(statement):
                self._defer("", "the `__main__` block has changed", statement.lineno)
                continue
            what = _import_words(statement) or "code of the module"
            names, _ = bindings(statement)
            if _is_opaque(statement):
                self._everything = self._everything or f"{what} has changed"
            for name in names:
                self._names.setdefault(name, f"it uses `{name}`, which is changed outside of functions")
            self._defer("", f"{what} has changed", statement.lineno)

    def _compare_class(self, name: str) -> None:
        old, new = self._old.headers.get(name, []), self._new.headers.get(name, [])
        line = (new or old)[0][1]
        if [text for text, _ in old] != [text for text, _ in new]:
            why = "the class is new" if not old else "its bases or decorators have changed"
            self._classes[name] = why
            self._taint(name, f"it uses `{_last(name)}`, which needs a run")
            if old and new:
                self._defer(name, why, line)
        for statement in _difference(self._old.statements[name], self._new.statements[name]):
            if not isinstance(statement, ast.Pass):
                for bound in bindings(statement)[0]:
                    self._attributes.setdefault(bound, f"it uses `{bound}`, which is changed in `{name}`")
                if _is_opaque(statement):
                    self._classes.setdefault(name, "code of its class has changed")
                self._defer(name, "code of the class has changed", statement.lineno)

    # Functions

    def _compare_function(self, name: str) -> None:
        old, new = self._old.functions.get(name, []), self._new.functions.get(name, [])
        if old == new or (name not in self._traced and _only_inner_differ(old, new)):
            return
        why = self._why_not(old, new) if new else "it is gone"
        if why and self._is_made_by_a_trace(name):
            return
        if not new:
            self._taint(name, f"it uses `{_last(name)}`, which is gone")
            if name in self._traced:
                self._defer(name, "it was renamed or removed", old[-1].first)
            return
        now = new[-1]
        if not why:
            self._candidates.append(now)
            return
        self._taint(name, f"it uses `{_last(name)}`, which needs a run")
        if _last(name) == _INIT:
            self._compare_init(now, old[-1] if old else None)
        if old:
            self._defer(name, why, now.first)

    def _is_made_by_a_trace(self, name: str) -> bool:
        """Whether the function around one is traced again, which defines the inner one again."""
        around, _, own = name.rpartition(LOCALS)
        there = [len(parts.functions.get(around, ())) for parts in (self._old, self._new)]
        return around in self._traced and "." not in own and there == [1, 1]

    def _why_not(self, old: list[FunctionPart], new: list[FunctionPart]) -> str:
        """Say why a changed function cannot be traced again; empty if it can, as far as it shows by itself."""
        if not old:
            return "it is new"
        name, before, now = new[-1].name, old[-1], new[-1]
        is_ambiguous = len(old) > 1 or len(new) > 1 or name.partition(".")[0] in self._new.left_out
        reasons = {
            "it is defined more than once": is_ambiguous,
            "its decorators have changed": before.decorators != now.decorators,
            "its signature has changed": before.signature != now.signature,
            "it has changed": bool(now.of_class) and _last(name) == _INIT,
            "it was not traced in the last run": name not in self._traced,
        }
        return next((why for why, applies in reasons.items() if applies), "")

    def _compare_init(self, now: FunctionPart, before: FunctionPart | None) -> None:
        """Find the attributes that a changed `__init__` may set differently.

        Names are followed through the statements until none is added: `width = 2 * size` passes a changed `size` on. If
        a statement binds something that cannot be read, no method of the class can be traced again.
        """
        if before is None:
            self._classes.setdefault(now.of_class, "`__init__` is new")
            return
        changed = _difference(list(before.statements), list(now.statements))
        local = set(now.parameters[1:]) if before.signature != now.signature else set()
        attributes: set[str] = set()
        while True:
            more = [
                statement
                for statement in now.statements
                if statement not in changed
                and local & {at.id for at in ast.walk(statement) if isinstance(at, ast.Name)}
            ]
            bound = [_init_bindings(statement) for statement in (*changed, *more)]
            if any(pair is None for pair in bound):
                self._classes.setdefault(now.of_class, "`__init__` has changed")
                return
            names = set().union(*(pair[0] for pair in bound if pair)) - {*now.parameters[:1]}
            attributes = set().union(*(pair[1] for pair in bound if pair))
            if names <= local:
                break
            local |= names
        for attribute in attributes:
            why = f"it uses `{attribute}`, which `{now.name}` sets differently"
            self._attributes.setdefault(attribute, why)

    def _leave_out(self) -> None:
        """Leave out the functions that read what has changed; they have then changed for those that read them."""
        while True:
            out = {part.name: why for part in self._candidates if (why := self._why_left_out(part))}
            if not out:
                return
            for candidate in self._candidates:
                if candidate.name in out:
                    self._defer(candidate.name, out[candidate.name], candidate.first)
                    self._taint(candidate.name, f"it uses `{_last(candidate.name)}`, which needs a run")
            self._candidates = [part for part in self._candidates if part.name not in out]

    def _why_left_out(self, part: FunctionPart) -> str:
        if self._everything:
            return self._everything
        if part.of_class in self._classes:
            return self._classes[part.of_class]
        if any(part.name.startswith(f"{name}{LOCALS}") for name in self._needing_run):
            return "the function around it needs a run"
        names = sorted(part.names & self._names.keys())
        attributes = sorted(part.attributes & self._attributes.keys())
        return next((self._names[name] for name in names), "") or next(
            (self._attributes[name] for name in attributes), ""
        )

    def _taint(self, name: str, why: str) -> None:
        """Note that a function or class means something else now."""
        self._needing_run.add(name)
        if "." in name:
            self._attributes.setdefault(_last(name), why)
        if "." not in name or LOCALS in name:
            self._names.setdefault(_last(name), why)

    def _defer(self, what: str, why: str, line: int) -> None:
        self._deferred.append(DeferredChange(what, why, line))


def _only_inner_differ(old: list[FunctionPart], new: list[FunctionPart]) -> bool:
    """Whether nothing but functions inside differs, which are compared by themselves."""
    return len(old) == len(new) and all(a.has_same_frame(b) for a, b in zip(old, new, strict=True))


def _difference(old: Iterable[ast.stmt], new: Iterable[ast.stmt]) -> list[ast.stmt]:
    """Return the statements that only one of two bodies has: those of `new` first."""
    keyed_old, keyed_new = (
        [(ast.dump(statement), statement) for statement in body if not _says_nothing(statement)]
        for body in (old, new)
    )
    extra_new = collections.Counter(key for key, _ in keyed_new) - collections.Counter(
        key for key, _ in keyed_old
    )
    extra_old = collections.Counter(key for key, _ in keyed_old) - collections.Counter(
        key for key, _ in keyed_new
    )
    return [*_take(keyed_new, extra_new), *_take(keyed_old, extra_old)]


def _take(keyed: list[tuple[str, ast.stmt]], wanted: collections.Counter[str]) -> list[ast.stmt]:
    statements = []
    for key, statement in keyed:
        if wanted[key] > 0:
            wanted[key] -= 1
            statements.append(statement)
    return statements


def _says_nothing(statement: ast.stmt) -> bool:
    """Whether a statement has no effect, as a docstring."""
    is_text = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    return is_text or isinstance(statement, ast.Pass)


def _is_opaque(statement: ast.stmt) -> bool:
    """Whether a statement may change what it does not bind: a call whose result is dropped, a star import."""
    return any(
        (isinstance(node, ast.Expr) and not isinstance(node.value, ast.Constant))
        or (isinstance(node, ast.ImportFrom) and any(name.name == "*" for name in node.names))
        for node in ast.walk(statement)
    )


def _is_main(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.If) and "__name__" in {
        node.id for node in ast.walk(statement.test) if isinstance(node, ast.Name)
    }


def _import_words(statement: ast.stmt) -> str:
    return "an import" if isinstance(statement, (ast.Import, ast.ImportFrom)) else ""


def _init_bindings(statement: ast.stmt) -> tuple[set[str], set[str]] | None:
    """Return the names and attributes that a statement of `__init__` binds; None where that does not show."""
    names, attributes = bindings(statement)
    for node in ast.walk(statement):
        if isinstance(node, ast.Expr) and not isinstance(node.value, ast.Constant):
            bound = _registered(node.value)
            if bound is None:
                return None
            attributes |= bound
    return names, attributes


def _registered(value: ast.expr) -> set[str] | None:
    """Return the attributes that a call of `__init__` registers by name; None for a call of something else."""
    if not isinstance(value, ast.Call):
        return None
    called = value.func
    name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
    if name == _INIT:  # of a base class, without arguments
        return set() if not value.args and not value.keywords else None
    texts = {
        expression.value
        for expression in value.args
        if isinstance(expression, ast.Constant) and isinstance(expression.value, str)
    }
    return texts if name in _REGISTERS and texts else None


def _last(name: str) -> str:
    return name.rpartition(".")[2]
