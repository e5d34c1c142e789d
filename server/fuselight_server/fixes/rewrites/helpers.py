"""A helper that torch.compile must not trace as an operator of its own, which is part of the graph.

Invariant: only a function of the same file whose one decorator disables tracing and that computes with NumPy. The rule
for the shape of its result is certain: by the functions that it goes through, the result has the shape and dtype of one
argument, whatever they are.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

import libcst as cst

from fuselight.shared.report import FactKind
from fuselight_server.base.finding import Span
from fuselight_server.fixes.rewrites.remedy import FixClass, Remedy
from fuselight_server.fixes.syntax.refusals import RefusedRewrite
from fuselight_server.fixes.syntax.site import Site
from fuselight_server.fixes.syntax.tree import descendants, dotted
from fuselight_server.source.facts import Definition

_KEEPS = frozenset({"sort", "negative", "flip", "fliplr", "flipud", "roll", "ascontiguousarray"})
"""NumPy functions whose result has the shape and dtype of the first argument, for every dtype."""
_KEEPS_METHODS = frozenset({"numpy", "detach", "cpu", "clone", "copy", "contiguous"})
_NEW = frozenset({"sort", "negative", "roll", "copy", "clone"})
"""Those of both whose result shares no memory with the argument: an operator must not return a view of its input."""
_FROM_NUMPY = frozenset({"from_numpy", "as_tensor"})
_ANNOTATIONS = {"True": "bool", "False": "bool"}


def helper_remedies(site: Site) -> Iterator[Remedy | RefusedRewrite]:
    """The disabled function that the call of the finding names, as a custom operator."""
    for call in site.nodes(cst.Call)[:2]:
        name = dotted(call.func)
        there = _definition(site, name) if name.isidentifier() else None
        if there is None:
            continue
        line, definition = there
        span = Span(site.finding.span.path, line)
        helper = Site.of(dataclasses.replace(site.finding, span=span), site.report, site.text)
        function = _function(helper, definition) if helper is not None else None
        if helper is None or function is None:
            return
        yield from _operator(site, call, helper, function)
        return


def _definition(site: Site, name: str) -> tuple[int, Definition] | None:
    """The line and definition of the one function of the file with a name at top level."""
    definitions = [
        (chunk.line + definition.def_row, definition)
        for chunk in site.chunks
        for definition in chunk.facts.definitions
        if definition.name == name and definition.scope == ()
    ]
    bound = [binding for chunk in site.chunks for binding in chunk.facts.bindings if binding.target == name]
    return definitions[0] if len(definitions) == 1 and not bound and not definitions[0][1].is_class else None


def _function(site: Site, definition: Definition) -> cst.FunctionDef | None:
    """The function, if its one decorator disables tracing."""
    for node in site.module.body:
        if (
            isinstance(node, cst.FunctionDef)
            and node.name.value == definition.name
            and len(node.decorators) == 1
        ):
            decorator = node.decorators[0].decorator
            is_call = isinstance(decorator, cst.Call)
            name = dotted(decorator.func if isinstance(decorator, cst.Call) else decorator)
            disables = {f"{site.torch}.compiler.disable", f"{site.torch}._dynamo.disable"}
            has_options = isinstance(decorator, cst.Call) and any(
                argument.keyword is None or argument.keyword.value != "reason" for argument in decorator.args
            )
            return node if name in disables and not (is_call and has_options) else None
    return None


# A custom operator


def _operator(
    site: Site, call: cst.Call, helper: Site, function: cst.FunctionDef
) -> Iterator[Remedy | RefusedRewrite]:
    result = _result(helper, function)
    parameters = _parameters(site, call, function)
    if result is None or parameters is None or f"{result[0]}: {helper.torch}.Tensor" not in parameters:
        return
    name, newline, torch = function.name.value, helper.newline, helper.torch
    title = f"Make `{name}` an operator of the graph"
    tensors = {
        parameter.partition(":")[0] for parameter in parameters if parameter.endswith(f"{torch}.Tensor")
    }
    failing = fails_for_gradients(helper, function, tensors)
    if failing:
        yield RefusedRewrite("custom_op", title, failing)
        return
    operator = f"{name}_operator"
    if re.search(rf"\b{operator}\b", site.text):
        return
    shaped, returned = result
    step = helper.step(function.body)
    decorator = function.decorators[0].decorator
    start, end = helper.range_of(function)
    signature = helper.range_of(function.name)[1], _signature_end(helper, function)
    space = operator_space(site.finding.span.path)
    names = ", ".join(parameter.partition(":")[0] for parameter in parameters)
    typed = f"({', '.join(parameters)}) -> {torch}.Tensor"
    rows = [
        "",
        *("", "", f"@{operator}.register_fake", f"def _({names}):"),
        f"{step}return {shaped}.new_empty({shaped}.shape)",
        *("", "", f"def {name}{typed}:"),
        f"{step}return {operator}({names}).detach()",  # NumPy records no gradient
    ]
    end = _trimmed(helper, start, end)
    text = helper.rewritten(
        (*helper.outer_range(decorator), f'{torch}.library.custom_op("{space}::{name}", mutates_args=())'),
        (*helper.range_of(function.name), operator),
        (*signature, typed),
        (*helper.outer_range(returned), f"{helper.operand(returned)}.contiguous()"),
        (end, end, newline.join(rows)),
    )
    if text is not None:
        caveat = f"{operator_caveat(name, parameters)} and returns contiguous tensors"
        yield Remedy("custom_op", title, FixClass.EQUAL, {site.finding.span.path: text}, caveat=caveat)


def operator_caveat(name: str, parameters: Iterable[str]) -> str:
    """What an operator does with other arguments than those of its schema, which no call of the run shows."""
    types = ", ".join(f"`{parameter.partition(' =')[0]}`" for parameter in parameters)
    resolves = ", resolves the lazy conjugation of tensors" * ("Tensor" in types)
    return f"`{name}` takes only {types}{resolves}" if types else ""


_WITHOUT_GRADIENT = frozenset(
    """
    detach tolist item size shape device dtype ndim dim numel is_cuda argmax argmin bool long int
    """.split()  # noqa: SIM905 - a table of words
)
"""Methods and attributes whose result requires no gradient."""


def fails_for_gradients(site: Site, function: cst.FunctionDef, tensors: Collection[str]) -> str:
    """Why a function fails for tensors that require a gradient, which an operator would take; empty if it does not."""
    for name in sorted(tensors):
        for use in site.loads(function, name):
            if isinstance(use, cst.Name) and _meets_numpy(site, use):
                return f"`{function.name.value}` fails where `{name}` requires a gradient, and an operator would not"
    return ""


def _meets_numpy(  # noqa: PLR0911 - one return a kind of expression
    site: Site, use: cst.Name
) -> bool:
    """Whether a tensor, or what is computed from it, may become an array although it requires a gradient."""
    inner: cst.CSTNode = use
    for parent in site.ancestors(use):
        if isinstance(parent, cst.Attribute):
            if parent.attr.value in _WITHOUT_GRADIENT:
                return False
            if parent.attr.value == "numpy":
                return True
        elif isinstance(parent, (cst.Comparison, cst.If, cst.IfExp, cst.Return)):
            return isinstance(parent, cst.Return)
        elif isinstance(parent, cst.Call) and inner is not parent.func:
            root = dotted(parent.func).partition(".")[0]
            if root in {"len", "isinstance", "range", "int", "float"}:
                return False
            if root != site.torch:
                return True
        elif isinstance(parent, (cst.BaseSmallStatement, cst.BaseCompoundStatement)):
            return True
        inner = parent
    return True


def operator_space(path: str) -> str:
    """The namespace of a file's operators. With the folder, as two files `utils.py` may have a function of one name."""
    there = Path(path)
    return re.sub(r"\W", "_", "_".join(text for text in (there.parent.name, there.stem) if text))


