"""Keys for what torch cannot put into the key of a compile cache: functions in a graph, custom passes, settings.

Invariant: a key is the hash of the file that has the code, and only code that depends on nothing but this file and
torch gets one. An edit of the code is then another key.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import libcst as cst

from fuselight_server.fixes.rewrites.remedy import FixClass, Remedy
from fuselight_server.fixes.syntax.file_chunks import imported_name, insert_statements
from fuselight_server.fixes.syntax.file_tree import Change, FileTree
from fuselight_server.fixes.syntax.refusals import RefusedRewrite, RewriteRefusedError
from fuselight_server.fixes.syntax.tree import dotted

_FUNCTION, _PASS = "marked_cacheable", "pass_uuid"
_HASH = "get_hash_for_files"
_PASSES = "torch._inductor.custom_graph_pass"
_MARKED = "_inductor.config.unsafe_marked_cacheable_functions"
_PASS_SETTING = re.compile(r"\w+_custom_(?:pre_|post_)?pass")
_KNOWN_MODULES = frozenset(
    ("collections", "dataclasses", "functools", "itertools", "math", "operator", "torch", "typing")
)
"""Modules whose code is part of torch's own key, or changes no graph."""
_STATE = frozenset(("environ", "getenv", "global", "open"))


def setting_remedies(path: str, text: str, setting: str, *, value: bool) -> Iterator[Remedy | RefusedRewrite]:
    """The file with a setting of torch, where the key of a cache needs it."""
    name = setting.removeprefix("torch.")
    title = f"Set {name.rpartition('.')[2]}"
    kind = name.rpartition(".")[2]
    assigned = re.compile(rf"(?m)^([\w.]*\bconfig\.{kind}\s*=\s*)(?:True|False)\b")
    if assigned.search(text):
        new: str | None = assigned.sub(rf"\g<1>{value}", text)
    elif re.search(rf"\b{kind}\b", text):
        yield RefusedRewrite(
            kind, title, f"`{kind}` is already in the file, in a form that is not a plain assignment"
        )
        return
    else:
        new = _with_statements(path, text, [f"{{torch}}.{name} = {value}"])
    if new is not None and new != text:
        yield Remedy(kind, title, FixClass.EXACT, {path: new}, is_setting=True)


def function_key_remedies(path: str, text: str, function: str) -> Iterator[Remedy | RefusedRewrite]:
    """The file with a cache key for a function that torch calls in a graph without looking into it.

    `function`: as torch names it, `__main__.folded`.
    """
    name = function.rpartition(".")[2]
    title = f"Give `{name}` a cache key: the hash of its file"
    tree = FileTree.of(path, text)
    if tree is None:
        return
    try:
        _check_code(tree, _definition(tree, name))
    except RewriteRefusedError as why:
        yield RefusedRewrite(_FUNCTION, title, str(why))
        return
    key = f'{{f"{{__name__}}.{name}": {_HASH}((__file__,))}}'
    new = _with_statements(path, text, [_import(_HASH), f"{{torch}}.{_MARKED} |= ", key])
    if new is not None:
        yield Remedy(_FUNCTION, title, FixClass.EXACT, {path: new}, is_setting=True)


def pass_key_remedies(path: str, text: str) -> Iterator[Remedy | RefusedRewrite]:
    """The file with a `uuid()` for each custom pass that it gives to Inductor."""
    title = "Give the custom pass a `uuid()`: the hash of its file"
    tree = FileTree.of(path, text)
    if tree is None:
        return
    try:
        new = _PassKeys(tree).text()
    except RewriteRefusedError as why:
        yield RefusedRewrite(_PASS, title, str(why))
        return
    if new is not None:
        yield Remedy(_PASS, title, FixClass.EXACT, {path: new}, is_setting=True)


def _import(*names: str) -> str:
    return f"from {_PASSES} import {', '.join(names)}"


