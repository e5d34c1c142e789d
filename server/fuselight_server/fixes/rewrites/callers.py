"""What other callers pass for a parameter that a rewrite takes for a tensor, because the run passed one.

Invariant: the search reads texts and runs nothing. A literal counts, a name that its file assigns a literal, a default
and an annotation, also where the call goes through `partial`, `*pair`, a table or another name; what a caller computes
is not known. A number that decides a branch alone becomes a tensor at the start of the function; anything else refuses.
"""

from __future__ import annotations

import ast
import dataclasses
import io
import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath

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
    texts = [(path, site.text), *other_texts(path, called, site.report.roots, tuple(site.report.files), read)]
    for file, text in texts:
        for line, code, is_number in _passed(text or "", called, name, index, is_module=is_module):
            place = f"{PurePath(file).name}:{line}"
            passed = "" if code == name else f": `{code}`"
            words = f"the new text needs a tensor, and {place} may pass something else for `{name}`{passed}"
            yield PassedValue(words, is_number)


def _owner(site: Site, function: cst.FunctionDef) -> cst.ClassDef | None:
    return next((around for around in site.ancestors(function) if isinstance(around, cst.ClassDef)), None)


def _passed(
    text: str, called: str, name: str, index: int, *, is_module: bool
) -> Iterator[tuple[int, str, bool]]:
    """Yield line and code of each argument for a parameter that is no tensor, and whether it is a number."""
    tree = try_parse_python(text.removeprefix("\ufeff"))
    if tree is None:
        return
    assigned = _assigned(tree)
    for node in ast.walk(tree):
        arguments = node.args if isinstance(node, ast.Call) else []
        if not isinstance(node, ast.Call):
            continue
        if last_name(node.func) == "partial" and arguments and _refers(arguments[0], called, assigned):
            arguments = arguments[1:]
        elif not _is_call_of(node, called, assigned, is_module=is_module):
            continue
        places = list(_in_order(arguments, assigned))
        by_place = [places[index]] if 0 <= index < len(places) else []
        for value in (*by_place, *(each.value for each in node.keywords if each.arg == name)):
            literals = [known for known in (value, *assigned.get(_path_of(value), ())) if _is_literal(known)]
            if literals:
                yield node.lineno, ast.unparse(value), all(map(_is_number, literals))


def _in_order(arguments: Sequence[ast.expr], assigned: Mapping[str, list[ast.expr]]) -> Iterator[ast.expr]:
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


def _assigned(tree: ast.AST) -> dict[str, list[ast.expr]]:
    """What names get: by assignments, loops over what is written down, and defaults of parameters."""
    assigned: dict[str, list[ast.expr]] = {}
    for node in ast.walk(tree):
        pairs: list[tuple[ast.expr, ast.expr]] = []
        if isinstance(node, ast.Assign):
            pairs = [(target, node.value) for target in node.targets]
        elif isinstance(node, (ast.For, ast.comprehension)) and isinstance(node.iter, (ast.Tuple, ast.List)):
            pairs = [(node.target, element) for element in node.iter.elts]
        elif isinstance(node, ast.arguments):
            named = [*node.posonlyargs, *node.args]
            with_default = [
                *zip(reversed(named), reversed(node.defaults), strict=False),
                *zip(node.kwonlyargs, node.kw_defaults, strict=True),
            ]
            for parameter, default in with_default:
                assigned.setdefault(parameter.arg, []).extend([default] if default is not None else [])
        for target, value in pairs:
            for name, known in _unpacked(target, value):
                assigned.setdefault(name, []).append(known)
    assigned.pop("", None)  # targets without a path
    return assigned


def _unpacked(target: ast.expr, value: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    kinds = (ast.Tuple, ast.List)
    if isinstance(target, kinds) and isinstance(value, kinds) and len(target.elts) == len(value.elts):
        for part, known in zip(target.elts, value.elts, strict=True):
            yield from _unpacked(part, known)
    else:
        yield _path_of(target), value


def _is_call_of(
    call: ast.Call, called: str, assigned: Mapping[str, list[ast.expr]], *, is_module: bool
) -> bool:
    """Whether a call is of the function, or of an object of the module's class, as far as names show."""
    if not is_module:
        return _refers(call.func, called, assigned)
    makers = [call.func, *assigned.get(_path_of(call.func), ())]
    return any(_makes(maker, called, assigned) for maker in makers)


def _refers(node: ast.expr, called: str, assigned: Mapping[str, list[ast.expr]]) -> bool:
    """Whether an expression is the function: by its name, by another name, or as an element of a table."""
    if last_name(node) == called:
        return True
    known = assigned.get(_path_of(node.value if isinstance(node, ast.Subscript) else node), ())
    if not isinstance(node, ast.Subscript):
        return any(last_name(value) == called for value in known)
    tables = [value for value in known if isinstance(value, (ast.Dict, ast.Tuple, ast.List))]
    elements = (
        each for table in tables for each in (table.values if isinstance(table, ast.Dict) else table.elts)
    )
    return any(last_name(element) == called for element in elements)


def _makes(node: ast.expr, called: str, assigned: Mapping[str, list[ast.expr]], depth: int = 0) -> bool:
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
