"""The call that brought the new value: its argument converted, or its size marked before it.

Invariant: only a call in a function of the workspace that itself is not compiled, and only if it is certain which call
on its line it is.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import libcst as cst

from fuselight.shared.report import Recompile, Report
from fuselight_server.base.finding import Finding, Span
from fuselight_server.fixes.syntax.site import Site
from fuselight_server.fixes.syntax.tree import dotted


@dataclasses.dataclass(frozen=True)
class CallArgument:
    """An argument in the call of the compiled function."""

    site: Site
    call: cst.Call
    value: cst.BaseExpression

    @property
    def text(self) -> str:
        """The argument, so that an attribute can follow."""
        return self.site.operand(self.value)

    @property
    def is_name(self) -> bool:
        """Whether it can be written twice."""
        return isinstance(self.value, cst.Name)

    def converted(self, argument: str, result: str) -> str | None:
        """The text with another argument, and the call within `result`."""
        start, end = self.site.range_of(self.call)
        first, last = self.site.outer_range(self.value)
        before, after = result.split("{}")
        if (before or after) and not self.is_name:
            return None
        return self.site.rewritten((start, start, before), (first, last, argument), (end, end, after))

    def marked(self, statements: Sequence[str]) -> str | None:
        """The text with statements before that of the call."""
        line = self.site.line_of(self.call)
        indent = self.site.indentation(line) if line is not None else None
        if line is None or indent is None or not self.is_name:
            return None
        start = self.site.range_of(line)[0]
        text = "".join(f"{statement}{self.site.newline}{indent}" for statement in statements)
        return self.site.rewritten((start, start, text))


def call_argument(
    finding: Finding,
    report: Report,
    recompilation: Recompile,
    parameter: str,
    read: Callable[[str], str | None],
) -> CallArgument | None:
    """The argument for a parameter in the call that compiled the function again; None where it is not certain."""
    frame = recompilation.caller[-1] if recompilation.caller else None
    text = read(frame.path) if frame is not None else None
    if frame is None or text is None:
        return None
    span = Span(frame.path, frame.line, frame.column, frame.end_line, frame.end_column)
    if frame.column is None or frame.end_column is None:
        span = Span(frame.path, frame.line)
    site = Site.of(dataclasses.replace(finding, span=span), report, text)
    parameters = _parameters(report, recompilation)
    if site is None or parameter not in parameters:
        return None
    calls = [
        (call, value)
        for call in _calls(site, frame.line)
        if (value := _argument(call, parameter, _position(call, parameter, parameters))) is not None
    ]
    if len(calls) != 1:
        return None
    return CallArgument(site, *calls[0])


def _parameters(report: Report, recompilation: Recompile) -> tuple[str, ...]:
    """Those of the compiled function, without the object of a method."""
    frames = (
        frame
        for frame in report.frames
        if (frame.function, frame.location) == (recompilation.function, recompilation.location)
    )
    parameters: tuple[str, ...] = next((frame.parameters for frame in frames), ())
    return (
        parameters[1:]
        if "." in recompilation.function and parameters[:1] in {("self",), ("cls",)}
        else parameters
    )


def _calls(site: Site, line: int) -> list[cst.Call]:
    """The calls that start on a line, without those of torch's functions and methods of tensors."""
    start, end = site.span
    exact = [
        node
        for node in site.parents
        if isinstance(node, cst.Call) and site.range_of(node) == (start, end) and site.is_plain(node)
    ]
    if exact:
        return exact
    return [
        node
        for node in site.parents
        if isinstance(node, cst.Call)
        and site.line_number(node) == line
        and site.is_plain(node)
        and dotted(node.func)
        and dotted(node.func).partition(".")[0] not in {site.torch, "nn", "F", "super", "print"}
    ]


def _position(call: cst.Call, parameter: str, parameters: tuple[str, ...]) -> int:
    """Where a call has the argument of a parameter; -1 if that is not certain.

    `apply` of an autograd function takes no `ctx`, which `forward` has unless there is a `setup_context`.
    """
    index = parameters.index(parameter)
    if not dotted(call.func).endswith(".apply"):
        return index
    without = len(parameters) - len(call.args)
    return index - without if without in {0, 1} else -1


def _argument(call: cst.Call, parameter: str, index: int) -> cst.BaseExpression | None:
    if any(argument.star for argument in call.args):
        return None
    named = [
        argument
        for argument in call.args
        if argument.keyword is not None and argument.keyword.value == parameter
    ]
    if named:
        return named[0].value
    by_position = [argument for argument in call.args if argument.keyword is None]
    return by_position[index].value if 0 <= index < len(by_position) else None
