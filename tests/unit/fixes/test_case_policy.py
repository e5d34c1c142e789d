"""Further calls refuse a fix, or are named in its title."""

from __future__ import annotations

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
from fuselight_server.fixes.rewrites.families import FixClass, Remedy
from fuselight_server.fixes.verification.verdict import Verdict, cases_verdict

VERSIONS = Versions("3.11", "2.13.0", None, "0", "linux", "python")
OTHER = Difference(Aspect.OUTPUT, "output: was 1, is 2")
ROUNDING = Difference(Aspect.OUTPUT, "output: was 1, is 1", rounding=True)
UNUSED = Difference(Aspect.UNUSED_GRADIENT, "the gradient of a was None, is zeros")
GONE = Difference(Aspect.EXCEPTION, "no longer raises ZeroDivisionError")
RAISES = Difference(Aspect.EXCEPTION, "raises ValueError: no")
OTHER_TYPE = Difference(Aspect.EXCEPTION, "raises TypeError: no, instead of ValueError")
COPY = Difference(Aspect.MEMORY, "output shared memory with input 0, and now with no input")
ENDLESS = Difference(Aspect.TIME, "takes more than 10 s, and took 0.1 s before")
KIND = Difference(Aspect.KIND, "calls was a number, is a tensor")
INTEGERS = ("int64", "int32", "int16", "int8", "uint8")

Row = tuple[CaseFamily, str, Difference, bool]


def judged(*rows: Row, fix_class: FixClass = FixClass.EXACT, changes: str = "") -> Verdict:
    comparisons = tuple(
        CallComparison(0, name, compiled, (difference,), family)
        for family, name, difference, compiled in rows
    )
    report = Report(
        *(VERSIONS, TargetRef("m.py", "f", 1, "function"), Tier.CAPTURE, 1),
        verification=Verification(comparisons),
    )
    return cases_verdict(Remedy("where", "Use it", fix_class, {"m.py": ""}, changes), report)


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ((CaseFamily.SIZE, "a batch of 1", OTHER, False), "output: was 1, is 2 (eager, a batch of 1)"),
        ((CaseFamily.MODE, "training", OTHER, True), "output: was 1, is 2 (compiled, training)"),
        ((CaseFamily.NONFINITE, "NaN", OTHER, False), "output: was 1, is 2 (eager, NaN)"),
        (
            (CaseFamily.CONSTRUCTOR, "heads = 2", OTHER, False),
            "output: was 1, is 2 (eager, heads = 2)",
        ),
        (
            (CaseFamily.MODE, "training", UNUSED, False),
            "the gradient of a was None, is zeros (eager, training)",
        ),
        (
            (CaseFamily.SECOND, "gradients of gradients", OTHER, False),
            "output: was 1, is 2 (eager, gradients of gradients)",
        ),
        ((CaseFamily.SIZE, "a batch of 1", RAISES, False), "raises ValueError: no (eager, a batch of 1)"),
        (
            (CaseFamily.DTYPE, "float16 inputs", ENDLESS, False),
            "takes more than 10 s, and took 0.1 s before (eager, float16 inputs)",
        ),
    ],
)
def test_an_ordinary_call_that_differs_refuses_the_fix(row: Row, words: str) -> None:
    verdict = judged(row)
    assert (verdict.passed, verdict.words) == (False, words)


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([(CaseFamily.DTYPE, "float16 inputs", OTHER, False)], "for float16 inputs"),
        (
            [
                (CaseFamily.DTYPE, "int64 for input 0", OTHER, False),
                (CaseFamily.DTYPE, "autocast", OTHER, False),
            ],
            "for int64 inputs and under autocast",
        ),
        ([(CaseFamily.DTYPE, "bool inputs", GONE, False)], "for bool inputs"),
        (
            [(CaseFamily.DTYPE, f"{name} inputs", OTHER, False) for name in ("bool", *INTEGERS)],
            "for bool and integer inputs",
        ),
        (
            [(CaseFamily.DTYPE, f"{name} inputs", OTHER, False) for name in INTEGERS[1:]],
            "for int32, int16, int8 and uint8 inputs",
        ),
        ([(CaseFamily.EMPTY, "empty inputs", RAISES, False)], "for empty inputs"),
        (
            [
                (CaseFamily.ATTRIBUTE, "scale = 0.0", OTHER, False),
                (CaseFamily.ATTRIBUTE, "scale = 2.0", RAISES, False),
                (CaseFamily.ATTRIBUTE, "mode = 'a = b'", OTHER, False),
            ],
            "for other values of `scale` and `mode`",
        ),
        ([(CaseFamily.EXTREME, "where int32 overflows", OTHER, False)], "where int32 overflows"),
        (
            [
                (CaseFamily.DTYPE, "int8 inputs", OTHER, False),
                (CaseFamily.EXTREME, "where int8 overflows", OTHER, False),
                (CaseFamily.EXTREME, "where int16 overflows", OTHER, False),
                (CaseFamily.EXTREME, "where int32 overflows", OTHER, False),
            ],
            "for int8 inputs and where integers overflow",
        ),
        ([(CaseFamily.VALUES, "zeros", GONE, False)], "where ZeroDivisionError is no longer raised"),
        (
            [(CaseFamily.SIZE, "size 9 in place of 8", OTHER_TYPE, False)],
            "where ValueError becomes TypeError",
        ),
        (
            [(CaseFamily.MODE, "training", UNUSED, True)],
            "that unused parameters get zero gradients (weight decay and momentum change them)",
        ),
        (
            [(CaseFamily.RECORDED, "recorded inputs", COPY, False)],
            "that it returns a new tensor in place of its input",
        ),
        ([(CaseFamily.FROZEN, "frozen parameters", OTHER, True)], "with frozen parameters"),
        (
            [(CaseFamily.DTYPE, f"{dtype} inputs without dimensions", OTHER, False) for dtype in ("a", "b")],
            "for inputs without dimensions",
        ),
        (
            [
                (CaseFamily.DTYPE, "float16 inputs", OTHER, False),
                (CaseFamily.DTYPE, "float32 inputs without dimensions", OTHER, False),
            ],
            "for float16 inputs and inputs without dimensions",
        ),
        ([(CaseFamily.HOOKS, "hooks of parameters", OTHER, True)], "with hooks of parameters"),
        ([(CaseFamily.SECOND, "gradients of gradients", RAISES, True)], "for gradients of gradients"),
        ([(CaseFamily.SECOND, "gradients of gradients", RAISES, False)], "for gradients of gradients"),
        ([(CaseFamily.RECORDED, "recorded inputs", KIND, False)], "that `calls` becomes a tensor"),
    ],
)
def test_a_title_excepts_other_cases(rows: list[Row], words: str) -> None:
    verdict = judged(*rows, fix_class=FixClass.EQUAL)
    assert (verdict.passed, verdict.words) == (True, f"same results, except {words}")


