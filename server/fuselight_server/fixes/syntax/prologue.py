"""Conversions of arguments before compiled code: the function becomes one that converts and calls the compiled one.

    @torch.compile                        def step(x, scale):
    def step(x, scale):          ->           return _compiled_step(x, torch.as_tensor(scale))
        return x * scale

                                          @torch.compile
                                          def _compiled_step(x, scale):
                                              return x * scale

Invariant: a function or method is split whose one decorator is torch.compile, or which is itself the target and has no
decorator. Its name, parameters and comments
stay with the function that converts, so that callers and directives apply to it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

import libcst as cst

from fuselight_server.fixes.syntax.site import Replacement, Site
from fuselight_server.fixes.syntax.tree import descendants, dotted

_EMPTY = cst.Module([])


def compiled_definition(site: Site, name: str, line: int) -> cst.FunctionDef | None:
    """The function or method of that qualified name on a line, if torch.compile is its only decorator."""
    for node in site.parents:
        if not isinstance(node, cst.FunctionDef) or node.name.value != name.rpartition(".")[2]:
            continue
        first = site.line_number(node.decorators[0] if node.decorators else node)
        if first <= line <= site.line_number(node):
            return node if _can_be_split(site, node) else None
    return None


def parameter_names(function: cst.FunctionDef) -> tuple[str, ...]:
    """The names of the parameters that take one argument each, `self` included."""
    parameters = function.params
    return tuple(
        parameter.name.value
        for parameter in (*parameters.posonly_params, *parameters.params, *parameters.kwonly_params)
    )


def with_prologue(
    site: Site,
    function: cst.FunctionDef,
    converted: Mapping[str, str],
    *,
    before: Sequence[str] = (),
    result: str = "{}",
    further: Sequence[tuple[str, str]] = (),
    changes: Sequence[Replacement] = (),
    taken: Callable[[str], bool] = lambda _name: False,
    body: Callable[[str], Sequence[str]] | None = None,
) -> str | None:
    """The text with the function split, None where it does not fit. The compiled one gets a decorator if it has none.

    `converted`: the argument that is passed on, by parameter. `before`: statements before the call. `result`: what is
    returned, with `{}` for the call. `further`: parameters of the compiled function alone, with their arguments.
    `changes`: in the compiled function. `taken`: whether another file uses a name. `body`: the statements around the
    call, instead of `before` and `result`.
    """
    first = function.decorators[0] if function.decorators else function
    indent = site.indentation(first)
    name = _free_name(site, function, taken)
    if indent is None or name is None or not _takes(function, further):
        return None
    step, newline = site.step(function.body), site.newline
    owner = _first_parameter(function) if _is_method(site, function) else ""
    arguments = _arguments(function, converted, skips=bool(owner))
    call = f"{owner}.{name}" if owner else name
    call = f"{call}({', '.join((*arguments, *(value for _, value in further)))})"
    returns = f" -> {_EMPTY.code_for_node(function.returns.annotation)}" if function.returns else ""
    parameters = _EMPTY.code_for_node(function.params)
    if parameters.rstrip().endswith(",") and "\n" in parameters:
        return None  # laid out over lines
    docstring = _docstring(site, function)
    inside = body(call) if body is not None else (*before, f"return {result.format(call)}")
    rows = (
        f"def {function.name.value}({parameters}){returns}:",
        *(f"{step}{row}" for row in (*docstring[2:], *inside)),
    )
    gap = newline * (2 if owner else 3)
    if not function.decorators:
        gap = f"{gap}{indent}@{site.torch}.compile{newline}"
    start = site.range_of(first)[0]
    splitting = [
        (start, start, f"{newline}{indent}".join(rows) + gap + indent),
        (*site.range_of(function.name), name),
    ]
    if docstring:
        splitting.append((*docstring[:2], ""))
    if further:
        splitting.append(_parameters_with(site, function, further))
    return site.rewritten(*splitting, *changes)


def _docstring(site: Site, function: cst.FunctionDef) -> tuple[int, int, str] | tuple[()]:
    """The range of the docstring with its line end, and its text; empty where it cannot move."""
    body = function.body.body
    line = body[0] if len(body) > 1 else None
    if not isinstance(line, cst.SimpleStatementLine) or len(line.body) != 1 or site.indentation(line) is None:
        return ()
    expression = line.body[0]
    if not isinstance(expression, cst.Expr) or not isinstance(expression.value, cst.SimpleString):
        return ()
    first, last = site.range_of(expression)
    end = site.end_of_line(last)
    if site.source[last:end].strip() or not function.get_docstring():
        return ()
    start = first - len(site.indentation(line) or "")
    rest = site.source[end:]
    blank = len(rest) - len(rest.lstrip("\r\n"))
    return start, end + blank, site.source[first:last]


def marks(site: Site, function: str, sizes: Sequence[tuple[str, int]]) -> tuple[str, ...]:
    """Statements that mark sizes by a function of `torch._dynamo`, which compiled code cannot trace."""
    calls = (f"{site.torch}._dynamo.{function}({name}, {dimension})" for name, dimension in sizes)
    step = site.step(site.module)
    return (f"if not {site.torch}.compiler.is_compiling():", *(f"{step}{call}" for call in calls))


def _can_be_split(site: Site, function: cst.FunctionDef) -> bool:
    return is_compiled(site, function) and can_be_called_from_outside(site, function)


def is_compiled(site: Site, function: cst.FunctionDef) -> bool:
    """Whether torch.compile is the only decorator of a function."""
    if len(function.decorators) != 1:
        return False
    decorator = function.decorators[0].decorator
    name = dotted(decorator.func if isinstance(decorator, cst.Call) else decorator)
    return name == f"{site.torch}.compile"


def can_be_called_from_outside(site: Site, function: cst.FunctionDef) -> bool:
    """Whether another function with its name and parameters can call it under a further name."""
    if function.asynchronous is not None or function.type_parameters:
        return False
    parent = next(
        (ancestor for ancestor in site.ancestors(function) if not isinstance(ancestor, cst.IndentedBlock)),
        None,
    )
    if not isinstance(parent, (cst.Module, cst.ClassDef)):
        return False
    if isinstance(parent, cst.ClassDef) and not _first_parameter(function):
        return False
    name = function.name.value
    for node in descendants(function.body):
        if isinstance(node, (cst.Yield, cst.Await, cst.Global)) or _refers_to(node, name):
            return False
    return isinstance(function.body, cst.IndentedBlock)


def _refers_to(node: cst.CSTNode, name: str) -> bool:
    return isinstance(node, cst.Name) and node.value in {name, "__class__", "super"}


def _is_method(site: Site, function: cst.FunctionDef) -> bool:
    return any(isinstance(ancestor, cst.ClassDef) for ancestor in site.ancestors(function))


def _first_parameter(function: cst.FunctionDef) -> str:
    parameters = (*function.params.posonly_params, *function.params.params)
    return parameters[0].name.value if parameters else ""


def _takes(function: cst.FunctionDef, further: Sequence[tuple[str, str]]) -> bool:
    """Whether parameters can be added at the end."""
    parameters = function.params
    is_plain = not (
        parameters.kwonly_params or parameters.star_kwarg or isinstance(parameters.star_arg, cst.Param)
    )
    names = parameter_names(function)
    return not further or (
        is_plain
        and not any(parameter.default for parameter in parameters.params)
        and not any(name in names for name, _ in further)
    )


def _parameters_with(
    site: Site, function: cst.FunctionDef, further: Sequence[tuple[str, str]]
) -> Replacement:
    names = ", ".join(name for name, _ in further)
    params = (*function.params.posonly_params, *function.params.params)
    if params:
        end = site.range_of(params[-1])[1]
        return end, end, f", {names}"
    end = site.range_of(function.name)[1] + len("(")
    return end, end, names


def _arguments(function: cst.FunctionDef, converted: Mapping[str, str], *, skips: bool) -> list[str]:
    """What the conversion passes on."""
    parameters = function.params
    names = [parameter.name.value for parameter in (*parameters.posonly_params, *parameters.params)][
        1 if skips else 0 :
    ]
    out = [converted.get(name, name) for name in names]
    if isinstance(parameters.star_arg, cst.Param):
        out.append(f"*{parameters.star_arg.name.value}")
    out += [
        f"{parameter.name.value}={converted.get(parameter.name.value, parameter.name.value)}"
        for parameter in parameters.kwonly_params
    ]
    return [*out, f"**{parameters.star_kwarg.name.value}"] if parameters.star_kwarg is not None else out


def _free_name(site: Site, function: cst.FunctionDef, taken: Callable[[str], bool]) -> str | None:
    wanted = f"_compiled_{function.name.value.strip('_')}"
    names = (wanted, *(f"{wanted}_{number}" for number in range(1, 10)))
    return next((name for name in names if not _occurs(name, site.text) and not taken(name)), None)


def _occurs(name: str, text: str) -> bool:
    return re.search(rf"\b{re.escape(name)}\b", text) is not None
