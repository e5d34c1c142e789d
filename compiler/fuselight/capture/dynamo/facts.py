"""Collects what Dynamo knows of each expression of the user's files while it traces them.

Invariant: only the last attempt at a compile counts, since a restart traces the same instructions again. An instruction
gives a fact if it leaves the value of one source expression on the stack; all others are ignored.
"""

from __future__ import annotations

import collections
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import CodeType
from typing import Any

from fuselight.adapters.torch_api.dynamo import frames, names, variables
from fuselight.capture.dynamo import stacks
from fuselight.shared.report import Branch, Fact, FactKind, FileFacts, Problem, TracedFacts, TracedValue
from fuselight.shared.report.facts import MAX_EXPRESSIONS, MAX_VALUES

Span = tuple[int, int, int, int]
_Counts = dict[variables.Seen, int]

_PUSHES = frozenset((
    "LOAD_FAST", "LOAD_FAST_CHECK", "LOAD_FAST_BORROW", "LOAD_DEREF", "LOAD_NAME", "LOAD_GLOBAL", "LOAD_ATTR", "CALL",
    "CALL_KW", "CALL_FUNCTION_EX", "BINARY_OP", "BINARY_SUBSCR", "BINARY_SLICE", "UNARY_NEGATIVE", "UNARY_NOT",
    "UNARY_INVERT", "COMPARE_OP", "IS_OP", "CONTAINS_OP", "BUILD_TUPLE", "BUILD_LIST",
))  # fmt: skip
"""Instructions after which the top of the stack is the value of the expression at their position."""
_IN_PLACE = range(13, 26)
"""Arguments of BINARY_OP for `x += 1` and the like, which are statements (NB_INPLACE_ADD to NB_INPLACE_XOR)."""
_COMPUTING = ("LOAD_ATTR", "LOAD_METHOD", "BINARY_", "UNARY_", "COMPARE_OP", "CONTAINS_OP")
"""How instructions start that run code of the user's only where a class has it: a property, `__getattr__`, `__eq__`."""
_STORES = frozenset(("STORE_FAST", "STORE_DEREF", "STORE_NAME", "STORE_GLOBAL"))
_BINDS = frozenset((*_STORES, "STORE_ATTR", "DELETE_FAST"))
"""Instructions after which a name, or an attribute of an object, may be another value."""
_RETURNS = frozenset(("RETURN_VALUE", "RETURN_CONST"))


_Key = tuple[str, Span, bool]
"""A file, a span, and whether it is a name that an assignment binds."""


@dataclass
class _Code:
    """A code object of the user's: its file, and the function that it is or resumes."""

    path: str
    original: CodeType


@dataclass
class _Attempt:
    """The facts of the newest attempt at one compile."""

    values: dict[_Key, _Counts] = field(default_factory=dict)
    unused: list[tuple[_Key, Any]] = field(default_factory=list)
    """Values at which Dynamo had not looked when they were loaded."""
    branches: collections.Counter[_Key] = field(default_factory=collections.Counter)
    """By condition and by whether it was true."""
    statements: set[tuple[str, Span]] = field(default_factory=set)
    """Spans that load a constant, which no other expression has: a `with` calls `__exit__` with three constants."""
    computed: set[tuple[str, Span]] = field(default_factory=set)
    """Attributes and operators for which code of the user's ran."""
    started: int = 0
    """Instructions so far."""
    waiting: list[tuple[CodeType, int]] = field(default_factory=list)
    """The instructions that are being traced, one inside the other, each with the number of those before it."""
    lines: dict[CodeType, set[int]] = field(default_factory=dict)
    returned: set[CodeType] = field(default_factory=set)

    def begin(self, code: CodeType) -> None:
        """An instruction is about to be traced."""
        self.waiting.append((code, self.started))
        self.started += 1

    def has_run_code(self, code: CodeType) -> bool:
        """Whether other instructions were traced within the one that has just ended."""
        while self.waiting:
            known, before = self.waiting.pop()  # what broke the graph did not end
            if known is code:
                return self.started > before + 1
        return False

    def note_value(self, key: _Key, variable: Any) -> None:
        """An expression or a name had this value."""
        variable = variables.resolved(variable)
        if variables.is_lazy(variable):
            self.unused.append((key, variable))
            return
        value = variables.seen(variable)
        if value is not None:
            counts = self.values.setdefault(key, {})
            counts[value] = counts.get(value, 0) + 1


