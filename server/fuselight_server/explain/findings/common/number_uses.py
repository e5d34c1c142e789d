"""What a function does with a Python number, so that advice to make it a tensor is given only where that compiles.

Invariant: a use is named only if the expression stands in the source as the guard names it. A number that is not found
has no uses, and the caller states the condition instead of the advice.
"""

from __future__ import annotations

import ast
import enum
from collections.abc import Callable, Iterator

from fuselight.shared.codec import read_words
from fuselight.shared.foreign_data import parse_python
from fuselight.shared.report import GuardFailure, Location
from fuselight_server.explain.findings.common.context import Context
from fuselight_server.explain.findings.common.source_tree import function_tree, parents_of, tree_around


class Use(enum.Enum):
    """What happens to a number."""

    SLICE = "slice"
    INDEX = "index"
    SIZE = "size"
    LOOP = "loop"
    CONDITION = "condition"
    PYTHON = "python"
    """A function of Python needs its value, such as `min`."""
    SHOWN = "shown"
    """It is printed, logged or made a text."""
    OTHER = "other"
    """As arithmetic, which accepts a tensor as well."""


_NAMES = read_words(__file__)
_SIZES = _NAMES["sizes"]
"""Functions and methods of torch that take numbers, and no tensors in their place."""
_PYTHON = frozenset(
    "min max int float round abs divmod pow bool len sum".split()  # noqa: SIM905 - as above
)
_OF_NUMBERS = frozenset({"math", "np", "numpy"})
"""Modules whose functions calculate with numbers."""
_SHOWING = frozenset({"print", "str", "repr", "format"})
_LOGGING = frozenset({"debug", "info", "warning", "error", "critical", "format"})

_OPTIONS = _NAMES["options"]
"""Functions and methods of torch some of whose options are numbers, where they get a shape or work in place."""
_NEED_NUMBERS = frozenset({Use.SLICE, Use.INDEX, Use.SIZE, Use.LOOP, Use.CONDITION, Use.PYTHON, Use.SHOWN})


def needs_number(context: Context, failure: GuardFailure) -> bool:
    """Whether the function that reads a value uses it where a tensor breaks the graph, as in `if` or in a slice."""
    read = context.innermost_user_frame(failure.born)
    tree = tree_around(context, read) if read is not None else None
    owner, _, last = failure.source.rpartition(".")
    names = (failure.source, f"self.{last}") if owner.startswith("self") else (failure.source,)
    wanted = {text for name in names if (text := _normal(name)) is not None}
    if tree is None or not wanted:
        return False
    try:
        return not _NEED_NUMBERS.isdisjoint(_uses(tree, wanted))
    except RecursionError:  # an expression of some hundred parts
        return False


def uses_of(
    read_line: Callable[[str, int], str | None], function: Location, names: tuple[str, ...]
) -> frozenset[Use]:
    """The uses of an expression, under any of its `names`, in the function whose `def` line is given."""
    tree = function_tree(read_line, function)
    wanted = {text for name in names if (text := _normal(name)) is not None}
    if tree is None or not wanted:
        return frozenset()
    try:
        return frozenset(_uses(tree, wanted))
    except RecursionError:  # an expression of some hundred parts
        return frozenset()


def _normal(name: str) -> str | None:
    try:
        return ast.unparse(parse_python(name, mode="eval").body)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _uses(tree: ast.AST, wanted: set[str]) -> Iterator[Use]:
    parents = parents_of(tree)
    kinds = {type(parse_python(text, mode="eval").body) for text in wanted}
    for node in ast.walk(tree):
        is_read = isinstance(getattr(node, "ctx", None), ast.Load)
        is_updated = isinstance(parents.get(node), ast.AugAssign)
        if type(node) in kinds and (is_read or is_updated) and ast.unparse(node) in wanted:
            yield use_of(node, parents)


def use_of(node: ast.AST, parents: dict[ast.AST, ast.AST]) -> Use:
    """What happens to the value of an expression where it stands."""
    child, parent = node, parents.get(node)
    while parent is not None:
        use = _use_in(child, parent)
        if use is not None or isinstance(parent, ast.stmt):
            return use or Use.OTHER
        child, parent = parent, parents.get(parent)
    return Use.OTHER


