"""What other callers pass for a parameter that a rewrite takes for a tensor, because the run passed one.

Invariant: the search reads texts and runs nothing. A literal counts, a name that its file assigns a literal, a default
and an annotation; what a caller computes is not known.
"""

from __future__ import annotations

import ast
import re
from pathlib import PurePath
from typing import TYPE_CHECKING

import libcst as cst

from fuselight.shared.foreign_data import parse_python
from fuselight.shared.report import FactKind
from fuselight_server.fixes.syntax.attribute_uses import other_texts
from fuselight_server.fixes.syntax.traced_names import values_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fuselight_server.fixes.rewrites.remedy import Remedy
    from fuselight_server.fixes.syntax.site import Site

_NAME = re.compile(r"(?<![\w.])[^\W\d]\w*")
_NUMBER = re.compile(r"\b(?:bool|int|float|str|None|Optional|Any)\b")
"""In an annotation: what is no tensor."""


def refusal_by_callers(site: Site, remedy: Remedy, read: Callable[[str], str | None]) -> str:
    """Why a remedy fails for another caller, as ``other.py:3 passes `True` for `flip` ``; empty if none is known."""
    function = _function_at(site)
    if function is None:
        return ""
    new = _names_in_new_lines(site.text, remedy.texts.get(site.finding.span.path, site.text))
    parameters = [
        *function.params.posonly_params,
        *function.params.params,
        *function.params.kwonly_params,
    ]
    for parameter in parameters:
        name = parameter.name.value
        if name in new and _is_traced_tensor(site, function, name):
            why = _in_signature(site, function, parameter) or _in_calls(site, function, name, read)
            if why:
                return why
    return ""


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


def _in_signature(site: Site, function: cst.FunctionDef, parameter: cst.Param) -> str:
    name, code = parameter.name.value, site.code(function.body)
    if parameter.annotation is not None:
        annotation = site.code(parameter.annotation.annotation)
        if _NUMBER.search(annotation) and not (_only_none(annotation) and _tests_none(code, name)):
            return f"`{name}` may be no tensor: its annotation is `{annotation}`"
    if parameter.default is not None:
        default = site.code(parameter.default)
        if default != "None" or not _tests_none(code, name):
            return f"`{name}` may be no tensor: its default is `{default}`"
    return ""


def _only_none(annotation: str) -> bool:
    return set(_NUMBER.findall(annotation)) <= {"None", "Optional"}


def _tests_none(code: str, name: str) -> bool:
    return re.search(rf"\b{re.escape(name)} is (?:not )?None\b", code) is not None


def _in_calls(site: Site, function: cst.FunctionDef, name: str, read: Callable[[str], str | None]) -> str:
    path, owner = site.finding.span.path, _owner(site, function)
    is_module = owner is not None and function.name.value in {"forward", "__call__"}
    called = owner.name.value if owner is not None and is_module else function.name.value
    position = [each.name.value for each in (*function.params.posonly_params, *function.params.params)]
    position = position[1:] if owner is not None else position
    index = position.index(name) if name in position else -1
    texts = [(path, site.text), *other_texts(path, called, site.report.roots, tuple(site.report.files), read)]
    for file, text in texts:
        for line, value in _passed(text or "", called, name, index, is_module=is_module):
            return f"{PurePath(file).name}:{line} passes `{value}` for `{name}`, which the new text takes for a tensor"
    return ""


def _owner(site: Site, function: cst.FunctionDef) -> cst.ClassDef | None:
    return next((around for around in site.ancestors(function) if isinstance(around, cst.ClassDef)), None)


def _passed(text: str, called: str, name: str, index: int, *, is_module: bool) -> Iterator[tuple[int, str]]:
    """Yield line and code of each argument for a parameter that is no tensor."""
    try:
        tree = parse_python(text.removeprefix("\ufeff"))
    except (SyntaxError, ValueError, RecursionError):
        return
    assigned: dict[str, list[ast.expr]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                assigned.setdefault(ast.unparse(target), []).append(node.value)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _is_call_of(node, called, assigned, is_module=is_module):
            is_plain = not any(isinstance(argument, ast.Starred) for argument in node.args)
            by_place = [node.args[index]] if is_plain and 0 <= index < len(node.args) else []
            for value in (*by_place, *(each.value for each in node.keywords if each.arg == name)):
                if any(map(_is_literal, (value, *assigned.get(ast.unparse(value), ())))):
                    yield node.lineno, ast.unparse(value)


def _is_call_of(call: ast.Call, called: str, assigned: dict[str, list[ast.expr]], *, is_module: bool) -> bool:
    """Whether a call is of the function, or of an object of the module's class, as far as names show."""
    if not is_module:
        return _last(call.func) == called
    makers = [call.func, *assigned.get(ast.unparse(call.func), ())]
    return any(_makes(maker, called, assigned) for maker in makers)


def _makes(node: ast.expr, called: str, assigned: dict[str, list[ast.expr]], depth: int = 0) -> bool:
    """Whether an expression makes an object of a class: `Net()`, `torch.compile(Net())`, `Net().eval()`, `net`."""
    if not isinstance(node, ast.Call):
        known = assigned.get(ast.unparse(node), ()) if depth else ()
        return depth < _DEEPEST and any(_makes(value, called, assigned, depth + 1) for value in known)
    if _last(node.func) == called:
        return True
    inner = [*node.args, *([node.func.value] if isinstance(node.func, ast.Attribute) else [])]
    return depth < _DEEPEST and any(_makes(part, called, assigned, depth + 1) for part in inner)


_DEEPEST = 4


def _last(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _is_literal(node: ast.expr) -> bool:
    node = node.operand if isinstance(node, ast.UnaryOp) else node
    return isinstance(node, ast.Constant)
