"""Finds the variables and sizes that decide how often a loop of a function runs: torch unrolls it.

Invariant: only the bytecode is read. A variable or a size is found where the function itself has it as part of an
argument of `range`, a size also where the function gave it a name; what a function that it calls does with it is not
known here.
"""

from __future__ import annotations

import dis
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import CodeType

_LOADS = ("LOAD_FAST", "LOAD_DEREF")
_STORES = ("STORE_FAST", "STORE_DEREF")
_INTERNAL = frozenset(
    {"CACHE", "COPY_FREE_VARS", "EXTENDED_ARG", "NOP", "NOT_TAKEN", "PRECALL", "PUSH_NULL", "RESUME"}
)
"""Instructions of the interpreter alone, which differ between versions of Python."""

TensorSize = tuple[str, int]
"""A variable and a dimension, which is negative if counted from the end."""


@dataclass(frozen=True)
class LoopCounts:
    """What decides the number of a function's loops."""

    names: frozenset[str]
    """Variables."""
    sizes: frozenset[TensorSize]
    """Sizes of tensors that are variables."""

    def has_size(self, name: str, dimension: int, rank: int) -> bool:
        """Whether a size of a tensor with `rank` dimensions is among them."""
        return not self.sizes.isdisjoint({(name, dimension), (name, dimension - rank)})


def loop_counts(code: CodeType) -> LoopCounts:
    """Find what is in arguments of `range`."""
    steps = [instruction for instruction in dis.get_instructions(code) if instruction.opname not in _INTERNAL]
    named = _named_sizes(steps)
    names, sizes = set[str](), set[TensorSize]()
    for first, last in _range_calls(code):
        inside = [index for index, step in enumerate(steps) if first < step.offset < last]
        actual_names = {name for index in inside for name in _loaded(steps[index])}
        names |= actual_names
        sizes.update(
            *(named.get(name, ()) for name in actual_names),
            *(size for index in inside if (size := _sizes_at(steps, index)[0])),
        )
    return LoopCounts(frozenset(names), frozenset(sizes))


def _range_calls(code: CodeType) -> Iterator[tuple[int, int]]:
    """Yield the offsets between which the arguments of a call of `range` are loaded."""
    start, depth = 0, 0
    """Where `range` was loaded, and the values on the stack since then; no values outside of a call."""
    for instruction in dis.get_instructions(code):
        if instruction.opname == "LOAD_GLOBAL" and instruction.argval == "range":
            start, depth = instruction.offset, _effect(instruction)
        elif depth:
            depth += _effect(instruction)
            if instruction.opname.startswith("CALL") and depth <= 1:
                yield start, instruction.offset
                depth = 0


def _named_sizes(steps: Sequence[dis.Instruction]) -> dict[str, set[TensorSize]]:
    """The sizes that the function gives a name: `n = x.size(1)`, `b, n = x.shape`."""
    named_sizes: dict[str, set[TensorSize]] = {}
    for index in range(len(steps)):
        sizes, end = _sizes_at(steps, index)
        names = [name for step in steps[end : end + len(sizes)] for name in _stored(step)]
        for name, size in zip(names, sizes, strict=False):
            named_sizes.setdefault(name, set()).add(size)
    return named_sizes


def _sizes_at(steps: Sequence[dis.Instruction], index: int) -> tuple[list[TensorSize], int]:
    """The sizes of the variable that an instruction loads, and the first instruction after them; none elsewhere.

    Several are those of `x.shape` and `x.size()`, each of which is assigned.

    One expression has other instructions in each Python: `x.size` is LOAD_METHOD before 3.12 and LOAD_ATTR since,
    `x.shape[0]` is BINARY_SUBSCR before 3.14 and BINARY_OP since.
    """
    loaded = _loaded(steps[index])
    rest = steps[index + 1 : index + 4]
    if not loaded or not rest:
        return [], index
    tensor, (attribute, *operands) = loaded[-1], rest
    before = steps[index - 1] if index else None
    if before is not None and before.opname == "LOAD_GLOBAL" and before.argval == "len":
        return ([(tensor, 0)], index + 2) if attribute.opname.startswith("CALL") else ([], index)
    is_size = attribute.opname in {"LOAD_ATTR", "LOAD_METHOD"} and attribute.argval == "size"
    if not is_size and not (attribute.opname == "LOAD_ATTR" and attribute.argval == "shape"):
        return [], index
    if is_size and operands and operands[0].opname.startswith("CALL"):
        operands = [*operands[1:], *steps[index + 4 : index + 5]]
        index += 1
    elif len(operands) > 1 and isinstance(operands[0].argval, int) and operands[0].opname.startswith("LOAD_"):
        read = operands[1]
        is_item = read.opname == "BINARY_SUBSCR" or (read.opname == "BINARY_OP" and read.argrepr == "[]")
        is_read = read.opname.startswith("CALL") if is_size else is_item
        return ([(tensor, operands[0].argval)], index + 4) if is_read else ([], index)
    if operands and operands[0].opname == "UNPACK_SEQUENCE":
        return [(tensor, dimension) for dimension in range(operands[0].argval)], index + 3
    return [], index


def _loaded(instruction: dis.Instruction) -> tuple[str, ...]:
    """The variables that an instruction loads, in order."""
    if instruction.opname.startswith("STORE_FAST_LOAD"):
        return (instruction.argval[1],)
    if not instruction.opname.startswith(_LOADS):
        return ()
    return instruction.argval if isinstance(instruction.argval, tuple) else (instruction.argval,)


def _stored(instruction: dis.Instruction) -> tuple[str, ...]:
    """The variables that an instruction assigns, in order."""
    if instruction.opname.startswith("STORE_FAST_LOAD"):
        return (instruction.argval[0],)
    if not instruction.opname.startswith(_STORES):
        return ()
    return instruction.argval if isinstance(instruction.argval, tuple) else (instruction.argval,)


def _effect(instruction: dis.Instruction) -> int:
    return dis.stack_effect(instruction.opcode, instruction.arg, jump=False)
