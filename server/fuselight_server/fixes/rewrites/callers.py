"""What other callers pass for a parameter that a rewrite takes for a tensor, because the run passed one.

Invariant: the search reads texts and runs nothing. A literal counts, a name that is assigned a literal where it is
visible, a default in its function and an annotation, also where the call goes through `partial`, `*pair`, a table or
another name; what a caller computes is not known. A number that decides a branch alone becomes a tensor at the start of
the function; anything else refuses.
"""

from __future__ import annotations

import ast
import collections
import dataclasses
import io
import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import TypeAlias

import libcst as cst

from fuselight.shared.foreign_data import parse_python, try_parse_python
from fuselight.shared.report import FactKind
from fuselight_server.fixes.rewrites.remedy import Remedy
from fuselight_server.fixes.syntax.attribute_uses import other_texts
from fuselight_server.fixes.syntax.refusals import RefusedRewrite
from fuselight_server.fixes.syntax.site import Site
from fuselight_server.fixes.syntax.traced_names import values_of

_NAME = re.compile(r"(?<![\w.])[^\W\d]\w*")
_NO_TENSOR = re.compile(r"\b(?:bool|int|float|str|None|Optional|Any)\b")
"""In an annotation: what is no tensor."""
_Assigned: TypeAlias = "Mapping[str, list[ast.expr]]"
"""What names and attributes get, by their paths."""


def for_all_callers(site: Site, remedy: Remedy, read: Callable[[str], str | None]) -> Remedy | RefusedRewrite:
    """The remedy, which converts what other callers pass as a number, or why it fails for another caller.

    Such a reason is ``other.py:3 passes `True` for `flip` ``.
    """
    function, path = _function_at(site), site.finding.span.path
    if function is None:
        return remedy
    new = _names_in_new_lines(site.text, remedy.texts.get(path, site.text))
    parameters = [
        *function.params.posonly_params,
        *function.params.params,
        *function.params.kwonly_params,
    ]
    converted: list[str] = []
    for parameter in parameters:
        name = parameter.name.value
        if name not in new or not _is_traced_tensor(site, function, name):
            continue
        passed = [*_in_signature(site, function, parameter), *_in_calls(site, function, name, read)]
        other = next((value for value in passed if not value.is_number), None)
        if other is not None or (passed and not _is_condition_only(site, function, name)):
            return RefusedRewrite(remedy.kind, remedy.title, (other or passed[0]).words)
        converted += [name] if passed else []
    if not converted:
        return remedy
    text = _with_conversions(site, function, remedy.texts[path], converted)
    if text is None:
        words = f"`{converted[0]}` may be a Python number, and no line can convert it"
        return RefusedRewrite(remedy.kind, remedy.title, words)
    return dataclasses.replace(remedy, texts={**remedy.texts, path: text})


@dataclass(frozen=True)
class PassedValue:
    """What a caller may pass that is no tensor."""

    words: str
    is_number: bool
    """Whether `torch.as_tensor` makes a tensor of it with the same truth."""


def _is_condition_only(site: Site, function: cst.FunctionDef, name: str) -> bool:
    """Whether the function reads a parameter in conditions alone: in arithmetic, a tensor may widen a dtype."""
    return all(
        any(
            isinstance(parent, (cst.If, cst.IfExp)) and parent.test is child
            for child, parent in itertools.pairwise((load, *site.ancestors(load)))
        )
        for load in site.loads(function, name)
    )


def _with_conversions(site: Site, function: cst.FunctionDef, text: str, names: Sequence[str]) -> str | None:
    """The text whose function starts with `flip = torch.as_tensor(flip)`; None if it has no line for that."""
    owner = _owner(site, function)
    try:
        tree: ast.AST = parse_python(text)
    except SyntaxError:  # syntax of a newer Python
        return None
    classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    if owner is not None:
        tree = next((node for node in classes if node.name == owner.name.value), tree)
    wanted = (
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and node.name == function.name.value
    )
    there = list(wanted)
    body = there[0].body if len(there) == 1 else []
    first = next((line for line in body if not _is_docstring(line)), None)
    lines = list(
        io.StringIO(text, newline="")
    )  # as Python counts them: `splitlines` splits at a form feed, too
    if first is None or hasattr(first, "decorator_list") or first.lineno == there[0].lineno:
        return None
    head = lines[first.lineno - 1].encode()[: first.col_offset].decode()
    if head.strip():
        return None
    added = [f"{head}{name} = {site.torch}.as_tensor({name}){site.newline}" for name in names]
    return "".join((*lines[: first.lineno - 1], *added, *lines[first.lineno - 1 :]))


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _function_at(site: Site) -> cst.FunctionDef | None:
    first, last = site.span
    around = [
        (end - start, node)
        for node in site.parents
        if isinstance(node, cst.FunctionDef)
        for start, end in [site.range_of(node)]
        if start <= first and last <= end
    ]
    return min(around, key=lambda pair: pair[0])[1] if around else None


