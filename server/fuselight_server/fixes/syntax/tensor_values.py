"""Expressions that torch.where may compute although their branch is not taken: their shape and their gradient.

Invariant: what is not known for every call raises RewriteRefusedError with the reason. A value whose `shape` names the
same tensors as another's has its shape whatever the sizes are; a value is total: its computation raises only if that of
each other value with its shape does.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import libcst as cst

from fuselight.shared.codec import read_words
from fuselight.shared.report import FactKind
from fuselight_server.fixes.syntax.refusals import RewriteRefusedError
from fuselight_server.fixes.syntax.site import Site
from fuselight_server.fixes.syntax.traced_names import (
    NameKind,
    is_number,
    is_number_value,
    is_parameter,
    is_tensor,
    kind_of,
    module_of,
    module_path,
    parameters_of,
    runs_code,
    values_of,
)
from fuselight_server.fixes.syntax.tree import descendants, dotted, is_flag

_NAMES = read_words(__file__)
_SMOOTH = _NAMES["smooth"]
"""Functions whose derivative is finite at every finite value."""
_ALONG_DIMENSION = frozenset({"softmax", "log_softmax", "softmin"})
"""Functions whose first argument after the tensor is a dimension."""
_STEEP = _NAMES["steep"]
_TO_BOOL = _NAMES["to_bool"]
_TO_INTEGER = frozenset({"long", "int", "short"})
_TO_FLOAT = frozenset({"float", "double", "half", "bfloat16"})
_WITHOUT_GRADIENT = frozenset({"detach", "zeros_like", "ones_like"})
_KEEPS_INTEGERS = _NAMES["keeps_integers"]
"""Functions whose result is an integer for integers; the others give floating-point numbers."""
_FLIPS = {"flip": (), "fliplr": (1,), "flipud": (0,)}
"""Functions that keep the shape and fail only for a dimension that the tensor lacks; which they always name."""
_TOTALS = frozenset({"sum", "mean", "prod"})
"""Reductions of all elements that no shape makes fail."""
_FUNCTIONAL = frozenset({"torch", "torch.nn.functional", "torch.special"})
_KNOWN = _SMOOTH | _STEEP | _TO_BOOL | _TO_INTEGER | _TO_FLOAT | _WITHOUT_GRADIENT | _TOTALS
_OPERATORS = (cst.Add, cst.Subtract, cst.Multiply, cst.Divide, cst.Power)
_COMPARISONS = (
    *(cst.LessThan, cst.LessThanEqual, cst.GreaterThan, cst.GreaterThanEqual, cst.Equal, cst.NotEqual),
)
_NEVER_DIFFERENTIATED = ("i", "u", "b8[", "bool[")
_DEEPEST = 6
"""Names of names that are looked at."""


@dataclass(frozen=True)
class TensorValue:
    """A value of an expression, as far as it is the same for every call."""

    shape: frozenset[str] = frozenset()
    """The names whose shapes, broadcast, are its shape; none for a number and a tensor without dimensions."""
    flows: frozenset[str] = frozenset()
    """The names to which it carries a gradient."""
    dtype: str = ""
    """A dtype that does not depend on the names; empty where it is that of the names."""
    marks: frozenset[str] = frozenset()
    """What changes the dtype of integers: `float`, `sum`."""
    is_number: bool = False
    """Whether it is a number of Python."""
    is_smooth: bool = True
    """Whether its derivative is finite at every finite value."""


def value_of(site: Site, node: cst.BaseExpression, depth: int = 0, mask: str = "") -> TensorValue:
    """What an expression computes. Raises RewriteRefusedError where that is not certain.

    `mask`: the code of an index that is left out: `x[mask]` counts as `x`.
    """
    if runs_code(site, node):
        code = short_code(site, node)
        raise RewriteRefusedError(
            f"`{code}` runs code of yours, which may fail or have an effect where its side is not taken"
        )
    return _value(site, node, depth, mask)


def _value(  # noqa: PLR0911 - one return a kind of expression
    site: Site, node: cst.BaseExpression, depth: int, mask: str
) -> TensorValue:
    if isinstance(node, (cst.Integer, cst.Float)):
        marks = frozenset({"float"}) if isinstance(node, cst.Float) else frozenset[str]()
        return TensorValue(is_number=True, marks=marks)
    if isinstance(node, (cst.Name, cst.Attribute)):
        return _named(site, node, depth)
    if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, (cst.Minus, cst.Plus)):
        return value_of(site, node.expression, depth, mask)
    if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, _OPERATORS):
        return _binary(site, node, depth, mask)
    if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.BitInvert):
        inner = value_of(site, node.expression, depth, mask)
        if inner.dtype == "bool":
            return inner
    if isinstance(node, cst.Subscript) and mask and _index(site, node) == mask:
        return value_of(site, node.value, depth)
    if isinstance(node, cst.Comparison):
        return _comparison(site, node, depth, mask)
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
        return _called(site, node, node.func, depth, mask)
    raise _may_fail(site, node)


def _of_other_shape(site: Site, node: cst.BaseExpression) -> RewriteRefusedError:
    return RewriteRefusedError(f"`{short_code(site, node)}` may have another shape than the other side")


def _may_fail(
    site: Site, node: cst.BaseExpression, how: str = "fail or have an effect"
) -> RewriteRefusedError:
    if isinstance(node, cst.Subscript) and all(isinstance(item.slice, cst.Slice) for item in node.slice):
        return _of_other_shape(site, node)  # bounds are cut to the tensor's
    code = short_code(site, node)
    return RewriteRefusedError(
        f"torch.where computes both sides, and `{code}` may {how} where its side is not taken"
    )


def _index(site: Site, node: cst.Subscript) -> str:
    """The code of the only index of a subscript; empty for any other."""
    index = node.slice[0].slice if len(node.slice) == 1 else None
    return site.code(index.value) if isinstance(index, cst.Index) and not index.star else ""


def short_code(site: Site, node: cst.CSTNode) -> str:
    """The code of a node for a reason: on one line, and cut."""
    code = " ".join(site.code(node).split())
    return code if len(code) <= 40 else f"{code[:40]}..."  # noqa: PLR2004 - of a line


def _named(site: Site, node: cst.Name | cst.Attribute, depth: int) -> TensorValue:
    """The value of a name, from the assignment if there is a single one, otherwise from the values that the run saw.

    The assignment comes first because it holds for each call; the values of a run hold for its inputs alone, so a name
    that only they describe must have had a tensor there. Raises RewriteRefusedError if nothing shows that.
    """
    path = dotted(node)
    module, _, constant = path.rpartition(".")
    if constant in {"pi", "e", "inf", "nan"} and module_of(site, module) in {"torch", "math"}:
        return TensorValue(is_number=True, marks=frozenset({"float"}))
    kind = kind_of(site, node) if path else NameKind.UNKNOWN
    origin = _assigned_once(site, node) if depth < _DEEPEST else None
    if origin is not None and kind in {NameKind.TENSOR, NameKind.UNKNOWN}:
        try:
            return value_of(site, origin, depth + 1)
        except RewriteRefusedError:  # computed before the branch: its side only reads it
            if kind is not NameKind.TENSOR:
                raise
    if kind is NameKind.NUMBER:
        is_float = any("." in value.text for value in values_of(site, node))
        return TensorValue(is_number=True, marks=frozenset({"float"}) if is_float else frozenset())
    if kind is NameKind.UNKNOWN and is_tensor(site, node) and is_scalar_tensor(site, node):
        return TensorValue(flows=frozenset() if _is_detached(site, node) else frozenset({path}))
    if kind is not NameKind.TENSOR:
        raise not_a_tensor(site, node)
    texts = [value.text for value in values_of(site, node)]
    name = frozenset({path})
    is_constant = bool(texts) and all(text.startswith(_NEVER_DIFFERENTIATED) for text in texts)
    is_bool = bool(texts) and all(text.startswith(("b8[", "bool[")) for text in texts)
    is_scalar = bool(texts) and all(text.endswith("[]") for text in texts)
    return TensorValue(
        frozenset() if is_scalar else name, frozenset() if is_constant else name, "bool" if is_bool else ""
    )


_KIND_WORDS = {
    FactKind.MODULE: "a module",
    FactKind.CONTAINER: "a collection",
    FactKind.NUMBER: "a Python number",
    FactKind.CONSTANT: "a Python value",
}


def not_a_tensor(site: Site, node: cst.BaseExpression) -> RewriteRefusedError:
    """What an expression is in place of a tensor, or how the run can show what it is."""
    code, seen = short_code(site, node), values_of(site, node)
    kinds = {value.kind for value in seen}
    if len(seen) == 1 and FactKind.TENSOR not in kinds:
        return RewriteRefusedError(
            f"`{code}` is {_KIND_WORDS[seen[0].kind]} (`{seen[0].text}`), not a tensor"
        )
    if kinds:
        words = "not a tensor in each call" if FactKind.TENSOR in kinds else "not a tensor"
        return RewriteRefusedError(f"`{code}` is {words}")
    if isinstance(node, cst.Name) and is_parameter(site, node):
        return RewriteRefusedError(
            f"the run did not read `{code}`: if it is always a tensor, write `{code}: {site.torch}.Tensor` in the "
            "parameters"
        )
    return RewriteRefusedError(f"the run did not read `{code}`, so it is not known to be a tensor")


def _is_detached(site: Site, node: cst.BaseExpression) -> bool:
    """Whether all values of a name carry no gradient."""
    function = site.function(node)
    values = site.assigned(function, dotted(node)) if function is not None else []
    return bool(values) and all(
        isinstance(expression, cst.Call)
        and isinstance(expression.func, cst.Attribute)
        and expression.func.attr.value == "detach"
        for expression in values
    )


def _assigned_once(site: Site, node: cst.Name | cst.Attribute) -> cst.BaseExpression | None:
    """What the function assigns to a name, if that is its only value and all names in it keep theirs; else None."""
    function = site.function(node)
    if not isinstance(node, cst.Name) or function is None:
        return None
    values = site.assigned(function, node.value)
    value = values[0] if len(values) == 1 else None
    if value is None or (isinstance(value, cst.Call) and not isinstance(value.func, cst.Attribute)):
        return None
    if any(site.assigned(function, name) for name in site.names_read(value)):
        return None
    is_parameter_too = node.value in parameters_of(function)
    return None if is_parameter_too and not _is_always_before(site, value, function, node) else value


def _is_always_before(
    site: Site, value: cst.BaseExpression, function: cst.FunctionDef, node: cst.CSTNode
) -> bool:
    """Whether an assignment runs in each call, before a node."""
    around = list(site.ancestors(value))
    return around[3:4] == [function] and site.range_of(value)[1] <= site.range_of(node)[0]


def _binary(site: Site, node: cst.BinaryOperation, depth: int, mask: str) -> TensorValue:
    left, right = value_of(site, node.left, depth, mask), value_of(site, node.right, depth, mask)
    joined = _joined((left, right))
    if isinstance(node.operator, cst.Divide):
        is_literal = isinstance(node.right, (cst.Integer, cst.Float)) and node.right.evaluated_value
        is_zero = not (is_literal or _is_nonzero(site, node.right))
        if joined.is_number and not is_literal:
            raise RewriteRefusedError(f"`{short_code(site, node)}` fails for 0 where its side is not taken")
        joined = replace(joined, marks=joined.marks | {"float"}, is_smooth=joined.is_smooth and not is_zero)
    if isinstance(node.operator, cst.Power):
        exponent = node.right
        if not isinstance(exponent, cst.Integer) or joined.is_number:
            raise _may_fail(site, node, "fail")
    return joined


_NO_DIVISORS = frozenset({"0", "0.0", "False", "nan"})


def _is_nonzero(site: Site, node: cst.BaseExpression) -> bool:
    """Whether the run shows that a name is a number, and no value of it is 0."""
    return is_number(site, node) and all(
        value.kind is FactKind.CONSTANT and value.text.lstrip("-") not in _NO_DIVISORS
        for value in values_of(site, node)
    )


def _comparison(site: Site, node: cst.Comparison, depth: int, mask: str) -> TensorValue:
    if len(node.comparisons) != 1 or not isinstance(node.comparisons[0].operator, _COMPARISONS):
        raise RewriteRefusedError(f"`{short_code(site, node)}` is no comparison of two tensors")
    joined = _joined(
        (value_of(site, node.left, depth, mask), value_of(site, node.comparisons[0].comparator, depth, mask))
    )
    return TensorValue(joined.shape, dtype="bool", is_number=joined.is_number)


def _joined(values: Sequence[TensorValue]) -> TensorValue:
    """The result of an elementwise operation."""
    tensors = [value for value in values if not value.is_number]
    dtypes = {tensor.dtype for tensor in tensors}
    if len(dtypes) > 1:
        raise RewriteRefusedError("the dtypes of the operands differ")
    return TensorValue(
        frozenset().union(*(value.shape for value in values)),
        frozenset().union(*(value.flows for value in values)),
        next(iter(dtypes), ""),
        frozenset().union(*(value.marks for value in values)),
        is_number=not tensors,
        is_smooth=all(value.is_smooth for value in values),
    )


def _called(site: Site, call: cst.Call, function: cst.Attribute, depth: int, mask: str) -> TensorValue:
    """`torch.relu(x)`, `x.relu()` and the like.

    torch.where computes both sides, so a function is taken only if it cannot fail, has no effect and keeps the shape
    for the inputs of the side that would not have run: a list of names that are known to be so, along the last or the
    first dimension. Raises RewriteRefusedError for all others.
    """
    name, module = function.attr.value, module_path(site, function.value)
    if any(
        argument.star or (argument.keyword is not None and argument.keyword.value in {"out", "inplace"})
        for argument in call.args
    ):
        raise RewriteRefusedError(f"`{short_code(site, call)}` may have an effect")
    if module and module not in _FUNCTIONAL:
        raise RewriteRefusedError(f"`{short_code(site, call)}` is no function of torch")
    if name in _FLIPS:
        return _flipped(site, call, name, [] if module else [function.value], depth)
    if name not in _KNOWN:
        raise _may_fail(site, call)
    if name in _TOTALS and len(call.args) > bool(module):
        raise _of_other_shape(site, call)
    operands = [] if module else [function.value]
    operands += [
        argument.value
        for argument in call.args
        if argument.keyword is None or argument.keyword.value != "dim"
    ]
    if any(
        site.code(dimension) not in {"-1", "0"} for dimension in _dimensions(call, name, is_method=not module)
    ):
        raise _may_fail(site, call, "fail")
    values = [value_of(site, operand, depth, mask) for operand in operands]
    if not values or values[0].is_number:
        raise not_a_tensor(site, function.value)
    return _result(site, call, name, _joined(values), has_more=len(operands) > 1)


def _flipped(
    site: Site, call: cst.Call, name: str, owner: list[cst.BaseExpression], depth: int
) -> TensorValue:
    """`x.flip(-1)` and the like, whose dimensions each tensor of the run has; none of what a mask selects."""
    tensor, *given = [*owner, *(argument.value for argument in call.args)]
    texts = [site.code(argument) for argument in given]
    named = [*_FLIPS[name], *map(int, _WHOLE.findall(" ".join(texts)))]
    ranks = _ranks(site, tensor)
    is_known = bool(ranks and named) and all(map(_DIMENSIONS.fullmatch, texts))
    if not is_known or not all(_has(rank, named) for rank in ranks):
        raise _may_fail(site, call, "fail")
    return value_of(site, tensor, depth)


_WHOLE = re.compile(r"-?\d+")
_DIMENSIONS = re.compile(r"[(\[]?-?\d+(?:, *-?\d+)*,?[)\]]?")


def _has(rank: int, dimensions: Sequence[int]) -> bool:
    """Whether a tensor has the dimensions, each named once."""
    are_there = all(-rank <= dimension < rank for dimension in dimensions)
    return are_there and len({dimension % rank for dimension in dimensions if rank}) == len(dimensions)


def _ranks(site: Site, node: cst.BaseExpression) -> set[int]:
    """How many dimensions the tensors have that Dynamo saw under a name, or as the value of an expression."""
    texts = [value.text for value in values_of(site, node) if value.kind is FactKind.TENSOR]
    sizes = [text.partition("[")[2].removesuffix("]") for text in texts]
    return {len(size.split(", ")) if size else 0 for size in sizes}


def least_rank(site: Site, node: cst.BaseExpression) -> int:
    """How many dimensions a value has at least, as far as the run shows."""
    try:
        shape = value_of(site, node).shape
    except RewriteRefusedError:
        return 0
    names = (part for part in descendants(node) if isinstance(part, (cst.Name, cst.Attribute)))
    known = [_ranks(site, name) for name in names if dotted(name) in shape]
    return max((min(ranks) for ranks in known if ranks), default=0)


def _dimensions(call: cst.Call, name: str, *, is_method: bool) -> list[cst.BaseExpression]:
    """The dimensions that a call names, which another input may not have."""
    named = [
        argument.value
        for argument in call.args
        if argument.keyword is not None and argument.keyword.value == "dim"
    ]
    further = call.args[0 if is_method else 1 :][:1] if name in _ALONG_DIMENSION else []
    return [*named, *(argument.value for argument in further if argument.keyword is None)]


def _result(site: Site, call: cst.Call, name: str, joined: TensorValue, *, has_more: bool) -> TensorValue:
    if name in _TOTALS and not has_more and len(call.args) <= 1:
        return replace(joined, shape=frozenset(), marks=joined.marks | {name})
    if name in _WITHOUT_GRADIENT and not has_more:
        return replace(joined, flows=frozenset(), is_smooth=True)
    if name in _TO_BOOL:
        return TensorValue(joined.shape, dtype="bool")
    if name in _TO_INTEGER and not has_more:
        return TensorValue(joined.shape, dtype=name)
    if name in _TO_FLOAT and not has_more:
        return replace(joined, dtype=name, marks=frozenset())
    if name in _SMOOTH | _STEEP:
        marks = joined.marks if name in _KEEPS_INTEGERS else joined.marks | {"float"}
        return replace(joined, marks=marks, is_smooth=joined.is_smooth and name in _SMOOTH)
    raise _may_fail(site, call)


def is_scalar_tensor(  # noqa: PLR0911 - one return a kind of expression
    site: Site, node: cst.BaseExpression, depth: int = 0
) -> bool:
    """Whether an expression has one element for every call: Dynamo saw no dimension, or it reduces all of them."""
    values = site.values(node)
    if values:
        return all(is_number_value(value) or _has_one_element(value.text) for value in values)
    if isinstance(node, cst.Name):
        seen, function = values_of(site, node), site.function(node)
        if seen:  # a number has none, also where a rewrite has made a tensor of it
            return is_number(site, node) or all(_has_one_element(value.text) for value in seen)
        assigned = site.assigned(function, node.value) if function is not None and depth < _DEEPEST else []
        return bool(assigned) and all(
            expression is not None and (is_flag(expression) or is_scalar_tensor(site, expression, depth + 1))
            for expression in assigned
        )
    if isinstance(node, cst.UnaryOperation):
        return is_scalar_tensor(site, node.expression, depth)
    if isinstance(node, (cst.BooleanOperation, cst.BinaryOperation)):
        return _is_scalar(site, node.left, depth) and _is_scalar(site, node.right, depth)
    if isinstance(node, cst.Comparison):
        sides = (node.left, *(comparison.comparator for comparison in node.comparisons))
        return all(_is_scalar(site, expression, depth) for expression in sides)
    return isinstance(node, cst.Call) and depth < _DEEPEST and _reduces(site, node, depth + 1)


def _has_one_element(text: str) -> bool:
    return text.endswith("[]") or text in {"True", "False"}


def _is_scalar(site: Site, node: cst.BaseExpression, depth: int) -> bool:
    """Whether an operand is a number, or a tensor of one element."""
    return is_number(site, node) or is_scalar_tensor(site, node, depth)


_REDUCTIONS = frozenset(
    {"sum", "mean", "prod", "max", "min", "amax", "amin", "any", "all", "norm", "count_nonzero"}
)


def _reduces(site: Site, call: cst.Call, depth: int) -> bool:
    """Whether a call reduces a tensor to one element, or draws one number."""
    if not isinstance(call.func, cst.Attribute):
        return False
    name, owner = call.func.attr.value, dotted(call.func.value)
    if name in {"size", "dim", "numel"}:
        return name != "size" or len(call.args) == 1
    if owner == site.torch and name == "where":
        return all(
            isinstance(argument.value, cst.Name) or _is_scalar(site, argument.value, depth)
            for argument in call.args
        )
    if owner == site.torch:
        first = call.args[0].value if len(call.args) == 1 else None
        is_empty = isinstance(first, (cst.Tuple, cst.List)) and not first.elements
        is_drawn = name in {"rand", "randn", "empty"} and is_empty
        return is_drawn or (name in _REDUCTIONS and len(call.args) == 1)
    if name in {
        "abs",
        "sqrt",
        "exp",
        "log",
        "float",
        "double",
        "detach",
        "clone",
        "bool",
        "uniform_",
        "random_",
    }:
        return is_scalar_tensor(site, call.func.value, depth)
    sizes = call.args[0].value if len(call.args) == 1 else None
    is_reshaped = name in {"reshape", "view"} and isinstance(sizes, cst.Tuple) and not sizes.elements
    return is_reshaped or (name in _REDUCTIONS and not call.args)
