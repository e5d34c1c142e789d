"""One comparison for fixes and for changes of the user: what the calls show, up to what the change can earn."""

from __future__ import annotations

import dataclasses

import pytest

from fuselight.shared.report import (
    Aspect,
    CallComparison,
    CaseFamily,
    Culprit,
    Difference,
    Failure,
    Report,
    TargetRef,
    Tier,
    Verification,
    Versions,
)
from fuselight_server.fixes.rewrites.remedy import FixClass, Remedy
from fuselight_server.fixes.verification.comparison import (
    OTHER_INPUTS,
    TextComparison,
    compare_calls,
    compare_further,
    end,
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


def report(*comparisons: CallComparison) -> Report:
    return Report(
        *(VERSIONS, TargetRef("m.py", "f", 1, "function"), Tier.CAPTURE, 1),
        verification=Verification(comparisons),
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


def part(*names: str, reached: int, left: tuple[str, ...] = ()) -> Report:
    """A round of further calls."""
    entries = tuple(CallComparison(0, name, compiled=False, family=CaseFamily.SIZE) for name in names)
    return dataclasses.replace(report(), verification=Verification(entries, reached=reached, left=left))


def test_rounds_that_reach_all_calls_claim_as_much_as_one_round() -> None:
    rounds = compared(PATCH, recorded(), part("a", reached=1, left=("b",)), part("b", reached=2))
    whole = compared(PATCH, recorded(), part("a", "b", reached=2))
    assert (rounds.fix_class, rounds.words, rounds.tried) == (whole.fix_class, whole.words, whole.tried)
    assert whole.fix_class is FixClass.EXACT


@pytest.mark.parametrize("remedy", [EXACT_FIX, PATCH])
def test_what_is_not_compared_lowers_the_class_and_is_named(remedy: Remedy) -> None:
    comparison = end(remedy, compared(remedy, recorded(), part("a", reached=1, left=("b", "c", "d", "e"))))
    assert comparison.fix_class is FixClass.EQUAL
    assert comparison.words == "same results, but not compared: b, c, d and 1 more"


def test_a_round_without_progress_leaves_out_the_call_that_it_ended_in() -> None:
    """Or each round would end there."""
    first = compared(PATCH, recorded(), part("a", reached=1, left=("b", "c")))
    second = compare_further(PATCH, first, part(reached=1, left=("b", "c")))
    assert (second.reached, second.left, second.not_reached) == (2, ("c",), ("b",))
    third = compare_further(PATCH, second, part("c", reached=3))
    assert (third.left, third.words) == ((), "same results, but not compared: b")


def test_a_round_that_gives_nothing_ends_with_a_call_less() -> None:
    killed = dataclasses.replace(
        report(),
        verification=None,
        failures=(Failure(Culprit.ENVIRONMENT, "timeout", "too slow", phase="import"),),
    )
    unknown = compare_further(PATCH, compared(PATCH, recorded()), killed)
    assert (unknown.left, unknown.not_reached) == ((), (OTHER_INPUTS,))
    known = compare_further(PATCH, compared(PATCH, recorded(), part(reached=1, left=("b", "c"))), killed)
    assert (known.reached, known.left, known.not_reached) == (2, ("c",), ("b",))
    assert known.has_passed
