"""Functions of libdevice on bits and types, next to the values that CUDA documents."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fuselight.adapters.triton_api.launches.device_conversions import conversion


def _array(type_: str) -> Callable[..., Any]:
    return lambda values: np.array(values, dtype=type_)


_F, _I, _L, _U = (_array(type_) for type_ in ("float32", "int32", "int64", "uint32"))


@pytest.mark.parametrize(
    ("name", "arguments", "expected", "type_"),
    [
        ("float2int_rn", [_F([2.5, -1.5, 3e9, np.nan])], [2, -2, 2**31 - 1, 0], "int32"),
        ("float2int_rd", [_F([2.7, -1.2])], [2, -2], "int32"),
        ("float2int_ru", [_F([2.1, -1.8])], [3, -1], "int32"),
        ("float2uint_rz", [_F([2.9, -4.0, 5e9])], [2, 0, 2**32 - 1], "uint32"),
        ("float2ll_rz", [_F([-2.9, 1e20])], [-2, 2**63 - 1], "int64"),
        ("int2float_rz", [_I([2**24 + 1, -(2**24) - 1])], [2**24, -(2**24)], "float32"),
        ("int2float_ru", [_I([2**24 + 1])], [2**24 + 2], "float32"),
        ("float_as_int", [_F([1.0])], [0x3F800000], "int32"),
        ("int_as_float", [_I([0x40000000])], [2.0], "float32"),
        ("popc", [_I([0, 7, -1])], [0, 3, 32], "int32"),
        ("popc", [_L([-1, 5])], [64, 2], "int32"),
        ("clz", [_I([0, 1, -1, 256])], [32, 31, 0, 23], "int32"),
        ("ffs", [_I([0, 1, 8, -(2**31)])], [0, 1, 4, 32], "int32"),
        ("brev", [_U([1, 3])], [2**31, 3 * 2**30], ""),
        ("mulhi", [_I([2**30, -(2**30)]), _I([8, 8])], [2, -2], ""),
        ("hadd", [_I([2**31 - 1, -3]), _I([1, 0])], [2**30, -2], ""),
        ("sad", [_I([5, -5]), _I([9, 5]), _I([1, 1])], [5, 11], ""),
        ("ilogb", [_F([8.0, 0.75])], [3, -1], "int32"),
        ("add_ru", [_F([1.0]), _F([1e-9])], [1.0000001], ""),
        ("add_rz", [_F([-1.0]), _F([-1e-9])], [-1.0], ""),
        ("rcp_rd", [_F([3.0])], [0.3333333], ""),
    ],
)
def test_a_function_gives_what_the_device_gives(
    name: str, arguments: list[Any], expected: list[Any], type_: str
) -> None:
    known = conversion(name, np)
    assert known is not None
    compute, of_type = known
    assert of_type == type_
    result = np.asarray(compute(*arguments)).astype(of_type or arguments[0].dtype)
    assert result.tolist() == np.asarray(expected, dtype=result.dtype).tolist()


@pytest.mark.parametrize("name", ["sin", "float2half_rn", "cyl_bessel_i0", "max_rn"])
def test_other_functions_are_none_of_these(name: str) -> None:
    assert conversion(name, np) is None
