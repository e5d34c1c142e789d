"""Settings that remove a break or a recompilation: a statement after the imports, or an argument of torch.compile.

Invariant: a setting is offered only if the torch of the run has it and the run did not have it set. The statement goes
into the target's file, which every run of the target imports.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst
from libcst.metadata import MetadataWrapper, PositionProvider

from fuselight_server.fixes.output import output_call
from fuselight_server.fixes.purity import dotted
from fuselight_server.fixes.remedy import FixClass, Remedy
from fuselight_server.fixes.site import Site, chunks_of_text, insert_statements
from fuselight_server.static.document import lines_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fuselight.report import Report
    from fuselight_server.finding import Finding

_SCALARS = "capture_scalar_outputs"
_SHAPES = "capture_dynamic_output_shape_ops"
_BY_ID = {
    "GB0033": (_SCALARS,),
    "GB0036": (_SHAPES,),
    "GB0037": (_SHAPES,),
    "GB0038": (_SCALARS,),
    "GB0109": (_SCALARS,),
    "GB0123": ("trace_autograd_ops",),
    "GB0124": (_SCALARS,),
    "GB0246": (_SHAPES,),
    "GB9186": ("trace_autograd_ops",),
}
"""The settings that make torch.compile trace what broke, by the id of the break."""
_SINCE = (2, 11)
"""From this version on, torch has all the settings."""
_VERSION = re.compile(r"(\d+)\.(\d+)")
_INTEGER = re.compile(r"-?\d+")


@dataclass(frozen=True)
class ArgumentPlace:
    """A call of torch.compile, or the plain decorator, with the place for a further argument."""

    start: int
    """Offset in the bytes of the file."""
    text: str
    """What is inserted there."""


def break_settings(finding: Finding, report: Report, read: Callable[[str], str | None]) -> Iterator[Remedy]:
    """Settings of torch._dynamo that trace the operation of a break."""
    ids = (finding.code, *finding.gb_ids[:1])
    for name in dict.fromkeys(name for one in ids for name in _BY_ID.get(one, ())):
        yield from _switch(report, read, name)


def output_settings(site: Site) -> Iterator[Remedy]:
    """print, logger calls and warnings.warn: dropped by the compiled code, or moved after the graph."""
    call, path = output_call(site), site.finding.span.path
    if call is None or not _has_settings(site.report):
        return
    name = dotted(call.func)
    owner = name.partition(".")[0]
    is_logger = name not in {"print", "warnings.warn"}
    setting = "ignore_logging_functions" if is_logger else "reorderable_logging_functions"
    changes = "compiled calls do not log here" if is_logger else "the order of what is printed"
    bound = "" if name == "print" or _is_imported(site, owner) else owner
    if name.startswith("self."):
        return
    statement = f"{site.torch}._dynamo.config.{setting}.add({name})"
    text = _with_statement(path, site.text, statement, after=bound)
    if text is not None and f"{setting}.add({name})" not in site.text:
        title = f"Ignore `{name}` in compiled code" if is_logger else f"Print after the graph: `{name}`"
        yield Remedy(setting, title, FixClass.CHANGES, {path: text}, changes)


def recompilation_remedies(
    finding: Finding, report: Report, read: Callable[[str], str | None]
) -> Iterator[Remedy]:
    """`dynamic=True` for sizes and integers, `allow_unspec_int_on_nn_module` for integers of a module."""
    cause, _, source = finding.subject.partition(" ")
    if cause in {"dimension", "number", "value"} and source.startswith("self."):
        if _is_integer(finding):
            yield from _switch(report, read, "allow_unspec_int_on_nn_module")
    elif cause == "dimension" or (cause in {"number", "value"} and _is_integer(finding)):
        path = report.target.path
        text = read(path)
        new = _with_dynamic(path, text, report.target.line) if text is not None else None
        if new is not None:
            yield Remedy("dynamic", "Compile with dynamic=True", FixClass.EXACT, {path: new})


def _is_integer(finding: Finding) -> bool:
    """Whether an integer changed, as the title says: `recompiled: n was 2, now 3`."""
    values = re.search(r" was (\S+), now (\S+)$", finding.title)
    return values is not None and all(_INTEGER.fullmatch(one) for one in values.groups())


def _has_settings(report: Report) -> bool:
    version = _VERSION.match(report.versions.torch or "")
    return version is not None and (int(version[1]), int(version[2])) >= _SINCE


def _switch(report: Report, read: Callable[[str], str | None], name: str) -> Iterator[Remedy]:
    path = report.target.path
    text = read(path)
    if (
        text is None
        or not _has_settings(report)
        or name in report.environment.config
        or f"config.{name}" in text
    ):
        return
    new = _with_statement(path, text, f"{_torch_name(path, text)}._dynamo.config.{name} = True")
    if new is not None:
        yield Remedy(name, f"Set {name}", FixClass.EXACT, {path: new})


def _with_statement(path: str, text: str, statement: str, *, after: str = "") -> str | None:
    """The text with a setting, and with the import that it needs."""
    if _imports(path, text, "torch") is None:
        imported = insert_statements(path, text, ("import torch",))
        if imported is None:
            return None
        text = imported
    return insert_statements(path, text, (statement,), after=after)


def _torch_name(path: str, text: str) -> str:
    return _imports(path, text, "torch") or "torch"


def _imports(path: str, text: str, module: str) -> str | None:
    """The name that a module has at top level of a file."""
    chunks = chunks_of_text(path, text)
    found = (one for chunk in chunks for one in chunk.facts.imports if one.full == module and one.scope == ())
    return next((one.name for one in found), None)


def _is_imported(site: Site, name: str) -> bool:
    return any(one.name == name for chunk in site.chunks for one in chunk.facts.imports if one.scope == ())


def _with_dynamic(path: str, text: str, line: int) -> str | None:
    """The text with `dynamic=True` on the call of torch.compile, if the file has one call that it can be."""
    lines, chunks = lines_of(text), chunks_of_text(path, text)
    name = _imports(path, text, "torch")
    calls: list[ArgumentPlace | None] = []
    for chunk in chunks:
        if b"compile" not in chunk.data or name is None:
            continue
        last = chunk.line + chunk.data.count(b"\n")
        is_decorated = chunk.data.lstrip().startswith(b"@")
        if is_decorated and not chunk.line <= line <= last:
            continue  # the decorator of another function
        first = sum(map(len, lines[: chunk.line - 1])) + chunk.column
        calls += _compile_calls(chunk.data, name, first)
    if len(calls) != 1 or calls[0] is None:
        return None
    data, call = b"".join(lines), calls[0]
    new = data[: call.start] + call.text.encode() + data[call.start :]
    try:
        cst.parse_module(new.decode())  # as text: its bytes are UTF-8 whatever it declares
        return new.decode() if data.decode() == text else None
    except (cst.ParserSyntaxError, RecursionError, UnicodeError):
        return None


def _compile_calls(data: bytes, torch: str, first: int) -> list[ArgumentPlace | None]:
    """The calls of torch.compile in a chunk at byte `first`; None for one that takes no further argument."""
    try:
        wrapper = MetadataWrapper(cst.parse_module(data.decode()), unsafe_skip_copy=True)
    except (cst.ParserSyntaxError, RecursionError, UnicodeError):
        return []
    ranges = wrapper.resolve(PositionProvider)
    rows = data.decode().split("\n")
    found: list[ArgumentPlace | None] = []
    waiting: list[cst.CSTNode] = [wrapper.module]
    while waiting:
        node = waiting.pop()
        waiting += node.children
        is_call = isinstance(node, cst.Call) and dotted(node.func) == f"{torch}.compile"
        is_decorator = isinstance(node, cst.Decorator) and dotted(node.decorator) == f"{torch}.compile"
        if not is_call and not is_decorator:
            continue
        end = ranges[node.decorator if isinstance(node, cst.Decorator) else node].end
        at = first + sum(len(row.encode()) + 1 for row in rows[: end.line - 1])
        at += len(rows[end.line - 1][: end.column].encode())
        found.append(_argument(node, at))
    return found


def _argument(node: cst.CSTNode, end: int) -> ArgumentPlace | None:
    if not isinstance(node, cst.Call):
        return ArgumentPlace(end, "(dynamic=True)")
    if any(one.star or (one.keyword is not None and one.keyword.value == "dynamic") for one in node.args):
        return None
    if not node.args:
        return ArgumentPlace(end - 1, "dynamic=True")
    blanks = node.args[-1].whitespace_after_arg
    is_spaced = not isinstance(blanks, cst.SimpleWhitespace) or blanks.value
    if isinstance(node.args[-1].comma, cst.Comma) or is_spaced:
        return None  # laid out over lines
    return ArgumentPlace(end - 1, ", dynamic=True")
