"""What to write by hand where no fix is known: a sentence, and an example made from the user's own line.

Invariant: advice only; nothing here is compiled. The example uses the names and the expression of the finding's line,
and there is none where the line does not have the form that the advice is for. `how_to.json` has the advice for breaks.
"""

from __future__ import annotations

import ast
import builtins
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass

from fuselight.shared.codec import read_table
from fuselight.shared.foreign_data import try_parse_expression
from fuselight.shared.version import release
from fuselight_server.base.finding import Finding


@dataclass(frozen=True)
class HowTo:
    """Advice with its example."""

    words: str
    code: str
    """Python."""


@dataclass(frozen=True)
class _Example:
    """Advice for expressions of one form. The groups of the pattern, and the names below, are in the templates."""

    pattern: str
    """`{e}`: the expression, `{s}`: the statement, `{f}`: the function or class that is compiled,
    `{c}`: what its call calls."""
    words: str
    code: str
    codes: tuple[str, ...] = ()
    """The ids of the breaks that it is for, whose line calls a function; empty for those of any break."""


_HOISTED = "# in the code that calls `{f}`, before the call:\n"
_SINCE = "torch 2.13 traces `{call}` of objects that hold no tensors: with this torch ({torch}) it breaks the graph"
_DISABLED = frozenset({"GB0098", "GB0099"})
_BREAKS = read_table(tuple[_Example, ...], __file__)
"""For graph breaks: the first that fits counts."""
_LOST = re.compile(
    r"(?P<call>(?:copy\.)?deepcopy|(?:importlib\.)?(?:util\.)?find_spec|callable)\((?P<rest>.*)\)"
)
"""Calls that torch traces from 2.13 on (measured: not with a tensor inside)."""
_GROWS = re.compile(
    r"(?:(?P<target>[\w.]+)\s*=\s*)?.*?torch\.(?:cat|concat)\(\s*[(\[]\s*(?P<cache>[\w.]+)\s*,\s*(?P<new>[\w.]+)\s*[)\]]"
    r"(?:,\s*(?:dim\s*=\s*)?(?P<dim>-?\d+))?\s*\)"
)
_VALUES = re.compile(r": (?P<name>.+?) was (?P<was>.+), now (?P<now>.+)$")
_NAME = re.compile(r"[^\W\d]\w*")


def how_to(finding: Finding, line: str) -> HowTo | None:
    """The advice for a finding whose first line in the source is `line`; None where there is none."""
    if finding.code in {"FL201", "FL102"}:
        return _for_recompilation(finding, line)
    if finding.code.startswith("GB"):
        return _for_break(finding, line)
    return None


def _not_traced(finding: Finding, expression: str) -> HowTo | None:
    """From torch 2.14 on, a call that the graph contains and TorchDynamo does not trace."""
    match = re.fullmatch(r"([A-Za-z_]\w*)\(.*\)", expression)
    if match is None or release(finding.torch) < (2, 14):
        return None
    words = (
        "If the function has no side effects, needs no values of tensors, and makes no text of a size or an int that "
        "varies, keep it in the graph untraced"
    )
    return HowTo(
        words,
        f"@torch.compiler.nonstrict_trace  # instead of torch.compiler.disable\ndef {match[1]}(...): ...",
    )


def _for_break(finding: Finding, line: str) -> HowTo | None:
    statement, expression = line.strip(), _expression(finding, line)
    lost = _LOST.fullmatch(expression)
    if lost is not None and () < release(finding.torch) < (2, 13):
        words = _SINCE.format(call=lost["call"], torch=finding.torch)
        return HowTo(
            f"{words}. Update torch, or move the call out", f"{_hoisted(finding)}value = {expression}"
        )
    ids = {finding.code, *finding.gb_ids[:1]}
    if ids & _DISABLED and (advice := _not_traced(finding, expression)) is not None:
        return advice
    for graph_break in _BREAKS:
        if graph_break.codes and ids.isdisjoint(graph_break.codes):
            continue
        match = re.fullmatch(graph_break.pattern, expression) or re.fullmatch(graph_break.pattern, statement)
        if match is None:
            continue
        groups = {key: value or "" for key, value in match.groupdict().items()}
        if graph_break.codes and _is_pythons(groups["name"]):
            return None  # takes no tensor, or returns none
        last = groups.get("name", "").rpartition(".")[2]
        named = {"f": _name(finding), "c": _callee(finding)}
        code = graph_break.code.format(e=expression, s=statement, last=last, **named, **groups)
        return HowTo(graph_break.words, code)
    return None


def _is_pythons(name: str) -> bool:
    return name.partition(".")[0] in sys.stdlib_module_names or hasattr(builtins, name)


def _hoisted(finding: Finding) -> str:
    return _HOISTED.format(f=_name(finding))


def _expression(finding: Finding, line: str) -> str:
    """The part of the line that the finding marks; the whole line where it marks no part of it."""
    span = finding.span
    if span.column is None or span.end_column is None or span.last_line != span.line:
        return line.strip()
    data = line.encode("utf-8", "surrogatepass")[span.column : span.end_column]
    return data.decode("utf-8", "replace").strip()


