"""Converts real inputs to directive notation, for recorded calls and to show the inputs of a call.

Invariant: shapes, dtypes and short literals only, never data, and never longer than the limit. Values without a
notation appear as `<TypeName>`, which `parse_directive` rejects: such a call is shown but never replayed.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from fuselight.shared.inputs.grammar import DTYPES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_SHORT = {name: short for short, name in DTYPES.items()}
_ITEMS = 64
_STRING = 80
_DEPTH = 8


def describe_call(
    callee: str,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    limit: int = 400,
    *,
    exact: bool = False,
    options: Sequence[str] = (),
) -> str:
    """Write a call of `callee` in directive notation, at most `limit` characters (then it ends in `...`).

    `exact`: tensors that need gradients, and parameters, are written as such. `options`: run options, as `train=True`.
    """
    parts = [_text(value, 0, exact=exact) for value in args]
    parts += [f"{name}={_text(value, 0, exact=exact)}" for name, value in kwargs.items()]
    parts += options
    text = f"{callee}({', '.join(parts)})"
    return text if len(text) <= limit else text[: max(limit - 3, 0)] + "..."


def describe_value(value: Any) -> str:
    """Write one value in directive notation."""
    return _text(value, 0, exact=False)


def _text(value: Any, depth: int, *, exact: bool) -> str:  # noqa: PLR0911 - one return a kind of value
    if depth > _DEPTH:
        return f"<{type(value).__name__}>"
    tensor = _tensor(value)
    if tensor is not None:
        return _with_gradients(value, tensor) if exact else tensor
    if value is None or type(value) in (bool, int):
        return repr(value)
    if type(value) is float:
        return repr(value) if math.isfinite(value) else f"float({str(value)!r})"
    if type(value) is str:
        return repr(value) if len(value) <= _STRING else "<str>"
    if type(value) is list:
        return f"[{_items(value, depth, exact=exact)}]"
    if type(value) is tuple:
        return f"({_items(value, depth, exact=exact)}{',' if len(value) == 1 else ''})"
    if type(value) is dict:
        if len(value) > _ITEMS:
            return "<dict>"
        pairs = (
            f"{_text(key, depth + 1, exact=exact)}: {_text(item, depth + 1, exact=exact)}"
            for key, item in value.items()
        )
        return f"{{{', '.join(pairs)}}}"
    return f"<{type(value).__name__}>"


def _with_gradients(value: Any, text: str) -> str:
    """The notation of a tensor that may need gradients: a parameter, a leaf, or the result of a computation."""
    needs = bool(getattr(value, "requires_grad", False))
    if type(value).__name__ == "Parameter":
        return f"torch.nn.Parameter({text}{'' if needs else ', requires_grad=False'})"
    if not needs or text.startswith("<"):
        return text
    return f"{text}.requires_grad_()" + ("" if getattr(value, "is_leaf", True) else ".clone()")


def _items(values: Sequence[Any], depth: int, *, exact: bool) -> str:
    if len(values) > _ITEMS:
        return f"<{len(values)} items>"
    return ", ".join(_text(value, depth + 1, exact=exact) for value in values)


def _tensor(value: Any) -> str | None:
    """Duck-typed, for torch must not be imported to read a directive."""
    dtype = str(getattr(value, "dtype", ""))
    if not dtype.startswith("torch.") or not hasattr(value, "shape"):
        return None
    try:
        sizes = [int(size) for size in value.shape]
    except Exception:  # noqa: BLE001 - symbolic and nested sizes raise types of their own
        return f"<{type(value).__name__}>"
    short = _SHORT.get(dtype.removeprefix("torch."))
    return f"{short}[{', '.join(map(str, sizes))}]" if short else f"<{type(value).__name__}>"
