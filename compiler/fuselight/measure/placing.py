"""The lines of eager work: by the break of the region that it ran in, or by a call that told its lines.

Invariant: a line is given where it is certain; else the stack is empty.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from fuselight.measure import labels
from fuselight.measure.launched import Launched
from fuselight.measure.nesting import Node, trees
from fuselight.measure.recording import Event, PlacedOperator
from fuselight.report import Break, NotCompiled, NotCompiledKind, Stack

_NO_WORK = frozenset({NotCompiledKind.NO_TENSORS, NotCompiledKind.DISABLED})
"""Frames that are left to eager and do no work of their own, or do it at the break itself."""


def break_lines(breaks: Sequence[Break], not_compiled: Sequence[NotCompiled]) -> dict[str, Stack]:
    """By compile id, the line at which eager takes over behind a compiled region that ends at a break.

    () where that is not certain: a frame with breaks at several lines, and one of a function of which another part is
    left to eager as a whole, for its work runs within the same region.
    """
    left = {_frame(each.location.path, each.function) for each in not_compiled if each.kind not in _NO_WORK}
    lines: dict[str, set[Stack]] = {}
    for each in breaks:
        if each.stack and each.frame_skipped:
            left.add(_frame(each.stack[0].path, each.frame_function or ""))
    for each in breaks:
        if not each.stack or each.frame_skipped:
            continue
        certain = _frame(each.stack[0].path, each.frame_function or "") not in left
        # The region's own frame stands at the first of the traced ones; what that calls is compiled by itself.
        lines.setdefault(each.compile_id, set()).add((*each.above, each.stack[0]) if certain else ())
    return {compile_id: next(iter(found)) if len(found) == 1 else () for compile_id, found in lines.items()}


def _frame(path: str, function: str) -> tuple[str, str]:
    return path, function.rpartition(".")[2]


def place_operators(names: Sequence[str], placed: Sequence[PlacedOperator]) -> list[Stack]:
    """The line of each operator of a call, of those of another call of the same function.

    As far as both do the same from their beginning, and back from their end; () for what lies between.
    """
    out: list[Stack] = [()] * len(names)
    same = [name == one.name for name, one in zip(names, placed, strict=False)]
    ahead = same.index(False) if False in same else len(same)
    for at in range(ahead):
        out[at] = placed[at].stack
    for back in range(1, min(len(names), len(placed)) - ahead + 1):
        if names[-back] != placed[-back].name:
            break
        out[-back] = placed[-back].stack
    return out


def lines_of(
    call: Launched, placed: Sequence[PlacedOperator], behind: Mapping[str, Stack]
) -> dict[int, Stack]:
    """The stack of each eager unit whose line is known, by `id` of its node, and of backward nodes around them."""
    lines: dict[int, Stack] = {}
    eager = [unit for unit in call.units if unit.graph is None]
    in_engine = {id(unit.node): node for unit in eager if (node := _engine(unit.node)) is not None}
    forward = [unit for unit in eager if id(unit.node) not in in_engine]
    own = [unit for unit in forward if unit.operator and unit.node.event.thread == call.window.thread]
    told = place_operators([unit.name for unit in own], placed)
    known = {id(unit.node): stack for unit, stack in zip(own, told, strict=True)}
    for unit in forward:
        at, region = id(unit.node), unit.region
        stack = known.get(at, ())
        if region is not None:
            # What runs in it before its graph has returned is the wrapper's, and no line calls it.
            returned = unit.node.event.start_ns >= (region.graph_end or 0)
            stack = (behind.get(region.compile_id) or stack) if returned else ()
        if stack:
            lines[at] = stack
    makers = _makers(call) if in_engine else {}
    for unit_node, engine in in_engine.items():
        stack = lines.get(makers.get(engine.event.sequence or -1, 0), ())
        if stack:
            lines[unit_node] = lines[id(engine)] = stack
    return lines


def _makers(call: Launched) -> dict[int, int]:
    """By autograd's number, the `id` of the node of the unit that made its backward node; 0 for no eager unit.

    Several records have one number: operators that make no node of autograd's have that of the next one that does,
    and the one that does is the last of them.
    """
    makers: dict[int, int] = {}
    waiting = [(root, 0) for root in reversed(call.roots)]
    units = {id(unit.node) for unit in call.units if unit.graph is None}
    while waiting:
        node, unit = waiting.pop()
        if node.event.name.startswith(labels.EVALUATES):
            continue
        unit = unit or (id(node) if id(node) in units else 0)
        if node.event.sequence is not None:
            makers[node.event.sequence] = unit
        waiting += [(child, unit) for child in reversed(node.children)]
    return makers


def _engine(node: Node) -> Node | None:
    """The engine's evaluation of a backward node around an operator."""
    return next((one for one in node.above() if one.event.name.startswith(labels.EVALUATES)), None)


def placed_operators(events: Sequence[Event], stacks: Sequence[Stack]) -> tuple[PlacedOperator, ...]:
    """The operators that no other one called, of a profile of one call with marks: each names a stack by position.

    Of the thread that called, without what autograd's engine and compiled graphs ran.
    """
    call = next((event for event in events if event.name == labels.CALL), None)
    if call is None:
        return ()
    inside = [event for event in events if event.thread == call.thread and not event.on_device]
    return tuple(
        PlacedOperator(node.event.name, _marked(node, stacks))
        for node in _outermost(trees(inside))
        if call.start_ns <= node.event.start_ns < call.end_ns
    )


def _outermost(roots: Sequence[Node]) -> Iterator[Node]:
    waiting = list(reversed(roots))
    while waiting:
        node = waiting.pop()
        if labels.is_operator(node.event.name):
            yield node
        elif not _runs_itself(node.event.name):
            waiting.extend(reversed(node.children))


def _runs_itself(name: str) -> bool:
    """Whether a record is of the engine or of a compiled graph: no line calls what they run."""
    return name.startswith(labels.EVALUATES) or labels.graph_key(name) is not None


def _marked(node: Node, stacks: Sequence[Stack]) -> Stack:
    """The stack of an operator: that of the first mark within, or of one around it."""
    for one in [*node.walk(), *node.above()]:
        number = one.event.name.removeprefix(labels.LINE)
        if number != one.event.name and number.isdigit() and int(number) < len(stacks):
            return stacks[int(number)]
    return ()