def _trimmed(site: Site, start: int, end: int) -> int:
    """The end of a function without the blank lines after it."""
    return start + len(site.source[start:end].rstrip())


def _signature_end(site: Site, function: cst.FunctionDef) -> int:
    """Offset of the colon after the parameters and the annotation of the result."""
    if function.returns is not None:
        return site.outer_range(function.returns.annotation)[1]
    first = site.range_of(function.body)[0]
    head = site.source[site.range_of(function.name)[1] : first]
    return site.range_of(function.name)[1] + head.rindex(")") + 1


def _parameters(site: Site, call: cst.Call, function: cst.FunctionDef) -> list[str] | None:
    """The parameters with annotations: those that are written, else by what Dynamo saw at the call."""
    parameters = function.params
    others = (
        parameters.kwonly_params,
        parameters.star_kwarg,
        parameters.posonly_params,
        isinstance(parameters.star_arg, cst.Param),
    )
    if (
        any(others)
        or len(call.args) != len(parameters.params)
        or any(node.star or node.keyword for node in call.args)
    ):
        return None
    out: list[str] = []
    for parameter, argument in zip(parameters.params, call.args, strict=True):
        if parameter.default is not None:
            return None
        annotation = _annotation(site, argument.value)
        if parameter.annotation is not None:
            written = dotted(parameter.annotation.annotation)
            annotation = written if written in {f"{site.torch}.Tensor", "int", "float", "bool"} else ""
        if not annotation:
            return None
        out.append(f"{parameter.name.value}: {annotation}")
    return out


