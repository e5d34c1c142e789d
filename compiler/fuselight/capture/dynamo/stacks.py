"""Converts frames of any kind (traced, Python, code objects, tracebacks) to Locations.

Invariant: line numbers never change. Whole frames of torch, of the standard library and of Fuselight are dropped, and a
resume function gets the name of the function that it resumes. In code that Dynamo generated, instructions that are not
the user's carry the first line of the function, which may be a decorator's: such a location is never reported.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import linecache
import os
import re
import sys
import sysconfig
import traceback
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType, TracebackType
from typing import Any

import torch

from fuselight import PACKAGE
from fuselight.adapters.torch_api.dynamo import errors, frames
from fuselight.adapters.torch_api.inductor import generated_code
from fuselight.shared.report import Location, Stack, is_user_file

_TORCH = f"{Path(torch.__file__).parent}{os.sep}"
_POLYFILLS = os.path.join(_TORCH, "_dynamo", "polyfills", "")
_FUSELIGHT = f"{PACKAGE}{os.sep}"
_STDLIB = tuple(
    f"{Path(path)}{os.sep}"
    for path in {sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")}
    if path
)
_PACKAGES = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")
_STARTED_IN = os.getcwd()
_DEF = re.compile(r"\s*(async\s+def|def|class)\s")
_DECORATOR_LINES = 200
"""How far below `co_firstlineno`, the first decorator's line, a `def` is looked for."""
_GRAPH = "<eval_with_key>"
_ASSIGNED = re.compile(r"\s*(?P<node>\w+)(?:\s*:[^=]+)?\s*=[^=]")


@functools.lru_cache(maxsize=4096)
def absolute(path: str) -> str:
    """The path of a code object's file: a script that was named relatively, as `python train.py`, keeps that name."""
    return path if path.startswith("<") else os.path.normpath(os.path.join(_STARTED_IN, path))


@functools.lru_cache(maxsize=4096)
def is_shown(path: str) -> bool:
    """Whether a frame of this file is the user's or a third party's: not torch's, the standard library's or ours."""
    if path.startswith(("<", _TORCH, _FUSELIGHT)):
        return False
    return not is_standard_library(path)


def is_standard_library(path: str) -> bool:
    """Whether a file belongs to Python itself."""
    return path.startswith(("<frozen", *_STDLIB)) and not any(part in path for part in _PACKAGES)


def is_user_code(path: str, roots: Sequence[str]) -> bool:
    """Whether the code object's file is the user's."""
    return is_user_file(absolute(path), roots)


def user_function(name: str) -> str:
    """The function's own name for that of a resume function."""
    while match := frames.RESUME.search(name):
        name = match["name"]
    return name


def parameters(code: CodeType) -> tuple[str, ...]:
    """The names of a function's parameters, `*args` and `**kwargs` among them without their stars."""
    stars = bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount + stars]


def resumes_at(code: CodeType) -> int | None:
    """The line at which a resume function takes over, None for any other function."""
    match = frames.RESUME.search(code.co_name)
    return None if match is None else int(match["line"])


def carried(code: CodeType) -> int:
    """How many values on Python's stack a resume function takes over."""
    names = frames.boxed_values(code) or code.co_varnames[: code.co_argcount]
    return sum(frames.CARRIED.fullmatch(name) is not None for name in names)


def resumes_in_line(code: CodeType) -> tuple[int | None, int | None] | None:
    """The columns of the expression at which a resume function takes over; None where they are not known.

    Dynamo keeps the columns of the instructions from there on, and of none before.
    """
    columns = (place[2:] for place in getattr(code, "co_positions", list)())
    return next((place for place in columns if place[0] is not None), None)


@functools.lru_cache(maxsize=16384)
def location(  # noqa: PLR0917 - the arguments are the cache's key
    path: str, line: int, column: int | None, end_line: int | None, end_column: int | None, name: str
) -> Location:
    """A place as Python gives it, in the user's function."""
    if (end_line or line, end_column or 0) <= (line, column or 0):
        end_line = end_column = None  # the end is on a later line, which is not known
    return Location(absolute(path), line, column, end_line, end_column, user_function(name))


def is_polyfill(path: str) -> bool:
    """Whether a file is of the Python functions that Dynamo traces in the place of builtins."""
    return path.startswith(_POLYFILLS)


