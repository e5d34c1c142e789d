"""What the compiled texts of a Triton kernel show: arguments read and written, widths of accesses, matrix instructions.

Invariant: every fact is in the text of the compiler, for the lines that its map names. A text of another kind, or a
damaged one, gives less and never raises. Standard library only: the worker and the server both read it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from fuselight.shared.report.resources import Assembled, Listing

WIDEST = 16
"""Bytes that one instruction of a thread loads or stores at most."""

_ARGUMENT = re.compile(r"(%[\w.]+): (!?[\w.]+)")
_ASSIGNED = re.compile(r"^\s*(%[\w.]+)(?::(\d+))? = ([\w.]+)(.*)$")
_VALUE = re.compile(r"%[\w.]+(?:#\d+)?")
_ITERATED = re.compile(r"(%[\w.]+) = (%[\w.]+(?:#\d+)?)")
_FOLLOWED = {
    **dict.fromkeys(
        ("tt.addptr", "tt.splat", "tt.broadcast", "tt.expand_dims", "tt.bitcast", "tt.reshape", "tt.trans"),
        slice(1),
    ),
    **dict.fromkeys(("tt.make_tensor_ptr", "tt.advance", "tt.make_tensor_descriptor"), slice(1)),
    "arith.select": slice(1, 3),
    "tt.join": slice(2),
    "tt.cat": slice(2),
}
"""Operations whose result points into the memory of these operands."""
_READS = ("tt.load", "tt.descriptor_load", "tt.descriptor_gather")
_WRITES = ("tt.store", "tt.descriptor_store", "tt.descriptor_scatter")
_CHANGES = ("tt.atomic_rmw", "tt.atomic_cas", "tt.descriptor_reduce")
_OPAQUE = ("tt.call", "tt.elementwise_inline_asm", "scf.while", "scf.if", "cf.")
"""Operations that pointers may pass through where they are not followed."""


@dataclass(frozen=True)
class Accessed:
    """The pointers among the arguments of a kernel, by position among the arguments of the compiled function."""

    read: frozenset[int]
    written: frozenset[int]


def accessed(ttir: str) -> Accessed | None:
    """Return the arguments that a kernel reads and writes; None where the text does not show all of them."""
    lines = ttir.split("\n")
    positions: dict[str, int] = {}
    roots: dict[str, frozenset[int]] = {}
    read: set[int] = set()
    written: set[int] = set()
    for line in lines:
        code = line.partition(" loc(")[0] if "tt.func" not in line else line
        if "tt.func" in line:
            if positions or "tt.func public" not in line:
                return None  # a function that was not inlined
            arguments = [name for name, _ in _ARGUMENT.findall(line)]
            positions = {name: at for at, name in enumerate(arguments)}
            roots = {name: frozenset({at}) for name, at in positions.items()}
            continue
        if not _follow(code, roots, read, written):
            return None
    return Accessed(frozenset(read), frozenset(written)) if positions else None


def _follow(code: str, roots: dict[str, frozenset[int]], read: set[int], written: set[int]) -> bool:
    """Note what one operation does with pointers; False where they get out of sight."""
    match = _ASSIGNED.match(code)
    name, count, operation, rest = (
        match.groups() if match else ("", None, code.split(None, 1)[0] if code.strip() else "", code)
    )
    values = [value.partition("#")[0] for value in _VALUE.findall(rest)]
    has_pointer = "tt.ptr" in rest or "tensordesc" in rest
    if operation == "scf.for":
        pairs = _ITERATED.findall(rest)
        for inner, outer in pairs:
            roots[inner] = roots.get(outer.partition("#")[0], frozenset())
        if name:
            roots[name] = (
                frozenset().union(*(roots[inner] for inner, _ in pairs)) if has_pointer else frozenset()
            )
        return True
    if operation.startswith((*_READS, *_WRITES, *_CHANGES)):
        if not values or not roots.get(values[0]):
            return False  # a pointer that the kernel has read from memory, or that was not followed
        if operation.startswith((*_READS, *_CHANGES)):
            read |= roots[values[0]]
        if operation.startswith((*_WRITES, *_CHANGES)):
            written |= roots[values[0]]
        return True
    if operation.startswith(_OPAQUE) and has_pointer:
        return False
    if operation in _FOLLOWED and name and has_pointer:
        roots[name] = frozenset().union(
            *(roots.get(value, frozenset()) for value in values[_FOLLOWED[operation]])
        )
    return count is None or not has_pointer


@dataclass(frozen=True)
class MemoryAccess:
    """Loads or stores of one line of the kernel."""

    line: int
    """1-based, of the kernel's file."""
    is_store: bool
    width: int
    """Bytes of the widest instruction of a thread."""
    possible: int
    """Bytes that a thread has next to each other in the layout, at most `WIDEST`."""
    instructions: int
    """In one program, as they stand in the text."""


