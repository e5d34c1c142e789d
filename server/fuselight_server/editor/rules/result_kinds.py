"""What calls and operators of tensors return, as far as it does not depend on the values."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from fuselight.shared.report import FactKind
from fuselight_server.editor.rules.tensor_names import (
    ACTIVATIONS,
    DTYPES,
    FACTORIES,
    FUNCTIONS,
    MASKS,
    METHODS,
    REDUCTIONS,
    SAME_DTYPE,
    TOTALS,
)
from fuselight_server.editor.rules.values import TENSOR, KnownValue

_FUNCTIONAL = "torch.nn.functional."
_NUMBERS = (FactKind.CONSTANT, FactKind.NUMBER)


def method_result(owner: KnownValue, name: str, *, has_arguments: bool) -> KnownValue | None:
    """What a method of a tensor returns."""
    whole = name in REDUCTIONS and not has_arguments
    if not whole and name not in METHODS:
        return None
    rank = 0 if not has_arguments and name in REDUCTIONS | TOTALS else None
    if name in MASKS:
        return KnownValue(FactKind.TENSOR, "bool", owner.rank if rank is None else rank)
    if name in DTYPES:
        return KnownValue(FactKind.TENSOR, DTYPES[name], rank)
    keeps = name in SAME_DTYPE or whole or (name in TOTALS and owner.is_floating)
    return KnownValue(FactKind.TENSOR, owner.dtype if keeps else "", rank)


def torch_result(full: str, node: ast.Call, first: KnownValue | None) -> KnownValue | None:
    """The result of a call of torch; None if it may be no tensor.

    A rule that uses it reports a break without a trace, so the dtype is claimed only where the first argument's
    dtype surely is the result's; type promotion needs all arguments, and `dtype=` or `out=` may change it.
    `first` is what the first argument is known to be.
    """
    if any(keyword.arg in {None, "out"} for keyword in node.keywords):
        return None
    name = full.removeprefix("torch.")
    if full.startswith(_FUNCTIONAL):
        return TENSOR if full.removeprefix(_FUNCTIONAL) in ACTIVATIONS else None
    if name in MASKS - REDUCTIONS:
        return KnownValue(FactKind.TENSOR, "bool")
    if name in FACTORIES and not node.keywords:
        return KnownValue(FactKind.TENSOR, "" if name.endswith("_like") else "f32")
    returns_one = name in REDUCTIONS and len(node.args) == 1 and not node.keywords
    returns_one = returns_one or (name == "where" and len(node.args) > 1)
    if name not in FUNCTIONS and not returns_one:
        return None
    keeps = name in SAME_DTYPE | TOTALS and first is not None and first.is_floating
    return KnownValue(FactKind.TENSOR, first.dtype if keeps and first is not None else "")


def binary_result(left: KnownValue | None, right: KnownValue | None) -> KnownValue | None:
    """What an arithmetic operator returns."""
    if left is None or right is None:
        return None
    if left.is_tensor and right.is_tensor:
        return KnownValue(FactKind.TENSOR, left.dtype if left.dtype == right.dtype else "")
    if left.is_tensor and right.kind in _NUMBERS:
        return KnownValue(FactKind.TENSOR, left.dtype if left.is_floating else "", left.rank)
    if right.is_tensor and left.kind in _NUMBERS and left.text[:1] not in {"'", '"'}:
        return KnownValue(FactKind.TENSOR, right.dtype if right.is_floating else "", right.rank)
    return None


def comparison_result(sides: Sequence[KnownValue | None]) -> KnownValue | None:
    """What one comparison of two values returns, if it is a tensor."""
    known = [value for value in sides if value is not None]
    if len(known) != len(sides) or not any(value.is_tensor for value in known):
        return None
    if any(value.text == "None" or value.text[:1] in {"'", '"'} for value in known):
        return None
    if not all(value.is_tensor or value.kind in _NUMBERS for value in known):
        return None
    ranks = [value.rank if value.is_tensor else 0 for value in known]
    whole = [rank for rank in ranks if rank is not None]
    return KnownValue(FactKind.TENSOR, "bool", max(whole) if len(whole) == len(ranks) else None)
