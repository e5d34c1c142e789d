"""Finds the variables that decide how often a loop of a function runs: torch unrolls it, so that each count compiles.

Invariant: only the bytecode is read. A variable is found where the function itself loads it as part of an argument of
`range`; what a function that it calls does with it is not known here.
"""

from __future__ import annotations

import dis
from types import CodeType

_LOADS = ("LOAD_FAST", "LOAD_DEREF")


def loop_counts(code: CodeType) -> frozenset[str]:
    """Return the names of variables in arguments of `range`."""
    found: set[str] = set()
    depth, names = 0, set[str]()
    """Values on the stack since `range` was loaded, and the variables among them; no values outside of a call."""
    for one in dis.get_instructions(code):
        if one.opname == "LOAD_GLOBAL" and one.argval == "range":
            depth, names = _effect(one), set()
        elif depth:
            depth += _effect(one)
            if one.opname.startswith(_LOADS):
                names.update(one.argval if isinstance(one.argval, tuple) else (one.argval,))
            elif one.opname.startswith("CALL") and depth <= 1:
                found |= names
                depth = 0
    return frozenset(found)


def _effect(one: dis.Instruction) -> int:
    return dis.stack_effect(one.opcode, one.arg, jump=False)