_POINTERS = re.compile(r"tensor<([\dx]+)x!tt\.ptr<([\w.]+)[^>]*>, #(\w+)>")
_LAYOUT = re.compile(r"^#(\w+) = #ttg\.blocked<\{sizePerThread = \[([\d, ]+)\], .*order = \[([\d, ]+)\]")
_GLOBAL = re.compile(r"\b(ld|st)\.global((?:\.[\w:]+)*)")
_COPY = re.compile(r"\bcp\.async\.c[ag]\.shared\.global[\w.:]* [^;]*?, (0x[0-9a-f]+|\d+)")
_VECTOR = re.compile(r"\.v(\d)")
_BITS = re.compile(r"\.[bfus](\d{1,3})\b")
_AMD_ACCESS = re.compile(r"\b(?:global|buffer|flat)_(load|store)_(\w+)")
_AMD_BYTES = {
    "dwordx4": 16, "dwordx3": 12, "dwordx2": 8, "dword": 4, "ushort": 2, "sshort": 2, "short": 2, "ubyte": 1,
    "sbyte": 1, "byte": 1, "b128": 16, "b96": 12, "b64": 8, "b32": 4, "b16": 2, "b8": 1, "u16": 2, "u8": 1, "i8": 1,
}  # fmt: skip


def memory_accesses(assembled: Assembled) -> tuple[MemoryAccess, ...]:
    """Return the loads and stores of global memory, by line: those that the layout and the assembly both show."""
    layout, code = assembled.listings.get("ttgir"), final_listing(assembled)
    if layout is None or code is None:
        return ()
    possible = _possible_widths(layout)
    widths: dict[tuple[int, bool], list[int]] = {}
    for text, line in zip(code.text.split("\n"), code.lines, strict=False):
        for is_store, width in _widths(text) if line else ():
            widths.setdefault((line, is_store), []).append(width)
    return tuple(
        MemoryAccess(line, is_store, max(every), possible[line, is_store], len(every))
        for (line, is_store), every in sorted(widths.items())
        if (line, is_store) in possible
    )


def final_listing(assembled: Assembled) -> Listing | None:
    """Return the assembly: PTX, or that of AMD."""
    return assembled.listings.get("ptx") or assembled.listings.get("amdgcn")


def _possible_widths(listing: Listing) -> dict[tuple[int, bool], int]:
    """Bytes next to each other of a thread, by line and whether it stores; of several accesses the most narrow."""
    layouts: dict[str, int] = {}
    possible: dict[tuple[int, bool], int] = {}
    for text, line in zip(listing.text.split("\n"), listing.lines, strict=False):
        layout = _LAYOUT.match(text)
        if layout is not None:
            sizes = [int(size) for size in layout[2].split(",")]
            layouts[layout[1]] = sizes[int(layout[3].split(",")[0])]
            continue
        is_load = "tt.load" in text or "async_copy_global_to_local" in text
        pointers = _POINTERS.search(text) if line and (is_load or "tt.store" in text) else None
        if pointers is None or pointers[3] not in layouts:
            continue
        width = min(WIDEST, layouts[pointers[3]] * element_bytes(pointers[2]))
        key = (line, not is_load)
        possible[key] = min(width, possible.get(key, WIDEST))
    return possible


