"""What a remedy may change: eager calls stay as they are where only compiled calls may differ."""

from __future__ import annotations

import pytest

from fuselight.shared.report import (
    Aspect,
    CallComparison,
    Difference,
    Report,
    TargetRef,
    Tier,
    Verification,
    Versions,
)
from fuselight.shared.report.verification import OTHER_ORDER
from fuselight_server.base.finding import Finding, Severity, Span
from fuselight_server.fixes.rewrites.families import FixClass, Remedy
from fuselight_server.fixes.verification.progress import CompileProgress
from fuselight_server.fixes.verification.verdict import Verdict, calls_verdict, remedy_verdict

VERSIONS = Versions("3.11", "2.13.0", None, "0", "linux", "python")
OTHER = Difference(Aspect.OUTPUT, "output: was 1, is 2")
DRAWN = Difference(Aspect.RANDOM, "the state of NumPy differs after the call")
REORDERED = Difference(Aspect.PRINTED, OTHER_ORDER)
COPY = Difference(Aspect.MEMORY, "output shared memory with input 0, and now with no input")


def verdict(
    changes: str,
    *,
    eager: tuple[Difference, ...],
    compiled: tuple[Difference, ...],
    unchanged: FixClass = FixClass.EQUAL,
) -> Verdict:
    comparisons = (
        CallComparison(0, "recorded inputs", compiled=False, differences=eager),
        CallComparison(0, "recorded inputs", compiled=True, differences=compiled),
    )
    report = Report(
        *(VERSIONS, TargetRef("m.py", "f", 1, "function"), Tier.CAPTURE, 1),
        verification=Verification(comparisons),
    )
    fix_class = FixClass.CHANGES if changes else unchanged
    return calls_verdict(Remedy("cond", "Use it", fix_class, {"m.py": ""}, changes), report)


@pytest.mark.parametrize(
    ("changes", "eager", "compiled", "passed"),
    [
        ("", (), (), True),
        ("", (), (OTHER,), False),
        ("random numbers", (OTHER,), (OTHER,), True),
        ("random numbers in compiled calls", (), (OTHER,), True),
        ("random numbers in compiled calls", (OTHER,), (), False),
        ("the order of what is printed", (), (REORDERED,), True),
        ("the order of what is printed", (REORDERED,), (), False),
        (
            "the order of what is printed, and when a warning comes",
            (),
            (Difference(Aspect.PRINTED, "no longer prints `  warnings.warn(1)`"),),
            True,
        ),
        ("the order of what is printed", (), (Difference(Aspect.PRINTED, "printed `1`, prints `2`"),), False),
    ],
)
def test_a_difference_that_the_remedy_does_not_say_refuses_it(
    changes: str, eager: tuple[Difference, ...], compiled: tuple[Difference, ...], *, passed: bool
) -> None:
    assert verdict(changes, eager=eager, compiled=compiled).passed is passed


def test_only_an_exact_fix_must_keep_what_an_output_shares_memory_with() -> None:
    assert verdict("", eager=(COPY,), compiled=()).passed
    assert not verdict("", eager=(COPY,), compiled=(), unchanged=FixClass.EXACT).passed


def test_a_refusal_names_random_numbers_where_a_generator_has_another_state() -> None:
    """Fewer graph breaks may draw a number of NumPy in a graph: with the other fixes, the calls agree again."""
    actual_verdict = verdict("", eager=(), compiled=(OTHER, DRAWN))
    reason = "it draws other random numbers, as the state of NumPy differs after the call"
    assert actual_verdict.words == f"output: was 1, is 2 (compiled, recorded inputs): {reason}"
    assert "random" not in verdict("", eager=(), compiled=(OTHER,)).words
    assert verdict("", eager=(), compiled=(DRAWN,)).words == f"{DRAWN.text} (compiled, recorded inputs)"


def finding_at(line: int, column: int, title: str = "one") -> Finding:
    span = Span("m.py", line, column, line, column + 1)
    return Finding("GB0124", Severity.WARNING, title, "message", span, Tier.CAPTURE, "f", "", "2.13.0")


@pytest.mark.parametrize(
    ("after", "passed"),
    [
        ([finding_at(1, 4)], True),
        ([finding_at(1, 4), finding_at(1, 20)], False),
        ([finding_at(1, 4), finding_at(1, 20, "two")], False),
        ([finding_at(1, 4, "two")], True),
        ([finding_at(2, 4)], False),
        ([], True),
    ],
)
def test_one_of_two_findings_of_a_line_is_gone_if_fewer_are_left(
    after: list[Finding], *, passed: bool
) -> None:
    report = Report(
        *(VERSIONS, TargetRef("m.py", "f", 1, "function"), Tier.CAPTURE, 1),
        verification=Verification(
            tuple(
                CallComparison(0, "recorded inputs", compiled=flag, differences=()) for flag in (False, True)
            )
        ),
    )
    remedy = Remedy("where", "Use it", FixClass.EQUAL, {"m.py": ""})
    before = [
        finding_at(1, 4),
        finding_at(1, 30, "two" if any(finding.title == "two" for finding in after) else "one"),
    ]
    assert (
        remedy_verdict(
            remedy, before[0], before=before, after=after, progress=CompileProgress(report, report, {})
        ).passed
        is passed
    )
