"""Hand-made recompilations, for tests of their findings: `Net.forward`, recompiled for its argument `x`."""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING, Any

from fuselight.shared.report import (
    CureTrial,
    Frame,
    GuardCause,
    GuardFailure,
    Mismatch,
    Recompile,
    SizeChange,
    Symbol,
)
from fuselight_server.explain.findings import findings
from tests.support.reports import at, report

if TYPE_CHECKING:
    from fuselight_server.base.finding import Finding

DEF = at(20, function="forward")
READ = at(22, (8, 14), function="forward")


_SIZE = re.compile(r"([^\s()]+)\.size\((\d+)\) was (\d+), now (\d+)")


def failed(difference: str, kind: str = "TENSOR_MATCH", source: str = "x", **changes: Any) -> GuardFailure:
    """A failed guard with the text `difference`, created where `x` is read."""
    parts = difference.split("; ")
    was, _, now = parts[0].partition(" was ")[2].partition(", now ")
    sizes = [
        SizeChange(size[1], int(size[2]), int(size[3]), int(size[4]))
        for size in map(_SIZE.match, parts)
        if size
    ]
    number = GuardCause.NUMBER if now.replace(".", "").isdecimal() else GuardCause.OTHER
    base = GuardFailure(
        kind=kind,
        source=source,
        code="",
        difference=difference,
        was=was or None,
        now=now or None,
        born=(READ,),
        cause=GuardCause.DIMENSION if sizes else number,
        sizes=tuple(sizes),
        count=len(parts),
    )
    return dataclasses.replace(base, **changes)


def again(*failures: GuardFailure, compile_id: str | None = "0/1", **changes: Any) -> Recompile:
    """A recompilation of `Net.forward` because of `failures`, None as `compile_id` where a limit stopped it."""
    base = Recompile(
        function="Net.forward",
        location=DEF,
        entries=(Mismatch("0/0", failures),),
        compile_id=compile_id,
        call=0,
    )
    return dataclasses.replace(base, **changes)


SIZE = failed("x.size(0) was 4, now 7")
WHOLE = Frame("Net.forward", DEF)
PART = Frame("Net.forward", DEF, resumes_at=25, carried=1)
"""The part after the graph break on line 25."""
BREAK = at(25, (8, 20), function="forward")

SYMBOLS = tuple(Symbol(f"s{number}", f"{name}.size(0)") for number, name in enumerate(("x", "y", "w")))
"""torch makes a size dynamic after it varied."""


def untried(finding: Finding) -> tuple[str, ...]:
    """The changes that can be tried and were not: no advice yet."""
    return tuple(remedy.text for remedy in finding.remedies if remedy.is_pending)


def number(source: str = "self.limit", **changes: Any) -> GuardFailure:
    expression = (
        f"L['self'].{source.removeprefix('self.')}" if source.startswith("self.") else f"L[{source!r}]"
    )
    failure = failed(f"{source} was 2, now 3", kind="EQUALS_MATCH", source=source)
    return dataclasses.replace(failure, expression=expression, **changes)


def finding_of(*failures: GuardFailure, trials: tuple[CureTrial, ...] = ()) -> Finding:
    (finding,) = findings(report(recompiles=(again(*failures),), trials=trials))
    return finding
