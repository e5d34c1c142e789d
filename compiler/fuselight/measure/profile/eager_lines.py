"""Lines of eager work: from the graph break of its region, or from a separate call that records lines.

Invariant: a line is given only if it is certain; otherwise the stack is empty.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from fuselight.measure.profile import torch_records
from fuselight.measure.profile.calls import Launched
from fuselight.measure.profile.intervals import Node, trees
from fuselight.measure.profile.recording import Event, PlacedOperator
from fuselight.shared.report import Break, NotCompiled, NotCompiledKind, Stack

_NO_WORK = frozenset({NotCompiledKind.NO_TENSORS, NotCompiledKind.DISABLED})
"""Frames that run in eager mode and do no work of their own, or do it at the break itself."""


def break_lines(breaks: Sequence[Break], not_compiled: Sequence[NotCompiled]) -> dict[str, Stack]:
    """Map each compile id to the line where eager mode takes over after a compiled region that ends at a graph break.

    () if that is uncertain: a frame with breaks at several lines, or a frame of a function of which another part runs
    entirely in eager mode, because its work runs within the same region.
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
        # The region's frame is the first traced one; functions that it calls are compiled separately.
        lines.setdefault(each.compile_id, set()).add((*each.above, each.stack[0]) if certain else ())
    return {compile_id: next(iter(line)) if len(line) == 1 else () for compile_id, line in lines.items()}


def _frame(path: str, function: str) -> tuple[str, str]:
    return path, function.rpartition(".")[2]


def place_operators(names: Sequence[str], placed: Sequence[PlacedOperator]) -> list[Stack]:
    """The line of each operator of a call, from the operators of another call of the same function.

    Matches the two from the beginning and from the end as far as they agree; () for the operators between.
    """
    out: list[Stack] = [()] * len(names)
    same = [name == operator.name for name, operator in zip(names, placed, strict=False)]
    ahead = same.index(False) if False in same else len(same)
    for at in range(ahead):
        out[at] = placed[at].stack
    for back in range(1, min(len(names), len(placed)) - ahead + 1):
        if names[-back] != placed[-back].name:
            break
        out[-back] = placed[-back].stack
    return out


def lines_of(
    call: Launched, placed: Sequence[PlacedOperator], after_break: Mapping[str, Stack]
) -> dict[int, Stack]:
    """The stack of each eager unit, and of backward nodes around them, by `id` of the node, if the line is known."""
    lines: dict[int, Stack] = {}
    eager = [unit for unit in call.units if unit.graph is None]
    in_engine = {id(unit.node): node for unit in eager if (node := _engine(unit.node)) is not None}
    forward = [unit for unit in eager if id(unit.node) not in in_engine]
    own = [unit for unit in forward if unit.operator and unit.node.event.thread == call.window.thread]
    stacks_of_own = place_operators([unit.name for unit in own], placed)
    known = {id(unit.node): stack for unit, stack in zip(own, stacks_of_own, strict=True)}
    for unit in forward:
        at, region = id(unit.node), unit.region
        stack = known.get(at, ())
        if region is not None:
            # Work before its graph has returned belongs to the wrapper, and no line calls it.
            returned = unit.node.event.start_ns >= (region.graph_end or 0)
            stack = (after_break.get(region.compile_id) or stack) if returned else ()
        if stack:
            lines[at] = stack
    makers = _makers(call) if in_engine else {}
    for unit_node, engine in in_engine.items():
        stack = lines.get(makers.get(engine.event.sequence or -1, 0), ())
        if stack:
            lines[unit_node] = lines[id(engine)] = stack
    return lines


def _makers(call: Launched) -> dict[int, int]:
    """Map each autograd sequence number to the `id` of the node that made its backward node; 0 if not an eager unit.

    Several records share a number: operators that make no autograd node have the number of the next one that does.
    That one is the last record with the number.
    """
    makers: dict[int, int] = {}
    waiting = [(root, 0) for root in reversed(call.roots)]
    units = {id(unit.node) for unit in call.units if unit.graph is None}
    while waiting:
        node, unit = waiting.pop()
        if node.event.name.startswith(torch_records.EVALUATES):
            continue
        unit = unit or (id(node) if id(node) in units else 0)
        if node.event.sequence is not None:
            makers[node.event.sequence] = unit
        waiting += [(child, unit) for child in reversed(node.children)]
    return makers


def _engine(node: Node) -> Node | None:
    """The autograd engine's evaluation of a backward node around an operator."""
    return next((node for node in node.above() if node.event.name.startswith(torch_records.EVALUATES)), None)


def placed_operators(events: Sequence[Event], stacks: Sequence[Stack]) -> tuple[PlacedOperator, ...]:
    """The top-level operators of a profiled call with marks; each mark refers to a stack by position.

    Only those of the calling thread, without the work of autograd's engine and of compiled graphs.
    """
    call = next((event for event in events if event.name == torch_records.CALL), None)
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
        name = node.event.name
        if torch_records.is_operator(name):
            yield node
        elif not name.startswith(torch_records.EVALUATES) and torch_records.graph_key(name) is None:
            # No line calls the operators inside the engine or a compiled graph.
            waiting.extend(reversed(node.children))


def _marked(node: Node, stacks: Sequence[Stack]) -> Stack:
    """The stack of an operator: from the first mark inside it, or from a mark around it."""
    for other_node in [*node.walk(), *node.above()]:
        number = other_node.event.name.removeprefix(torch_records.LINE)
        if number != other_node.event.name and number.isdigit() and int(number) < len(stacks):
            return stacks[int(number)]
    return ()