def _with_statements(path: str, text: str, statements: Sequence[str]) -> str | None:
    """The text with statements after its imports. `{torch}` is the file's name of torch.

    A statement that ends with a blank goes on in the next one, which is not formatted.
    """
    imported = imported_name(path, text, "torch")
    lines: list[str] = [] if imported else ["import torch"]
    is_open = False
    for part in statements:
        shown = part.replace("{torch}", imported or "torch")
        lines[len(lines) - is_open :] = [lines[-1] + shown] if is_open else [shown]
        is_open = shown.endswith(" ")
    return insert_statements(path, text, lines)


def _definition(tree: FileTree, name: str) -> cst.FunctionDef | cst.ClassDef:
    """The only definition of a name at top level of the file. Raises RewriteRefusedError."""
    definitions = [
        node
        for node in tree.module.body
        if isinstance(node, (cst.FunctionDef, cst.ClassDef)) and node.name.value == name
    ]
    if len(definitions) != 1 or len(tree.stores(name)) != 1:
        raise RewriteRefusedError(f"`{name}` is not defined exactly once at top level of this file")
    return definitions[0]


def _check_code(tree: FileTree, node: cst.CSTNode) -> None:
    """Refuse code that depends on more than its file and torch. Raises RewriteRefusedError."""
    waiting, known = [node], set[str]()
    while waiting:
        code = waiting.pop()
        for part in tree.all(code):
            if isinstance(part, (cst.Global, cst.Nonlocal)):
                raise RewriteRefusedError(f"line {tree.line(part)} changes variables outside of the function")
        for name in sorted(tree.names_read(code) - known):
            known.add(name)
            waiting += _named(tree, name)


def _named(tree: FileTree, name: str) -> list[cst.CSTNode]:
    """The code that a name of the module stands for. Raises RewriteRefusedError where that is not in the file."""
    if name in _STATE:
        raise RewriteRefusedError(f"its code uses `{name}`, which the hash of its file does not show")
    code: list[cst.CSTNode] = []
    for statement in tree.module.body:
        if isinstance(statement, (cst.FunctionDef, cst.ClassDef)) and statement.name.value == name:
            code.append(statement)
        elif isinstance(statement, cst.SimpleStatementLine):
            for part in statement.body:
                code += _assigned(part, name)
    return code


def _assigned(part: cst.BaseSmallStatement, name: str) -> list[cst.CSTNode]:
    if isinstance(part, (cst.Import, cst.ImportFrom)):
        module = _module_of(part, name)
        if module is not None and module.partition(".")[0] not in _KNOWN_MODULES:
            raise RewriteRefusedError(
                f"its code uses `{name}` of `{module}`, which the hash of its file does not show"
            )
        return []
    if isinstance(part, cst.Assign) and any(dotted(target.target) == name for target in part.targets):
        return [part.value]
    if isinstance(part, cst.AnnAssign) and dotted(part.target) == name and part.value is not None:
        return [part.value]
    return []


def _module_of(part: cst.Import | cst.ImportFrom, name: str) -> str | None:
    """The module that an import takes a name from; None if it does not import the name."""
    if isinstance(part, cst.ImportFrom):
        module = "." if part.relative else dotted(part.module) if part.module is not None else ""
        if isinstance(part.names, cst.ImportStar):
            return module
        names = [alias.evaluated_alias or alias.evaluated_name for alias in part.names]
        return module if name in names else None
    for alias in part.names:
        bound = alias.evaluated_alias or alias.evaluated_name.partition(".")[0]
        if bound == name:
            return alias.evaluated_name
    return None