def from_summaries(summaries: Sequence[Any], error: BaseException | None = None, *translators: Any) -> Stack:
    """A traced stack, of `traceback.FrameSummary`, outermost first; columns that it lacks are asked of the rest."""
    lacking = any(getattr(frame, "colno", None) is None for frame in summaries)
    positions = frames.positions(error, *translators) if lacking else {}
    out = []
    for frame in summaries:
        if is_ours(frame.filename):
            continue  # what stands in for `os._exit` in a run: it was the line above that called
        line = frame.lineno or 0
        column, end_line, end_column = (
            getattr(frame, name, None) for name in ("colno", "end_lineno", "end_colno")
        )
        if column is None:
            column, end_line, end_column = positions.get((frame.filename, line, frame.name), (None,) * 3)
        out.append(location(frame.filename, line, column, end_line, end_column, frame.name))
    return tuple(out)


def frames_from(frame: FrameType | None) -> Iterator[FrameType]:
    """A frame that runs and those that called it, innermost first."""
    while frame is not None:
        yield frame
        frame = frame.f_back


def from_frames(frames: Iterable[FrameType], limit: int = 64) -> Stack:
    """A Python stack from the innermost frame up; user and third-party frames only, the nearest `limit` of them."""
    shown = (frame for frame in frames if is_shown(frame.f_code.co_filename))
    nearest = itertools.islice(_without_suspended(shown), limit)
    return tuple(reversed([_location(frame.f_code, frame.f_lineno, frame.f_lasti) for frame in nearest]))


def _without_suspended(frames: Iterable[FrameType]) -> Iterator[FrameType]:
    """The frames without those that wait at a graph break for the rest of their own function: they call nothing there.

    After a break, compiled code calls the rest as a function of its own, from the line of the break.
    """
    inner: CodeType | None = None
    for frame in frames:
        code = frame.f_code
        is_suspended = (
            inner is not None
            and resumes_at(inner) is not None
            and (inner.co_filename, user_function(inner.co_name))
            == (code.co_filename, user_function(code.co_name))
        )
        if not is_suspended:
            yield frame
        inner = code


def running_lines(frame: FrameType | None, limit: int = 64) -> Stack:
    """What leads to `frame`: as `from_frames`, with the lines of the operators of captured graphs that run."""
    out: list[Location] = []
    while frame is not None and len(out) < limit:
        code = frame.f_code
        if is_graph(code.co_filename):
            out += reversed(_graph_stack(frame, frame.f_lineno))
        elif is_shown(code.co_filename):
            out.append(_location(code, frame.f_lineno, frame.f_lasti))
        frame = frame.f_back
    return tuple(reversed(out))