class FactLog:
    """The facts of one recording."""

    def __init__(self, roots: Sequence[str]) -> None:
        self._roots = roots
        self._codes: dict[int, tuple[CodeType, _Code | None]] = {}
        """By identity: Python computes the hash of a code object again at each lookup, from all of its parts."""
        self._attempts: list[_Attempt] = []
        self._values: dict[_Key, _Counts] = {}
        self._branches: collections.Counter[_Key] = collections.Counter()
        self._computed: set[tuple[str, Span]] = set()
        self._lines: dict[CodeType, set[int]] = {}
        self._returned: set[CodeType] = set()
        self._is_full = False

    def compile_started(self) -> None:
        """Dynamo starts to compile a frame."""
        self._attempts.append(_Attempt())

    def restarted(self) -> None:
        """Dynamo starts the trace of the frame again."""
        if self._attempts:
            self._attempts[-1] = _Attempt()

    def traces(self, code: CodeType) -> bool:
        """Whether the instructions of a code object give facts."""
        return bool(self._attempts) and self._code(code) is not None

    def _code(self, code: CodeType) -> _Code | None:
        known = self._codes.get(id(code))
        if known is None:
            frame_code = None
            if stacks.is_user_code(code.co_filename, self._roots):
                frame_code = _Code(stacks.absolute(code.co_filename), frames.original_code(code))
            known = self._codes[id(code)] = code, frame_code
        return known[1]

    def instruction_started(self, code: CodeType, instruction: Any, stack: Sequence[Any]) -> None:
        """Dynamo is about to trace an instruction of a code object that `traces` accepts."""
        known, span = self._code(code), _span(instruction.positions)
        self._attempts[-1].begin(code)
        if known is not None and span is not None and stack and instruction.opname in _STORES:
            self._attempts[-1].note_value((known.path, span, True), stack[-1])

    def instruction_traced(
        self, code: CodeType, instruction: Any, stack: Sequence[Any], *, jumped: bool
    ) -> None:
        """Dynamo traced that instruction; `jumped` is whether it goes on elsewhere than at the next one."""
        known, name, span = self._code(code), instruction.opname, _span(instruction.positions)
        attempt = self._attempts[-1]
        has_run_code = attempt.has_run_code(code)
        if known is None or span is None:
            return
        if has_run_code and name.startswith(_COMPUTING) and len(self._computed) < MAX_EXPRESSIONS:
            attempt.computed.add((known.path, span))
        attempt.lines.setdefault(known.original, set()).add(span[0])
        if name in _PUSHES:
            is_statement = name == "BINARY_OP" and instruction.arg in _IN_PLACE
            if stack and not jumped and not is_statement:
                attempt.note_value((known.path, span, False), stack[-1])
        elif name == "LOAD_CONST":
            attempt.statements.add((known.path, span))
        elif name in _RETURNS:
            attempt.returned.add(known.original)
        elif "JUMP" in name and ("IF_TRUE" in name or "IF_FALSE" in name):
            attempt.branches[known.path, span, jumped == ("IF_TRUE" in name)] += 1

    def trace_stopped(
        self, code: CodeType, instructions: Sequence[Any], local_variables: Mapping[str, Any]
    ) -> None:
        """The trace of a code object that `traces` accepts ends early: eager mode runs the rest.

        Of the rest, the tensors are known that names have to which the code assigns nothing, and the tensors and
        numbers that objects in local variables store, if the code stores none under that name.
        """
        known, values = self._code(code), self._attempts[-1].values
        if known is None:
            return
        bound = {instruction.argval for instruction in instructions if instruction.opname in _BINDS}
        for owner, read in itertools.pairwise(instructions):
            variable = local_variables.get(owner.argval) if owner.opname.startswith("LOAD_FAST") else None
            if variable is None:
                continue
            span, value = _span(owner.positions), None
            if owner.argval not in bound:
                value = variables.waiting_tensor(variable)
            if read.opname == "LOAD_ATTR" and read.argval not in bound:
                _keep(
                    values, known.path, _span(read.positions), variables.stored_value(variable, read.argval)
                )
            _keep(values, known.path, span, value)

    def compile_ended(self) -> None:
        """Dynamo finished the frame of the last `compile_started`: what its last attempt saw is kept."""
        attempt = self._attempts.pop()
        unused, attempt.unused = attempt.unused, []
        for key, variable in unused:
            attempt.note_value(key, variable)
        for key, variable in attempt.unused:
            _keep(attempt.values, key[0], key[1], variables.waiting_tensor(variable), is_bound=key[2])
        for key, counts in attempt.values.items():
            if key[:2] in attempt.statements:
                continue
            known = self._values.get(key)
            if known is None:
                if len(self._values) >= MAX_EXPRESSIONS:
                    self._is_full = True
                    continue
                known = self._values[key] = {}
            for value, count in counts.items():
                known[value] = known.get(value, 0) + count
        self._branches.update(attempt.branches)
        self._computed |= attempt.computed
        for code, lines in attempt.lines.items():
            self._lines.setdefault(code, set()).update(lines)
        self._returned |= attempt.returned

    def facts(self) -> TracedFacts:
        """Return the facts of all compiles that ended."""
        table: dict[TracedValue, int] = {}
        facts: dict[str, list[Fact]] = collections.defaultdict(list)
        for (path, span, assigned), counts in sorted(self._values.items()):
            merged: collections.Counter[int] = collections.Counter()
            for seen, count in counts.items():
                merged[table.setdefault(_value(seen), len(table))] += count
            values = tuple(merged.most_common(MAX_VALUES))
            facts[path].append(Fact(*span, values, assigned, len(merged) - len(values)))
        branches: dict[str, list[Branch]] = collections.defaultdict(list)
        for path, span in sorted({key[:2] for key in self._branches}):
            true, false = (self._branches[path, span, side] for side in (True, False))
            branches[path].append(Branch(*span, true, false))
        untraced = self._untraced()
        computed: dict[str, list[Span]] = collections.defaultdict(list)
        for path, span in sorted(self._computed):
            computed[path].append(span)
        paths = sorted({*facts, *branches, *untraced, *computed})
        return TracedFacts(
            values=tuple(table),
            files={
                path: FileFacts(
                    facts=tuple(facts[path]),
                    branches=tuple(branches[path]),
                    untraced=_ranges(untraced.get(path, set())),
                    computed=tuple(computed[path]),
                )
                for path in paths
            },
        )

    def problems(self) -> tuple[Problem, ...]:
        """Say what was dropped."""
        if not self._is_full:
            return ()
        return (
            Problem(
                "facts", "the values of some expressions", f"only the first {MAX_EXPRESSIONS:,} are kept"
            ),
        )

    def _path_of(self, code: CodeType) -> str:
        return stacks.absolute(code.co_filename)

    def _untraced(self) -> dict[str, set[int]]:
        """Return the lines that no trace reached, in functions that some trace left by a `return`.

        A line that one function of a file does not reach may hold code of another (a lambda): that is not counted.
        """
        missed: dict[str, set[int]] = collections.defaultdict(set)
        reached: dict[str, set[int]] = collections.defaultdict(set)
        for code, lines in self._lines.items():
            reached[self._path_of(code)] |= lines
            if code in self._returned:
                own = {line for _, _, line in code.co_lines() if line is not None}
                missed[self._path_of(code)] |= own - {code.co_firstlineno}
        return {path: lines - reached[path] for path, lines in missed.items() if lines - reached[path]}


