"""libdevice's functions, computed with NumPy: Triton's interpreter has none of them."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from typing import Any

from fuselight.adapters.triton_api.launches.device_conversions import conversion
from fuselight.adapters.triton_api.launches.record import LaunchStopped

_AS_IN_NUMPY = (
    "exp", "exp2", "expm1", "log", "log1p", "log2", "log10", "sqrt", "cbrt", "sin", "cos", "tan", "sinh", "cosh",
    "tanh", "floor", "ceil", "trunc", "rint", "fmod", "hypot", "isnan", "isinf", "isfinite", "copysign", "fabs",
)  # fmt: skip
_RENAMED = {
    "asin": "arcsin", "acos": "arccos", "atan": "arctan", "atan2": "arctan2", "asinh": "arcsinh", "acosh": "arccosh",
    "atanh": "arctanh", "pow": "power", "abs": "abs", "nearbyint": "rint", "ldexp": "ldexp", "nextafter": "nextafter",
    "fast_expf": "exp", "fast_logf": "log", "fast_log2f": "log2", "fast_log10f": "log10", "fast_sinf": "sin",
    "fast_cosf": "cos", "fast_tanf": "tan", "fast_powf": "power", "fast_tanhf": "tanh", "finitef": "isfinite",
    "isfinited": "isfinite", "signbit": "signbit", "isinfd": "isinf", "fast_dividef": "divide", "div_rn": "divide",
    "add_rn": "add", "mul_rn": "multiply", "sub_rn": "subtract", "sqrt_rn": "sqrt", "min": "fmin", "max": "fmax",
    "mul24": "multiply", "scalbn": "ldexp",
}  # fmt: skip


def _inverse_normal(part: float) -> float:
    """The value below which a part of a normal distribution is."""
    ends = {0.0: -math.inf, 1.0: math.inf}
    if part in ends:
        return ends[part]
    return statistics.NormalDist().inv_cdf(part) if 0 < part < 1 else math.nan


_BY_ELEMENT: dict[str, Callable[..., float]] = {
    "erf": math.erf,
    "erfc": math.erfc,
    "tgamma": math.gamma,
    "lgamma": math.lgamma,
    "remainder": math.remainder,
    "normcdf": lambda x: math.erfc(-x / math.sqrt(2)) / 2,
    "normcdfinv": _inverse_normal,
    "erfinv": lambda x: _inverse_normal((x + 1) / 2) / math.sqrt(2),
    "erfcinv": lambda x: _inverse_normal(1 - x / 2) / math.sqrt(2),
}


def _functions(numpy: Any) -> dict[str, Callable[..., Any]]:
    functions: dict[str, Callable[..., Any]] = {name: getattr(numpy, name) for name in _AS_IN_NUMPY}
    functions |= {name: getattr(numpy, of_numpy) for name, of_numpy in _RENAMED.items()}
    functions |= {name: numpy.vectorize(each, otypes=[float]) for name, each in _BY_ELEMENT.items()}
    return functions | {
        "rsqrt": lambda x: 1 / numpy.sqrt(x),
        "rsqrt_rn": lambda x: 1 / numpy.sqrt(x),
        "rcp_rn": lambda x: 1 / x,
        "rcbrt": lambda x: 1 / numpy.cbrt(x),
        "rhypot": lambda x, y: 1 / numpy.hypot(x, y),
        "norm3d": lambda x, y, z: numpy.hypot(numpy.hypot(x, y), z),
        "rnorm3d": lambda x, y, z: 1 / numpy.hypot(numpy.hypot(x, y), z),
        "norm4d": lambda x, y, z, w: numpy.hypot(numpy.hypot(x, y), numpy.hypot(z, w)),
        "rnorm4d": lambda x, y, z, w: 1 / numpy.hypot(numpy.hypot(x, y), numpy.hypot(z, w)),
        "exp10": lambda x: numpy.power(10.0, x),
        "fast_exp10f": lambda x: numpy.power(10.0, x),
        "sinpi": lambda x: numpy.sin(numpy.pi * x),
        "cospi": lambda x: numpy.cos(numpy.pi * x),
        "fma": lambda x, y, z: x * y + z,
        "fma_rn": lambda x, y, z: x * y + z,
        "fdim": lambda x, y: numpy.maximum(x - y, 0),
        # Half of a number goes away from zero.
        "round": lambda x: numpy.trunc(x + numpy.copysign(0.5, x)),
        "saturatef": lambda x: numpy.clip(x, 0, 1),
    }


_TRUTHS = frozenset({"isnan", "isinf", "isfinite", "finitef", "isfinited", "isinfd", "signbit"})
"""Functions whose result is an integer, 0 or 1."""

_INTEGER = "int32"


class DeviceFunctions:
    """In the place of each function of libdevice."""

    def __init__(self, interpreter: Any, language: Any, semantic: Any) -> None:
        self._interpreter, self._language, self._semantic = interpreter, language, semantic
        self._functions = _functions(interpreter.np)

    def named(self, name: str) -> Callable[..., Any]:
        """The function of that name, for tensors of the interpreter."""
        compute, of_type = self._functions.get(name), _INTEGER if name in _TRUTHS else ""
        if compute is None:
            compute, of_type = conversion(name, self._interpreter.np) or (None, "")

        def call(*args: Any, **_: Any) -> Any:
            if compute is None:
                raise LaunchStopped(f"it calls `{name}` of libdevice")
            return self._tensor(compute, of_type, [self._semantic.to_tensor(argument) for argument in args])

        return call

    def _tensor(self, compute: Callable[..., Any], of_type: str, args: list[Any]) -> Any:
        widest = max(args, key=lambda argument: argument.handle.data.dtype.itemsize)
        values = self._interpreter.np.asarray(compute(*[argument.handle.data for argument in args]))
        dtype = getattr(self._language, of_type) if of_type else widest.dtype.scalar
        handle = self._interpreter.TensorHandle(values.astype(of_type or widest.handle.data.dtype), dtype)
        is_block = any(argument.type.is_block() for argument in args)
        return self._language.tensor(
            handle, self._language.block_type(dtype, list(values.shape)) if is_block else dtype
        )