def test_rounding_in_a_further_call_takes_the_class_exact_and_nothing_else() -> None:
    verdict = judged((CaseFamily.SIZE, "a batch of 1", ROUNDING, False))
    assert (verdict.passed, verdict.words, verdict.rounds) == (True, "same results", True)
    assert not judged((CaseFamily.SIZE, "a batch of 1", ROUNDING, True)).rounds
    strides = Difference(Aspect.STRIDES, "the strides of output were [2], are [1]")
    assert judged((CaseFamily.RECORDED, "recorded inputs", strides, False)).rounds


def test_what_a_fix_says_to_change_is_no_exception() -> None:
    rows = (
        (CaseFamily.DTYPE, "float16 inputs", OTHER, False),
        (CaseFamily.SIZE, "a batch of 1", OTHER, False),
    )
    verdict = judged(*rows, fix_class=FixClass.CHANGES, changes="random numbers")
    assert (verdict.passed, verdict.words) == (True, "changes behavior: random numbers")


@pytest.mark.parametrize(
    ("kind", "phase", "passed"),
    [
        ("timeout", "call", False),
        ("timeout", "trace", False),
        ("timeout", "import", True),
        ("signal", "import", False),
    ],
)
def test_a_run_that_is_ended_in_a_call_refuses_the_fix(kind: str, phase: str, *, passed: bool) -> None:
    report = Report(
        *(VERSIONS, TargetRef("m.py", "f", 1, "function"), Tier.CAPTURE, 1),
        failures=(Failure(Culprit.USER, kind, "killed after 120 s", "", phase=phase),),
    )
    assert cases_verdict(Remedy("where", "Use it", FixClass.EQUAL, {"m.py": ""}), report).passed is passed
