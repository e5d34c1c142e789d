"""The line at which what was traced departs from eager mode: another value, another branch, a number that went stale.

For what was traced wrong, or is used although a guard is missing: no part of a graph is compiled wrong then. Invariant:
a line is named only if eager mode ran it.
"""

from __future__ import annotations

import linecache
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from fuselight.shared.report import Location, Stack
from fuselight.worker.results.branches import assigning_line, deciding_line, names_read, skipped_assignment
from fuselight.worker.results.noted_lines import LineValues, NotedOperator, Place, Sums

_NEAR = 1e-3
BRANCH = "Eager mode takes another branch here than compiled code."
CALL = "Eager mode runs another function here than compiled code."
NUMBER = "Compiled code uses another number than the one that this line gives in eager mode."
RETURNED = "No earlier line has another value: this line returns what differs."


@dataclass(frozen=True)
class Departure:
    """Where compiled code departs from eager mode."""

    stack: Stack = ()
    """Outermost frame first; empty if no line is known."""
    why: str = ""
    """Why this line, unless its operators return another value."""


def departure(compiled: LineValues, eager: LineValues) -> Departure:
    """The first line at which the two part, in the order of compiled code."""
    return _Comparison(compiled, eager).departure()


def unmatched_line(compiled: LineValues, eager: LineValues) -> Stack:
    """The first line whose value is computed by none of the operators that compiled code has on it."""
    of_line: dict[tuple[str, int], list[NotedOperator]] = {}
    for operator in compiled.operators:
        of_line.setdefault(operator.place, []).append(operator)
    last = {operator.place: operator for operator in eager.operators}
    for place, expected in last.items():
        there = of_line.get(place, ())
        if there and not any(is_near(operator.sums, expected.sums) for operator in there):
            return expected.stack
    return ()


