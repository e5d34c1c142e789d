"""A helper that breaks inside, as it computes a new array with NumPy: an operator that is part of the graph.

Invariant: only a function at top level whose every `return` is one new array or tensor (`new_arrays`) that carries no
gradient, and that writes into none of its arguments. The operator runs the body as it is, so that
random numbers come in the same order. The function keeps its name, its parameters and the type of its result.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from fuselight.shared.report import FactKind
from fuselight_server.fixes.rewrites.helpers import fails_for_gradients, operator_caveat, operator_space
from fuselight_server.fixes.rewrites.new_arrays import (
    NUMPY,
    NewArray,
    is_equal_array,
    is_member,
    new_array,
    size_statements,
)
from fuselight_server.fixes.rewrites.remedy import FixClass, Remedy
from fuselight_server.fixes.syntax.refusals import RefusedRewrite
from fuselight_server.fixes.syntax.site import Replacement, Site
from fuselight_server.fixes.syntax.tree import children_of, descendants, dotted

_TYPES = {
    **{f"torch.{name}": "torch.Tensor" for name in ("Tensor", "LongTensor", "FloatTensor", "BoolTensor")},
    "Tensor": "torch.Tensor",
    "int": "int",
    "float": "float",
    "bool": "bool",
    "str": "str",
}
_SEQUENCE = re.compile(
    r"(?:typing\.)?(?:tuple|Tuple|list|List|Sequence)\[(int|float|bool)(?:,(?:\1|\.\.\.))*\]"
)
_OPTIONAL = re.compile(r"(?:typing\.)?Optional\[(.*)\]|(.*)\|None|None\|(.*)")
_ENDS = frozenset({"tolist", "item", "size", "shape", "dtype", "device", "ndim", "dim", "numel"})
"""Methods and attributes of a tensor whose result is no view of it."""
_WIDTH = 80
"""Most characters of the parameters of an operator on one line."""
_WRITES = frozenset({"put_along_axis", "copyto", "put", "place", "putmask", "fill_diagonal", "shuffle", "at"})
"""Functions of NumPy and random, generators included, that write into their first argument."""
_INTO_THIRD = frozenset({"add", "subtract", "multiply", "divide", "power", "maximum", "minimum", "mod"})
"""Functions of NumPy whose third argument, if there is one, is written."""
_WRITING_METHODS = frozenset(
    """
    fill sort put partition itemset resize setfield byteswap append extend insert pop remove clear reverse setflags
    """.split()  # noqa: SIM905 - a table of words
)
_READS = frozenset(
    """
    len int float bool str range list tuple set zip enumerate min max sum sorted reversed abs round any all isinstance
    print repr sample choice choices randint uniform
    """.split()  # noqa: SIM905 - a table of words
)
"""Functions by the last part of their name that write into no argument."""


def opaque_helper_remedies(site: Site) -> Iterator[Remedy | RefusedRewrite]:
    """The function at top level around a break, as a custom operator."""
    function = _function(site)
    if function is None:
        return
    arrays = [new_array(site, function, statement.value) for statement in _returns(site, function)]
    first = arrays[0] if arrays else None
    if first is None or not all(is_equal_array(site, first, array) for array in arrays):
        return
    types = _parameter_types(site, function)
    statements = size_statements(site, function, first.shape)
    if types is None or statements is None or _writes_arguments(site, function, types):
        return
    failing = fails_for_gradients(
        site, function, {name for name, kind in types.items() if kind == "torch.Tensor"}
    )
    if failing:
        yield RefusedRewrite("custom_op", f"Make `{function.name.value}` an operator of the graph", failing)
        return
    yield from _operator(site, function, first, types, statements)


def _function(site: Site) -> cst.FunctionDef | None:
    """The function at top level around the finding, if it has no decorator and no parameter of another kind."""
    first, last = site.span
    for node in site.module.body:
        if not isinstance(node, cst.FunctionDef):
            continue
        start, end = site.range_of(node.body)
        params = node.params
        others = (
            params.kwonly_params,
            params.posonly_params,
            params.star_kwarg,
            node.decorators,
            node.asynchronous,
        )
        if start <= first and last <= end and not any(others) and not isinstance(params.star_arg, cst.Param):
            return node
    return None


def _own(function: cst.FunctionDef) -> Iterator[cst.CSTNode]:
    """The nodes of a function without those of functions inside it."""
    waiting: list[cst.CSTNode] = [function.body]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += [
            child
            for child in children_of(node)
            if not isinstance(child, (cst.FunctionDef, cst.Lambda, cst.ClassDef))
        ]


def _returns(site: Site, function: cst.FunctionDef) -> list[cst.Return]:
    """The returns of a function, in order; none if it may end without a value, or is a generator."""
    own = list(_own(function))
    statements = [node for node in own if isinstance(node, cst.Return)]
    body = function.body.body
    last = body[-1] if body else None
    ends = isinstance(last, cst.SimpleStatementLine) and isinstance(last.body[-1], (cst.Return, cst.Raise))
    if not ends or any(isinstance(node, (cst.Yield, cst.Await, cst.Global, cst.Nonlocal)) for node in own):
        return []
    return (
        sorted(statements, key=site.range_of)
        if all(statement.value is not None for statement in statements)
        else []
    )


# The parameters


def _parameter_types(site: Site, function: cst.FunctionDef) -> dict[str, str] | None:
    """The type of each parameter as an operator takes it; None where one is not known."""
    types = {}
    for parameter in function.params.params:
        written = site.code(parameter.annotation.annotation) if parameter.annotation is not None else ""
        kind = _type(re.sub(r"\s", "", written)) if written else _observed_type(site, function, parameter)
        if not kind:
            return None
        types[parameter.name.value] = kind
    return types


def _type(written: str) -> str:
    """An annotation as an operator takes it; empty if it takes none such."""
    optional = _OPTIONAL.fullmatch(written)
    if optional is not None:
        inner = _type(next(group for group in optional.groups() if group is not None))
        return f"{inner} | None" if inner else ""
    sequence = _SEQUENCE.fullmatch(written)
    if sequence is not None:
        return f"list[{sequence[1]}]"
    return _TYPES.get(written, "")


def _observed_type(site: Site, function: cst.FunctionDef, parameter: cst.Param) -> str:
    """The type of a parameter by its default, else by what Dynamo saw where the function reads it."""
    default = parameter.default
    if isinstance(default, cst.Integer):
        return "int"
    if isinstance(default, cst.Float):
        return "float"
    if isinstance(default, cst.Name) and default.value in {"True", "False"}:
        return "bool"
    if default is not None:
        return ""
    values = [
        value
        for expression in site.loads(function, parameter.name.value)
        for value in site.values(expression)
    ]
    kinds = {_kind(value.kind, value.text) for value in values}
    return kinds.pop() if len(kinds) == 1 else ""


def _kind(kind: FactKind, text: str) -> str:
    if kind is FactKind.TENSOR:
        return "torch.Tensor"
    if kind is not FactKind.CONSTANT and kind is not FactKind.NUMBER:
        return "list[int]" if re.fullmatch(r"[(\[](?:s?\d+(?:, |,)?)+[)\]]", text) else ""
    if text in {"True", "False"}:
        return "bool"
    if re.fullmatch(r"-?\d+|s\d+", text):
        return "int"
    return "float" if re.fullmatch(r"-?\d+\.\d*(?:e-?\d+)?", text) else ""


def _writes_arguments(site: Site, function: cst.FunctionDef, types: dict[str, str]) -> bool:
    """Whether the function may write into a tensor or a list that it is called with.

    torch trusts `mutates_args=()`, so a write through another name would be lost. Names are followed until none is
    added: in a loop, a name can be bound below its use.
    """
    lists = {name for name, kind in types.items() if kind.startswith("list")}
    shared = {name for name, kind in types.items() if "Tensor" in kind}
    bindings = [
        binding for node in descendants(function.body) if (binding := _binding(site, node)) is not None
    ]
    for _ in bindings:  # each pass adds a name, or none is left
        for target, value in bindings:
            names = {
                descendant.value for descendant in descendants(target) if isinstance(descendant, cst.Name)
            }
            if _shares(site, value, shared):
                shared |= names
            elif isinstance(value, cst.Name) and value.value in lists:
                lists |= names if isinstance(target, cst.Name) else set()
    nodes = [*descendants(function.body)]
    if any(_holds(site, expression, shared | lists) for node in nodes for expression in _written(node)):
        return True
    calls = [node for node in nodes if isinstance(node, cst.Call) and not _only_reads(site, node)]
    values = [argument.value for call in calls for argument in call.args]
    return any(
        _shares(site, expression, shared) or (isinstance(expression, cst.Name) and expression.value in lists)
        for expression in values
    )


def _binding(site: Site, node: cst.CSTNode) -> tuple[cst.CSTNode, cst.BaseExpression] | None:
    """What is bound, and to what it belongs: `a` and `x` of `a = x`, `for a in x`, `with x as a`."""
    if isinstance(node, cst.AssignTarget):
        statement = site.parents[node]
        return (node.target, statement.value) if isinstance(statement, cst.Assign) else None
    if isinstance(node, (cst.AnnAssign, cst.NamedExpr)):
        return (node.target, node.value) if node.value is not None else None
    if isinstance(node, (cst.For, cst.CompFor)):
        return node.target, node.iter
    if isinstance(node, cst.WithItem) and node.asname is not None:
        return node.asname.name, node.item
    return None


def _only_reads(site: Site, call: cst.Call) -> bool:
    """Whether a call writes into none of its arguments but those that `_written` knows."""
    name = dotted(call.func)
    root, _, last = name.partition(".")
    if root in NUMPY or root == site.torch:
        return True
    if isinstance(call.func, cst.Name):
        return name in _READS
    return last.rpartition(".")[2] in _READS or not name or _is_local(site, call, root)


def _is_local(site: Site, call: cst.Call, name: str) -> bool:
    """Whether a name is a parameter of the function around a call or bound in it: an array, a tensor, a generator."""
    function = site.function(call)
    if function is None:
        return False
    names = {parameter.name.value for parameter in function.params.params}
    return name in names or bool(site.assigned(function, name))


def _holds(site: Site, node: cst.BaseExpression, shared: set[str]) -> bool:
    """Whether what is written belongs to one of the shared tensors or lists: `x` in `x.numpy()[at] = 1`, not `at`."""
    if isinstance(node, cst.Name):
        return node.value in shared
    if isinstance(node, (cst.Subscript, cst.Attribute)):
        return _holds(site, node.value, shared)
    return _shares(site, node, shared)


def _shares(site: Site, value: cst.BaseExpression, shared: set[str]) -> bool:
    """Whether the value may be one of the shared tensors or a view of it."""
    for name in descendants(value):
        if not isinstance(name, cst.Name) or name.value not in shared or is_member(site, name):
            continue
        if not any(_ends_view(upward) for upward in _upwards(site, name, value)):
            return True
    return False


def _upwards(site: Site, node: cst.CSTNode, top: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """The nodes around a node, up to and including `top`."""
    if node is top:
        return
    for ancestor in site.ancestors(node):
        yield ancestor
        if ancestor is top:
            return


def _ends_view(node: cst.CSTNode) -> bool:
    """Whether an expression holds no tensor that one inside it holds."""
    if isinstance(node, (cst.Comparison, cst.BinaryOperation)):
        return True
    if isinstance(node, cst.Attribute):
        return node.attr.value in _ENDS
    return isinstance(node, cst.Call) and dotted(node.func) in {"len", "int", "float", "bool", "range"}


def _written(node: cst.CSTNode) -> list[cst.BaseExpression]:
    """What a statement or a call writes into."""
    if isinstance(node, cst.Assign):
        return [
            target.target
            for target in node.targets
            if isinstance(target.target, (cst.Subscript, cst.Attribute))
        ]
    if isinstance(node, cst.AnnAssign):
        return [node.target] if isinstance(node.target, (cst.Subscript, cst.Attribute)) else []
    if isinstance(node, (cst.AugAssign, cst.Del)):
        return [node.target]
    if not isinstance(node, cst.Call):
        return []
    path = dotted(node.func)
    name = path.rpartition(".")[2]
    plain = [argument.value for argument in node.args if argument.keyword is None]
    expressions = [
        argument.value
        for argument in node.args
        if argument.keyword is not None and argument.keyword.value == "out"
    ]
    expressions += plain[:1] if name in _WRITES else []
    expressions += (
        plain[2:3] if name in _INTO_THIRD and path.startswith(tuple(f"{text}." for text in NUMPY)) else []
    )
    if isinstance(node.func, cst.Attribute):
        name = node.func.attr.value
        is_written = name in _WRITING_METHODS or (name.endswith("_") and not name.startswith("_"))
        expressions += [node.func.value] if is_written else []
    return expressions


# The operator


def _operator(
    site: Site,
    function: cst.FunctionDef,
    array: NewArray,
    types: dict[str, str],
    statements: list[cst.BaseSmallStatement],
) -> Iterator[Remedy]:
    """Move the body into a custom operator, and call that.

    The operator's name has the file's: two files `utils.py` with a function of one name registered one operator, and
    calls of the first failed. The tag stands there also where nothing random is seen: Inductor made one call of two
    equal ones.
    """
    name, newline, torch = function.name.value, site.newline, site.torch
    step, operator = site.step(function.body), f"{name}_operator"
    kinds = {key: kind.replace("torch.", f"{torch}.") for key, kind in types.items()}
    space = operator_space(site.finding.span.path)
    registered = f'"{space}::{name.lstrip("_")}"'
    if re.search(rf"\b{operator}\b", site.text) or registered in site.text:
        return
    # The tag: else two equal calls may become one. A tuple, as torch before 2.13 takes no single tag.
    tags = f"tags=({torch}.Tag.nondeterministic_seeded,)"
    defaults = {parameter.name.value: parameter.default for parameter in function.params.params}
    codes = {
        key: site.code(expression) if expression is not None else "" for key, expression in defaults.items()
    }
    parts = [f"{key}: {kind}" + (f" = {codes[key]}" if codes[key] else "") for key, kind in kinds.items()]
    typed = ", ".join(parts)
    if len(typed) > _WIDTH:
        typed = "".join(f"{newline}{step}{part}," for part in parts) + newline
    plain = ", ".join(f"{key}={codes[key]}" if codes[key] else key for key in kinds)
    arguments = ", ".join(kinds)
    shape = site.source[slice(*site.outer_range(array.shape))]
    stops = array.dtype.startswith("float") and any("Tensor" in kind for kind in kinds.values())
    result = f"{operator}({arguments}){'.detach()' if stops else ''}{'' if array.is_tensor else '.numpy()'}"
    head = [
        f"return {result}",
        "",
        "",
        f"@{torch}.library.custom_op({registered}, mutates_args=(), {tags})",
        f"def {operator}({typed}) -> {torch}.Tensor:",
    ]
    rule = [
        *("", "", "", f"@{operator}.register_fake", f"def _({plain}):"),
        *(f"{step}{site.code(node)}" for node in statements),
        f"{step}return {torch}.empty({shape}, dtype={torch}.{array.dtype})",
    ]
    body = list(function.body.body)
    documented = bool(body) and _is_docstring(body[0])
    first = body[1 if documented else 0] if len(body) > documented else None
    if (
        first is None
        or (indent := site.indentation(first)) is None
        or site.comments(*site.range_of(function.params))
    ):
        return
    start = (
        site.end_of_line(site.range_of(body[0])[1]) + len(newline) if documented else site.range_of(first)[0]
    )
    start = start if documented else site.source.rfind("\n", 0, start) + 1
    end = site.range_of(function)[0] + len(site.source[slice(*site.range_of(function))].rstrip())
    lines = f"{indent}{head[0]}{newline}{newline.join(head[1:])}{newline}"
    replaced: list[Replacement] = [(start, start, lines), (end, end, newline.join(rule))]
    if not array.is_tensor:
        for statement in _returns(site, function):
            value = statement.value
            if value is not None:
                replaced.append((*site.outer_range(value), f"{torch}.from_numpy({site.code(value)})"))
    text = site.rewritten(*replaced)
    if text is not None:
        title = f"Make `{name}` an operator of the graph"
        caveat = operator_caveat(name, parts)
        fix_class = FixClass.EQUAL if caveat else FixClass.EXACT
        yield Remedy("custom_op", title, fix_class, {site.finding.span.path: text}, caveat=caveat)


def _is_docstring(statement: cst.CSTNode) -> bool:
    only = statement.body[0] if isinstance(statement, cst.SimpleStatementLine) and statement.body else None
    return isinstance(only, cst.Expr) and isinstance(only.value, (cst.SimpleString, cst.ConcatenatedString))
