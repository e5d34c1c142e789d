# ruff: noqa: SLF001 - these are the parts of Triton's interpreter that are used and replaced
"""Computes what a launch writes, on the CPU, with Triton's interpreter.

Invariant: when it ends, by whatever, Triton is as it was before: its own interpreter leaves `triton.language` changed,
and nothing compiles in that process any more. Memory is reached by CheckedMemory only, and each operation looks at the
deadline.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from fuselight.adapters.torch_api.patching import patched
from fuselight.adapters.triton_api import names
from fuselight.adapters.triton_api.launches.arithmetic import corrected_builder, described_addresses
from fuselight.adapters.triton_api.launches.device_functions import DeviceFunctions
from fuselight.adapters.triton_api.launches.launch_work import LaunchWork
from fuselight.adapters.triton_api.launches.left_out import follow_left_out
from fuselight.adapters.triton_api.launches.memory import CheckedMemory
from fuselight.adapters.triton_api.launches.python_form import PythonForms, origin_of
from fuselight.adapters.triton_api.launches.record import LaunchStopped

TOO_LONG = "computing them on the CPU takes too long"
_HOPELESS = 1.25
"""Part of the budget that all programs would take, as the first ones say, from which on the rest are not tried."""
_SAMPLE = 0.2
"""Part of the budget after which the programs that are done say how long all take."""
_SPREAD = 16
"""Programs from all parts of the grid that stand for the others: a causal attention has more to do in the last ones."""
_processor_time = time.thread_time  # bound before any user code runs; the same on a busy machine


class Interpretation:
    """One launch: the programs of its grid, one after the other."""

    def __init__(self, kernel: Any, grid: tuple[int, int, int], seconds: float) -> None:
        """`kernel` is the `JITFunction`. Raises ImportError without NumPy."""
        self._kernel, self.grid, self._seconds = kernel, grid, seconds
        self._interpreter, self._language = names.interpreter(), names.language()
        self._deadline = math.inf
        self.seconds = 0.0
        """Processor time that the programs took. Imports, and making the kernel's Python, are not counted."""
        self.memory = self._new_memory()
        builder = corrected_builder(self._interpreter, self._language, self.memory)
        builder.options = self._interpreter.InterpreterOptions(sanitize_overflow=False)
        self._builder = builder
        self._left_out = follow_left_out(builder, self._interpreter.np, self.memory)
        self.products: dict[str, int] = {}
        """Floating-point operations of `tl.dot` until now, by dtype; `tf32` is float32 with tensor cores."""
        self.finished = 0
        """How many programs have run to their end."""
        self._sampled: tuple[LaunchWork, int] | None = None
        """What the first finished programs do, which are from all parts of the grid, and how many they are."""
        self._count_products(builder)
        self._semantic = self._interpreter.TritonSemantic(builder)
        self._forms = self._new_forms()

    def _new_memory(self) -> CheckedMemory:
        native = self._interpreter._interpreter
        return CheckedMemory(native, self._interpreter.np, self._is_users, self._expire)

    def _new_forms(self) -> PythonForms:
        return PythonForms(self._language, self._semantic)

    def run(self, arguments: Mapping[str, Any], types: Mapping[str, Any]) -> None:
        """Run the programs with `arguments`, of the Triton types of the same names.

        Raises LaunchStopped where the values are unknown, and whatever the kernel's code or the interpreter raises.
        """
        with self._active():
            values = {name: self._value(name, argument, types[name]) for name, argument in arguments.items()}
            program = self._forms.of(self._kernel)
            self._builder.set_grid_dim(*self.grid)
            with self._within_budget():
                self._run_programs(lambda: program(**values))

    def _run_programs(self, program: Callable[[], Any]) -> None:
        start = after_first = self._clock()
        for done, place in enumerate(_order(self.grid)):
            now = self._clock()
            if done == 1:
                after_first = now  # the first one is slower
            elif done > 1 and now - start > self._seconds * _SAMPLE:
                each = (now - after_first) / (done - 1)
                if each * (self._total() - done) > self._seconds * _HOPELESS - (now - start):
                    raise LaunchStopped(TOO_LONG)
            self.memory.begin_program(place)
            self._builder.set_grid_idx(*place)
            program()
            self.finished = done + 1
            if self.finished <= _SPREAD or self.finished == self._total():
                self._note_work()

    @contextlib.contextmanager
    def _within_budget(self) -> Iterator[None]:
        """Count the time from here on, until the block ends."""
        start = self._clock()
        self._deadline = start + self._seconds
        try:
            yield
        finally:
            self.seconds = self._clock() - start

    def _clock(self) -> float:
        return _processor_time() - self._forms.seconds

    def work(self) -> LaunchWork | None:
        """What the whole grid does: a few finished programs stand for the others. None: none has finished."""
        if self._sampled is None:
            return None
        work, programs = self._sampled
        times = self._total() / programs
        return LaunchWork(
            {dtype: count * self._total() // programs for dtype, count in work.products.items()},
            round(work.iterations * times),
            round(work.atomic_sectors * times),
            work.changes * times,
        )

    def _note_work(self) -> None:
        memory = self.memory
        changes = max((changed / elements for changed, elements in memory.atomics.values()), default=0.0)
        work = LaunchWork(dict(self.products), self._forms.iterations, memory.atomic_sectors, changes)
        self._sampled = work, self.finished

    def _count_products(self, builder: Any) -> None:
        real = builder.create_dot

        def create_dot(left: Any, right: Any, sum_: Any, *rest: Any) -> Any:
            dtype = _rate_name(left.dtype.scalar, str(rest[0]) if rest else "")
            *batch, rows, inner = left.data.shape
            count = (
                2
                * rows
                * inner
                * int(right.data.shape[-1])
                * int(self._interpreter.np.prod(batch, dtype=int))
            )
            self.products[dtype] = self.products.get(dtype, 0) + count * (
                3 if "x3" in str(rest[:1]).lower() else 1
            )
            return real(left, right, sum_, *rest)

        builder.create_dot = create_dot

    def _total(self) -> int:
        return self.grid[0] * self.grid[1] * self.grid[2]

    def _expire(self) -> None:
        if self._clock() > self._deadline:
            raise LaunchStopped(TOO_LONG)

    def _is_users(self, path: str) -> bool:
        return path in self._forms.files and not path.startswith(_triton_folder())

    @contextlib.contextmanager
    def _active(self) -> Iterator[None]:
        """Have `triton.language` compute, until the block ends."""
        interpreter = self._interpreter
        scope = interpreter._LangPatchScope()
        with contextlib.ExitStack() as stack:
            enter = stack.enter_context
            stack.callback(scope.restore)
            enter(patched(interpreter, "_interpreter", self.memory))
            enter(patched(interpreter, "interpreter_builder", self._builder))
            enter(patched(interpreter, "interpreter_semantic", self._semantic))
            enter(patched(interpreter.TensorHandle, "__post_init__", self._checked_handle()))
            if hasattr(interpreter, "TensorDescHandle"):
                addresses = described_addresses(interpreter)
                enter(patched(interpreter.TensorDescHandle, "materialize_pointers", addresses))
            enter(patched(names.runtime_jit().JITFunction, "__call__", self._called()))
            self._compute_in_language(scope)
            self._compute_device_functions(scope)
            enter(interpreter.np.errstate(all="ignore"))
            enter(warnings.catch_warnings())
            warnings.simplefilter("ignore")
            yield

    def _compute_in_language(self, scope: Any) -> None:
        interpreter, language = self._interpreter, self._language
        for module in (language, language.core):
            interpreter._patch_builtin(module, self._builder, scope)
            interpreter._patch_builtin(module.tensor, self._builder, scope)
            interpreter._patch_lang_tensor(module.tensor, scope)
            scope.set_attr(module.tensor, "__index__", _index)
            interpreter._patch_lang_core(module, scope)
            scope.set_attr(module, "reduce", self._left_out(module.reduce))
            scope.set_attr(module, "range", self._forms.range)
            scope.set_attr(module, "static_range", self._forms.static_range)
            scope.set_attr(module, "static_print", lambda *_, **__: None)
        interpreter._patch_builtin(language.math, self._builder, scope)
        interpreter._patch_builtin(language.core.tensor_descriptor_base, self._builder, scope)

    def _compute_device_functions(self, scope: Any) -> None:
        functions = DeviceFunctions(self._interpreter, self._language, self._semantic)
        for module in names.libdevices():
            for name, original in list(vars(module).items()):
                if callable(original) and not name.startswith("_") and not isinstance(original, type):
                    computed = self._device_function(functions.named(name))
                    self._forms.replaced[origin_of(original)] = computed
                    scope.set_attr(module, name, computed)

    def _device_function(self, computed: Callable[..., Any]) -> Callable[..., Any]:
        return computed

    def _checked_handle(self) -> Callable[[Any], None]:
        """Each operation makes a handle of its result: the place to look at the deadline."""
        real, expire = self._interpreter.TensorHandle.__post_init__, self._expire

        def post_init(handle: Any) -> None:
            expire()
            real(handle)

        return post_init

    def _called(self) -> Callable[..., Any]:
        """A call of a device function, by a kernel or by another one."""
        forms = self._forms

        def call(function: Any, *args: Any, **named: Any) -> Any:
            named.pop("_semantic", None)
            named.pop("_generator", None)
            return forms.of(function)(*args, **named)

        return call

    def _value(self, name: str, argument: Any, type_: Any) -> Any:
        """An argument as the kernel has it: a tensor is its address."""
        if type_ == "constexpr" or argument is None:
            return argument
        if isinstance(argument, tuple):
            items = [
                self._value(f"{name}[{at}]", item, of)
                for at, (item, of) in enumerate(zip(argument, type_, strict=True))
            ]
            return self._language.tuple(items) if type(argument) is tuple else type(argument)(*items)
        if hasattr(argument, "block_shape") and hasattr(argument, "base"):
            return self._descriptor(name, argument)
        dtype = self._language.str_to_ty(type_, None)
        interpreter = self._interpreter
        if hasattr(argument, "data_ptr"):
            address = self.memory.add(name, getattr(argument, "base", argument))
            return self._scalar(address, interpreter.np.uint64, dtype)
        kind = interpreter._get_np_dtype(dtype)
        if dtype == self._language.bfloat16:
            raise LaunchStopped(f"its argument `{name}` is a number of type bfloat16")
        return self._scalar(argument, kind, dtype)

    def _scalar(self, value: Any, kind: Any, dtype: Any) -> Any:
        handle = self._interpreter.TensorHandle(self._interpreter.np.array([value], dtype=kind), dtype)
        return self._language.tensor(handle, dtype)

    def _descriptor(self, name: str, argument: Any) -> Any:
        """A tensor descriptor that was made on the host."""
        jit = names.runtime_jit()
        base = self._value(name, argument.base, jit.mangle_type(argument.base))
        numbers = [
            [self._semantic.to_tensor(int(size)) for size in sizes]
            for sizes in (argument.shape, argument.strides)
        ]
        numbers[1][-1] = self._language.constexpr(1)
        return self._semantic.make_tensor_descriptor(
            base=base,
            shape=numbers[0],
            strides=numbers[1],
            block_shape=[self._language.constexpr(size) for size in argument.block_shape],
            padding_option=argument.padding,
        )


def _order(grid: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    """The programs: the first, the last, where a mask is missing, some from all parts, then the others in order."""
    total = math.prod(grid)
    if min(grid) < 1:
        return
    begin = dict.fromkeys((0, total - 1))
    if total > _SPREAD:
        steps = _SPREAD.bit_length() - 1
        # Halves, quarters, eighths: any first few of them are spread evenly.
        parts = (int(f"{at:0{steps}b}"[::-1], 2) for at in range(1, _SPREAD))
        begin |= dict.fromkeys(total * part // _SPREAD for part in parts)
    for place in itertools.chain(begin, (at for at in range(total) if at not in begin)):
        yield place // (grid[1] * grid[2]), place // grid[2] % grid[1], place % grid[2]


def _index(tensor: Any) -> int:
    """The number of a tensor with one element, for `range`.

    Triton before 3.7 asks its array, which NumPy refuses from 2.4 on.
    """
    return int(tensor.handle.data.item())


def _rate_name(dtype: Any, precision: str) -> str:
    """What the rate of an operand's dtype is called: `bf16`, `f8`, `tf32`."""
    name = str(dtype)
    if name == "fp32" and "tf32" in precision.lower():
        return "tf32"
    short = {"fp": "f", "bf": "bf", "in": "i"}.get(name[:2], "")
    return "f8" if name.startswith("fp8") else short + name.lstrip("fpbint")


def _triton_folder() -> str:
    return str(names.language().__file__).rpartition("language")[0]