def _span(positions: Any) -> Span | None:
    """Return the span of an instruction, None if it has no columns (before Python 3.11, or in generated code)."""
    if positions is None or positions.col_offset is None or positions.end_col_offset is None:
        return None
    return positions.lineno, positions.col_offset, positions.end_lineno, positions.end_col_offset


def _keep(
    values: dict[_Key, _Counts],
    path: str,
    span: Span | None,
    value: variables.Seen | None,
    *,
    is_bound: bool = False,
) -> None:
    """Note a value that no instruction gave, unless one gave another there."""
    if span is not None and value is not None:
        values.setdefault((path, span, is_bound), {value: 1})


def _value(seen: variables.Seen) -> TracedValue:
    kind = FactKind(seen[0])
    if kind is not FactKind.TENSOR:
        return TracedValue(kind, _text(seen))
    _, _, _, device, formats, requires_grad = seen
    return TracedValue(kind, _text(seen), str(device), _strides(formats), bool(requires_grad))


def _text(seen: variables.Seen) -> str:
    kind = FactKind(seen[0])
    if kind is FactKind.TENSOR:
        return f"{names.dtype_name(seen[1])}[{', '.join(map(str, seen[2]))}]"
    if kind is not FactKind.CONTAINER:
        return str(seen[1])
    _, name, items, length = seen
    if not items or None in items:
        return f"{name} of {length}"
    shown = [_text(item) for item in items] + (["..."] if length > len(items) else [])
    return f"{name} of {length}: {', '.join(shown)}"


def _strides(formats: Any) -> str | None:
    if formats is None:
        return None
    names = {str(form).removeprefix("torch.").removesuffix("_format") for form in formats}
    return next(
        (name for name in ("contiguous", "channels_last", "channels_last_3d") if name in names), "strided"
    )


def _ranges(lines: set[int]) -> tuple[tuple[int, int], ...]:
    """Return the ranges of consecutive lines."""
    out: list[tuple[int, int]] = []
    for line in sorted(lines):
        if out and line == out[-1][1] + 1:
            out[-1] = (out[-1][0], line)
        else:
            out.append((line, line))
    return tuple(out)
