"""One comparison for fixes and for changes of the user: what the calls show, up to what the change can earn."""

from __future__ import annotations

import dataclasses

import pytest

from fuselight.shared.report import (
    Aspect,
    CallComparison,
    CaseFamily,
    Difference,
    Report,
    TargetRef,
    Tier,
    Verification,
    Versions,
)
from fuselight_server.fixes.rewrites.remedy import FixClass, Remedy
from fuselight_server.fixes.verification.comparison import (
    TextComparison,
    compare_calls,
    compare_further,
    join,
)
from fuselight_server.fixes.verification.verdict import VerdictKind

VERSIONS = Versions("3.11", "2.13.0", None, "0", "linux", "python")
VALUE = Difference(Aspect.OUTPUT, "output: was 1, is 2")
ROUNDED = Difference(Aspect.OUTPUT, "output: was 1, is 1.0000001", rounding=True)
FIX = Remedy("where", "Use it", FixClass.EQUAL, {"m.py": ""})
EXACT_FIX = dataclasses.replace(FIX, fix_class=FixClass.EXACT)
PATCH = dataclasses.replace(FIX, kind="patch", best_class=FixClass.EXACT)
LOOSE_PATCH = dataclasses.replace(PATCH, fix_class=FixClass.CHANGES, changes="random numbers")
LOOSE_FIX = dataclasses.replace(LOOSE_PATCH, best_class=None)


def report(*comparisons: CallComparison, late: tuple[str, ...] = ()) -> Report:
    return Report(
        *(VERSIONS, TargetRef("m.py", "f", 1, "function"), Tier.CAPTURE, 1),
        verification=Verification(comparisons, not_reached=late),
    )


def recorded(*differences: Difference) -> Report:
    return report(
        CallComparison(0, "recorded inputs", compiled=False, differences=differences),
        CallComparison(0, "recorded inputs", compiled=True),
    )


def further(name: str, family: CaseFamily, *differences: Difference) -> Report:
    return report(CallComparison(0, name, compiled=False, differences=differences, family=family))


def compared(remedy: Remedy, first: Report, *more: Report) -> TextComparison:
    comparison = compare_calls(remedy, first)
    for other in more:
        comparison = compare_further(remedy, comparison, other)
    return comparison


@pytest.mark.parametrize(
    ("remedy", "differences", "earned"),
    [
        (FIX, (), FixClass.EQUAL),
        (EXACT_FIX, (), FixClass.EXACT),
        (PATCH, (), FixClass.EXACT),
        (PATCH, (ROUNDED,), FixClass.EQUAL),
        (LOOSE_PATCH, (), FixClass.EXACT),
        (LOOSE_PATCH, (VALUE,), FixClass.CHANGES),
        (LOOSE_FIX, (), FixClass.CHANGES),
    ],
)
def test_a_class_is_what_the_calls_show_up_to_what_the_change_can_earn(
    remedy: Remedy, differences: tuple[Difference, ...], earned: FixClass
) -> None:
    assert compared(remedy, recorded(*differences)).fix_class is earned


@pytest.mark.parametrize("remedy", [EXACT_FIX, PATCH])
def test_an_exception_of_a_further_call_lowers_a_fix_and_a_patch_alike(remedy: Remedy) -> None:
    comparison = compared(remedy, recorded(), further("float16 inputs", CaseFamily.DTYPE, VALUE))
    assert comparison.fix_class is FixClass.EQUAL
    assert comparison.words == "same results, except for float16 inputs"


@pytest.mark.parametrize("remedy", [EXACT_FIX, PATCH])
def test_a_further_call_that_differs_refuses_though_nothing_was_compiled(remedy: Remedy) -> None:
    comparison = compared(remedy, recorded(), further("size 1", CaseFamily.SIZE, VALUE))
    assert (comparison.kind, comparison.fix_class) == (VerdictKind.DIFFERS, None)
    assert "was 1, is 2" in comparison.words


def test_calls_of_two_targets_limit_each_other() -> None:
    first = compare_calls(EXACT_FIX, recorded())
    other = compared(EXACT_FIX, recorded(), further("float16 inputs", CaseFamily.DTYPE, VALUE))
    joined = join(EXACT_FIX, first, other)
    assert (joined.fix_class, joined.words) == (other.fix_class, other.words)
    assert joined.tried == ("recorded inputs", "float16 inputs")


def test_what_was_not_compared_of_two_rounds_is_listed_once() -> None:
    late = report(late=("float16 inputs",))
    assert compared(PATCH, recorded(), late, late).not_reached == ("float16 inputs",)
