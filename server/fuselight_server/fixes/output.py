"""Output in compiled code: print, loggers and warnings only where nothing is compiled.

Invariant: the call itself is not changed, only indented under the test.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from fuselight_server.fixes.purity import dotted
from fuselight_server.fixes.remedy import FixClass, Remedy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fuselight_server.fixes.site import Site

LEVELS = {"debug", "info", "warning", "warn", "error", "exception", "critical", "log"}
_LOGGERS = ("log", "logger", "logging", "_logger", "_log", "LOG", "LOGGER", "_LOGGER")


def output_call(site: Site) -> cst.Call | None:
    """The call of print, a logger or warnings.warn in the place of the finding."""
    return next((call for call in site.nodes(cst.Call) if is_output(call)), None)


def is_output(call: cst.Call) -> bool:
    """Whether a call prints, logs or warns, by its name."""
    name = dotted(call.func)
    owner, _, method = name.rpartition(".")
    is_logged = method in LEVELS and owner.rpartition(".")[2] in _LOGGERS
    return name in {"print", "warnings.warn"} or is_logged


def output_remedies(site: Site) -> Iterator[Remedy]:
    """The call under `if not torch.compiler.is_compiling()`."""
    call = output_call(site)
    line = site.line_of(call) if call is not None else None
    if (
        call is None
        or line is None
        or not isinstance(line.body[0], cst.Expr)
        or line.body[0].value is not call
    ):
        return
    indent = site.indentation(line)
    if indent is None:
        return
    start, end = site.range_of(line)
    step = site.step(line)
    code = site.source[start:end]
    if not _has_long_text(site, call):
        code = code.replace("\n", f"\n{step}")
    head = f"if not {site.torch}.compiler.is_compiling():"
    text = site.rewritten((start, end, f"{head}{site.newline}{indent}{step}{code}"))
    if text is not None:
        yield Remedy(
            "is_compiling",
            f"Skip `{dotted(call.func)}` in compiled code",
            FixClass.CHANGES,
            {site.finding.span.path: text},
            "compiled calls do not print, log or warn here",
        )


def _has_long_text(site: Site, call: cst.Call) -> bool:
    """Whether a string of the call extends over lines, so that its lines cannot be indented."""
    waiting: list[cst.CSTNode] = [call]
    while waiting:
        node = waiting.pop()
        if isinstance(node, (cst.SimpleString, cst.FormattedString)) and "\n" in site.code(node):
            return True
        waiting += node.children
    return False
