"""Follows what masked loads give for the elements that they leave out, to a maximum or minimum that is stored.

Invariant: a value is followed through casts, and maxima or minima of one kind; any other operation, as an absolute
value, ends that. So does a limit that 0 cannot pass, as in `tl.maximum(x, 0)`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from fuselight.adapters.triton_api.launches.memory import CheckedMemory

_Operation = Callable[..., Any]


class _LeftOut(NamedTuple):
    lanes: Any
    """Which elements of a block its load has left out; of a result, whether some of a row were and others were not."""
    argument: str
    """The argument that was loaded; empty for a limit."""
    kind: str = ""
    """`max` or `min`; empty: neither was taken."""
    place: tuple[str, int] | None = None
    """The line of the reduction; None before it."""


def follow_left_out(builder: Any, numpy: Any, memory: CheckedMemory) -> Callable[[_Operation], _Operation]:
    """Have the operations of a builder follow them. Returns what wraps `tl.reduce`, which works without the builder."""
    losing: set[tuple[str, str]] = set()  # arguments of which a value loses against 0, and in what

    def load(pointers: Any, mask: Any, other: Any, *rest: Any, **named: Any) -> Any:
        result = real_load(pointers, mask, other, *rest, **named)
        dtype, argument = result.dtype.scalar, memory.last_argument()
        if argument and not dtype.is_int_unsigned() and (other is None or not other.data.any()):
            lanes = ~numpy.broadcast_to(mask.data, result.data.shape).astype(bool)
            result.left_out = _LeftOut(lanes, argument)
            loaded = result.data.view("int16") if dtype.is_bf16() else result.data  # its bits have its sign
            losing.update([(argument, "max")] * bool((loaded < 0).any()))
            losing.update([(argument, "min")] * bool((loaded > 0).any()))
        return result

    def store(pointers: Any, value: Any, *rest: Any) -> Any:
        known: _LeftOut | None = getattr(value, "left_out", None)
        if known is not None and known.place and known.lanes and (known.argument, known.kind) in losing:
            memory.note_left_out(known.place, known.argument, known.kind)
        return real_store(pointers, value, *rest)

    def cast(source: Any, target: Any) -> Any:
        result = real_cast(source, target)
        result.left_out = getattr(source, "left_out", None)
        return result

    real_load, real_store = builder.create_masked_load, builder.create_masked_store
    real_cast = builder.cast_impl
    builder.create_masked_load, builder.create_masked_store, builder.cast_impl = load, store, cast
    for kind in ("max", "min"):
        for name in (f"create_{kind}numf", f"create_{kind}imumf", f"create_{kind}si"):
            setattr(builder, name, _chosen(getattr(builder, name), kind))
    return lambda real: _reduction(real, memory)


def _chosen(real: _Operation, kind: str) -> _Operation:
    """A maximum or minimum of two blocks: of loaded ones, or of one and a limit that 0 passes."""

    def operation(left: Any, right: Any) -> Any:
        result, sides = real(left, right), []
        for side in (left, right):
            stops = side.data >= 0 if kind == "max" else side.data <= 0
            sides.append(getattr(side, "left_out", None) or (None if stops.any() else _LeftOut(stops, "")))
        first, second = sides
        if first and second and first.argument + second.argument and {first.kind, second.kind} <= {"", kind}:
            lanes, argument = first.lanes | second.lanes, first.argument or second.argument
            result.left_out = _LeftOut(lanes, argument, kind, first.place or second.place)
        return result

    return operation


def _reduction(real: _Operation, memory: CheckedMemory) -> _Operation:
    def reduce(value: Any, axis: Any, combine: Any, *args: Any, **named: Any) -> Any:
        result = real(value, axis, combine, *args, **named)
        handle = (value[0] if isinstance(value, tuple) else value).handle
        known: _LeftOut | None = getattr(handle, "left_out", None)
        name = str(combine.__name__) if combine.__module__.startswith("triton.") else ""
        kind = "max" if "max" in name else "min" if "min" in name else ""
        if known is not None and known.place is None and kind and known.kind in ("", kind):
            axis = getattr(axis, "value", axis)
            some = (known.lanes.any(axis) & ~known.lanes.all(axis)).any()
            for item in result if isinstance(result, tuple) else (result,):
                item.handle.left_out = _LeftOut(some, known.argument, kind, memory.place())
        return result

    return reduce