def _names_in_new_lines(old: str, new: str) -> set[str]:
    lines = set(new.splitlines()) - set(old.splitlines())
    return {name for line in lines for name in _NAME.findall(line)}


def _is_traced_tensor(site: Site, function: cst.FunctionDef, name: str) -> bool:
    return any(
        value.kind is FactKind.TENSOR
        for load in site.loads(function, name)
        for value in values_of(site, load)
    )


def _in_signature(site: Site, function: cst.FunctionDef, parameter: cst.Param) -> Iterator[PassedValue]:
    name, code = parameter.name.value, site.code(function.body)
    if parameter.annotation is not None:
        annotation = site.code(parameter.annotation.annotation)
        if _NO_TENSOR.search(annotation) and not (_only_none(annotation) and _tests_none(code, name)):
            words = f"`{name}` may be no tensor: its annotation is `{annotation}`"
            yield PassedValue(words, set(_NO_TENSOR.findall(annotation)) <= {"bool", "int", "float"})
    if parameter.default is not None:
        default = site.code(parameter.default)
        if default != "None" or not _tests_none(code, name):
            words = f"`{name}` may be no tensor: its default is `{default}`"
            yield PassedValue(words, _is_written_number(parameter.default))


def _is_written_number(node: cst.BaseExpression) -> bool:
    node = node.expression if isinstance(node, cst.UnaryOperation) else node
    is_bool = isinstance(node, cst.Name) and node.value in {"True", "False"}
    return is_bool or isinstance(node, (cst.Integer, cst.Float))


def _only_none(annotation: str) -> bool:
    return set(_NO_TENSOR.findall(annotation)) <= {"None", "Optional"}


def _tests_none(code: str, name: str) -> bool:
    return re.search(rf"\b{re.escape(name)} is (?:not )?None\b", code) is not None


def _in_calls(
    site: Site, function: cst.FunctionDef, name: str, read: Callable[[str], str | None]
) -> Iterator[PassedValue]:
    path, owner = site.finding.span.path, _owner(site, function)
    is_module = owner is not None and function.name.value in {"forward", "__call__"}
    called = owner.name.value if owner is not None and is_module else function.name.value
    position = [each.name.value for each in (*function.params.posonly_params, *function.params.params)]
    position = position[1:] if owner is not None else position
    index = position.index(name) if name in position else -1
    own = try_parse_python(site.text.removeprefix("\ufeff"))
    search = _CallSearch(called, owner.name.value if owner is not None else "", is_module, classes_of(own))
    others = other_texts(path, called, site.report.roots, tuple(site.report.files), read)
    for file, text in ((path, site.text), *others):
        for line, code, is_number in search.passed(text or "", name, index):
            place = f"{PurePath(file).name}:{line}"
            passed = "" if code == name else f": `{code}`"
            words = f"the new text needs a tensor, and {place} may pass something else for `{name}`{passed}"
            yield PassedValue(words, is_number)


def _owner(site: Site, function: cst.FunctionDef) -> cst.ClassDef | None:
    return next((around for around in site.ancestors(function) if isinstance(around, cst.ClassDef)), None)


