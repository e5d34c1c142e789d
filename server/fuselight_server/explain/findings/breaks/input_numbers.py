"""Numbers that code reads of a tensor that the compiled function gets: the callers have them before the call.

Invariant: each step from the number to the argument is in the source: assignments, loops, and the calls of the traced
stack. What a layer or another function of the user's computes is not followed, and what is calculated counts only of a
tensor that the run showed to be one of integers.
"""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterator

from fuselight.shared.report import Break, FactKind, Location
from fuselight_server.explain.findings.common.context import Context
from fuselight_server.explain.findings.common.source_tree import node_at, tree_around

_MODULES = re.compile(r"[\\/]torch[\\/]nn[\\/]modules[\\/]module\.py$")
"""Code of torch that calls the `forward` of a module with the arguments of the module's call."""
_READING = frozenset(
    """
    tolist item unbind squeeze unsqueeze flatten select view reshape cpu long int to detach numpy clone zip
    enumerate range len list tuple reversed float
    """.split()  # noqa: SIM905 - a list takes 20 lines
)
"""Calls that read elements, and calculate nothing."""
_BUILTINS = _READING | {"min", "max", "sum", "abs", "sorted", "round"}
_INTEGERS = re.compile(r"u?i\d+\[")


def input_of_number(context: Context, graph_break: Break, read: ast.expr) -> str:
    """The argument of the compiled function of which the expression `read` has its number; empty if none is known."""
    frames = _frames(context, graph_break)
    wanted, is_calculated, names = _with_number(read), False, set[str]()
    for inner, caller in itertools.pairwise([*reversed(frames), None]):
        function = _function(context, inner) if inner is not None else None
        origins = _origins(function, wanted) if function is not None and wanted else None
        if function is None or origins is None:
            return ""
        names, is_calculated = origins[0], is_calculated or origins[1]
        call = node_at(tree_around(context, caller) or function, caller) if caller is not None else None
        wanted = [_argument(function, call, name) for name in names] if isinstance(call, ast.Call) else []
    name = next(iter(names)) if len(names) == 1 else ""
    return name if not is_calculated or _has_integers(context, frames[0].path, name) else ""


def _frames(context: Context, graph_break: Break) -> list[Location]:
    """The calls from the function whose compile holds all others to the break; empty where a library is between."""
    tried = {(frame.location.path, frame.function.rpartition(".")[2]) for frame in context.report.frames}
    places = [place for place in (*graph_break.above, *graph_break.stack) if not _MODULES.search(place.path)]
    outermost = itertools.dropwhile(lambda place: (place.path, place.function) not in tried, places)
    frames = list(outermost) or list(graph_break.stack)
    return frames if all(context.is_user_file(place.path) for place in frames) else []


def _with_number(read: ast.expr) -> list[ast.expr]:
    """What has the number: the tensor of `n.item()`, or the last argument that varies, as of `torch.arange(n)`."""
    if not isinstance(read, ast.Call):
        return []
    if isinstance(read.func, ast.Attribute) and read.func.attr in {"item", "tolist"}:
        return [read.func.value]
    return [node for node in read.args if any(isinstance(part, ast.Name) for part in ast.walk(node))][-1:]


def _function(context: Context, at: Location) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    nodes = ast.walk(tree_around(context, at) or ast.Module([], []))
    return next((node for node in nodes if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))), None)


def _origins(function: ast.AST, wanted: list[ast.expr]) -> tuple[set[str], bool] | None:
    """The parameters of which a function has the expressions, and whether it calculates; None for what is not known."""
    stored: dict[str, list[ast.expr]] = {}
    for name, value in _stores(function):
        stored.setdefault(name, []).append(value)
    parameters = {node.arg for node in ast.walk(function) if isinstance(node, ast.arg)} - {"self"}
    pending, known, is_calculated = list(wanted), set[str](), False
    while pending:
        for part in ast.walk(pending.pop()):
            if isinstance(part, ast.Call):
                is_plain = isinstance(part.func, ast.Name)
                called = ast.unparse(part.func)
                if called.startswith("self.") or (is_plain and called not in _BUILTINS):
                    return None
                is_calculated |= called.rpartition(".")[2] not in _READING
            is_calculated |= isinstance(part, ast.BinOp)
            if isinstance(part, ast.Name) and part.id not in known:
                known.add(part.id)
                pending += stored.get(part.id, ())
    return known & parameters, is_calculated


def _stores(function: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """The names that a function assigns, with what they are of: a value, or what a loop goes through."""
    for node in ast.walk(function):
        targets: list[ast.expr] = []
        if isinstance(node, ast.Assign):
            targets = node.targets
        elif isinstance(node, (ast.For, ast.comprehension, ast.AugAssign, ast.AnnAssign, ast.NamedExpr)):
            targets = [node.target]
        value = getattr(node, "iter", None) or getattr(node, "value", None)
        for part in itertools.chain.from_iterable(map(ast.walk, targets)):
            if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store) and isinstance(value, ast.expr):
                yield part.id, value


def _argument(function: ast.FunctionDef | ast.AsyncFunctionDef, call: ast.Call, name: str) -> ast.expr:
    """What a call gives for a parameter; an unknown function's result where that is not certain."""
    names = [item.arg for item in (*function.args.posonlyargs, *function.args.args)]
    given = dict(zip([item for item in names if item != "self"], call.args, strict=False))
    given |= {item.arg: item.value for item in call.keywords if item.arg}
    is_certain = not any(isinstance(item, ast.Starred) for item in call.args)
    unknown = ast.Call(ast.Name("unknown", ast.Load()), [], [])
    return given.get(name, unknown) if is_certain else unknown


def _has_integers(context: Context, path: str, name: str) -> bool:
    """Whether a variable was a tensor of integers wherever the run has its value."""
    file, values = context.report.facts.files.get(path), context.report.facts.values
    texts = [
        values[index].text
        for fact in (file.facts if file is not None else ())
        if fact.line == fact.end_line
        and (context.read_line(path, fact.line) or "").encode()[fact.column : fact.end_column]
        == name.encode()
        for index, _ in fact.values
        if values[index].kind is FactKind.TENSOR
    ]
    return bool(texts) and all(map(_INTEGERS.match, texts))