class _Comparison:
    def __init__(self, compiled: LineValues, eager: LineValues) -> None:
        self._compiled, self._eager = compiled, eager
        self._places = {operator.place for operator in compiled.operators}
        self._last = {operator.place: at for at, operator in enumerate(eager.operators)}
        """The last operator of each line."""
        self._passed = -1
        """The last operator of eager mode of which compiled code has the value."""

    def departure(self) -> Departure:
        last = {operator.place: at for at, operator in enumerate(self._compiled.operators)}
        apart: Departure | None = None
        """Where compiled code has left the lines of eager mode, unless their values meet again."""
        for at, operator in enumerate(self._compiled.operators):
            frame = self._first_not_executed(operator.stack)
            if frame is not None:
                apart = apart or self._of_line_not_executed(operator.stack, frame)
                continue
            if last[operator.place] != at:
                continue
            number = self._of_number(operator)
            if number is not None:
                return number
            expected = self._last.get(operator.place)
            if expected is None:
                continue
            if is_near(operator.sums, self._eager.operators[expected].sums):
                apart, self._passed = None, max(self._passed, expected)
                continue
            return (
                apart
                or self._of_eager_alone(expected)
                or self._of_order(operator)
                or self._of_operator(operator)
            )
        return apart or self._of_eager_alone(len(self._eager.operators)) or self._returned()

    def _first_not_executed(self, stack: Stack) -> int | None:
        """The outermost frame of a line that eager mode did not run."""
        executed = self._eager.executed
        return next((at for at, frame in enumerate(stack) if (frame.path, frame.line) not in executed), None)

    def _of_line_not_executed(self, stack: Stack, at: int) -> Departure:
        frame = stack[at]
        line = deciding_line(_source(frame.path), frame.line, self._lines(frame.path))
        if line is not None:
            return Departure((*stack[:at], _at_line(frame, line)), BRANCH)
        return Departure(stack[:at], CALL)

    def _of_eager_alone(self, end: int) -> Departure | None:
        """The statement that decides that eager mode runs operators on a line of which compiled code has none."""
        for operator in self._eager.operators[self._passed + 1 : end]:
            if operator.place in self._places:
                continue
            frame = operator.stack[-1]
            line = deciding_line(_source(frame.path), frame.line, self._lines(frame.path))
            if line is not None and line != frame.line:
                return Departure((*operator.stack[:-1], _at_line(frame, line)), BRANCH)
            caller = self._caller_known_to_both(operator.stack)
            if caller:
                return Departure(caller, CALL)
        return None

    def _of_order(self, operator: NotedOperator) -> Departure | None:
        """The statement that decides that eager mode runs another line of the function next."""
        frame = operator.stack[-1]
        after = self._eager.operators[self._passed + 1 : self._passed + 2]
        if not after or after[0].place == operator.place or after[0].stack[-1].function != frame.function:
            return None
        line = deciding_line(_source(frame.path), frame.line, self._lines(frame.path))
        return Departure((*operator.stack[:-1], _at_line(frame, line)), BRANCH) if line is not None else None

    def _caller_known_to_both(self, stack: Stack) -> Stack:
        """The frames above a function that compiled code has not run, if there is such a function."""
        functions = {
            (frame.path, frame.function) for operator in self._compiled.operators for frame in operator.stack
        }
        new = next(
            (at for at, frame in enumerate(stack) if at and (frame.path, frame.function) not in functions),
            None,
        )
        return stack[:new] if new is not None else ()

    def _of_number(self, operator: NotedOperator) -> Departure | None:
        """A line whose number is another one in eager mode, as that of a size."""
        assigned = self._eager.assigned.get(operator.place)
        if len(operator.sums) != 1 or not assigned:
            return None
        if any(is_near(operator.sums, (number,)) for number in assigned.values()):
            return None
        return Departure(operator.stack, NUMBER)

    def _of_operator(self, operator: NotedOperator) -> Departure:
        """The line of an operator, or the line that gave a variable the number that it should have used."""
        frame = operator.stack[-1]
        eager, compiled = (
            _numbers_on(lines.operators, operator.place) for lines in (self._eager, self._compiled)
        )
        stale = [number for number in eager if number not in compiled]
        source, executed = _source(frame.path), self._lines(frame.path)
        for name in names_read(source, frame.line) if stale else ():
            skipped = skipped_assignment(source, frame.line, name, executed, compiled - eager)
            line = deciding_line(source, skipped, executed) if skipped is not None else None
            if line is not None:
                return Departure((*operator.stack[:-1], _at_line(frame, line)), BRANCH)
            line = assigning_line(source, frame.line, name, executed)
            given = self._eager.assigned.get((frame.path, line or 0), {})
            if line is not None and given.get(name) in stale:
                return Departure((*operator.stack[:-1], _at_line(frame, line)), NUMBER)
        return Departure(operator.stack)

    def _returned(self) -> Departure:
        code, line = self._eager.function, self._eager.last_line
        path = next((path for path, at in reversed(self._eager.executed) if at == line), None)
        if code is None or path is None:
            return Departure()
        return Departure((Location(path, line, function=code.co_name),), RETURNED)

    def _lines(self, path: str) -> dict[int, int]:
        return {line: when for (of, line), when in self._eager.executed.items() if of == path}


def _numbers_on(operators: Sequence[NotedOperator], place: Place) -> set[float]:
    """The numbers that the operators of a line are given."""
    return {number for operator in operators if operator.place == place for number in operator.numbers}


def _source(path: str) -> str:
    return "".join(linecache.getlines(path))


def _at_line(frame: Location, line: int) -> Location:
    return replace(frame, line=line, column=None, end_line=None, end_column=None)


def is_near(sums: Sums, others: Sums) -> bool:
    """Whether two values are equal but for rounding."""
    return len(sums) == len(others) and all(map(_is_equal, sums, others))


def _is_equal(number: float, other: float) -> bool:
    if math.isnan(number) or math.isnan(other):
        return math.isnan(number) and math.isnan(other)
    return number == other or abs(number - other) <= _NEAR * max(abs(number), abs(other))
