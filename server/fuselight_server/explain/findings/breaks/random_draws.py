"""The words of graph breaks on random numbers of Python and NumPy: torch traces few of their generators.

Invariant: a break is one of these only if torch's texts name a generator, or the expression that broke draws.
"""

from __future__ import annotations

import ast
import random
import re

from fuselight.shared.report import Break, Location
from fuselight_server.explain.findings.common.context import Context
from fuselight_server.explain.findings.common.source_tree import parents_of, tree_around

_OUTSIDE = "outside the compiled code"
_WITH_TORCH = (
    "Or draw it with torch, as torch.rand and torch.randint do, if the code only computes with it: the numbers are "
    "then others, and torch.randint leaves out its upper bound"
)
_DRAW_STEP = (
    f"Draw the number {_OUTSIDE}, and pass it in: as a tensor if the code only computes with it, else as a Python "
    "number"
)
_NUMBER_STEP = f"Draw the number {_OUTSIDE}, and pass it in as a Python number, which this line needs"
_ORDER_STEPS = (
    f"Draw the order {_OUTSIDE}, and pass it in as a tensor of positions to index with",
    (
        "Or draw it with torch.randperm(n), whose first k elements are a sample of k, and index with the tensor: the "
        "order is then another"
    ),
)
_ORDERS = frozenset({"shuffle", "sample", "permutation"})
"""Methods that draw an order of elements, or some of them."""
_CREATE_STEP = f"Create the generator and draw {_OUTSIDE}, and pass the numbers in"
_OF_PYTHON = re.compile(r"\bRandom\.\w+|\brandom\.\w+")
_OF_NUMPY = re.compile(r"\b(?:RandomState|Generator)\.\w+")
_CREATED = re.compile(r"\b(?:default_rng|RandomState|SeedSequence|MT19937|PCG64\w*|Philox|SFC64)\b(?!\.)")
_METHOD = re.compile(r"method `(\w+)` of class `(?:Generator|RandomState|Random)`")
_OTHER_METHODS = re.compile(
    r"(?:get|set|clone|graphsafe|initial|manual)_\w+|seed|[gs]etstate|spawn|__\w+__|jumped"
)
"""Methods of generators, those of torch included, that draw nothing."""
_DRAWS = frozenset(
    name for name in dir(random.Random) if name[0] != "_" and name not in {"seed", "getstate", "setstate"}
)
_UNTRACED_OPERATOR = "UnspecializedPythonVariable"
"""torch's name for a number that it made an input of the graph, as it does with a drawn one."""
_VALUE_IDS = frozenset({"GB0033", "GB0124"})
_OF_NUMBERS = frozenset({"int", "range", "str"})
"""Functions that need the value of a number."""
_READS = frozenset({"item", "tolist"})
_MAX_WRITTEN = 60


def random_words(
    context: Context, gb_id: str | None, graph_break: Break, broke: Location, title: str
) -> tuple[str, str, tuple[str, ...]] | None:
    """Title, text and steps of a break on random numbers; None for other breaks. An empty text leaves torch's."""
    explanation = graph_break.explanation
    method = _METHOD.search(explanation)
    if (gb_id == "GB0007" and _OF_PYTHON.search(title)) or (
        gb_id == "GB0294" and _OF_NUMPY.search(explanation)
    ):
        return title, without_counterpart(context, gb_id, broke), _steps(context, broke)
    if gb_id == "GB0294" and _CREATED.search(explanation):
        return title, without_counterpart(context, gb_id, broke), (_CREATE_STEP,)
    if gb_id == "GB0156" and method is not None and not _OTHER_METHODS.fullmatch(method[1]):
        return title, "", _steps(context, broke)
    if gb_id == "GB0213" and _UNTRACED_OPERATOR in graph_break.context:
        drawn = _drawing_call(context, broke)
        if drawn:
            text = (
                f"{drawn} draws in each call, so torch makes the number an input of the graph, and does not trace "
                "what Python calculates with it here."
            )
            return f"Python calculates with the random number of {drawn}", text, _steps(context, broke)
    return _needed_number(context, broke) if gb_id in _VALUE_IDS else None