def _use_in(child: ast.AST, parent: ast.AST) -> Use | None:  # noqa: PLR0911 - one return a form of parent
    """The use of a value by the node around it; None if that node only hands it on."""
    if isinstance(parent, ast.Slice):
        return Use.SLICE
    if isinstance(parent, ast.Subscript):
        return Use.INDEX if child is parent.slice else None
    if isinstance(parent, (ast.If, ast.While, ast.IfExp, ast.Assert)):
        return Use.CONDITION if child is parent.test else None
    if isinstance(parent, ast.BoolOp) or (isinstance(parent, ast.UnaryOp) and isinstance(parent.op, ast.Not)):
        return Use.CONDITION
    if isinstance(parent, ast.For):
        return Use.LOOP
    if isinstance(parent, ast.Call):
        return use_by_call(child, parent)
    return Use.SHOWN if isinstance(parent, (ast.FormattedValue, ast.JoinedStr)) else None


def use_by_call(child: ast.AST | None, call: ast.Call) -> Use:
    """What a call does with a number that it gets as an argument."""
    if child is call.func:
        return Use.OTHER
    name = getattr(call.func, "attr", None) or getattr(call.func, "id", "")
    if name == "range":
        return Use.LOOP
    is_logged = isinstance(call.func, ast.Attribute) and name in _LOGGING
    if is_logged or (isinstance(call.func, ast.Name) and name in _SHOWING):
        return Use.SHOWN
    is_of_math = isinstance(call.func, ast.Attribute) and ast.unparse(call.func.value) in _OF_NUMBERS
    if is_of_math or name in _OPTIONS or (isinstance(call.func, ast.Name) and name in _PYTHON):
        return Use.PYTHON
    return Use.SIZE if name in _SIZES else Use.OTHER


_DYNAMIC = frozenset({"sqrt", "cos", "cosh", "sin", "sinh", "tan", "tanh", "asin", "acos", "atan", "log2"})
"""Functions of `math` that torch calculates with a dynamic number; for all others it fixes a float."""
_OF_INTS = frozenset({"ceil", "floor", "trunc"})
"""Those that also leave an int dynamic."""


def is_dynamic(call: ast.Call) -> bool:
    """Whether torch calculates the function with a dynamic number."""
    owner, _, name = ast.unparse(call.func).rpartition(".")
    return owner == "math" and name in _DYNAMIC


def calculated(read: ast.expr, parents: dict[ast.AST, ast.AST]) -> ast.expr:
    """The whole calculation around a read: operators, and the functions of `math` that torch calculates with."""
    parent = parents.get(read)
    is_operator = isinstance(parent, (ast.BinOp, ast.UnaryOp)) and not isinstance(parent.op, ast.Not)
    is_call = isinstance(parent, ast.Call) and is_dynamic(parent)
    return calculated(parent, parents) if (is_operator or is_call) and isinstance(parent, ast.expr) else read


def fixing_call(context: Context, failure: GuardFailure) -> tuple[str, int] | None:
    """The function of NumPy or `math` on the line of a guard that fixes an int, and the line: `np.cos`.

    None where the line calls no such function, or several.
    """
    read = context.innermost_user_frame(failure.born)
    tree = tree_around(context, read) if read is not None else None
    names = {
        ast.unparse(node.func)
        for node in ast.walk(tree or ast.Module([], []))
        if isinstance(node, ast.Call)
        and read is not None
        and node.lineno <= read.line <= (node.end_lineno or node.lineno)
    }
    fixing = [name for name in names if fixes(name)]
    return (fixing[0], read.line) if read is not None and len(fixing) == 1 else None


def fixes(name: str) -> bool:
    """Whether torch fixes an int with which a function is called."""
    owner, _, last = name.rpartition(".")
    return owner in _OF_NUMBERS and not (owner == "math" and last in _DYNAMIC | _OF_INTS)


def without_fixing(call: tuple[str, int]) -> str:
    """What to write for a function that fixes a number; empty where `math` has no such function that does not."""
    name, line = call
    other = f"math.{name.rpartition('.')[2]}"
    return "" if fixes(other) else f"write `{other}` for `{name}` on line {line}"