@dataclass(frozen=True)
class _CallSearch:
    """What is searched for in each file: calls of a function, of a method, or of the objects of a module's class."""

    called: str
    owner: str
    """The class of a method; empty for a function."""
    is_module: bool
    classes: Mapping[str, ast.ClassDef]
    """Of the file of the function."""

    def passed(self, text: str, name: str, index: int) -> Iterator[tuple[int, str, bool]]:
        """Yield line and code of each argument for a parameter that is no tensor, and whether it is a number."""
        tree = try_parse_python(text.removeprefix("\ufeff"))
        classes = {**classes_of(tree), **self.classes}
        for node, around, assigned in _calls(tree, classes) if tree is not None else ():
            arguments = node.args
            if last_name(node.func) == "partial" and arguments and self._refers(arguments[0], assigned):
                arguments = arguments[1:]
            elif not self._is_call(node, around, classes, assigned):
                continue
            places = list(_in_order(arguments, assigned))
            by_place = [places[index]] if 0 <= index < len(places) else []
            for value in (*by_place, *(each.value for each in node.keywords if each.arg == name)):
                literals = [
                    known for known in (value, *assigned.get(_path_of(value), ())) if _is_literal(known)
                ]
                if literals:
                    yield node.lineno, ast.unparse(value), all(map(_is_number, literals))

    def _is_call(
        self, call: ast.Call, around: str, classes: Mapping[str, ast.ClassDef], assigned: _Assigned
    ) -> bool:
        """Whether a call is of the function, or of an object of the module's class, as far as names show."""
        if self.is_module:
            makers = [call.func, *assigned.get(_path_of(call.func), ())]
            return any(_makes(maker, self.called, assigned) for maker in makers)
        is_own = _path_of(call.func) == f"self.{self.called}"
        return self._refers(call.func, assigned) and (not is_own or self._is_method_of(around, classes))

    def _is_method_of(self, around: str, classes: Mapping[str, ast.ClassDef]) -> bool:
        """Whether `self.step` in a class may be the method: no nearer class has one, or the owner replaces it."""
        above = bases_of(self.owner, classes)
        if around in above or not {*above} <= {*classes, "Module", "object", ""}:  # a base of another file
            return True
        kin = (classes[each] for each in bases_of(around, classes) if each in classes)
        nearest = next((each.name for each in kin if any(definitions(each, self.called))), self.owner)
        return nearest == self.owner

    def _refers(self, node: ast.expr, assigned: _Assigned) -> bool:
        """Whether an expression is the function: by its name, by another name, or as an element of a table."""
        if last_name(node) == self.called:
            return True
        known = assigned.get(_path_of(node.value if isinstance(node, ast.Subscript) else node), ())
        if not isinstance(node, ast.Subscript):
            return any(last_name(value) == self.called for value in known)
        tables = [value for value in known if isinstance(value, (ast.Dict, ast.Tuple, ast.List))]
        elements = (
            each for table in tables for each in (table.values if isinstance(table, ast.Dict) else table.elts)
        )
        return any(last_name(element) == self.called for element in elements)


def classes_of(tree: ast.AST | None) -> dict[str, ast.ClassDef]:
    """The classes of a file, by their names."""
    nodes = ast.walk(tree) if tree is not None else ()
    return {node.name: node for node in nodes if isinstance(node, ast.ClassDef)}


def bases_of(name: str, classes: Mapping[str, ast.ClassDef]) -> list[str]:
    """The class and those that it derives from, as far as the files show."""
    names, waiting = list[str](), [name]
    while waiting:
        each = waiting.pop()
        if each not in names:
            names.append(each)
            waiting += map(last_name, reversed(classes[each].bases)) if each in classes else []
    return names


def definitions(node: ast.ClassDef, name: str) -> Iterator[int]:
    """The lines on which the body of a class gives a name its value."""
    for part in node.body:
        is_method = isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef)) and part.name == name
        targets = part.targets if isinstance(part, ast.Assign) else []
        targets = [part.target] if isinstance(part, ast.AnnAssign) and part.value is not None else targets
        if is_method or any(isinstance(target, ast.Name) and target.id == name for target in targets):
            yield part.lineno


def _in_order(arguments: Sequence[ast.expr], assigned: _Assigned) -> Iterator[ast.expr]:
    """The arguments in their places, with the elements of `*pair`, up to a star of which they are not known."""
    for argument in arguments:
        if not isinstance(argument, ast.Starred):
            yield argument
            continue
        known = (argument.value, *assigned.get(_path_of(argument.value), ()))
        elements = next((value.elts for value in known if isinstance(value, (ast.Tuple, ast.List))), None)
        if elements is None:
            return
        yield from elements


