"""The remedies that are offered for a finding on a text, and the texts after them."""

from __future__ import annotations

import textwrap

from fuselight.report import Break, Report, TargetRef, Tier, Versions
from fuselight_server.finding import Finding, Severity, Span
from fuselight_server.fixes import Remedy, remedies

VERSIONS = Versions("3.11", "2.13.0", None, "0", "linux", "python")

CONFIGURATION = {
    "capture_scalar_outputs",
    "capture_dynamic_output_shape_ops",
    "reorderable_logging_functions",
    "ignore_logging_functions",
}
"""Kinds that are settings of torch._dynamo: they do not rewrite the statement."""

HEAD = "import torch\n\n\ndef f(self, x, y, m):\n"


def offered(
    text: str, mark: str, code: str = "GB0170", *, subject: str = "", breaks: tuple[Break, ...] = ()
) -> tuple[Remedy, ...]:
    """The remedies for a finding at the first occurrence of `mark` in `text`. `breaks`: those of its run."""
    at = text.encode().index(mark.encode())
    before = text.encode()[:at]
    line, column = before.count(b"\n") + 1, at - (before.rfind(b"\n") + 1)
    end = before + mark.encode()
    end_line, end_column = end.count(b"\n") + 1, len(end) - (end.rfind(b"\n") + 1)
    span = Span("m.py", line, column, end_line, end_column)
    finding = Finding(
        *(code, Severity.WARNING, "title", "message", span, Tier.CAPTURE, "f", "", "2.13.0"), subject=subject
    )
    report = Report(VERSIONS, TargetRef("m.py", "f", 1, "function"), Tier.CAPTURE, 1, breaks=breaks)
    return remedies(finding, report, {"m.py": text}.get)


def rewrites(body: str, mark: str, code: str = "GB0170") -> list[tuple[str, str]]:
    """Kind of each remedy that rewrites a function's body, and the new body; `mark` is written as in `body`."""
    text = HEAD + textwrap.indent(body, "    ")
    found = offered(text, textwrap.indent(mark, "    ").lstrip(), code)
    texts = [(one.kind, one.texts["m.py"]) for one in found if one.kind not in CONFIGURATION]
    assert all(text.startswith(HEAD) for _, text in texts)
    return [(kind, textwrap.dedent(text[len(HEAD) :])) for kind, text in texts]


def first(body: str, mark: str, code: str = "GB0170") -> tuple[str, str]:
    """Kind of the first remedy that rewrites a function's body, and the new body."""
    found = rewrites(body, mark, code)
    assert found, "no remedy"
    return found[0]
