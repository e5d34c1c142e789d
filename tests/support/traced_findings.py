"""Findings of a run compared with those of the trace that torch wrote in the same process.

Invariant: what a trace cannot show is a list here, with the reason.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from fuselight_server.explain.findings import expand

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fuselight_server.base.finding import Finding

Place = tuple[str, int, str]
"""Name of the file, line and code."""
RECORDING = """\
import torch._logging._internal as logs

handler = logs.LazyTraceHandler({folder!r})
handler.setFormatter(logs.TorchLogsFormatter(trace=True))
logs.trace_log.addHandler(handler)
"""
"""Code after which torch records a process in a folder. A worker removes TORCH_TRACE, with which every run would write
to one file."""
NOT_IN_A_TRACE = {
    "FL103": "torch does not try to compile a generator",
    "FL104": "torch does not try to compile what is disabled",
    "FL106": "torch logs nothing of a function without tensor operators",
    "FL401": "an exception of the user's code outside of a compile",
    "FL501": "the inputs of a directive",
}
"""Codes of findings that a run alone has."""
ELSEWHERE = frozenset({"FL201"})
"""Codes whose line may differ: a trace has the origin of few guards, and then the line of the function's `def`."""
_COMPARED = ("FL1", "FL2", "FL3", "FL4", "GB")


def places(findings: Iterable[Finding]) -> set[Place]:
    """The places of findings that a run and a trace may both have."""
    return {
        (Path(each.span.path).name, each.span.line, each.code)
        for finding in findings
        for each in expand(finding)
        if each.code in NOT_IN_A_TRACE or each.code.startswith(_COMPARED)
    }
