"""What the loops of a Triton kernel do in one iteration, as the compiled texts show it.

Invariant: every figure is counted in the text; throughputs are those of the CUDA C++ Programming Guide for compute
capability 8.0 to 9.0. A text of another kind has no loops, and never raises. Standard library only.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from fuselight.shared.bank_conflicts import LaneAddresses, wavefronts
from fuselight.shared.kernel_forms import DOT, element_bytes

_LOAD = re.compile(r"\btt\.(?:load\b.*?: |descriptor_load\b.*-> )tensor<([\dx]+)x(?:!tt\.ptr<)?(\w+)")


@dataclass(frozen=True)
class DotLoops:
    """The innermost loops that hold a `tl.dot`; a kernel that has it outside of loops counts as one iteration."""

    count: int
    flops: int
    """Floating-point operations of one iteration of each of them, in one program."""
    loaded: int
    """Bytes that one iteration of each of them loads, in one program."""


def dot_loops(ttir: str) -> DotLoops | None:
    """Return what the loops with `tl.dot` do; None where there is none, or one of matrices with a batch."""
    flops: dict[int, int] = {}
    loaded: dict[int, int] = {}
    regions, loops = [0], 0
    for line in ttir.split("\n"):
        code = line.partition(" loc(")[0]
        region = regions[-1]
        match = DOT.search(code)
        if match is not None:
            precision, m, k, _, n = match.groups()
            times = 3 if "x3" in (precision or "") else 1
            flops[region] = flops.get(region, 0) + 2 * int(m) * int(k) * int(n) * times
        elif "tt.dot" in code:
            return None
        load = _LOAD.search(code)
        if load is not None:
            size = math.prod(map(int, load[1].split("x"))) * element_bytes(load[2])
            loaded[region] = loaded.get(region, 0) + size
        opened = code.count("{") - code.count("}")
        if opened > 0:
            is_loop = "scf.for" in code or "scf.while" in code
            loops += is_loop
            regions += [loops if is_loop else region] * opened
        elif opened < 0:
            del regions[max(1, len(regions) + opened) :]
    with_dot = [region for region in flops if region] or list(flops)
    if not with_dot:
        return None
    return DotLoops(
        len(with_dot),
        sum(flops[region] for region in with_dot),
        sum(loaded.get(region, 0) for region in with_dot),
    )


@dataclass(frozen=True)
class MatrixLoop:
    """The innermost loops with matrix instructions, one iteration of each, by one warp."""

    flops: int
    """Of the matrix instructions."""
    issued: float
    """Cycles for which all other instructions occupy the arithmetic units of a multiprocessor."""
    shared: float
    """Cycles for which its shared memory is occupied, without what the instructions of a warpgroup read themselves."""
    is_ahead: bool
    """Whether it loads by asynchronous copies, so that an iteration does not wait for its own loads."""
    by_warp: bool
    """Whether its matrix instructions are those of a warp (`mma.sync`), and not of a warpgroup."""


_LABEL = re.compile(r"^(\$L\w+):")
_BRANCH = re.compile(r"\bbra(?:\.uni)?\s+(\$L\w+)")
_OPERATION = re.compile(r"^(?:@!?%p\d+\s+)?([a-z][\w.:]*)\s*(.*)$")
_GROUP = re.compile(r"^wgmma\.mma_async\..*?m64n(\d+)k(\d+)")
_WARP = re.compile(r"^mma\.sync\.aligned\.m(\d+)n(\d+)k(\d+)")
_SHARED = re.compile(r"^(?:ld|st)\.shared(?:::cta)?(?:\.v(\d))?\.b(\d+)")
_MATRICES = re.compile(r"^(?:ld|st)matrix\..*\.x(\d)")
_COPY = re.compile(r"^cp\.async\.c[ag]\.")
_COPIED = re.compile(r"\], (0x[0-9a-f]+|\d+)")
_BANKS = 4
"""Bytes of a lane that shared memory moves in a cycle: 128 for a warp."""
_SPECIAL = re.compile(r"^(?:ex2|lg2|rcp|rsqrt|sqrt|sin|cos|tanh)\.")
_FAST = re.compile(r"^(?:add|sub|mul|fma)(?:\.\w+)*\.f32")
_FREE = (
    "mov.",
    "bar.",
    "bra",
    "cp.async",
    "wgmma.",
    "mma.",
    "fence",
    "mbarrier",
    "ld.param",
    "setmaxnreg",
    "elect",
)


def matrix_loop(ptx: str) -> MatrixLoop | None:
    """Return what the loops with matrix instructions do; None for a text without any, or with those of Blackwell."""
    operations = [_operation(line) for line in ptx.split("\n")]
    flops = [_flops(name) for name, _ in operations]
    if not any(flops) or any(name.startswith("tcgen05.") for name, _ in operations):
        return None
    inside = _loops(ptx.split("\n"), [bool(count) for count in flops]) or [range(len(operations))]
    lanes = LaneAddresses(ptx)
    indices = [at for loop in inside for at in loop]
    return MatrixLoop(
        flops=sum(flops[at] for at in indices),
        issued=sum(_issued(operations[at][0]) for at in indices),
        shared=sum(_shared(*operations[at], lanes) for at in indices),
        is_ahead=any(operations[at][0].startswith(("cp.async.", "mbarrier.")) for at in indices),
        by_warp=any(operations[at][0].startswith("mma.") for at in indices),
    )


@dataclass(frozen=True)
class LoadingLoop:
    """A loop that loads, without `tl.dot`: one iteration of it."""

    steps: int
    """Cycles that a warp waits for shared memory, barriers and other lanes, one after the other."""
    is_unrolled: bool
    """Whether the loads of several iterations can be made at once: they have no mask, and nothing waits for others."""


def loading_loops(ptx: str) -> list[LoadingLoop]:
    """Return the innermost loops that load from memory into registers."""
    lines = ptx.split("\n")
    operations = [_operation(line) for line in lines]
    loads = [name.startswith("ld.global") for name, _ in operations]
    loading = []
    for loop in _loops(lines, loads):
        inside = [operations[at][0] for at in loop]
        steps = sum(cycles for name in inside for start, cycles in _STEPS.items() if name.startswith(start))
        masked = any(loads[at] and lines[at].lstrip().startswith("@") for at in loop)
        loading.append(LoadingLoop(steps, not steps and not masked))
    return loading


_STEPS = {"shfl.": 23, "bar.": 25, "ld.shared": 25}
"""Cycles from an instruction to its result."""


def _operation(line: str) -> tuple[str, str]:
    """The name of an instruction and its operands; empty for another line."""
    match = _OPERATION.match(line.strip())
    return (match[1], match[2]) if match is not None else ("", "")


def _flops(name: str) -> int:
    """Operations of a matrix instruction, those of a warpgroup by the part of one warp."""
    group, warp = _GROUP.match(name), _WARP.match(name)
    if group is not None:
        return 2 * 16 * int(group[1]) * int(group[2])
    return 2 * math.prod(map(int, warp.groups())) if warp is not None else 0


def _loops(lines: list[str], wanted: list[bool]) -> list[range]:
    """The lines of the innermost loops that have a wanted instruction."""
    labels: dict[str, int] = {}
    loops: list[range] = []
    for at, line in enumerate(lines):
        label, branch = _LABEL.match(line), _BRANCH.search(line)
        if label is not None:
            labels[label[1]] = at
        if branch is not None and branch[1] in labels:
            loop = range(labels[branch[1]], at + 1)
            if any(wanted[loop.start : loop.stop]):
                loops.append(loop)
    return [loop for loop in loops if not any(_is_within(other, loop) for other in loops)]


def _is_within(inner: range, outer: range) -> bool:
    return inner != outer and inner.start >= outer.start and inner.stop <= outer.stop


def _issued(name: str) -> float:
    """Cycles of a multiprocessor for an instruction of a warp: 128, 64 or 16 lanes in each."""
    if not name or name.startswith(_FREE) or name.startswith("."):
        return 0.0
    if _SPECIAL.match(name):
        return 32 / 16
    return 32 / 128 if _FAST.match(name) else 32 / 64


def _shared(name: str, operands: str, lanes: LaneAddresses) -> int:
    """Cycles of shared memory for a warp's instruction; without bank conflicts if its addresses are not known."""
    width = _width(name, operands)
    if not width:
        return 1 if name.startswith("shfl.") else 0
    addresses = lanes.of(operands)
    if addresses is None:
        return max(1, width // _BANKS)
    return wavefronts(addresses, width)


def _width(name: str, operands: str) -> int:
    """Bytes of a lane that an instruction moves from or to shared memory."""
    if _COPY.match(name):
        size = _COPIED.search(operands)
        return int(size[1], 0) if size is not None else _BANKS
    matrices, access = _MATRICES.match(name), _SHARED.match(name)
    if matrices is not None:
        return _BANKS * int(matrices[1])  # the lanes have the addresses of rows of 16 bytes
    return int(access[1] or 1) * int(access[2]) // 8 if access is not None else 0
