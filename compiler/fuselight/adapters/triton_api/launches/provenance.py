# ruff: noqa: SLF001 - these are parts of Triton's interpreter
"""What a value of an address check is made of: memory, whose contents are unknown, or 32-bit numbers that overflow.

An address check has no values of tensors. Each handle of Triton's interpreter therefore carries two facts: `unknown`,
whether it depends on something that was read from memory, and `exact`, the numbers that it would have if 32-bit
arithmetic did not overflow, where they differ. Invariant: a handle without facts has exactly the value of the GPU.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator
from typing import Any

from fuselight.adapters.triton_api.launches.record import LaunchStopped

_WRAPPING = frozenset({"add", "subtract", "multiply", "left_shift"})
"""Functions of NumPy whose result of 32-bit integers overflows as on a GPU. Others give up `exact`, as a hash does."""
_ATOMIC = ("create_atomic_rmw", "create_atomic_cas")
_BY_DESCRIPTOR = (
    "create_tensor_pointer_load",
    "create_tensor_pointer_store",
    "create_descriptor_load",
    "create_descriptor_store",
    "create_descriptor_gather",
    "create_descriptor_scatter",
    "create_descriptor_reduce",
)


class Branches(LaunchStopped):
    """The next statement depends on a value that was read from memory."""


def is_unknown(value: Any) -> bool:
    """Whether a handle, a tensor or something that contains handles depends on memory."""
    return any(getattr(handle, "unknown", False) for handle in _handles(value))


def mark_unknown(value: Any) -> None:
    """Note that a handle, a tensor or all handles in something depend on memory; of a block pointer, its offsets do."""
    for handle in _handles(value if not _is_block_pointer(value) else getattr(value, "offsets", ())):
        handle.unknown = True
        handle.exact = None


def exact_of(handle: Any) -> Any:
    """The numbers that a handle would have without overflow, None where it has them."""
    return getattr(handle, "exact", None)


def _handles(value: Any) -> Iterator[Any]:
    if isinstance(value, (list, tuple)):
        for item in value:
            yield from _handles(item)
    elif hasattr(value, "handle"):
        yield from _handles(value.handle)
    elif hasattr(value, "get_element_ty"):
        yield value
    elif _is_block_pointer(value):
        yield from _handles([value.base, value.strides, value.shape, getattr(value, "offsets", ())])
    elif isinstance(getattr(value, "values", None), (list, tuple)):  # Triton's tuple
        yield from _handles(value.values)


def _is_block_pointer(value: Any) -> bool:
    """Whether it is a block pointer or a tensor descriptor."""
    return hasattr(value, "block_shape") and hasattr(value, "strides")


class Provenance:
    """Has the operations of a builder keep the facts of their operands."""

    def __init__(self, builder: Any, interpreter: Any, memory: Any) -> None:
        """`memory` is the AddressMemory, which gets the facts of each access."""
        self._builder, self._interpreter, self._memory = builder, interpreter, memory
        self._numpy = interpreter.np
        self._outer: tuple[bool, bool] | None = None
        """Whether address and mask of the block or descriptor that is being accessed are unknown."""

    def install(self) -> None:
        """Replace the operations of the builder."""
        builder = self._builder
        builder.binary_op = self._binary(builder.binary_op)
        self._replace_assembly()
        for name in dir(builder):
            if name.startswith("create_") and not name.startswith(("create_masked", *_ATOMIC)):
                setattr(builder, name, self._keeping(getattr(builder, name)))
        builder.cast_impl = self._keeping(builder.cast_impl)
        self._keep_exact()
        builder.create_masked_load = self._access(builder.create_masked_load, mask=1, reads=True)
        builder.create_masked_store = self._access(builder.create_masked_store, mask=2, reads=False)
        # Of each dtype: no value is computed.
        real_atomic = self._interpreter.InterpreterBuilder.create_atomic_rmw.__get__(builder)
        builder.create_atomic_rmw = self._access(real_atomic, mask=3, reads=True, pointer=1)
        builder.create_atomic_cas = self._access(builder.create_atomic_cas, mask=None, reads=True)
        for name in _BY_DESCRIPTOR:
            if hasattr(builder, name):  # Triton 3.9 has no block pointers any more
                setattr(builder, name, self._by_descriptor(getattr(builder, name)))

    def unknown(self, shape: Any, kind: Any) -> Any:
        """A handle of a Triton type whose values are unknown."""
        interpreter = self._interpreter
        data = self._numpy.zeros(shape, interpreter._get_np_dtype(kind))
        handle = interpreter.TensorHandle(data, kind.scalar)
        mark_unknown(handle)
        return handle

    def reduced(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """`tl.reduce` or `tl.associative_scan`, which make their results without the builder."""
        return self._keeping(function)

    def _keeping(self, real: Callable[..., Any]) -> Callable[..., Any]:
        """The operation, whose result is unknown where an operand is."""

        def operation(*args: Any, **named: Any) -> Any:
            result = real(*args, **named)
            if is_unknown(args) or any(is_unknown(value) for value in named.values()):
                mark_unknown(result)
            return result

        return operation

    def _binary(self, real: Callable[..., Any]) -> Callable[..., Any]:
        numpy = self._numpy

        def binary_op(left: Any, right: Any, operation: Callable[..., Any]) -> Any:
            result = real(left, right, operation)
            wraps = operation.__name__ in _WRAPPING and result.data.dtype in (numpy.int32, numpy.int64)
            if wraps and not is_unknown([left, right]):
                self._set_exact(result, operation(self._numbers(left), self._numbers(right)))
            return result

        return binary_op

    def _numbers(self, handle: Any) -> Any:
        exact = exact_of(handle)
        return exact if exact is not None else handle.data.astype(self._numpy.int64)

    def _set_exact(self, result: Any, exact: Any) -> None:
        if not self._numpy.array_equal(result.data.astype(self._numpy.int64), exact):
            result.exact = exact

    def _keep_exact(self) -> None:
        """Shapes, casts, choices and pointers keep what their operands would be without overflow."""
        numpy = self._numpy
        shapes: dict[str, Callable[..., Any]] = {
            "create_reshape": lambda exact, shape, *_: exact.reshape(shape),
            "create_trans": numpy.transpose,
            "create_expand_dims": numpy.expand_dims,
            "create_broadcast": numpy.broadcast_to,
            "create_int_cast": lambda exact, *_: exact,
        }
        for name, of_exact in shapes.items():
            self._with_exact(name, of_exact)
        builder = self._builder
        real_splat, real_addptr, real_select = (
            builder.create_splat,
            builder.create_addptr,
            builder.create_select,
        )

        def create_splat(kind: Any, handle: Any) -> Any:
            result, exact = real_splat(kind, handle), exact_of(handle)
            if exact is not None:
                result.exact = numpy.full(kind.shape, exact)
            return result

        def create_addptr(pointer: Any, offset: Any) -> Any:
            result = real_addptr(pointer, offset)
            if exact_of(pointer) is not None or exact_of(offset) is not None:
                item = max(1, pointer.get_element_ty().primitive_bitwidth // 8)
                result.exact = self._numbers(pointer) + item * self._numbers(offset)
            return result

        def create_select(condition: Any, left: Any, right: Any) -> Any:
            result = real_select(condition, left, right)
            if exact_of(left) is not None or exact_of(right) is not None:
                self._set_exact(
                    result, numpy.where(condition.data, self._numbers(left), self._numbers(right))
                )
            return result

        builder.create_splat, builder.create_addptr = create_splat, create_addptr
        builder.create_select = create_select

    def _with_exact(self, name: str, of_exact: Callable[..., Any]) -> None:
        real = getattr(self._builder, name)

        def operation(handle: Any, *args: Any) -> Any:
            result, exact = real(handle, *args), exact_of(handle)
            if exact is not None and not is_unknown(result):
                result.exact = of_exact(exact, *args)
            return result

        setattr(self._builder, name, operation)

    def _replace_assembly(self) -> None:
        """Of assembly and library functions, only the shape of the result matters: its values are unknown."""
        unknown = self.unknown

        def create_inline_asm(_text: str, _constraints: Any, values: Any, kinds: Any, *_: Any) -> Any:
            shape = values[0].data.shape if values else (1,)
            results = [unknown(shape, kind) for kind in kinds]
            return types.SimpleNamespace(get_result=lambda at: results[at])

        def create_extern_elementwise(
            _name: Any, _path: Any, _symbol: Any, args: Any, kind: Any, _: Any
        ) -> Any:
            return unknown(args[0].data.shape, kind)

        self._builder.create_inline_asm = create_inline_asm
        self._builder.create_extern_elementwise = create_extern_elementwise

    def _access(
        self, real: Callable[..., Any], *, mask: int | None, reads: bool, pointer: int = 0
    ) -> Callable[..., Any]:
        """An access, with the facts of its address and its mask. What it reads is unknown."""

        def access(*args: Any, **named: Any) -> Any:
            address = args[pointer]
            condition = args[mask] if mask is not None else None
            outer = self._outer or (False, False)
            self._memory.describe(
                address_is_unknown=outer[0] or is_unknown(address),
                mask_is_unknown=outer[1] or is_unknown(condition),
                exact=exact_of(address),
            )
            result = real(*args, **named)
            if reads:
                mark_unknown(result)
            return result

        return access

    def _by_descriptor(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def access(*args: Any, **named: Any) -> Any:
            descriptor = next(argument for argument in args if hasattr(argument, "block_shape"))
            places = [descriptor.base, descriptor.strides, getattr(descriptor, "offsets", ())]
            # Of a store, the value is among the arguments: of its indices, all are lists or come last.
            indices = [argument for argument in args if isinstance(argument, (list, tuple))]
            self._outer = is_unknown([*places, *indices]), is_unknown(descriptor.shape)
            try:
                return real(*args, **named)
            finally:
                self._outer = None

        return access
