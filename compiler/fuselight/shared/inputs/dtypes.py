"""The dtypes of directives by their short names, and what else people call them."""

from __future__ import annotations

DTYPES: dict[str, str] = {
    "f64": "float64",
    "f32": "float32",
    "f16": "float16",
    "bf16": "bfloat16",
    "f8e4m3fn": "float8_e4m3fn",
    "f8e4m3fnuz": "float8_e4m3fnuz",
    "f8e5m2": "float8_e5m2",
    "f8e5m2fnuz": "float8_e5m2fnuz",
    "f8e8m0fnu": "float8_e8m0fnu",
    "f4e2m1fn_x2": "float4_e2m1fn_x2",
    "i64": "int64",
    "i32": "int32",
    "i16": "int16",
    "i8": "int8",
    "u64": "uint64",
    "u32": "uint32",
    "u16": "uint16",
    "u8": "uint8",
    "bool": "bool",
    "c128": "complex128",
    "c64": "complex64",
    "c32": "complex32",
}
"""Short name to the name in the torch module."""

_SPELLINGS = {
    **dict.fromkeys(("float", "float32", "fp32", "single", "tensor", "floattensor"), "f32"),
    **dict.fromkeys(("double", "float64", "fp64", "doubletensor"), "f64"),
    **dict.fromkeys(("half", "float16", "fp16", "halftensor"), "f16"),
    **dict.fromkeys(("bfloat16", "bfloat", "bfloat16tensor"), "bf16"),
    **dict.fromkeys(("int", "int64", "long", "longtensor"), "i64"),
    **dict.fromkeys(("int32", "inttensor"), "i32"),
    **dict.fromkeys(("int16", "short"), "i16"),
    "int8": "i8",
    "uint8": "u8",
    "byte": "u8",
    "uint16": "u16",
    "uint32": "u32",
    "uint64": "u64",
    "bool_": "bool",
    "boolean": "bool",
    "booltensor": "bool",
    "complex": "c64",
    "complex64": "c64",
    "cfloat": "c64",
    "complex128": "c128",
    "cdouble": "c128",
}
"""Names of dtypes elsewhere, in small letters, to those of directives."""


def known_dtype(name: str) -> str | None:
    """The dtype of a directive that a name means."""
    small = name.lower()
    return small if small in DTYPES else _SPELLINGS.get(small)