class _PassKeys:
    """Gives each pass in a file a key. Methods raise RewriteRefusedError."""

    def __init__(self, tree: FileTree) -> None:
        """Nothing is changed yet."""
        self._tree = tree
        self._changes: dict[cst.CSTNode, Change] = {}

    def text(self) -> str | None:
        """The new text."""
        values = list(dict.fromkeys(self._values()))
        if not values:
            raise RewriteRefusedError("no statement of this file sets a custom pass")
        for value in values:
            self._add(value)
        if not self._changes:
            raise RewriteRefusedError("the custom pass of this file has a `uuid()`")
        new = self._tree.changed(self._changes)
        if new is None:
            return None
        return insert_statements(self._tree.path, new, [_import("CustomGraphPass", _HASH)])

    def _values(self) -> Iterator[cst.BaseExpression]:
        """What the file sets a pass to: by assignment, in a dictionary or as an argument."""
        for node in self._tree.all():
            if isinstance(node, cst.Assign):
                for target in node.targets:
                    if isinstance(target.target, cst.Attribute) and _is_pass(target.target.attr.value):
                        yield node.value
            elif isinstance(node, cst.DictElement) and isinstance(node.key, cst.SimpleString):
                if _is_pass(str(node.key.evaluated_value).rpartition(".")[2]):
                    yield node.value
            elif isinstance(node, cst.Arg) and node.keyword is not None and _is_pass(node.keyword.value):
                yield node.value

    def _add(self, value: cst.BaseExpression) -> None:
        if isinstance(value, cst.Name) and value.value == "None":
            return
        name = dotted(value.func) if isinstance(value, cst.Call) else dotted(value)
        definition = _definition(self._tree, name)
        _check_code(self._tree, definition)
        if isinstance(definition, cst.ClassDef):
            self._add_to_class(definition)
        elif isinstance(value, cst.Name):
            self._add_class_of(definition, value)
        else:
            raise RewriteRefusedError(
                f"`{name}` returns the pass, and its values are no part of the hash of the file"
            )

    def _add_to_class(self, owner: cst.ClassDef) -> None:
        methods = {node.name.value for node in owner.body.body if isinstance(node, cst.FunctionDef)}
        if "uuid" in methods:
            return
        if "__init__" in methods or owner.bases:
            reason = f"`{owner.name.value}` has values or bases that are no part of the hash of the file"
            raise RewriteRefusedError(reason)
        self._changes[owner] = lambda node: _keyed(cst.ensure_type(node, cst.ClassDef))

    def _add_class_of(self, function: cst.FunctionDef, value: cst.Name) -> None:
        """A class that calls a function, after the function, in its place."""
        if len(function.params.params) != 1:
            raise RewriteRefusedError(f"`{value.value}` takes more than the graph")
        name = "".join(part.capitalize() for part in value.value.split("_")) or "Pass"
        name = name if name != value.value and not self._tree.stores(name) else f"{name}WithKey"
        call = f"    def __call__(self, graph):\n        return {value.value}(graph)\n"
        owner = cst.parse_statement(f"class {name}(CustomGraphPass):\n{call}")
        added = _keyed(cst.ensure_type(owner, cst.ClassDef), bases=False)
        blank = [cst.EmptyLine(indent=False)] * 2
        body = cst.ensure_type(added.body, cst.IndentedBlock).with_changes(footer=blank)
        spaced = added.with_changes(leading_lines=blank, body=body)
        self._changes[function] = lambda node: cst.FlattenSentinel([node, spaced])
        self._changes[value] = lambda _node: cst.Call(cst.Name(name))


def _is_pass(name: str) -> bool:
    return _PASS_SETTING.fullmatch(name) is not None


def _keyed(owner: cst.ClassDef, *, bases: bool = True) -> cst.ClassDef:
    """A class with `uuid()`, and with the base class of passes."""
    method = cst.parse_statement(f"def uuid(self):\n    return {_HASH}((__file__,))\n")
    method = method.with_changes(leading_lines=[cst.EmptyLine(indent=False)])
    body = cst.ensure_type(owner.body, cst.IndentedBlock)
    owner = owner.with_changes(body=body.with_changes(body=[*body.body, method]))
    if not bases:
        return owner
    return owner.with_changes(
        bases=[cst.Arg(cst.Name("CustomGraphPass"))], lpar=cst.LeftParen(), rpar=cst.RightParen()
    )
