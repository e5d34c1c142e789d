"""Which expression of a function is a new array, and which statements compute its shape.

Invariant: the shape and the dtype are certain. The shape depends on sizes of the parameters, never on their values.
"""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst

from fuselight_server.fixes.syntax.site import Site
from fuselight_server.fixes.syntax.tree import descendants, dotted

NUMPY = ("np", "numpy")
"""Names of NumPy."""
_FROM_ARRAY = {"from_numpy", "as_tensor", "tensor"}
_CREATORS = {"zeros", "ones", "empty", "full"}
_DTYPES = {
    **{name: name for name in ("int8", "int16", "int32", "int64", "uint8", "float16", "float32", "float64")},
    "bool": "bool",
    "bool_": "bool",
    "int": "int64",
    "float": "float64",
    "double": "float64",
    "long": "int64",
    "half": "float16",
    "single": "float32",
}
"""Names of dtypes of NumPy, torch and Python, and those of torch."""
_RESHAPES = frozenset({"resize", "shape", "dtype"})
"""What changes the shape or the dtype of an array in place."""


@dataclass(frozen=True)
class NewArray:
    """What a `return` gives."""

    shape: cst.BaseExpression
    dtype: str
    """Its dtype as torch calls it: `bool`."""
    is_tensor: bool


def new_array(site: Site, function: cst.FunctionDef, node: cst.BaseExpression | None) -> NewArray | None:
    """The new array that an expression is; None where that is not certain."""
    followed: set[str] = set()
    while isinstance(node, cst.Name):
        values = site.assigned(function, node.value)
        if node.value in followed or len(values) != 1 or _reshapes(function, node.value):
            return None
        followed.add(node.value)
        node = values[0]
    is_method = isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute)
    if not isinstance(node, cst.Call) or not is_method or any(argument.star for argument in node.args):
        return None
    owner, _, name = dotted(node.func).rpartition(".")
    if owner in NUMPY and name in _CREATORS:
        return _created(node, name, is_tensor=False)
    if owner == site.torch and name in _CREATORS:
        array = _created(node, name, is_tensor=True)
        return array if array is not None and not array.dtype.startswith("float") else None
    return _converted(site, function, node)


def _converted(site: Site, function: cst.FunctionDef, call: cst.Call) -> NewArray | None:
    """The new array that `torch.from_numpy(array)`, `array.astype(dtype)` or `array.copy()` is."""
    name = call.func.attr.value if isinstance(call.func, cst.Attribute) else ""
    arguments = [argument.value for argument in call.args]
    is_method = name in {"astype", "copy"} and isinstance(call.func, cst.Attribute)
    if is_method and isinstance(call.func, cst.Attribute) and len(arguments) == (name == "astype"):
        inner = new_array(site, function, call.func.value)
        if inner is None or inner.is_tensor:
            return None
        dtype = _dtype(arguments[0]) if arguments else inner.dtype
        return NewArray(inner.shape, dtype, is_tensor=False) if dtype else None
    if dotted(call.func) == f"{site.torch}.{name}" and name in _FROM_ARRAY and len(arguments) == 1:
        inner = new_array(site, function, arguments[0])
        return NewArray(inner.shape, inner.dtype, is_tensor=True) if inner is not None else None
    return None


def _created(call: cst.Call, name: str, *, is_tensor: bool) -> NewArray | None:
    """The array of `np.zeros(shape, dtype=...)`."""
    positional = [argument.value for argument in call.args if argument.keyword is None]
    named = {argument.keyword.value: argument.value for argument in call.args if argument.keyword is not None}
    values = 2 if name == "full" else 1
    first = positional[0] if positional else named.pop("shape", None)
    if first is None or named.keys() - {"dtype", "fill_value"} or len(positional) > values + (not is_tensor):
        return None
    if is_tensor and not isinstance(first, (cst.Tuple, cst.List)):
        return None  # torch.zeros(2, 3)
    written = named.get("dtype") or (positional[values] if len(positional) > values else None)
    default = "float64" if name != "full" and not is_tensor else ""
    dtype = _dtype(written) if written is not None else default
    return NewArray(first, dtype, is_tensor) if dtype else None