def _calls(tree: ast.AST, classes: Mapping[str, ast.ClassDef]) -> Iterator[tuple[ast.Call, str, _Assigned]]:
    """Each call of a file, the class around it, and what names get in its function and those around it.

    An attribute of `self` is that of its class if no other class of the files is above that.
    """
    assigned: dict[ast.AST, dict[str, list[ast.expr]]] = collections.defaultdict(dict)
    shared: set[tuple[ast.AST, str]] = set()
    calls: list[tuple[ast.Call, str, tuple[ast.AST, ...]]] = []
    waiting: list[tuple[ast.AST, str, tuple[ast.AST, ...]]] = [(tree, "", (tree,))]
    while waiting:
        node, around, scopes = waiting.pop()
        if isinstance(node, ast.ClassDef):
            around = node.name
        if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            scopes = (node, *scopes)
        elif isinstance(node, (ast.Global, ast.Nonlocal)):
            shared |= {(scopes[0], name) for name in node.names}
        elif isinstance(node, ast.Call):
            calls.append((node, around, scopes))
        for name, known in _bound(node):
            is_name = name.isidentifier() and (scopes[0], name) not in shared
            own = [scope for scope in scopes if isinstance(scope, ast.ClassDef) and name.startswith("self.")]
            for scope in (scopes[0],) if is_name else (tree, *own):
                assigned[scope].setdefault(name, []).extend(known)
        waiting += ((child, around, scopes) for child in reversed(list(ast.iter_child_nodes(node))))
    for call, around, scopes in calls:
        is_alone = not any(base in classes for base in bases_of(around, classes)[1:])
        shown = (scope for scope in scopes if is_alone or not isinstance(scope, ast.ClassDef))
        yield call, around, collections.ChainMap(*(assigned[scope] for scope in shown))


def _bound(node: ast.AST) -> Iterator[tuple[str, list[ast.expr]]]:
    """What a node gives to names: an assignment, a loop over what is written down, or the defaults of parameters."""
    pairs: list[tuple[ast.expr, ast.expr]] = []
    if isinstance(node, ast.Assign):
        pairs = [(target, node.value) for target in node.targets]
    elif isinstance(node, (ast.For, ast.comprehension)) and isinstance(node.iter, (ast.Tuple, ast.List)):
        pairs = [(node.target, element) for element in node.iter.elts]
    elif isinstance(node, ast.arguments):
        named = [*node.posonlyargs, *node.args]
        defaults = [*[None] * (len(named) - len(node.defaults)), *node.defaults, *node.kw_defaults]
        for parameter, default in zip([*named, *node.kwonlyargs], defaults, strict=True):
            yield parameter.arg, [default] if default is not None else []
    for target, value in pairs:
        yield from ((name, [known]) for name, known in _unpacked(target, value) if name)


def _unpacked(target: ast.expr, value: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    kinds = (ast.Tuple, ast.List)
    if isinstance(target, kinds) and isinstance(value, kinds) and len(target.elts) == len(value.elts):
        for part, known in zip(target.elts, value.elts, strict=True):
            yield from _unpacked(part, known)
    else:
        yield _path_of(target), value


def _makes(node: ast.expr, called: str, assigned: _Assigned, depth: int = 0) -> bool:
    """Whether an expression makes an object of a class: `Net()`, `torch.compile(Net())`, `Net().eval()`, `net`."""
    if not isinstance(node, ast.Call):
        known = assigned.get(_path_of(node), ()) if depth else ()
        return depth < _DEEPEST and any(_makes(value, called, assigned, depth + 1) for value in known)
    if last_name(node.func) == called:
        return True
    inner = [*node.args, *([node.func.value] if isinstance(node.func, ast.Attribute) else [])]
    return depth < _DEEPEST and any(_makes(part, called, assigned, depth + 1) for part in inner)


_DEEPEST = 4


def _path_of(node: ast.expr) -> str:
    """`net.table['a']` of names, attributes and constant keys; empty for any other expression, however deep."""
    parts: list[str] = []
    while not isinstance(node, ast.Name):
        if isinstance(node, ast.Attribute):
            parts.append(f".{node.attr}")
        elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
            parts.append(f"[{node.slice.value!r}]")
        else:
            return ""
        node = node.value
    return "".join((node.id, *reversed(parts)))


def last_name(node: ast.expr) -> str:
    """`c` of `a.b.c` and of `c`; empty for anything else."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _is_literal(node: ast.expr) -> bool:
    node = node.operand if isinstance(node, ast.UnaryOp) else node
    return isinstance(node, ast.Constant)


def _is_number(node: ast.expr) -> bool:
    node = node.operand if isinstance(node, ast.UnaryOp) else node
    return isinstance(node, ast.Constant) and isinstance(node.value, (bool, int, float))
