"""Fixed sizes that go with a graph break: no warning of their own."""

from __future__ import annotations

import dataclasses

import pytest

from fuselight.shared.report import Compile, Location, Outcome, Recompile, Symbol
from fuselight_server.base.finding import Finding, Severity
from fuselight_server.explain.findings import findings
from tests.support.recompilations import PART, WHOLE
from tests.support.reports import at, broken, report

USE = at(27, function="forward")


def finding_of(
    *fixed: tuple[str, str], recompiles: tuple[Recompile, ...] = (), outcome: Outcome = Outcome.COMPILED,
    marked: bool = False, part: bool = True, stack: tuple[Location, ...] = (at(25, (8, 20)),),
) -> Finding:  # fmt: skip
    """The finding of a size that was fixed in versions of the part after a break on line 25, or of the function."""
    frame = dataclasses.replace(PART, carried=1) if part else WHOLE
    compiles = tuple(
        Compile(
            f"0/{number}",
            0,
            outcome,
            symbols=(
                Symbol("s0", source, specialized_to=value, stack=(USE,), marked=marked, reason="range"),
            ),
        )
        for number, (source, value) in enumerate(fixed)
    )
    skips = outcome is Outcome.SKIPPED
    breaks = (broken(*stack, gb="GB0124", frame_skipped=skips),)
    given = report(frames=(frame,), compiles=compiles, breaks=breaks, recompiles=recompiles)
    (finding,) = (item for item in findings(given) if item.code == "FL301")
    return finding


def test_a_carried_size_that_never_varied_goes_with_the_break() -> None:
    finding = finding_of(("___stack0.size(0)", "64"), ("___stack0.size(0)", "64"))
    assert (finding.severity, finding.cost) == (Severity.INFORMATION, ())
    assert finding.hints == (
        "Expect it: each call had this size, which goes with the graph break on line 25",
    )
    assert finding.follows is not None
    assert finding.follows.span.line == 25


@pytest.mark.parametrize(
    "fixed",
    [
        (("___stack0.size(0)", "64"), ("___stack0.size(0)", "32")),
        (("x.size(0)", "64"),),
    ],
)
def test_a_size_that_varied_or_that_a_caller_gives_stays_a_warning(
    fixed: tuple[tuple[str, str], ...],
) -> None:
    finding = finding_of(*fixed)
    assert (finding.severity, finding.follows) == (Severity.WARNING, None)


@pytest.mark.parametrize("line", [27, 31])
def test_a_size_of_a_function_that_torch_gave_up_follows_from_that_break(line: int) -> None:
    """No compiled code has the size: another one needs no compile."""
    finding = finding_of(
        ("x.size(0)", "3"), outcome=Outcome.SKIPPED, marked=True, part=False, stack=(at(line),)
    )
    assert finding.severity is Severity.INFORMATION
    assert finding.hints == (
        f"Expect it: torch gave the function up at the graph break on line {line}, so that no code has it",
    )
    assert finding.follows is not None
    assert finding.follows.span.line == line
    kept = finding_of(("x.size(0)", "3"), marked=True, part=False, stack=(at(line),))
    assert (kept.severity, kept.follows) == (Severity.WARNING, None)
