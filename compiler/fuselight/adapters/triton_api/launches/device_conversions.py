"""Functions of libdevice that change the type of their argument, or that work on its bits, computed with NumPy."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

_CONVERSION = re.compile(
    r"(?P<before>float|double|u?int|u?ll)2(?P<after>float|double|u?int|u?ll)_(?P<rounding>r[nzdu])"
)
_BITS = re.compile(r"(?P<before>float|double|u?int|longlong)_as_(?P<after>float|double|u?int|longlong)")
_TYPES = {
    "float": "float32", "double": "float64", "int": "int32", "uint": "uint32", "ll": "int64", "ull": "uint64",
    "longlong": "int64",
}  # fmt: skip
_ROUNDED = {"rn": "rint", "rz": "trunc", "rd": "floor", "ru": "ceil"}
_ARITHMETIC = {"add": "add", "sub": "subtract", "mul": "multiply", "div": "divide"}

Computed = tuple[Callable[..., Any], str]
"""What computes a function of arrays, and NumPy's name of the result's type; empty for that of the widest argument."""


def conversion(name: str, numpy: Any) -> Computed | None:
    """The function of libdevice called `name`, or None if it is none of those."""
    if (match := _CONVERSION.fullmatch(name)) is not None:
        target = _TYPES[match["after"]]
        return _converter(numpy, target, match["rounding"]), target
    if (match := _BITS.fullmatch(name)) is not None:
        target = _TYPES[match["after"]]
        return lambda value: value.view(target), target
    operation, _, rounding = name.rpartition("_")
    if rounding in _ROUNDED and operation in _ARITHMETIC:
        return _rounded(numpy, getattr(numpy, _ARITHMETIC[operation]), rounding), ""
    if rounding in _ROUNDED and operation in {"sqrt", "rcp", "fma"}:
        exact = {"sqrt": numpy.sqrt, "rcp": numpy.reciprocal, "fma": lambda x, y, z: x * y + z}[operation]
        return _rounded(numpy, exact, rounding), ""
    return _of_bits(numpy).get(name)


def _converter(numpy: Any, target: str, rounding: str) -> Callable[..., Any]:
    if target.startswith("float"):
        return lambda value: _to_float(numpy, value, target, rounding)

    def to_integer(value: Any) -> Any:
        """As a GPU: a number that does not fit becomes the nearest one that does, and NaN becomes 0."""
        limits = numpy.iinfo(target)
        whole = getattr(numpy, _ROUNDED[rounding])(value)
        top = float(limits.max)
        inside = numpy.clip(numpy.nan_to_num(whole, nan=0.0), float(limits.min), top)
        return numpy.where(
            inside >= top, limits.max, numpy.where(inside >= top, 0, inside).astype(target)
        ).astype(target)

    return to_integer


def _to_float(numpy: Any, value: Any, target: str, rounding: str) -> Any:
    nearest = value.astype(target)
    if rounding == "rn":
        return nearest
    infinity = numpy.array(numpy.inf, dtype=target)
    before, after = value.astype(numpy.longdouble), nearest.astype(numpy.longdouble)
    down, up = numpy.nextafter(nearest, -infinity), numpy.nextafter(nearest, infinity)
    lower, upper = numpy.where(after > before, down, nearest), numpy.where(after < before, up, nearest)
    if rounding == "rd":
        return lower
    return upper if rounding == "ru" else numpy.where(before < 0, upper, lower)


def _rounded(numpy: Any, compute: Callable[..., Any], rounding: str) -> Callable[..., Any]:
    """An operation whose result is rounded in a direction: computed in more bits first."""

    def call(*args: Any) -> Any:
        target = max((arg.dtype for arg in args), key=lambda dtype: dtype.itemsize)
        wide = numpy.float64 if target == numpy.float32 else numpy.longdouble
        return _to_float(numpy, compute(*[arg.astype(wide) for arg in args]), target.name, rounding)

    return call


def _of_bits(numpy: Any) -> dict[str, Computed]:
    def bits(value: Any) -> Any:
        unsigned = value.view(f"uint{value.dtype.itemsize * 8}")
        return numpy.unpackbits(
            unsigned.astype(unsigned.dtype.newbyteorder(">"))[..., None].view("uint8"), axis=-1
        )

    def leading_zeros(value: Any) -> Any:
        digits = bits(value)
        return numpy.where(digits.any(-1), digits.argmax(-1), digits.shape[-1])

    def first_set(value: Any) -> Any:
        digits = bits(value)[..., ::-1]
        return numpy.where(digits.any(-1), digits.argmax(-1) + 1, 0)

    def reversed_bits(value: Any) -> Any:
        packed = numpy.packbits(numpy.ascontiguousarray(bits(value)[..., ::-1]), axis=-1)
        return packed.view(value.dtype.newbyteorder(">"))[..., 0].astype(value.dtype)

    def high_product(left: Any, right: Any) -> Any:
        size = left.dtype.itemsize * 8
        return numpy.asarray((left.astype(object) * right.astype(object)) >> size).astype(left.dtype)

    return {
        "popc": (lambda value: bits(value).sum(-1), "int32"),
        "clz": (leading_zeros, "int32"),
        "ffs": (first_set, "int32"),
        "brev": (reversed_bits, ""),
        "mulhi": (high_product, ""),
        "hadd": (lambda x, y: (x.astype(object) + y.astype(object)) >> 1, ""),
        "rhadd": (lambda x, y: (x.astype(object) + y.astype(object) + 1) >> 1, ""),
        "sad": (lambda x, y, z: abs(x.astype(object) - y.astype(object)) + z, ""),
        "ilogb": (lambda value: numpy.frexp(value)[1] - 1, "int32"),
        "logb": (lambda value: numpy.frexp(value)[1] - 1, ""),
        "llrint": (_converter(numpy, "int64", "rn"), "int64"),
        "llround": (lambda value: numpy.trunc(value + numpy.copysign(0.5, value)), "int64"),
    }