def _annotation(site: Site, argument: cst.BaseExpression) -> str:
    """The type of an argument; empty where it is not certain."""
    if isinstance(argument, cst.Integer):
        return "int"
    if isinstance(argument, cst.Float):
        return "float"
    if isinstance(argument, cst.Name) and argument.value in _ANNOTATIONS:
        return _ANNOTATIONS[argument.value]
    values = site.values(argument)
    return f"{site.torch}.Tensor" if values and all(value.kind is FactKind.TENSOR for value in values) else ""


def _result(site: Site, function: cst.FunctionDef) -> tuple[str, cst.BaseExpression] | None:
    """The parameter whose shape and dtype the result has, and the returned expression; None where not certain."""
    body = function.body.body
    names = {parameter.name.value: parameter.name.value for parameter in function.params.params}
    uses_numpy, new = False, set[str]()
    for statement in body:
        if not isinstance(statement, cst.SimpleStatementLine) or len(statement.body) != 1:
            return None
        node = statement.body[0]
        if isinstance(node, cst.Expr) and isinstance(node.value, cst.SimpleString):
            continue
        uses_numpy |= any(
            isinstance(node, cst.Name) and node.value in {"numpy", "np"} for node in descendants(node)
        )
        if isinstance(node, cst.Assign) and len(node.targets) == 1:
            target = node.targets[0].target
            if not isinstance(target, cst.Name):
                return None
            kept = _kept(site, node.value, names)
            if kept is None and any(isinstance(node, cst.Call) for node in descendants(node.value)):
                return None  # random numbers, or a write into an argument
            is_new = kept is not None and _is_new(node.value, new)
            new = (new - {target.value}) | ({target.value} if is_new else set())
            names.pop(target.value, None)
            if kept is not None:
                names[target.value] = kept
            continue
        if isinstance(node, cst.Return) and node.value is not None and statement is body[-1]:
            kept = _kept(site, node.value, names)
            return (
                (kept, node.value) if kept is not None and uses_numpy and _is_new(node.value, new) else None
            )
        return None
    return None


def _kept(site: Site, node: cst.BaseExpression, names: dict[str, str]) -> str | None:
    """The parameter whose shape and dtype an expression has; None where that is not certain."""
    if isinstance(node, cst.Name):
        return names.get(node.value)
    if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Attribute):
        return None
    name, owner = node.func.attr.value, dotted(node.func.value)
    inner: cst.BaseExpression | None = None
    if owner in {"np", "numpy"}:
        inner = node.args[0].value if name in _KEEPS and _is_plain_numpy(node) else None
    elif owner == site.torch:
        inner = node.args[0].value if name in _FROM_NUMPY and len(node.args) == 1 else None
    elif name in _KEEPS_METHODS and not node.args:
        inner = node.func.value
    return _kept(site, inner, names) if inner is not None else None


def _is_new(node: cst.BaseExpression, names: set[str]) -> bool:
    """Whether an expression that `_kept` knows shares no memory with the parameter. `names`: those that do not."""
    if isinstance(node, cst.Name):
        return node.value in names
    if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Attribute):
        return False
    inner = node.args[0].value if node.args else node.func.value
    return node.func.attr.value in _NEW or _is_new(inner, names)


def _is_plain_numpy(call: cst.Call) -> bool:
    """Whether no argument of a NumPy function changes the shape of its result, as `axis=None` of a sort does."""
    if not call.args or call.args[0].keyword is not None or any(argument.star for argument in call.args):
        return False
    keywords = {argument.keyword.value for argument in call.args if argument.keyword is not None}
    flattens = any(dotted(argument.value) == "None" for argument in call.args[1:])
    return keywords <= {"axis", "kind", "shift", "stable"} and not flattens
