# ruff: noqa: SLF001 - these are the parts of Triton's interpreter that are replaced
"""What Triton's interpreter computes wrongly or not at all: bfloat16, inline assembly, masks.

The interpreter keeps a bfloat16 as the 16-bit integer of its bits, and computes with that integer. Here each operation
computes in float32 and rounds to the nearest, as a GPU does. Invariant: what can still not be computed raises
LaunchStopped; no wrong value passes for a right one.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

from fuselight.adapters.triton_api.launches.memory import CheckedMemory
from fuselight.adapters.triton_api.launches.record import FaultKind, LaunchStopped

_ASSEMBLY: dict[str, str] = {
    "ex2.approx": "exp2",
    "lg2.approx": "log2",
    "tanh.approx": "tanh",
    "sin.approx": "sin",
    "cos.approx": "cos",
    "rcp.approx": "reciprocal",
    "sqrt.approx": "sqrt",
    "rcp.rn": "reciprocal",
    "sqrt.rn": "sqrt",
}
"""Instructions of PTX with one operand, and the functions of NumPy that compute them."""
_ALIGNED = 16
"""Bytes: of the address of a tensor descriptor, and of its strides but the last one."""
_NAN = 0x7FC0
"""The bits of a bfloat16 that is no number."""


class Bfloat16:
    """Converts between the bits of bfloat16 and float32."""

    def __init__(self, numpy: Any) -> None:
        self._numpy = numpy

    def widened(self, bits: Any) -> Any:
        """The float32 numbers of `bits`, exactly."""
        numpy = self._numpy
        return (numpy.asarray(bits).astype(numpy.uint32) << numpy.uint32(16)).view(numpy.float32)

    def rounded(self, values: Any) -> Any:
        """The bits of the bfloat16 numbers that are nearest to `values`, of two the even one."""
        numpy = self._numpy
        values = numpy.asarray(values).astype(numpy.float32)
        bits = numpy.ascontiguousarray(values).view(numpy.uint32).reshape(values.shape)
        odd = (bits >> numpy.uint32(16)) & numpy.uint32(1)
        nearest = ((bits + numpy.uint32(0x7FFF) + odd) >> numpy.uint32(16)).astype(numpy.uint16)
        return numpy.where(numpy.isnan(values), numpy.uint16(_NAN), nearest)


def corrected_builder(interpreter: Any, language: Any, memory: CheckedMemory) -> Any:
    """An `InterpreterBuilder` whose operations are those of a GPU. `memory` learns which accesses have a mask."""
    builder = interpreter.InterpreterBuilder()
    for change in (_correct_bfloat16, _correct_conversions, _correct_rest, _correct_descriptors):
        change(builder, interpreter, language)
    _note_masks(builder, memory)
    return builder


def _correct_bfloat16(builder: Any, interpreter: Any, language: Any) -> None:
    numpy, handle, narrow = interpreter.np, interpreter.TensorHandle, language.bfloat16
    bfloat16 = Bfloat16(numpy)

    def numbers(operand: Any) -> Any:
        return bfloat16.widened(operand.data) if operand.dtype.scalar == narrow else operand.data

    def result(values: Any, dtype: Any) -> Any:
        """Of a comparison, the truth values keep the type of what was compared: Triton sets it after that."""
        if dtype == narrow and values.dtype not in (bool, numpy.uint16):
            values = bfloat16.rounded(values)
        elif values.dtype.itemsize * 8 > max(8, dtype.primitive_bitwidth):
            values = values.astype(interpreter._get_np_dtype(dtype))
        return handle(values, dtype)

    def binary_op(left: Any, right: Any, operation: Callable[..., Any]) -> Any:
        return result(operation(numbers(left), numbers(right)), left.dtype.scalar)

    def ternary_op(first: Any, second: Any, third: Any, operation: Callable[..., Any]) -> Any:
        dtype = third.dtype.scalar
        if operation is numpy.where:  # bits stay as they are
            return result(operation(first.data, second.data, third.data), dtype)
        return result(operation(numbers(first), numbers(second), numbers(third)), dtype)

    def unary_op(operand: Any, operation: Callable[..., Any]) -> Any:
        return result(operation(numbers(operand)), operand.dtype.scalar)

    def create_dot(left: Any, right: Any, sum_: Any, *_: Any) -> Any:
        factors = [
            _float_factors(interpreter, language, operand, numbers(operand)) for operand in (left, right)
        ]
        return handle(numpy.matmul(*factors, dtype=sum_.data.dtype) + sum_.data, sum_.dtype.scalar)

    builder.binary_op, builder.ternary_op, builder.unary_op = binary_op, ternary_op, unary_op
    builder.create_fma = lambda x, y, z: result(numbers(x) * numbers(y) + numbers(z), z.dtype.scalar)
    builder.create_dot = create_dot
    builder.get_bf16 = lambda value: handle(bfloat16.rounded(numpy.array([value])), narrow)
    # A GPU gives the operand that is a number.
    builder.create_minnumf = lambda left, right: binary_op(left, right, numpy.fmin)
    builder.create_maxnumf = lambda left, right: binary_op(left, right, numpy.fmax)


def _float_factors(interpreter: Any, language: Any, operand: Any, values: Any) -> Any:
    """The values of an operand of a multiplication: 8-bit floats are kept as their bits, too."""
    if operand.dtype.primitive_bitwidth == 8 and operand.dtype.is_floating():  # noqa: PLR2004 - the 8 of `float8`
        convert = interpreter._convert_float
        return convert(values, operand.dtype, language.float16, None).view(interpreter.np.float16)
    return values


def _correct_conversions(builder: Any, interpreter: Any, language: Any) -> None:
    numpy, handle, narrow = interpreter.np, interpreter.TensorHandle, language.bfloat16
    bfloat16, real_fp_to_fp = Bfloat16(numpy), builder.create_fp_to_fp

    def cast_impl(source: Any, target_type: Any) -> Any:
        before, after = source.dtype.scalar, target_type.scalar
        values = bfloat16.widened(source.data) if before == narrow else source.data
        if after == narrow:
            return handle(source.data if before == narrow else bfloat16.rounded(values), after)
        return handle(values.astype(interpreter._get_np_dtype(target_type)), after)

    def create_fp_to_fp(source: Any, target_type: Any, rounding: Any) -> Any:
        pair = (source.dtype.scalar, target_type.scalar)
        if narrow not in pair:
            return real_fp_to_fp(source, target_type, rounding)
        other = pair[0] if pair[1] == narrow else pair[1]
        if other.primitive_bitwidth > 8:  # noqa: PLR2004 - the 8 of `float8`
            return cast_impl(source, target_type)
        if pair[0] == narrow:
            return real_fp_to_fp(cast_impl(source, language.float32), target_type, rounding)
        return cast_impl(real_fp_to_fp(source, language.float32, rounding), target_type)

    builder.cast_impl, builder.create_fp_to_fp = cast_impl, create_fp_to_fp


def _correct_rest(builder: Any, interpreter: Any, language: Any) -> None:
    """Inline assembly, functions of libraries, and what a GPU ignores."""
    numpy, real_atomic = interpreter.np, builder.create_atomic_rmw

    def create_inline_asm(text: str, _constraints: Any, values: Any, *_: Any) -> Any:
        instruction = text.strip()
        name = next((name for start, name in _ASSEMBLY.items() if instruction.startswith(start)), None)
        if name is None or len(values) != 1 or instruction.count(";") > 1:
            raise LaunchStopped("it has inline assembly")
        data = getattr(numpy, name)(values[0].data).astype(values[0].data.dtype)
        done = interpreter.TensorHandle(data, values[0].dtype)
        return types.SimpleNamespace(get_result=lambda _: done)

    def create_atomic_rmw(operation: Any, pointer: Any, value: Any, *rest: Any) -> Any:
        if value.dtype.scalar == language.bfloat16:
            raise LaunchStopped("it has an atomic operation on bfloat16")
        return real_atomic(operation, pointer, value, *rest)

    def create_extern_elementwise(_library: Any, _path: Any, symbol: str, *_: Any) -> Any:
        raise LaunchStopped(f"it calls `{symbol}` of a library")

    builder.create_inline_asm, builder.create_atomic_rmw = create_inline_asm, create_atomic_rmw
    builder.create_extern_elementwise = create_extern_elementwise
    # Without `debug=True` a GPU checks no assertion, and prints are its own.
    builder.create_assert = builder.create_assume = builder.create_print = lambda *_: None


def _correct_descriptors(builder: Any, interpreter: Any, language: Any) -> None:
    """Tensor descriptors: words for what they need, and their atomic operations, which the interpreter lacks."""
    real_make: Any = getattr(
        builder, "create_make_tensor_descriptor", None
    )  # of a Triton that has descriptors

    def create_make_tensor_descriptor(base: Any, shape: Any, strides: Any, *rest: Any) -> Any:
        item = base.dtype.element_ty.primitive_bitwidth // 8
        sizes = [int(stride.data.item()) * item for stride in strides]
        odd = next((size for size in sizes[:-1] if size % _ALIGNED), None)
        if odd is not None:
            raise LaunchStopped(
                f"its tensor descriptor has a stride of {odd} bytes, which must be divisible by 16"
            )
        if int(base.data.item()) % _ALIGNED:
            raise LaunchStopped("the address of its tensor descriptor is not divisible by 16")
        if sizes[-1] != item:
            raise LaunchStopped("the last stride of its tensor descriptor is not 1")
        return real_make(base, shape, strides, *rest)

    def create_descriptor_reduce(kind: Any, descriptor: Any, value: Any, indices: Any) -> None:
        name, dtype = str(kind).rpartition(".")[2], descriptor.base.dtype.element_ty
        if dtype.is_floating():
            name = f"F{name}"
        elif dtype.is_int_unsigned() and name in {"MIN", "MAX"}:
            name = f"U{name}"
        operation = getattr(interpreter._ir.ATOMIC_OP, name, None)
        if operation is None:
            raise LaunchStopped(f"it has an atomic operation of a tensor descriptor on {dtype}")
        pointers, inside = descriptor.materialize_pointers(indices)
        mask = interpreter.TensorHandle(inside, language.int1)
        builder.create_atomic_rmw(
            operation, pointers, value, mask, interpreter._ir.MEM_SEMANTIC.RELAXED, None
        )

    builder.create_make_tensor_descriptor = create_make_tensor_descriptor
    builder.create_descriptor_reduce = create_descriptor_reduce


def described_addresses(interpreter: Any) -> Callable[..., Any]:
    """Of a tensor descriptor, the addresses of a block and which are inside: a block may begin at any element."""
    numpy = interpreter.np

    def materialize_pointers(descriptor: Any, offsets: Any) -> Any:
        item = descriptor.base.dtype.element_ty.primitive_bitwidth // 8
        shape = descriptor.block_shape
        addresses = numpy.broadcast_to(descriptor.base.data, shape)
        inside = numpy.ones(shape, dtype=bool)
        for at, size in enumerate(shape):
            along = [size if other == at else 1 for other in range(len(shape))]
            places = (offsets[at].data.astype(numpy.int64) + numpy.arange(size)).reshape(along)
            addresses = addresses + (item * places * descriptor.strides[at].data).astype(numpy.uint64)
            inside = inside & (places >= 0) & (places < descriptor.shape[at].data)
        return interpreter.TensorHandle(addresses, descriptor.base.dtype.scalar), inside

    return materialize_pointers


def _note_masks(builder: Any, memory: CheckedMemory) -> None:
    """Have `memory` know what bounds each access: a mask or a boundary check, a descriptor's shape, or nothing."""

    def noting(name: str, *, has_mask: Callable[..., bool], kind: FaultKind = "bounds") -> None:
        real = getattr(builder, name)

        def access(*args: Any, **named: Any) -> Any:
            before = memory.masked, memory.bounded_by
            memory.masked, memory.bounded_by = has_mask(*args), kind
            try:
                return real(*args, **named)
            finally:
                memory.masked, memory.bounded_by = before

        setattr(builder, name, access)

    for name in ("create_load", "create_store"):
        noting(name, has_mask=lambda *_: False)
    if hasattr(builder, "create_tensor_pointer_load"):  # Triton 3.9 has no block pointers any more
        noting("create_tensor_pointer_load", has_mask=lambda _, checked, *__: bool(checked))
        noting("create_tensor_pointer_store", has_mask=lambda _, __, checked, *___: bool(checked))
    for name in ("load", "store", "gather", "scatter", "reduce"):
        if hasattr(builder, f"create_descriptor_{name}"):
            noting(f"create_descriptor_{name}", has_mask=lambda *_: True, kind="descriptor")