def _needed_number(context: Context, broke: Location) -> tuple[str, str, tuple[str, ...]] | None:
    """The words of a line that needs the value of a number which is drawn there, or before it."""
    if drawn := _drawing_call(context, broke, is_whole=True):
        text = f"{drawn} draws in each call, so its value is not known while the graph is compiled."
        return f"{drawn} returns a random number of NumPy", text, _steps(context, broke)
    if not (drawn := _drawn_before(context, broke)):
        return None
    text = f"{drawn} draws in each call, so torch makes the number an input of the graph: its value is not known here."
    return f"the random number of {drawn} is needed while torch traces", text, (_NUMBER_STEP,)


def _drawn_before(context: Context, at: Location) -> str:
    """The function that drew a number which the expression at a place names; empty if it reads a tensor, too."""
    tree = tree_around(context, at)
    node = _expression(tree, at)
    parts = list(ast.walk(node)) if node is not None else []
    if tree is None or any(isinstance(part, ast.Attribute) and part.attr in _READS for part in parts):
        return ""
    names = {part.id for part in parts if isinstance(part, ast.Name)}
    drawn = (
        _drawn_by(statement.value)
        for statement in ast.walk(tree)
        if isinstance(statement, ast.Assign)
        and statement.lineno < at.line
        and any(isinstance(target, ast.Name) and target.id in names for target in statement.targets)
    )
    return next(filter(None, drawn), "")


def _steps(context: Context, at: Location) -> tuple[str, ...]:
    """What to do about a draw; torch's own draws are no numbers of Python, which an index and `int` need."""
    tree = tree_around(context, at)
    node = _expression(tree, at)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _ORDERS:
        return _ORDER_STEPS
    outer = parents_of(tree).get(node) if tree is not None and node is not None else None
    needs_number = isinstance(outer, (ast.Subscript, ast.Slice)) or (
        isinstance(outer, ast.Call) and ast.unparse(outer.func) in _OF_NUMBERS
    )
    return (_DRAW_STEP,) if needs_number else (_DRAW_STEP, _WITH_TORCH)


def without_counterpart(context: Context, gb_id: str | None, at: Location) -> str:
    """What a call of NumPy lacks, by the name in the code; empty for other breaks, and where no call stands there."""
    node = _expression(tree_around(context, at), at) if gb_id == "GB0294" else None
    name = _written(node.func) if isinstance(node, ast.Call) else ""
    return f"torch has no counterpart of {name}, so it does not trace the call." if name else ""


def _drawing_call(context: Context, at: Location, *, is_whole: bool = False) -> str:
    """The function in the expression at a place that draws a number, as code; empty if there is none."""
    node = _expression(tree_around(context, at), at)
    return _drawn_by(node, is_whole=is_whole)


def _drawn_by(node: ast.expr | None, *, is_whole: bool = False) -> str:
    for part in ast.walk(node) if node is not None and not is_whole else [node]:
        if isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute):
            owner = ast.unparse(part.func.value)
            is_numpy = owner in {"np.random", "numpy.random"}
            if is_numpy or (part.func.attr in _DRAWS and not owner.startswith("torch") and not is_whole):
                return _written(part.func)
    return ""


def _expression(tree: ast.AST | None, at: Location) -> ast.expr | None:
    """The expression that is exactly at a place."""
    wanted = (at.line, at.column, at.end_line, at.end_column)
    nodes = (node for node in ast.walk(tree or ast.Module([], [])) if isinstance(node, ast.expr))
    return next(
        (
            node
            for node in nodes
            if (node.lineno, node.col_offset, node.end_lineno, node.end_col_offset) == wanted
        ),
        None,
    )


def _written(node: ast.expr) -> str:
    text = ast.unparse(node)
    return f"`{text}`" if len(text) <= _MAX_WRITTEN else ""
