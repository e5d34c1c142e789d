"""The remedies that are offered for a finding on a text, and the texts after them."""

from __future__ import annotations

import ast
import re
import textwrap
from typing import TYPE_CHECKING

from fuselight.shared.report import (
    Break,
    Call,
    Fact,
    FactKind,
    FileFacts,
    Inputs,
    Report,
    Rung,
    TargetRef,
    Tier,
    TracedFacts,
    TracedValue,
    Versions,
)
from fuselight_server.base.finding import Finding, Severity, Span
from fuselight_server.fixes.rewrites import families
from fuselight_server.fixes.rewrites.families import RefusedRewrite, Remedy

if TYPE_CHECKING:
    from collections.abc import Mapping

VERSIONS = Versions("3.11", "2.13.0", None, "0", "linux", "python")

CONFIGURATION = {
    "capture_scalar_outputs",
    "capture_dynamic_output_shape_ops",
    "reorderable_logging_functions",
    "ignore_logging_functions",
}
"""Kinds that are settings of torch._dynamo: they do not rewrite the statement."""

HEAD = "import torch\n\n\ndef f(self, x, y, m):\n"


_INPUTS = {"self": "Net()", "m": "bool[4]"}
"""What the run's call passes for a parameter; for any other, `f32[4]`."""
_TRACED = {
    "x": TracedValue(FactKind.TENSOR, "f32[4]", requires_grad=False),
    "y": TracedValue(FactKind.TENSOR, "f32[4]", requires_grad=False),
    "m": TracedValue(FactKind.TENSOR, "bool[4]", requires_grad=False),
    "is_skipped": TracedValue(FactKind.TENSOR, "bool[]", requires_grad=False),
    "drop": TracedValue(FactKind.CONSTANT, "0.05"),
    "sync": TracedValue(FactKind.CONSTANT, "False"),
    "lazy": TracedValue(FactKind.CONSTANT, "False"),
    "lazy_scale": TracedValue(FactKind.TENSOR, "f32[]", requires_grad=False),
}
"""What Dynamo saw under a name, or under an attribute of that name."""
_ATTRIBUTES = frozenset({"drop", "sync", "lazy", "lazy_scale"})
_COMPUTED = frozenset({"lazy", "lazy_scale", "made"})
"""Attributes that are properties: code of the user's ran."""


def finding_at(
    text: str,
    mark: str,
    code: str = "GB0170",
    *,
    subject: str = "",
    breaks: tuple[Break, ...] = (),
    call: str = "",
    is_traced: bool = True,
    trains: bool = True,
) -> tuple[Finding, Report]:
    """A finding at the first occurrence of `mark` in `text`, and its report. `breaks`: those of its run."""
    at = text.encode().index(mark.encode())
    before = text.encode()[:at]
    line, column = before.count(b"\n") + 1, at - (before.rfind(b"\n") + 1)
    end = before + mark.encode()
    end_line, end_column = end.count(b"\n") + 1, len(end) - (end.rfind(b"\n") + 1)
    span = Span("m.py", line, column, end_line, end_column)
    finding = Finding(
        *(code, Severity.WARNING, "title", "message", span, Tier.CAPTURE, "f", "", "2.13.0"), subject=subject
    )
    call = call or _call_of(text)
    target = TargetRef("m.py", call.partition("(")[0], 1, "function")
    inputs = Inputs(Rung.DIRECTIVE, "m.py", 1, (Call(0, call),), training=trains)
    facts = traced(text) if is_traced else TracedFacts()
    return finding, Report(VERSIONS, target, Tier.CAPTURE, 1, breaks=breaks, inputs=inputs, facts=facts)


def traced(text: str, names: Mapping[str, TracedValue] = _TRACED) -> TracedFacts:
    """The facts of names wherever they stand in a text."""
    values, facts, computed = list(names.values()), [], []
    try:
        nodes = list(ast.walk(ast.parse(text.removeprefix("\ufeff"))))
    except SyntaxError:
        nodes = []
    shift = len("\ufeff".encode()) if text.startswith("\ufeff") else 0
    for node in nodes:
        name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
        if (
            isinstance(node, (ast.Name, ast.Attribute))
            and name in names
            and (name in _ATTRIBUTES) == isinstance(node, ast.Attribute)
        ):
            first = shift if node.lineno == 1 else 0
            end = node.end_lineno or node.lineno, (node.end_col_offset or 0) + first
            index = values.index(names[name])
            facts.append(Fact(node.lineno, node.col_offset + first, *end, ((index, 1),)))
        if isinstance(node, ast.Attribute) and name in _COMPUTED:
            end = node.end_lineno or node.lineno, node.end_col_offset or 0
            computed.append((node.lineno, node.col_offset, *end))
    return TracedFacts(tuple(values), {"m.py": FileFacts(tuple(facts), computed=tuple(computed))})


def _call_of(text: str) -> str:
    """A call of the function `f` of a text, with tensors."""
    written = re.search(r"^def f\(([^)]*)\)", text, re.MULTILINE)
    names = (
        [part.partition(":")[0].partition("=")[0].strip() for part in written[1].split(",")]
        if written
        else []
    )
    return f"f({', '.join(_INPUTS.get(name, 'f32[4]') for name in names)})"


def offered(
    text: str,
    mark: str,
    code: str = "GB0170",
    *,
    subject: str = "",
    breaks: tuple[Break, ...] = (),
    call: str = "",
    is_traced: bool = True,
    trains: bool = True,
) -> tuple[Remedy, ...]:
    """The remedies for a finding at the first occurrence of `mark` in `text`."""
    finding, report = finding_at(
        text, mark, code, subject=subject, breaks=breaks, call=call, is_traced=is_traced, trains=trains
    )
    return families.rewrites(finding, report, {"m.py": text}.get).remedies


def refused(body: str, mark: str, code: str = "GB0170") -> list[RefusedRewrite]:
    """The rewrites that are refused, with their reasons, for a finding in a function's body."""
    text = HEAD + textwrap.indent(body, "    ")
    finding, report = finding_at(text, textwrap.indent(mark, "    ").lstrip(), code)
    return list(families.rewrites(finding, report, {"m.py": text}.get).refused)


def rewrites(body: str, mark: str, code: str = "GB0170") -> list[tuple[str, str]]:
    """Kind of each remedy that rewrites a function's body, and the new body; `mark` is written as in `body`."""
    text = HEAD + textwrap.indent(body, "    ")
    remedies = offered(text, textwrap.indent(mark, "    ").lstrip(), code)
    texts = [(remedy.kind, remedy.texts["m.py"]) for remedy in remedies if remedy.kind not in CONFIGURATION]
    assert all(text.startswith(HEAD) for _, text in texts)
    return [(kind, textwrap.dedent(text[len(HEAD) :])) for kind, text in texts]


def first(body: str, mark: str, code: str = "GB0170") -> tuple[str, str]:
    """Kind of the first remedy that rewrites a function's body, and the new body."""
    pairs = rewrites(body, mark, code)
    assert pairs, "no remedy"
    return pairs[0]
