"""Findings of a run compared with those of the trace that torch wrote in the same process.

Invariant: what a trace cannot show is a list here, with the reason.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from fuselight_server.explain.findings import expand

if TYPE_CHECKING:
    from collections.abc import Container, Iterable

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
WRAPPED = frozenset({"FL101"})
"""Codes whose function may differ: a run knows what a wrapper of an installed package wraps, a trace has its name."""
_COMPARED = ("FL1", "FL2", "FL3", "FL4", "GB")


def places(findings: Iterable[Finding]) -> set[Place]:
    """The places of findings that a run and a trace may both have."""
    return {
        (Path(each.span.path).name, each.span.line, each.code)
        for finding in findings
        for each in expand(finding)
        if each.code in NOT_IN_A_TRACE or each.code.startswith(_COMPARED)
    }


@dataclass(frozen=True)
class Agreement:
    """The findings of a run against those of its trace."""

    equal: int
    """On the same line of the same file."""
    elsewhere: tuple[Place, ...]
    """Of the run, where the trace has the code on another line, for a reason that is known."""
    not_in_a_trace: tuple[Place, ...]
    missing: tuple[Place, ...]
    """Of the run, without a known reason."""
    surplus: tuple[Place, ...]
    """Of the trace alone."""

    @property
    def is_complete(self) -> bool:
        """Whether each difference has a known reason."""
        return not self.missing and not self.surplus


def agreement(of_run: set[Place], of_trace: set[Place], own: Container[str]) -> Agreement:
    """Compare places. `own`: names of the project's files.

    A finding in an installed package is on the line of the target in a run, which knows what it was asked to compile.
    In a trace without a line of the program that led to it, it is on the line of the package or on line 1.
    """
    missing, surplus = sorted(of_run - of_trace), sorted(of_trace - of_run)
    known = {
        place for place in surplus if place[0] not in own or place[1] == 1 or place[2] in ELSEWHERE | WRAPPED
    }
    moved = {code for _, _, code in known} | WRAPPED
    codes = {code for _, _, code in of_run}
    left = [place for place in missing if place[2] not in moved]
    return Agreement(
        len(of_run & of_trace),
        tuple(place for place in missing if place[2] in moved),
        tuple(place for place in left if place[2] in NOT_IN_A_TRACE),
        tuple(place for place in left if place[2] not in NOT_IN_A_TRACE),
        tuple(place for place in surplus if place not in known or place[2] not in codes),
    )
