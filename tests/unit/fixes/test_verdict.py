"""What a remedy may change: eager calls stay as they are where only compiled calls may differ."""

from __future__ import annotations

import pytest

from fuselight.report import (
    Aspect,
    CallComparison,
    Difference,
    Report,
    TargetRef,
    Tier,
    Verification,
    Versions,
)
from fuselight_server.fixes import FixClass, Remedy
from fuselight_server.fixes.verdict import judge_calls

VERSIONS = Versions("3.11", "2.13.0", None, "0", "linux", "python")
OTHER = Difference(Aspect.OUTPUT, "output: was 1, is 2")
COPY = Difference(Aspect.MEMORY, "output shared memory with input 0, and now with no input")


def passes(
    changes: str,
    *,
    eager: tuple[Difference, ...],
    compiled: tuple[Difference, ...],
    unchanged: FixClass = FixClass.EQUAL,
) -> bool:
    comparisons = (
        CallComparison(0, "a", compiled=False, differences=eager),
        CallComparison(0, "a", compiled=True, differences=compiled),
    )
    report = Report(
        *(VERSIONS, TargetRef("m.py", "f", 1, "function"), Tier.CAPTURE, 1),
        verification=Verification(comparisons),
    )
    fix_class = FixClass.CHANGES if changes else unchanged
    return judge_calls(Remedy("cond", "Use it", fix_class, {"m.py": ""}, changes), report).passed


@pytest.mark.parametrize(
    ("changes", "eager", "compiled", "passed"),
    [
        ("", (), (), True),
        ("", (), (OTHER,), False),
        ("random numbers", (OTHER,), (OTHER,), True),
        ("random numbers in compiled calls", (), (OTHER,), True),
        ("random numbers in compiled calls", (OTHER,), (), False),
    ],
)
def test_a_difference_that_the_remedy_does_not_say_refuses_it(
    changes: str, eager: tuple[Difference, ...], compiled: tuple[Difference, ...], *, passed: bool
) -> None:
    assert passes(changes, eager=eager, compiled=compiled) is passed


def test_only_an_exact_fix_must_keep_what_an_output_shares_memory_with() -> None:
    assert passes("", eager=(COPY,), compiled=())
    assert not passes("", eager=(COPY,), compiled=(), unchanged=FixClass.EXACT)