def element_bytes(dtype: str) -> int:
    """Bytes of an element of a type as MLIR names it: `f32`, `bf16`, `f8E4M3FN`, `i1`."""
    digits = re.match(r"[a-z]+(\d+)", dtype)
    return max(1, int(digits[1]) // 8) if digits else 1


def _widths(text: str) -> Iterator[tuple[bool, int]]:
    """The accesses of global memory in one line of assembly: whether they store, and the bytes of a thread."""
    for kind, modifiers in _GLOBAL.findall(text):
        bits, vector = _BITS.search(modifiers), _VECTOR.search(modifiers)
        if bits is not None:
            yield kind == "st", int(bits[1]) // 8 * (int(vector[1]) if vector else 1)
    for size in _COPY.findall(text):
        yield False, int(size, 0)
    for kind, name in _AMD_ACCESS.findall(text):
        width = _AMD_BYTES.get(name.partition("_")[0])
        if width is not None:
            yield kind == "store", width


@dataclass(frozen=True)
class DotUse:
    """One `tl.dot` of the kernel, as it was compiled."""

    line: int
    sides: tuple[int, int, int]
    """M, N and K of the tile."""
    dtype: str
    """Of the operands, as MLIR names it: `f32`, `bf16`."""
    precision: str
    """`tf32`, `ieee`, `tf32x3`, ...; it says something of float32 alone."""
    instruction: str
    """The kind of the matrix instructions of its line: `wgmma`, `mma.sync`, `tcgen05`, `mfma`, `wmma`; empty: none."""


DOT = re.compile(
    r"\btt\.dot (?:[^:]*?inputPrecision = (\w+))?[^:]* : tensor<(\d+)x(\d+)x(\w+)> \* tensor<\d+x(\d+)x\w+>"
)
_MATRIX = re.compile(r"\b(wgmma|mma\.sync|tcgen05\.mma|v_s?mfmac?|v_wmma)")
_KINDS = {"tcgen05.mma": "tcgen05", "v_mfma": "mfma", "v_smfmac": "mfma", "v_wmma": "wmma"}


def dots(assembled: Assembled) -> tuple[DotUse, ...]:
    """Return the matrix multiplications, each with the instructions that its line was compiled to."""
    first, code = assembled.listings.get("ttir"), final_listing(assembled)
    if first is None or code is None:
        return ()
    instructions: dict[int, str] = {}
    for text, line in zip(code.text.split("\n"), code.lines, strict=False):
        kind = _MATRIX.search(text) if line else None
        if kind is not None:
            instructions.setdefault(line, _KINDS.get(kind[1], kind[1]))
    uses = []
    for text, line in zip(first.text.split("\n"), first.lines, strict=False):
        match = DOT.search(text) if line else None
        if match is not None:
            precision, m, k, dtype, n = match.groups()
            uses.append(
                DotUse(line, (int(m), int(n), int(k)), dtype, precision or "ieee", instructions.get(line, ""))
            )
    return tuple(dict.fromkeys(uses))


@dataclass(frozen=True)
class Float64Use:
    """What a kernel computes in float64, though it stores none."""

    lines: tuple[int, ...]
    """Of the arithmetic, in the kernel's file."""
    parameters: tuple[str, ...]
    """Parameters that are float64, or point to it, where their values are not rounded at once."""
    constants: tuple[float, ...]
    """Constants that Triton makes float64, as float32 has no normal number of their size."""


_SMALLEST, _LARGEST = 2.0**-126, 3.4028235677973366e38
"""Of float32's normal numbers, by their size."""
_PARAMETER = re.compile(r"%(\w+): (?:!tt\.ptr<f64>|f64\b)")
_FLOAT64 = re.compile(r"\bf64\b|xf64\b")
_CONSTANT = re.compile(r"arith\.constant (?:dense<)?([-+.\deE]+)>? : (?:tensor<[\dx]+x)?f64")
_ARITHMETIC = re.compile(
    r"= (?:arith\.(?:add|sub|mul|div|rem|neg|cmp|max\w*|min\w*)f|math\.\w+|tt\.dot|tt\.extern_\w+) "
)
_WIDENED = re.compile(r"arith\.(?:extf|sitofp|uitofp) .* to (?:tensor<[\dx]+x)?f64")


def float64_use(assembled: Assembled) -> Float64Use | None:
    """Return what a kernel computes in float64 of narrower values; None where it stores float64, or has no other."""
    listing = assembled.listings.get("ttir")
    if listing is None or "f64" not in listing.text:
        return None
    seen = _Float64Code()
    for text, line in zip(listing.text.split("\n"), listing.lines, strict=False):
        if not seen.read(text, line):
            return None
    return seen.use() if seen.lines and seen.is_widened else None


@dataclass
class _Float64Code:
    """What the lines of a TTIR show of float64."""

    lines: dict[int, None] = field(default_factory=dict)
    parameters: list[str] = field(default_factory=list)
    constants: dict[float, None] = field(default_factory=dict)
    is_widened: bool = False
    passed: set[str] = field(default_factory=set)
    """Values that are float64 from outside of the kernel."""
    is_passed: bool = False
    """Whether something is computed with such a value."""

    def read(self, text: str, line: int) -> bool:
        """Take one line of TTIR, of a line of the kernel; False where it stores float64."""
        if "tt.func" in text:
            self.parameters += _PARAMETER.findall(text)
            self.passed |= {f"%{name}" for name in self.parameters}
            return True
        code = text.partition(" loc(")[0]
        if not _FLOAT64.search(code):
            return True
        if any(operation in code for operation in (*_WRITES, *_CHANGES)):
            return False
        self.is_widened |= bool(_WIDENED.search(code))
        self._follow(code)
        constant = _CONSTANT.search(code)
        if constant is not None:
            size = abs(float(constant[1]))
            if size and not _SMALLEST <= size <= _LARGEST:
                self.constants[size] = None
        elif line and _ARITHMETIC.search(code):
            self.lines[line] = None
        return True

    def _follow(self, code: str) -> None:
        name, _, operation = code.strip().partition(" = ")
        is_passed = bool(self.passed & set(_VALUE.findall(operation)))
        if operation.startswith(("tt.load", "tt.splat", "tt.addptr", "tt.broadcast")):
            self.passed |= {name} if is_passed else set()
        elif not operation.startswith("arith.truncf"):
            self.is_passed |= is_passed

    def use(self) -> Float64Use:
        """Return what was read."""
        parameters = tuple(self.parameters) if self.is_passed else ()
        return Float64Use(tuple(self.lines), parameters, tuple(self.constants))