def _dtype(node: cst.BaseExpression) -> str:
    """The name of a dtype as torch has it; empty if it is not known."""
    if isinstance(node, cst.SimpleString):
        return _DTYPES.get(str(node.evaluated_value), "")
    return _DTYPES.get(dotted(node).rpartition(".")[2], "")


def is_equal_array(site: Site, array: NewArray, other: NewArray | None) -> bool:
    """Whether two expressions are arrays of the same kind."""
    return other is not None and (site.code(array.shape), array.dtype, array.is_tensor) == (
        *(site.code(other.shape), other.dtype, other.is_tensor),
    )


def _reshapes(function: cst.FunctionDef, name: str) -> bool:
    """Whether the shape or the dtype of an array changes in place."""
    return any(
        isinstance(descendant, cst.Attribute)
        and isinstance(descendant.value, cst.Name)
        and descendant.value.value == name
        and descendant.attr.value in _RESHAPES
        for descendant in descendants(function.body)
    )


# The shape


def size_statements(
    site: Site, function: cst.FunctionDef, shape: cst.BaseExpression
) -> list[cst.BaseSmallStatement] | None:
    """The statements at the top of a function that compute a shape from sizes, in order; None where others do."""
    parameters = {parameter.name.value for parameter in function.params.params}
    statements: dict[int, cst.BaseSmallStatement] = {}
    waiting = [shape]
    while waiting:
        expression = waiting.pop()
        if not _is_size(expression):
            return None
        for descendant in descendants(expression):
            if (
                not isinstance(descendant, cst.Name)
                or is_member(site, descendant)
                or descendant.value == "len"
            ):
                continue
            bound = site.assigned(function, descendant.value)
            if descendant.value in parameters and not bound:
                continue
            assigned = _assignment(function, descendant.value) if len(bound) == 1 else None
            if assigned is None or any(isinstance(part, cst.List) for part in descendants(assigned[1])):
                return None  # a list may grow before it is used
            index, statement = assigned
            if index not in statements:
                statements[index] = statement
                waiting.append(statement.value)
    return [statements[index] for index in sorted(statements)]


def is_member(site: Site, name: cst.Name) -> bool:
    """Whether a name is that of an attribute."""
    parent = site.parents[name]
    return isinstance(parent, cst.Attribute) and parent.attr is name


def _assignment(function: cst.FunctionDef, name: str) -> tuple[int, cst.Assign] | None:
    """The statement at the top of a function that binds a name, and its index."""
    for index, line in enumerate(function.body.body):
        only = line.body[0] if isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1 else None
        if isinstance(only, cst.Assign) and len(only.targets) == 1:
            target = only.targets[0].target
            names = (
                [element.value for element in target.elements] if isinstance(target, cst.Tuple) else [target]
            )
            if any(isinstance(expression, cst.Name) and expression.value == name for expression in names):
                return index, only
    return None


_SIZES = (
    *(
        cst.Name,
        cst.Integer,
        cst.Tuple,
        cst.List,
        cst.Element,
        cst.Comma,
        cst.LeftParen,
        cst.RightParen,
        cst.Index,
    ),
    *(
        cst.SubscriptElement,
        cst.LeftSquareBracket,
        cst.RightSquareBracket,
        cst.Arg,
        cst.BaseBinaryOp,
        cst.Dot,
    ),
    *(cst.BaseParenthesizableWhitespace, cst.TrailingWhitespace, cst.BinaryOperation, cst.Newline),
)


def _is_size(node: cst.BaseExpression) -> bool:
    """Whether an expression computes with integers and sizes of tensors only, and so can run without their values."""
    for descendant in descendants(node):
        if isinstance(descendant, _SIZES):
            continue
        if isinstance(descendant, cst.Attribute) and descendant.attr.value in {
            "shape",
            "size",
            "dim",
            "ndim",
        }:
            continue
        if isinstance(descendant, cst.Subscript) and isinstance(descendant.value, (cst.Name, cst.Attribute)):
            continue
        if isinstance(descendant, cst.Call) and (
            dotted(descendant.func) == "len"
            or (isinstance(descendant.func, cst.Attribute) and descendant.func.attr.value in {"size", "dim"})
        ):
            continue
        if isinstance(descendant, cst.UnaryOperation) and isinstance(descendant.operator, cst.Minus):
            continue
        if isinstance(descendant, (cst.Minus, cst.MaybeSentinel)):
            continue
        return False
    return True
