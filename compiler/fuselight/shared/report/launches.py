"""Launches of the user's own Triton kernels on a machine without a GPU, as far as something is wrong with them."""

from __future__ import annotations

from dataclasses import dataclass

from fuselight.shared.report.place import Location, Stack


@dataclass(frozen=True)
class KernelFault:
    """What is wrong with the accesses of one line of a Triton kernel."""

    kernel: str
    location: Location
    """The line of the kernel."""
    access: str
    """`load`, `store` or `atomic`."""
    argument: str
    """Name of the kernel's parameter; empty where the address is near none."""
    offset: int
    """Of the first such access, in elements from the argument's first one."""
    elements: int
    """How many elements the argument has, from its first one on."""
    masked: bool = False
    """Whether the access has a mask, or a boundary check."""
    program: tuple[int, int, int] = (0, 0, 0)
    """The program that made the first one, as `tl.program_id` gives it for the three axes."""
    launch: Stack = ()
    """Where the kernel was launched."""
    kind: str = "bounds"
    """`bounds`: outside of the tensor; none of these accesses happened. `descriptor`: the same, inside of the shape of
    a tensor descriptor. `overflow`: at another address than meant, because a 32-bit offset overflowed. `race`: another
    program, or another lane of the block, writes a different value to the element, or reads it. `unwritten`: of
    elements that are used afterwards and were written by nobody. `sectors`: most of the bytes that the access fetches
    are not used. `left out`: a maximum or minimum (`access`: `max`, `min`) counts elements of the argument that the
    mask of its load leaves out. Readers ignore other kinds."""
    exact: int = 0
    """Of `overflow`: the offset without the overflow."""
    other_program: tuple[int, int, int] = (0, 0, 0)
    """Of `race`: the other program; equal to `program` for two lanes of a block."""
    other_access: str = ""
    """Of `race`: what the other program does with the element, `load` or `store`."""
    count: int = 1
    """Of `race` and `unwritten`: how many elements."""
    useful: float = 1.0
    """Of `sectors`: the part of the bytes of 32-byte sectors that the access uses, from 0 to 1."""
    inputs: str = ""
    """The smallest call that was tried and shows it, as a directive; empty: none is smaller than the target's own."""
    is_of_variation: bool = False
    """Whether only calls with other sizes or strides than those of the directives show it."""
    has_other_strides: bool = False
    """Whether that call has other strides than those of the directives, and the same sizes or smaller ones."""


@dataclass(frozen=True)
class KernelMismatch:
    """A tensor of a target with Triton kernels that differs from that of the reference which the directive names."""

    kernel: str
    """The kernel of the last launch of the call; empty where none was made."""
    location: Location | None
    """Where it is defined."""
    launch: Stack
    reference: str
    """Name of the reference."""
    output: int
    """Position among the tensors that are returned."""
    index: tuple[int, ...]
    """The first element that differs."""
    value: float
    expected: float
    """What the reference gives in float64."""
    largest: float
    """The largest difference."""
    allowed: float
    """The largest difference that is rounding."""
    count: int
    """How many elements differ."""
    elements: int
    inputs: str = ""
    """The call, as a directive."""
    is_of_variation: bool = False
    """Whether the call has other sizes, strides or signs than those of the directives."""
    has_other_strides: bool = False
    """Whether that call has other strides than those of the directives, and the same sizes or smaller ones."""
    has_other_signs: bool = False
    """Whether that call has the same sizes and strides, and a tensor with no value above zero."""


@dataclass(frozen=True)
class TuningChange:
    """A kernel whose first result is wrong, because its autotuner times runs that change a tensor which it reads."""

    kernel: str
    location: Location
    """The line of `@triton.autotune`, else that of the kernel's `def`."""
    argument: str
    """The first parameter whose tensor has other values after a timed run."""
    offset: int
    """Of the first element that differs, from the argument's first one."""
    value: float
    """What it is after one timed run and the launch."""
    expected: float
    """What it is after the launch alone."""
    count: int
    """How many elements of the tensor differ."""
    configurations: int
    """How many the autotuner has."""
    cures: tuple[tuple[str, ...], ...] = ()
    """Arguments of `@triton.autotune` with which the trial gave the right result, as Python: `restore_value=["x"]`."""
    has_own_hook: bool = False
    """Whether the program has a hook of its own, next to which Triton ignores these arguments."""
    launch: Stack = ()
    """Where the kernel was launched."""
    is_of_gpu: bool = False
    """Whether this machine's GPU gave both values, with all timed runs and not a single one."""


@dataclass(frozen=True)
class VariedCalls:
    """Calls with other sizes and strides than a directive has, in which launches of Triton kernels were checked."""

    directive: Location | None
    calls: tuple[str, ...] = ()
    """Those that could be made, as directives."""
    refused: tuple[str, ...] = ()
    """Those in which the program raised an exception."""


@dataclass(frozen=True)
class OpenAccess:
    """A line of a kernel of which an address check cannot say whether it is right."""

    location: Location | None
    """None: it concerns the whole kernel."""
    reason: str
    """As a clause: `indices come from memory`."""


@dataclass(frozen=True)
class AddressCheckResult:
    """How far the addresses of a launch were checked, whose values were not computed."""

    kernel: str
    location: Location
    """Where the kernel is defined."""
    launch: Stack
    programs: int
    """How many programs of the grid were checked."""
    total: int
    """How many the grid has."""
    is_complete: bool
    """Whether each program was checked to its end, with all iterations of its loops."""
    open: tuple[OpenAccess, ...] = ()
