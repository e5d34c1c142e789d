"""Converts real inputs to directive notation, for recorded calls and to show the inputs of a call.

Invariant: shapes, dtypes and short literals only, never data, and never longer than the limit. Values without a
notation appear as `<TypeName>`, which `parse_directive` rejects: such a call is shown but never replayed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from fuselight.shared.inputs.dtypes import DTYPES

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

    `exact`: tensors that need gradients, parameters, and strides are written as such. `options`: run options, as
    `train=True`.
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
    text = _with_strides(value, text)
    needs = bool(getattr(value, "requires_grad", False))
    if type(value).__name__ == "Parameter":
        return f"torch.nn.Parameter({text}{'' if needs else ', requires_grad=False'})"
    if not needs or text.startswith("<"):
        return text
    return f"{text}.requires_grad_()" + ("" if getattr(value, "is_leaf", True) else ".clone()")


def _with_strides(value: Any, text: str) -> str:
    """The notation of a tensor with its strides, where they are not those of a new tensor."""
    try:
        if value.is_contiguous():
            return text
        sizes, strides = [int(size) for size in value.shape], [int(step) for step in value.stride()]
    except Exception:  # noqa: BLE001 - a subclass or another layout may have no strides, and raises anything
        return text
    dtype, _, shape = text.partition("[")
    if not shape or not all(sizes) or min(strides) < 0:
        return text
    order = sorted(range(len(sizes)), key=lambda index: (-strides[index], index))
    dense = [math.prod(sizes[later] for later in order[place + 1 :]) for place in range(len(order))]
    if [strides[index] for index in order] == dense:
        dimensions = ", ".join(str(order.index(index)) for index in range(len(sizes)))
        return f"{dtype}[{', '.join(str(sizes[index]) for index in order)}].permute({dimensions})"
    length = 1 + sum((size - 1) * step for size, step in zip(sizes, strides, strict=True))
    return f"{dtype}[{length}].as_strided({sizes}, {strides})"


def device_option(values: Sequence[Any]) -> str | None:
    """`device="cuda:0"` where every tensor in the values is on this one device; None on a CPU or on several."""
    devices = {str(getattr(value, "device", "cpu")) for value in _tensors(values, 0)}
    return f'device="{next(iter(devices))}"' if len(devices) == 1 and devices != {"cpu"} else None


def _tensors(values: Iterable[Any], depth: int) -> Iterator[Any]:
    for value in values:
        if _tensor(value) is not None:
            yield value
        elif type(value) in (list, tuple) and depth < _DEPTH:
            yield from _tensors(value[:_ITEMS], depth + 1)
        elif type(value) is dict and depth < _DEPTH and len(value) <= _ITEMS:
            yield from _tensors(value.values(), depth + 1)


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
