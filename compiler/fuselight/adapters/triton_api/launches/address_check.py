# ruff: noqa: SLF001 - these are the parts of Triton's interpreter that are used and replaced
"""Checks the addresses of a launch without the values of its tensors, which need no memory.

Of the grid, programs at its first and last places and in the middle are checked; of long loops, the first and the last
iterations. Invariant: what it reports happens on a GPU with these arguments; what it has not seen is listed.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from fuselight.adapters.triton_api.launches.address_memory import AddressMemory
from fuselight.adapters.triton_api.launches.interpretation import Interpretation
from fuselight.adapters.triton_api.launches.loop_sampling import LoopSampler
from fuselight.adapters.triton_api.launches.provenance import Branches, Provenance, is_unknown
from fuselight.adapters.triton_api.launches.python_form import PythonForms
from fuselight.adapters.triton_api.launches.record import AccessFault, AddressReport, LaunchStopped

BRANCH_FROM_MEMORY = "a branch or a loop depends on values from memory"
OUT_OF_TIME = "the check took too long"
MAX_PROGRAMS = 64
"""Launches of at most so many programs are checked as a whole."""


class AddressCheck(Interpretation):
    """One launch: some programs of its grid, without values."""

    memory: AddressMemory
    _sampler: LoopSampler

    def __init__(self, kernel: Any, grid: tuple[int, int, int], seconds: float) -> None:
        """As of Interpretation."""
        super().__init__(kernel, grid, seconds)
        self._provenance = Provenance(self._builder, self._interpreter, self.memory)
        self._provenance.install()
        self._done = 0
        self._stopped = False

    def _run_programs(self, program: Callable[[], Any]) -> None:
        """Check some of them, until the time is over."""
        for place in sampled_programs(self.grid):
            self.memory.program = place
            self._builder.set_grid_idx(*place)
            try:
                program()
            except Branches:
                self._stopped = True
            except LaunchStopped as why:
                self._stopped = True
                self.memory.open.setdefault(("", 0, self._reason(why)))
                return
            self._done += 1
            self.memory.end_program()
            self.products.clear()  # of loops whose iterations were left out
            self.finished = self._done
            self._note_work()

    def faults(self) -> tuple[AccessFault, ...]:
        """What is wrong with accesses, the wasteful ones last."""
        faults = list(self.memory.faults.values())
        wrong = {(fault.path, fault.line) for fault in faults}
        for (access, path, line, name), (useful, program) in self.memory.sectors.wasteful().items():
            if (path, line) not in wrong:
                where = (access, path, line, name, 0, 0, True, program)
                faults.append(AccessFault(*where, kind="sectors", useful=useful))
        return tuple(faults)

    def report(self) -> AddressReport:
        """How far the launch was checked."""
        total = self._total()
        is_complete = self._done == total and not self._stopped and not self._sampler.has_jumped
        return AddressReport(self._done, total, is_complete, tuple(self.memory.open))

    @staticmethod
    def _reason(why: LaunchStopped) -> str:
        return OUT_OF_TIME if "too long" in str(why) else str(why)

    def _new_memory(self) -> AddressMemory:
        native = self._interpreter._interpreter
        return AddressMemory(native, self._interpreter.np, self._is_users, self._expire)

    def _new_forms(self) -> PythonForms:
        self._sampler = LoopSampler(self._interpreter)
        return PythonForms(self._language, self._semantic, self._sampler)

    def _device_function(self, computed: Callable[..., Any]) -> Callable[..., Any]:
        """A function of libdevice; one that cannot be computed has unknown values."""

        def call(*args: Any, **named: Any) -> Any:
            try:
                return computed(*args, **named)
            except LaunchStopped:
                shaped = next((arg for arg in args if isinstance(arg, self._language.tensor)), None)
                if shaped is None:
                    raise
                handle = self._provenance.unknown(shaped.handle.data.shape, shaped.type)
                return self._language.tensor(handle, shaped.type)

        return self._provenance.reduced(call)

    def _reduction(self, real: Callable[..., Any]) -> Callable[..., Any]:
        """`tl.reduce`, which computes nothing of unknown values: the interpreter takes each element by itself."""

        # Names of Triton's parameters: kernels pass them by name.
        def reduce(input: Any, axis: Any, combine_fn: Any, keep_dims: Any = False, **_: Any) -> Any:  # noqa: A002, FBT002
            def shape(sizes: list[int]) -> list[int]:
                if keep_dims:
                    return [
                        1 if axis is None or at == axis % len(sizes) else size
                        for at, size in enumerate(sizes)
                    ]
                return [] if axis is None else sizes[: int(axis)] + sizes[int(axis) + 1 :]

            unknown = is_unknown(input)
            return self._unknown_like(input, shape) if unknown else real(input, axis, combine_fn, keep_dims)

        return reduce

    def _scan(self, real: Callable[..., Any]) -> Callable[..., Any]:
        """`tl.associative_scan`, likewise."""

        def scan(input: Any, axis: Any, combine_fn: Any, reverse: Any = False, **_: Any) -> Any:  # noqa: A002, FBT002
            unknown = is_unknown(input)
            return self._unknown_like(input, list) if unknown else real(input, axis, combine_fn, reverse)

        return scan

    def _unknown_like(self, values: Any, shape: Callable[[list[int]], list[int]]) -> Any:
        """Unknown values of the types of `values`, a tensor or several, and of the shapes that `shape` makes."""
        several = values if isinstance(values, tuple) else (values,)
        results = [self._unknown(shape(list(value.handle.data.shape)), value.dtype) for value in several]
        return tuple(results) if isinstance(values, tuple) else results[0]

    def _unknown(self, shape: list[int], dtype: Any) -> Any:
        handle = self._provenance.unknown(shape or (1,), dtype)
        kind = self._language.block_type(dtype.scalar, shape) if shape else dtype.scalar
        return self._language.tensor(handle, kind)

    @contextlib.contextmanager
    def _active(self) -> Iterator[None]:
        with super()._active(), contextlib.ExitStack() as stack:
            language, scope = self._language, self._interpreter._LangPatchScope()
            stack.callback(scope.restore)
            for module in (language, language.core):
                scope.set_attr(module, "reduce", self._reduction(module.reduce))
                scope.set_attr(module, "associative_scan", self._scan(module.associative_scan))
            tensor = language.core.tensor
            for name in ("__bool__", "__index__"):
                scope.set_attr(tensor, name, self._known(getattr(tensor, name)))
            yield

    def _known(self, real: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """A conversion of a tensor to a Python number, by which a program branches."""

        def convert(tensor: Any) -> Any:
            if is_unknown(tensor):
                self.memory.note_open(BRANCH_FROM_MEMORY)
                raise Branches
            return real(tensor)

        return convert


def sampled_programs(grid: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    """The programs that are checked: all of a small grid, else those at its ends, next to them and in the middle."""
    if min(grid) < 1:
        return
    if grid[0] * grid[1] * grid[2] <= MAX_PROGRAMS:
        places = list(itertools.product(*(range(size) for size in grid)))
    else:
        ends = [{0, 1, size // 2, size - 2, size - 1} for size in grid]
        axes = [sorted(at for at in end if 0 <= at < size) for end, size in zip(ends, grid, strict=True)]
        places = list(itertools.product(*axes))

    def rank(place: tuple[int, ...]) -> tuple[int, tuple[int, ...]]:
        """The first and the last, then corners, then places next to an end, then those in the middle."""
        at_ends = sum(at in (0, size - 1) for at, size in zip(place, grid, strict=True))
        is_end = place in ((0, 0, 0), tuple(size - 1 for size in grid))
        return -at_ends - 3 * is_end, place

    for place in sorted(places, key=rank):
        x, y, z = place
        yield x, y, z