def _location(code: CodeType, line: int, offset: int) -> Location:
    """The place of the instruction at `offset`, with its columns if the code has them."""
    column = end_line = end_column = None
    if hasattr(code, "co_positions") and offset >= 0:
        position = next(itertools.islice(code.co_positions(), offset // 2, None), None)
        if position is not None and position[0] == line:
            _, end_line, column, end_column = position
    return location(code.co_filename, line, column, end_line, end_column, code.co_name)


def without_resumed(above: Stack, code: CodeType) -> Stack:
    """`above`, less the frames of the very function that a resume function continues."""
    if resumes_at(code) is None:
        return above
    path, name, original = absolute(code.co_filename), user_function(code.co_name), frames.original_code(code)
    last = max((line or 0 for _, _, line in original.co_lines()), default=0)
    end = len(above)
    while end and (above[end - 1].path, above[end - 1].function) == (path, name):
        if not original.co_firstlineno <= above[end - 1].line <= last:
            break  # another method of the same name
        end -= 1
    return above[:end]


def qualified_name(code: CodeType) -> str:
    """The user's function of a code object, as `Net.forward` (before Python 3.11: `forward`)."""
    original = frames.original_code(code)
    name: str = getattr(original, "co_qualname", original.co_name)
    return user_function(name).replace("<locals>.", "")


def def_location(code: CodeType) -> Location:
    """The `def` line of the user's function (not its first decorator, which is where a code object says it starts)."""
    original = frames.original_code(code)
    first = original.co_firstlineno
    line = first
    lines = linecache.getlines(original.co_filename)
    for number in range(first, min(first + _DECORATOR_LINES, len(lines) + 1)):
        if _DEF.match(lines[number - 1]):
            line = number
            break
        if number == first and not lines[number - 1].lstrip().startswith("@"):
            break
    return Location(absolute(original.co_filename), line, function=user_function(original.co_name))


def class_location(kind: type) -> Location | None:
    """The `class` line of a class that is defined in a function; None where its source does not show it."""
    methods = (vars(kind).get(name) for name in ("__init__", "forward", *vars(kind)))
    codes = (getattr(method, "__code__", None) for method in methods)
    first = next((code for code in codes if code is not None), None)
    if first is None:
        return None
    lines = linecache.getlines(first.co_filename)[: first.co_firstlineno]
    wanted = re.compile(rf"\s*class\s+{re.escape(kind.__name__)}\b")
    line = next((number for number in range(len(lines), 0, -1) if wanted.match(lines[number - 1])), None)
    return None if line is None else Location(absolute(first.co_filename), line)


def innermost_of_ours(error: BaseException) -> str:
    """`recompiles.py:88`: where an exception was raised in Fuselight, for a Problem."""
    where = "unknown"
    for frame, line in traceback.walk_tb(error.__traceback__):
        if is_ours(frame.f_code.co_filename):
            where = f"{Path(frame.f_code.co_filename).name}:{line}"
    return where


def of_node(node: torch.fx.Node | None) -> Stack:
    """Where a node of a graph was made, as torch recorded it; empty if it did not."""
    trace = None if node is None else node.meta.get("stack_trace")
    return from_text(trace) if isinstance(trace, str) else ()


def of_failed_node(text: str) -> Stack:
    """Where the operator stands on which a backend failed: torch quotes the traceback of its node, innermost first."""
    _, _, quoted = text.partition(errors.QUOTED_TRACEBACK)
    return tuple(place for place in from_text(quoted.partition(_NEXT_NODE)[0]) if is_shown(place.path))


_NEXT_NODE = "\nWhile executing "


def calling_frames(limit: int = 64) -> Stack:
    """The user's and third parties' frames above the caller, outermost first."""
    caller = sys._getframe(1)  # noqa: SLF001 - the documented way to walk the caller's stack
    return from_frames((frame for frame, _ in traceback.walk_stack(caller)), limit)


def is_called_by_export() -> bool:
    """Whether torch.export is at work."""
    caller = sys._getframe(1)  # noqa: SLF001 - the documented way to walk the caller's stack
    return any(errors.is_of_export(frame.f_code.co_filename) for frame, _ in traceback.walk_stack(caller))


def is_called_by_us(*files: str) -> bool:
    """Whether Fuselight calls, through torch or directly, the functions of the file that calls this, and of `files`."""
    caller = sys._getframe(1)  # noqa: SLF001 - the documented way to walk the caller's stack
    paths = (frame.f_code.co_filename for frame, _ in traceback.walk_stack(caller))
    above = itertools.dropwhile({caller.f_code.co_filename, *files}.__contains__, paths)
    return next((is_ours(path) for path in above if is_ours(path) or is_shown(path)), False)


def is_ours(path: str) -> bool:
    """Whether a file belongs to Fuselight."""
    return path.startswith(_FUSELIGHT)


def is_users(path: str, roots: Sequence[str]) -> bool:
    """Whether a file is the user's, also where Fuselight itself is inside a root."""
    return is_user_file(path, roots) and not is_ours(path)


def at(path: str, line: int, offset: int | None, text: str | None) -> Location:
    """The place of a SyntaxError, whose `offset` counts characters from 1."""
    column = None
    if offset and text is not None:
        column = len(text[: offset - 1].encode("utf-8", "surrogateescape"))
    return Location(path, line, column)


@functools.lru_cache(maxsize=8192)
def from_text(trace: str) -> Stack:
    """The frames of a printed traceback: `File "path", line 3, in forward` and the source line below it."""
    out = []
    for line in trace.splitlines():
        stripped = line.strip()
        if not stripped.startswith('File "'):
            continue
        path, quote, rest = stripped[6:].rpartition('", line ')
        number, _, function = rest.partition(", in ")
        if quote and number.strip().isdigit():
            out.append(
                Location(absolute(path), int(number), function=user_function(function.strip()) or None)
            )
    return tuple(out)


def from_traceback(error: BaseException, nodes: NodeStacks | None = None) -> Stack:
    """The frames of an exception's traceback, outermost first; user and third-party frames only.

    `nodes`: the graphs that were captured, which lead from Inductor's code to the user's lines.
    """
    out: list[Location] = []
    caller: CodeType | None = None
    for entry in _entries(error):
        code = entry.tb_frame.f_code
        inside = _inside(entry, caller, nodes)
        if inside is not None:
            if inside and out and (out[-1].path, out[-1].function) == (inside[0].path, inside[0].function):
                out.pop()  # the function that calls the graph, on a line that is none of the call's
            out += inside
        elif is_shown(code.co_filename):
            line, offset = entry.tb_lineno, entry.tb_lasti
            if frames.is_generated(code):
                caller = code
                if line == code.co_firstlineno:
                    line, offset = _next_of_user(code, offset) or (def_location(code).line, -1)
            out.append(_location(code, line, offset))
    return tuple(out)


def in_graphs(error: BaseException, nodes: NodeStacks | None = None) -> Stack:
    """Of the frames of an exception's traceback, those in captured graphs: of compiled functions."""
    inside: tuple[Location, ...] = ()
    caller: CodeType | None = None
    for entry in _entries(error):
        inside += _inside(entry, caller, nodes) or ()
        caller = entry.tb_frame.f_code if frames.is_generated(entry.tb_frame.f_code) else caller
    return inside


def _entries(error: BaseException) -> Iterator[TracebackType]:
    entry = error.__traceback__
    while entry is not None:
        yield entry
        entry = entry.tb_next


def _inside(entry: TracebackType, caller: CodeType | None, nodes: NodeStacks | None) -> Stack | None:
    """The user's lines for a frame of a captured graph, or of code that Inductor made of it; None for another."""
    if is_graph(entry.tb_frame.f_code.co_filename):
        return _graph_stack(entry.tb_frame, entry.tb_lineno)
    launched = generated_code.launched(entry.tb_frame, entry.tb_lineno)
    if launched is None:
        return None
    return () if nodes is None else nodes.find(caller, launched)


@dataclass(frozen=True)
class _PlacedNode:
    checks: str
    """What the name of a kernel contains that checks the values of this node; empty if none does."""
    stack: Stack


_MAX_FIXED = 1000
"""Values that sizes were fixed to in exports."""


class NodeStacks:
    """The user's lines of the nodes of captured graphs, by their names; a name with several lines leads to none."""

    def __init__(self) -> None:
        self._graphs: dict[tuple[str, str, int], dict[str, _PlacedNode | None]] = {}
        self._fixed: dict[str, dict[Location, Stack]] = {}

    def add_graph(self, code: CodeType, module: torch.fx.GraphModule) -> None:
        """Take in the graph of a function, with those of its higher-order operators."""
        known = self._graphs.setdefault(_key(code), {})
        parts = (part for part in module.modules() if isinstance(part, torch.fx.GraphModule))
        for node in itertools.chain.from_iterable(part.graph.nodes for part in parts):
            if node.op in generated_code.CALLS:
                operator = _PlacedNode(generated_code.check_of(node), of_node(node))
                known[node.name] = operator if known.get(node.name, operator) == operator else None

    def add_fixed(self, value: str, stack: Stack) -> None:
        """Take in where torch.export fixed a size to a value."""
        if stack and len(self._fixed) <= _MAX_FIXED:
            self._fixed.setdefault(value, {}).setdefault(stack[-1], stack)

    def fixing_stack(self, value: str) -> Stack:
        """Where a size was fixed to a value; empty where that is not known, and where several lines did."""
        known = [*self._fixed.get(value, {}).values()]
        return known[0] if len(known) == 1 else ()

    def find(self, caller: CodeType | None, launched: generated_code.RunningLine) -> Stack:
        """Where the operator of a launch stands, in the graphs of the function that calls it (None: in any)."""
        graphs = [self._graphs.get(_key(caller), {})] if caller is not None else [*self._graphs.values()]
        nodes = [(name, node) for graph in graphs for name, node in graph.items()]
        last = launched.nodes[-1:]
        matches = {
            node
            for name, node in nodes
            if (name in last if last else node is not None and node.checks and node.checks in launched.kernel)
        }
        stacks = {node.stack[-1:]: node.stack for node in matches if node is not None}
        return next(iter(stacks.values())) if len(stacks) == 1 and None not in matches else ()


def _key(code: CodeType) -> tuple[str, str, int]:
    return code.co_filename, code.co_name, code.co_firstlineno


def is_graph(path: str) -> bool:
    """Whether a frame of this file runs a captured graph as it is."""
    return path.startswith(_GRAPH)


def _next_of_user(code: CodeType, offset: int) -> tuple[int, int] | None:
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
    match = _ASSIGNED.match(lines[line - 1]) if 0 < line <= len(lines) else None
    node = next((node for node in graph.graph.nodes if match and node.name == match["node"]), None)
    trace = node.stack_trace if node is not None else None
    return () if trace is None else tuple(place for place in from_text(trace) if is_shown(place.path))
