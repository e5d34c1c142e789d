"""Where an exception was raised, including exceptions in code that Dynamo generated.

Invariant: every location was recorded by Python or torch. In code that Dynamo generated, instructions that are not the
user's carry the first line of the function, which may be a decorator's: such a location is never reported.
"""

from __future__ import annotations

import itertools
import re
from types import CodeType, FrameType

import torch

from fuselight.dynamo import stacks
from fuselight.report import Location, Stack
from fuselight.torch_api import frames

_GRAPH = "<eval_with_key>"
_ASSIGNED = re.compile(r"\s*(?P<node>\w+)(?:\s*:[^=]+)?\s*=[^=]")


def from_traceback(error: BaseException) -> Stack:
    """The frames of an exception's traceback, outermost first; user and third-party frames only."""
    out: list[Location] = []
    entry = error.__traceback__
    while entry is not None:
        code = entry.tb_frame.f_code
        if is_graph(code.co_filename):
            inside = _graph_stack(entry.tb_frame, entry.tb_lineno)
            if inside and out and (out[-1].path, out[-1].function) == (inside[0].path, inside[0].function):
                out.pop()  # the function that calls the graph, on a line that is none of the call's
            out += inside
        elif stacks.is_shown(code.co_filename):
            out.append(_location(code, entry.tb_lineno, entry.tb_lasti))
        entry = entry.tb_next
    return tuple(out)


def is_graph(path: str) -> bool:
    """Whether a frame of this file runs a captured graph as it is."""
    return path.startswith(_GRAPH)


def _location(code: CodeType, line: int, offset: int) -> Location:
    if line == code.co_firstlineno and frames.is_generated(code):
        line, offset = _behind(code, offset) or (line, offset)
    column = end_line = end_column = None
    if hasattr(code, "co_positions"):
        found = next(itertools.islice(code.co_positions(), offset // 2, None), None)
        if found is not None and found[0] == line:
            _, end_line, column, end_column = found
    return stacks.location(code.co_filename, line, column, end_line, end_column, code.co_name)


def _behind(code: CodeType, offset: int) -> tuple[int, int] | None:
    """Line and offset of the next instruction of the user's, for which Dynamo generated the ones before it."""
    return next(
        (
            (line, start)
            for start, _, line in code.co_lines()
            if start > offset and line not in (None, code.co_firstlineno)
        ),
        None,
    )


def _graph_stack(frame: FrameType, line: int) -> Stack:
    """The user's lines that one line of a captured graph's code comes from, starting at the compiled function."""
    graph = frame.f_locals.get("self")
    if not isinstance(graph, torch.fx.GraphModule):
        return ()
    lines = graph.code.splitlines()
    found = _ASSIGNED.match(lines[line - 1]) if 0 < line <= len(lines) else None
    node = next((node for node in graph.graph.nodes if found and node.name == found["node"]), None)
    trace = node.stack_trace if node is not None else None
    return (
        ()
        if trace is None
        else tuple(place for place in stacks.from_text(trace) if stacks.is_shown(place.path))
    )