# Recompilations


def _for_recompilation(finding: Finding, line: str) -> HowTo | None:
    if ("frame", "inner") in finding.data or finding.target == "__main__":
        return None  # an example would call the target with a variable of another function
    cause, _, source = finding.subject.partition(" ")
    change = _VALUES.search(finding.title)
    was, now = (change["was"], change["now"]) if change is not None else ("", "")
    advise = _BY_CAUSE.get(cause)
    return advise(finding, line.strip(), _ValueChange(source, was, now)) if advise is not None else None


@dataclass(frozen=True)
class _ValueChange:
    """What changed between the calls."""

    source: str
    was: str
    now: str

    @property
    def name(self) -> str:
        """The name that the expression starts with."""
        match = _NAME.match(self.source)
        return match[0] if match is not None else "x"


def _call(finding: Finding, argument: str) -> str:
    return f"{_callee(finding)}({argument})"


def _name(finding: Finding) -> str:
    """The target as code names it: `step` for `main.<locals>.step`."""
    return finding.target.rpartition(".<locals>.")[2]


def _callee(finding: Finding) -> str:
    """What the recorded call calls: `Net()` for a class, which is constructed first; else the target's name."""
    text = finding.inputs.partition(": ")[2]
    call = try_parse_expression(text)
    if call is None:
        return _name(finding)
    callee = ast.unparse(call.func) if isinstance(call, ast.Call) else ""
    is_targets = _NAME.match(callee) is not None and _names_target(callee, finding.target)
    return callee if is_targets and len(callee) <= _LONGEST_CALLEE else _name(finding)


def _names_target(callee: str, target: str) -> bool:
    """Whether `Net(8)` or `Net().step` is about `Net` or `Net.step`."""
    return re.sub(r"\(.*\)", "", callee) == target


_LONGEST_CALLEE = 60


def _dimension(finding: Finding, statement: str, change: _ValueChange) -> HowTo | None:
    grown = _GROWS.fullmatch(statement.removeprefix("return ").split("#")[0].strip())
    dimension = re.search(r"\.size\((\d+)\)", change.source)
    if grown is not None and grown["cache"].startswith(change.name):
        cache, dim = grown["cache"], grown["dim"] or "0"
        code = (
            f"{cache} = torch.zeros(...)  # once, with the longest length at dimension {dim}\n"
            f"{cache}.index_copy_({dim}, position, {grown['new']})  # instead of: {statement}"
        )
        return HowTo("Keep the cache at its longest length and write into it: its size then stays", code)
    is_cured = ("cured", "mark") in finding.data
    if dimension is None or not change.source.startswith(f"{change.name}.size(") or not is_cured:
        return None
    mark = f"torch._dynamo.mark_dynamic({change.name}, {dimension[1]})"
    return HowTo("Mark the size before the first call", f"{mark}\n{_call(finding, f'{change.name}, ...')}")


def _number(finding: Finding, statement: str, change: _ValueChange) -> HowTo | None:
    del statement
    if ("accepts", "tensor") not in finding.data or not change.was:
        return None
    attribute = re.fullmatch(r"self\.(\w+)", change.source)
    if attribute is not None:
        code = f"self.{attribute[1]} = torch.tensor({change.was})  # where it is assigned"
        return HowTo("Keep the number as a tensor: another value then needs no compile", code)
    if not change.source.isidentifier():
        return None
    dtype = ", dtype=torch.float64" if "." in change.was + change.now else ""
    code = _call(finding, f"..., torch.tensor({change.source}{dtype})")
    return HowTo("Pass the number as a tensor: another value then needs no compile", code)


def _passed(words: str, argument: str) -> Callable[[Finding, str, _ValueChange], HowTo | None]:
    """An example that passes another argument; `{x}` is the name, `{was}` and `{now}` are the values."""

    def advise(finding: Finding, statement: str, change: _ValueChange) -> HowTo | None:
        del statement
        if not change.source.isidentifier() or any("Freeze" in hint for hint in finding.hints):
            return None
        values = {"x": change.source, "was": change.was, "now": change.now}
        return HowTo(words, _call(finding, argument.format(**values)))

    return advise


def _if_cured(
    kind: str, advise: Callable[[Finding, str, _ValueChange], HowTo | None]
) -> Callable[[Finding, str, _ValueChange], HowTo | None]:
    """An example of a change that was tried and cures."""
    return lambda finding, statement, change: (
        advise(finding, statement, change) if ("cured", kind) in finding.data else None
    )


_BY_CAUSE: dict[str, Callable[[Finding, str, _ValueChange], HowTo | None]] = {
    "dimension": _dimension,
    "number": _number,
    "dtype": _if_cured("dtype", _passed("Convert to one dtype before the call", "{x}.to(torch.{was})")),
    "stride": _if_cured("contiguous", _passed("Pass one memory layout", "{x}.contiguous()")),
    "device": _passed("Move the tensor before the call", '{x}.to("{was}")'),
    "requires_grad": _passed("If the call needs no gradient of it, detach it", "{x}.detach()"),
    "length": _if_cured("stack", _passed("Stack the tensors into one tensor", "torch.stack({x})")),
}
