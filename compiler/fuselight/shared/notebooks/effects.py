"""What a statement of a notebook does besides giving names values, by reading it.

Invariant: nothing runs and nothing is imported. A statement with an effect that is known by its name is left out of a
run; one that is not known is run, as it is when a file is imported.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

from fuselight.shared.codec import read_table

DOWNLOADS = "may download data"
TRAINS = "trains"
COMMAND = "is a command of IPython"
_WRITES = "writes a file"
_EFFECTS = read_table(dict[str, dict[str, tuple[str, ...]]], __file__)
_BY_NAME = {name: effect for effect, names in _EFFECTS["names"].items() for name in names}
"""What a call of a function does, by its dotted name or that of its module."""
_BY_METHOD = {name: effect for effect, names in _EFFECTS["methods"].items() for name in names}
"""What a method does, by its name, whatever the object."""
_TRAINER = "Trainer"
_STEP = "step"
_DOWNLOADING = ("download", "pretrained")
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_LOOPS = (ast.For, ast.AsyncFor, ast.While)


@dataclass
class EffectReader:
    """Reads statements in their order."""

    _modules: dict[str, str] = field(default_factory=dict)
    """What imported names stand for, as dotted names."""
    _functions: dict[str, str] = field(default_factory=dict)
    """Functions of the notebook that have an effect, and which."""
    _trainers: set[str] = field(default_factory=set)
    """Variables that hold an object of a class whose name ends in `Trainer`."""

    def effect(self, statement: ast.stmt) -> str | None:
        """What a statement does, in words that follow its subject; None if nothing is known of it."""
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
            self._note_function(statement)
            return None
        if isinstance(statement, ast.ClassDef):
            return None
        for node in _imports_in(statement):
            self._note_import(node)
        self._note_trainers(statement)
        return self._in(statement, is_loop=False)

    def _note_function(self, function: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        """Keep what a function does, with what it imports for itself."""
        outside = dict(self._modules)
        body = ast.Module(function.body, [])
        for node in _imports_in(body):
            self._note_import(node)
        effect = self._in(body, is_loop=False)
        self._modules = outside
        if effect is not None:
            self._functions[function.name] = effect
        else:
            self._functions.pop(function.name, None)

    def _note_import(self, statement: ast.Import | ast.ImportFrom) -> None:
        if isinstance(statement, ast.ImportFrom):
            for name in statement.names:
                self._modules[name.asname or name.name] = f"{statement.module or ''}.{name.name}"
            return
        for name in statement.names:
            top = name.name.partition(".")[0]
            self._modules[name.asname or top] = name.name if name.asname else top

    def _note_trainers(self, statement: ast.stmt) -> None:
        if not isinstance(statement, ast.Assign) or not isinstance(statement.value, ast.Call):
            return
        if self._dotted(statement.value.func).endswith(_TRAINER):
            self._trainers.update(name for target in statement.targets for name in bound_names(target))

    def _in(self, node: ast.AST, *, is_loop: bool) -> str | None:
        """The first effect of what is evaluated when `node` is."""
        is_loop = is_loop or isinstance(node, _LOOPS)
        if isinstance(node, ast.Call):
            effect = self._of_call(node, is_loop=is_loop)
            if effect is not None:
                return effect
        for child in ast.iter_child_nodes(node):
            if isinstance(child, (*_SCOPES, ast.ClassDef)):
                continue
            effect = self._in(child, is_loop=is_loop)
            if effect is not None:
                return effect
        return None

    def _of_call(self, call: ast.Call, *, is_loop: bool) -> str | None:
        if any(_downloads(keyword) for keyword in call.keywords):
            return DOWNLOADS
        name = self._dotted(call.func)
        if name == "open" and _opens_for_writing(call):
            return _WRITES
        effect = self._functions.get(name) or _by_name(name)
        if effect is None and isinstance(call.func, ast.Attribute):
            method, owner = call.func.attr, name.partition(".")[0]
            trains = (method == "train" and owner in self._trainers) or (method == _STEP and is_loop)
            return TRAINS if trains else _BY_METHOD.get(method)
        return effect

    def _dotted(self, node: ast.expr) -> str:
        """The dotted name of an expression, by the imports; empty for one that has none."""
        names: list[str] = []
        while isinstance(node, ast.Attribute):
            names.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name):
            return ""
        return ".".join([self._modules.get(node.id, node.id), *reversed(names)])


def _imports_in(node: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    """What a statement imports where it stands: also in `try` and `if`, not in functions and classes inside it."""
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        yield node
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, (*_SCOPES, ast.ClassDef, ast.expr)):
            yield from _imports_in(child)


def _by_name(name: str) -> str | None:
    """What a function does, by its dotted name, else by that of its module."""
    parts = name.split(".")
    modules = (".".join(parts[:end]) for end in range(len(parts), 0, -1))
    return next((_BY_NAME[module] for module in modules if module in _BY_NAME), None)


def bound_names(node: ast.AST) -> Iterator[str]:
    """The names that a statement binds where it stands, not in functions and classes inside it."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        yield node.name
        return
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        yield from (alias.asname or alias.name.partition(".")[0] for alias in node.names)
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield node.id
    elif isinstance(node, ast.ExceptHandler) and node.name:
        yield node.name
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.Lambda):
            yield from bound_names(child)


def read_names(node: ast.AST, *, deep: bool) -> Iterator[str]:
    """The names that a statement reads when it runs; `deep`: and those that functions inside it read when called."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
        yield node.id
    if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
        yield node.target.id
    for name, value in ast.iter_fields(node):
        if name == "body" and isinstance(node, _SCOPES) and not deep:
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from read_names(child, deep=deep)


def _downloads(keyword: ast.keyword) -> bool:
    value = keyword.value
    if keyword.arg in _DOWNLOADING:
        return not (isinstance(value, ast.Constant) and not value.value)
    # `weights="DEFAULT"` and `weights=ResNet18_Weights.DEFAULT` of torchvision, not `weights=tensor`
    words = value.value if isinstance(value, ast.Constant) else ast.unparse(value)
    return keyword.arg == "weights" and isinstance(words, str) and ("Weights" in words or "DEFAULT" in words)


def _opens_for_writing(call: ast.Call) -> bool:
    modes = [*call.args[1:2], *(keyword.value for keyword in call.keywords if keyword.arg == "mode")]
    return any(
        isinstance(mode, ast.Constant) and isinstance(mode.value, str) and set(mode.value) & set("wax+")
        for mode in modes
    )
