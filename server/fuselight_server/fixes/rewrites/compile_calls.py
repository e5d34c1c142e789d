"""Calls of torch.compile in a file, and new texts with a further argument.

Invariant: an argument is added to a call only if it is certain which call compiles the function: its decorator, the
only call with its name, or the only call of the file. All other characters of the file stay.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst
from libcst.metadata import MetadataWrapper, PositionProvider

from fuselight_server.fixes.syntax.file_chunks import chunks_of_text, imported_name
from fuselight_server.fixes.syntax.tree import descendants, dotted
from fuselight_server.source.document import lines_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from libcst.metadata import CodePosition, CodeRange


@dataclass(frozen=True)
class CompiledFunction:
    """The function that was compiled."""

    name: str
    """Qualified: `Net.forward`."""
    line: int
    """Line of its `def` or its first decorator; 1-based."""


@dataclass(frozen=True)
class CallPlace:
    """A call of torch.compile or of `module.compile`, or the plain decorator."""

    end: int
    """Offset of its end in the bytes of the file."""
    node: cst.BaseExpression
    """The call, or the name of the plain decorator."""
    compiled: str = ""
    """What it compiles, as `Net` for `torch.compile(Net())`; empty for a decorator."""
    lines: range = range(0)
    """For a decorator: the lines from the first decorator to the `def` line."""


def with_argument(path: str, text: str, argument: str, function: CompiledFunction) -> str | None:
    """The text with a keyword argument, as `dynamic=True`, on the call that compiles the function."""
    keyword = argument.partition("=")[0]
    call = _chosen(compile_calls(path, text), function)
    if call is None or _excludes(call.node, keyword):
        return None
    place = _place(call)
    if place is None:
        return None
    data = b"".join(lines_of(text))
    start, before, after = place
    new = data[:start] + f"{before}{argument}{after}".encode() + data[start:]
    try:
        cst.parse_module(new.decode())  # as text: its bytes are UTF-8 whatever it declares
        return new.decode() if data.decode() == text else None
    except (cst.ParserSyntaxError, RecursionError, UnicodeError):
        return None


def compile_calls(path: str, text: str) -> list[CallPlace]:
    """All calls of torch.compile in a file, and of `compile` of a name that the file binds at top level."""
    lines, chunks = lines_of(text), chunks_of_text(path, text)
    torch = imported_name(path, text, "torch")
    if torch is None:
        return []
    objects = {
        binding.target: binding.value.function.dotted
        for chunk in chunks
        for binding in chunk.facts.bindings
        if binding.scope == () and binding.value.function is not None
    }
    places: list[CallPlace] = []
    for chunk in chunks:
        if b"compile" in chunk.data:
            first = sum(map(len, lines[: chunk.line - 1])) + chunk.column
            places += _calls(chunk.data, torch, first, chunk.line, objects)
    return places


def _calls(data: bytes, torch: str, first: int, line: int, objects: Mapping[str, str]) -> Iterator[CallPlace]:
    """The calls in a chunk at byte `first`, whose first line is `line`."""
    try:
        wrapper = MetadataWrapper(cst.parse_module(data.decode()), unsafe_skip_copy=True)
    except (cst.ParserSyntaxError, RecursionError, UnicodeError):
        return
    ranges = wrapper.resolve(PositionProvider)
    rows = data.decode().split("\n")

    def offset(at: CodePosition) -> int:
        before = sum(len(row.encode()) + 1 for row in rows[: at.line - 1])
        return first + before + len(rows[at.line - 1][: at.column].encode())

    decorators: set[cst.CSTNode] = set()
    for node in descendants(wrapper.module):
        if isinstance(node, cst.FunctionDef):
            lines = _lines(node, ranges, line)
            for other_decorator in node.decorators:
                decorator = other_decorator.decorator
                name = dotted(decorator.func if isinstance(decorator, cst.Call) else decorator)
                if name == f"{torch}.compile":
                    decorators.add(decorator)
                    yield CallPlace(offset(ranges[decorator].end), decorator, lines=lines)
        if isinstance(node, cst.Call) and node not in decorators:
            compiled = _compiled(node, torch, objects)
            if compiled is not None:
                yield CallPlace(offset(ranges[node].end), node, compiled)


def _lines(node: cst.FunctionDef, ranges: Mapping[cst.CSTNode, CodeRange], line: int) -> range:
    start = ranges[node.decorators[0] if node.decorators else node].start.line
    return range(line + start - 1, line + ranges[node.name].start.line)


def _compiled(node: cst.Call, torch: str, objects: Mapping[str, str]) -> str | None:
    """What a call compiles, by name; None if it compiles nothing."""
    name = dotted(node.func)
    if name == f"{torch}.compile":
        value = node.args[0].value if node.args and not node.args[0].star else None
    elif isinstance(node.func, cst.Attribute) and node.func.attr.value == "compile":
        value = node.func.value
        if dotted(value) not in objects:
            return None  # may be any object
    else:
        return None
    if isinstance(value, cst.Call):
        return dotted(value.func)
    actual_name = dotted(value) if value is not None else ""
    return objects.get(actual_name, actual_name)


def _chosen(calls: list[CallPlace], function: CompiledFunction) -> CallPlace | None:
    """The call that compiles the function, None if that is not certain."""
    decorating = [call for call in calls if function.line in call.lines]
    if decorating:
        return decorating[0] if len(decorating) == 1 else None
    others = [call for call in calls if not call.lines]
    names = {function.name, function.name.rpartition(".")[0], function.name.partition(".")[0]} - {""}
    named = [place for place in others if place.compiled in names]
    left = named or others
    return left[0] if len(left) == 1 else None


def _excludes(node: cst.BaseExpression, keyword: str) -> bool:
    """Whether the call has the argument, may have it, or has another that contradicts it."""
    if not isinstance(node, cst.Call):
        return False
    given = {argument.keyword.value for argument in node.args if argument.keyword is not None}
    groups = ({"dynamic", "shapes_spec", "dynamic_shapes"}, {"options", "mode"}, {"options", "backend"})
    contradicts = any(keyword in group and group & given for group in groups)
    return any(argument.star for argument in node.args) or keyword in given or contradicts


def _place(call: CallPlace) -> tuple[int, str, str] | None:
    """Where an argument goes, with the text before and after it."""
    node = call.node
    if not isinstance(node, cst.Call):
        return call.end, "(", ")"
    if not node.args:
        return call.end - 1, "", ""
    blanks = node.args[-1].whitespace_after_arg
    is_spaced = not isinstance(blanks, cst.SimpleWhitespace) or blanks.value
    if isinstance(node.args[-1].comma, cst.Comma) or is_spaced:
        return None  # laid out over lines
    return call.end - 1, ", ", ""
