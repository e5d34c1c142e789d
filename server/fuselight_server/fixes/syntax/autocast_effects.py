"""Which code computes the same with and without autocast, as far as its text shows.

Invariant: an operation is in these lists only if autocast has it in no list of any device: neither to cast its inputs
to a lower precision, nor to float32, nor to the widest of them (torch's "Autocast Op Reference").
"""

from __future__ import annotations

import libcst as cst

from fuselight_server.fixes.syntax.tree import descendants, dotted

_UNTOUCHED = frozenset(
    (
        # views, copies and casts
        *("bfloat16", "chunk", "clone", "contiguous", "cpu", "cuda", "detach", "double", "expand", "flatten"),
        *("float", "half", "movedim", "narrow", "permute", "requires_grad_", "reshape", "select", "split"),
        *("squeeze", "swapaxes", "t", "to", "transpose", "type", "unbind", "unflatten", "unsqueeze", "view"),
        # of elements
        *("abs", "clamp", "dropout", "gelu", "relu", "sigmoid", "silu", "tanh", "neg", "where"),
        # new tensors
        *("arange", "empty", "empty_like", "full", "full_like", "manual_seed", "ones", "ones_like", "rand"),
        *("rand_like", "randint", "randn", "randn_like", "tensor", "zeros", "zeros_like"),
        # facts
        *("dim", "is_floating_point", "len", "numel", "range", "size", "stride"),
    )
)
"""Last parts of the names of functions and methods."""
_TOUCHED_OPERATORS = (cst.MatrixMultiply, cst.Divide, cst.Power)
_EXPRESSIONS = (
    *(cst.Name, cst.Attribute, cst.SimpleString, cst.Integer, cst.Float, cst.Subscript, cst.Tuple, cst.List),
    *(cst.Dict, cst.BinaryOperation, cst.UnaryOperation, cst.Comparison, cst.BooleanOperation, cst.Call),
    *(cst.IfExp, cst.ConcatenatedString),
)


def is_untouched(expression: cst.BaseExpression) -> bool:
    """Whether an expression has no operation that autocast may touch."""
    return all(_is_untouched_node(node) for node in descendants(expression))


def _is_untouched_node(node: cst.CSTNode) -> bool:
    if isinstance(node, cst.Call):
        name = node.func.attr.value if isinstance(node.func, cst.Attribute) else dotted(node.func)
        return name in _UNTOUCHED
    if isinstance(node, cst.BinaryOperation):
        return not isinstance(node.operator, _TOUCHED_OPERATORS)
    return not isinstance(node, cst.BaseExpression) or isinstance(node, _EXPRESSIONS)


def is_untouched_statement(statement: cst.BaseStatement | cst.BaseSmallStatement) -> bool:
    """Whether a statement only binds, returns or names values of such expressions."""
    if isinstance(statement, cst.SimpleStatementLine):
        return all(map(is_untouched_statement, statement.body))
    if isinstance(statement, (cst.Pass, cst.Global, cst.Nonlocal)):
        return True
    if isinstance(statement, (cst.Expr, cst.Assign, cst.Return, cst.AnnAssign)):
        return statement.value is None or is_untouched(statement.value)
    return False
