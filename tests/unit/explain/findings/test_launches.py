"""FL941 to FL945, FL949, FL950 and FL607: faults of Triton kernels, and what was not checked."""

from __future__ import annotations

import dataclasses

import pytest

from fuselight.shared.report import AddressCheckResult, KernelFault, KernelMismatch, OpenAccess, TuningChange
from fuselight_server.base.finding import Finding, Severity
from fuselight_server.explain.findings import findings
from tests.support.reports import LIBRARY, at, report

READ = KernelFault("scale", at(40), "load", "x", 1000, 1000, program=(3, 0, 0), launch=(at(12),))


def test_a_fault_is_on_the_line_of_the_kernel_with_its_launch() -> None:
    (finding,) = findings(report(kernel_faults=(READ,)))
    assert (finding.code, finding.severity, finding.span.line) == ("FL941", Severity.ERROR, 40)
    assert finding.title == "`scale` reads `x[1000]`, and `x` has 1,000 elements"
    assert "Program (3, 0, 0) makes this access, which has no mask." in finding.message
    assert finding.hints == ("Give tl.load a mask: `mask=offsets < n`.",)
    assert [related.span.line for related in finding.related] == [12]


def test_the_kernel_of_a_library_is_on_the_line_that_launches_it() -> None:
    fault = dataclasses.replace(READ, location=dataclasses.replace(at(7), path=LIBRARY))
    (finding,) = findings(report(kernel_faults=(fault,)))
    assert finding.span.line == 12
    assert [(related.span.path, related.span.line) for related in finding.related] == [(LIBRARY, 7)]


@pytest.mark.parametrize(
    ("change", "title", "hint"),
    [
        (
            {"access": "store", "offset": -(2**31), "elements": 1},
            "`scale` writes `x[-2147483648]`, and `x` has 1 element",
            "64 bits",
        ),
        ({"access": "store", "masked": True}, "`scale` writes `x[1000]`", "Compare the offsets"),
        (
            {"kind": "descriptor", "masked": True},
            "`scale` reads `x[1000]`",
            "Make the tensor descriptor with",
        ),
        ({"access": "atomic"}, "`scale` changes `x[1000]`", "tl.atomic_add a mask"),
        ({"argument": ""}, "`scale` reads an address that is outside of all its tensors", "mask"),
    ],
)
def test_each_kind_of_access_has_its_words(change: dict[str, object], title: str, hint: str) -> None:
    (finding,) = findings(report(kernel_faults=(dataclasses.replace(READ, **change),)))  # type: ignore[arg-type]
    assert finding.title.startswith(title)
    assert hint in finding.hints[0]


def only(**change: object) -> Finding:
    """The finding of a fault like READ."""
    (finding,) = findings(report(kernel_faults=(dataclasses.replace(READ, **change),)))  # type: ignore[arg-type]
    return finding


def test_an_overflow_names_the_index_that_was_meant() -> None:
    finding = only(kind="overflow", offset=-(2**31), exact=2**31, program=(9, 0, 0))
    assert (finding.code, finding.severity) == ("FL944", Severity.ERROR)
    assert "reads `x[-2147483648]` in place of `x[2147483648]`" in finding.title
    assert "Program (9, 0, 0) computes the offset in 32 bits" in finding.message
    assert "64 bits" in finding.hints[0]


@pytest.mark.parametrize(
    ("access", "title", "effect", "hint"),
    [
        (
            "max",
            "a maximum in `scale` counts",
            "all others are negative, the maximum is this 0",
            '-float("inf")',
        ),
        (
            "min",
            "a minimum in `scale` counts",
            "all others are positive, the minimum is this 0",
            '=float("inf")',
        ),
    ],
)
def test_what_a_mask_leaves_out_of_a_reduction_says_which_other_value_to_load(
    access: str, title: str, effect: str, hint: str
) -> None:
    finding = only(kind="left out", access=access, masked=True)
    assert (finding.code, finding.severity, finding.span.line) == ("FL950", Severity.WARNING, 40)
    assert finding.title == f"{title} elements of `x` that a mask leaves out"
    assert effect in finding.message
    assert hint in finding.hints[0]


def test_a_fault_at_other_sizes_than_those_of_the_directives_is_a_warning() -> None:
    finding = only(inputs="scale_all(f32[65])", is_of_variation=True)
    assert (finding.code, finding.severity) == ("FL941", Severity.WARNING)
    assert finding.title.endswith("has 1,000 elements, in a call with other sizes: `scale_all(f32[65])`")
    assert "The call of the directive does not show this." in finding.message
    assert "raise an exception for others before the launch" in finding.hints[1]


def test_a_fault_at_other_strides_says_so() -> None:
    inputs = "scale_all(f32[2, 3][:, :2])"
    finding = only(inputs=inputs, is_of_variation=True, has_other_strides=True)
    assert finding.title.endswith(f", in a call with other strides: `{inputs}`")
    (hint,) = finding.hints
    assert hint.startswith("Pass the strides of each tensor to the kernel.")


@pytest.mark.parametrize(
    ("change", "title", "text"),
    [
        (
            {"access": "store", "other_access": "store", "count": 7},
            "programs of `scale` write different values to `x[1000]`",
            "Programs (1, 0, 0) and (3, 0, 0) write it, 7 elements in this way.",
        ),
        (
            {"access": "store", "other_access": "load"},
            "a program of `scale` reads `x[1000]`, which another one changes",
            "Program (1, 0, 0) reads it and program (3, 0, 0) writes it.",
        ),
        (
            {"access": "store", "other_access": "store", "other_program": (3, 0, 0)},
            "`scale` writes several values to `x[1000]` at once",
            "Lanes of one block in program (3, 0, 0) write it.",
        ),
    ],
)
def test_a_race_names_both_programs(change: dict[str, object], title: str, text: str) -> None:
    finding = only(**{"kind": "race", "other_program": (1, 0, 0), **change})
    assert (finding.code, finding.severity, finding.title) == ("FL942", Severity.ERROR, title)
    assert text in finding.message


def test_elements_that_nobody_writes_are_counted() -> None:
    finding = only(kind="unwritten", access="store", offset=990, count=10)
    assert (finding.code, finding.severity) == ("FL943", Severity.WARNING)
    assert finding.title == "`scale` leaves 10 elements of `x` unwritten, from `x[990]` on"


def test_wasted_sectors_are_those_of_the_users_own_kernels() -> None:
    finding = only(kind="sectors", useful=0.125)
    assert (finding.code, finding.severity) == ("FL945", Severity.INFORMATION)
    assert "uses 12% of the bytes" in finding.title
    elsewhere = dataclasses.replace(READ, kind="sectors", location=dataclasses.replace(at(7), path=LIBRARY))
    assert not findings(report(kernel_faults=(elsewhere,)))


def test_the_call_that_shows_a_fault_is_named_and_unknown_kinds_are_ignored() -> None:
    assert "The smallest call that was tried and shows it is `f(f32[7])`." in only(inputs="f(f32[7])").message
    assert not findings(report(kernel_faults=(dataclasses.replace(READ, kind="later"),)))


def check(
    kernel: str, programs: int, total: int, *open_: OpenAccess, is_complete: bool = False
) -> AddressCheckResult:
    return AddressCheckResult(kernel, at(3), (at(12),), programs, total, is_complete, open_)


def test_what_was_not_checked_is_listed_once_for_each_line_that_launches() -> None:
    checks = (
        check("scale", 5, 600_000, OpenAccess(at(40), "indices come from memory")),
        check("shift", 8, 8, is_complete=False),
        check("whole", 8, 8, is_complete=True),
        check("late", 1, 9, OpenAccess(None, "the check took too long")),
    )
    (finding,) = findings(report(address_checks=checks))
    assert (finding.code, finding.severity, finding.span.line) == ("FL607", Severity.HINT, 12)
    assert finding.title == "not every access of `late`, `scale`, `shift` was checked"
    assert (
        "5 of 600,000 programs of `scale`, every program of `shift`, without some iterations"
        in finding.message
    )
    assert "40 (indices come from memory); the rest of `late` (the check took too long)" in finding.message


def test_an_operator_that_does_not_run_on_fake_tensors_is_not_checked() -> None:
    refused = check(
        "own::gather", 0, 0, OpenAccess(None, "its implementation raises ValueError on fake tensors")
    )
    (finding,) = findings(report(address_checks=(refused,)))
    assert "without values: no launch of `own::gather`." in finding.message
    assert (
        "Not checked: the launches of `own::gather` (its implementation raises ValueError" in finding.message
    )


def test_a_difference_from_the_reference_is_where_the_last_kernel_is_launched() -> None:
    mismatch = KernelMismatch(
        "scale",
        at(7),
        (at(12),),
        "plain",
        0,
        (3, 4),
        1.5,
        2.0,
        0.5,
        1e-6,
        10,
        100,
        "scaled(f32[9], reference=plain)",
    )
    (finding,) = findings(report(kernel_mismatches=(mismatch,)))
    assert (finding.code, finding.severity, finding.span.line) == ("FL948", Severity.ERROR, 12)
    assert finding.title == "10 of 100 elements differ from `plain`"
    assert "Tensor 0 has 1.5 at [3, 4], and `plain` gives 2." in finding.message
    assert "The largest difference is 0.5; up to 1e-06 is rounding." in finding.message
    assert [related.span.line for related in finding.related] == [7]


def test_a_difference_at_the_sizes_of_the_directive_is_not_repeated_for_others() -> None:
    own = KernelMismatch(
        "scale",
        at(7),
        (at(12),),
        "plain",
        0,
        (0,),
        1.5,
        2.0,
        0.5,
        1e-6,
        9,
        9,
        "scaled(f32[9], reference=plain)",
    )
    varied = dataclasses.replace(
        own, count=8, elements=8, inputs="scaled(f32[8], reference=plain)", is_of_variation=True
    )
    assert [finding.title for finding in findings(report(kernel_mismatches=(own, varied)))] == [
        "9 of 9 elements differ from `plain`"
    ]
    (alone,) = findings(report(kernel_mismatches=(varied,)))
    assert alone.severity is Severity.WARNING


TUNED = TuningChange("scale", at(30), "x", 0, 3.0, 1.0, 200, 4, (('restore_value=["x"]',),), launch=(at(12),))


def test_a_tuned_kernel_with_a_wrong_first_result_is_on_its_decorator_with_what_was_tried() -> None:
    (finding,) = findings(report(tuning_changes=(TUNED,)))
    assert (finding.code, finding.severity, finding.span.line) == ("FL949", Severity.ERROR, 30)
    assert "the launch gives 3 for `x[0]` in place of 1: 200 elements differ." in finding.message
    assert finding.hints == (
        'Write `restore_value=["x"]` in `@triton.autotune` (tried: the first result is right).',
    )
    assert [related.span.line for related in finding.related] == [12]


def test_a_change_on_a_gpu_says_so() -> None:
    (finding,) = findings(report(tuning_changes=(dataclasses.replace(TUNED, is_of_gpu=True),)))
    assert "After the timed runs on this GPU, the launch gives 3" in finding.message


def test_a_sum_may_be_set_to_zero_or_restored() -> None:
    cures = (('reset_to_zero=["x"]', 'restore_value=["y"]'), ('restore_value=["x", "y"]',))
    (finding,) = findings(report(tuning_changes=(dataclasses.replace(TUNED, cures=cures, count=1),)))
    assert finding.hints[0].startswith(
        'Write `reset_to_zero=["x"]` and `restore_value=["y"]` in `@triton.autotune`'
    )
    assert "zero before each launch" in finding.hints[0]
    assert finding.hints[1].startswith('Or write `restore_value=["x", "y"]`')
    assert "1 element differs." in finding.message


def test_advice_that_was_not_tried_is_only_given_for_a_hook() -> None:
    (finding,) = findings(report(tuning_changes=(dataclasses.replace(TUNED, cures=()),)))
    assert not finding.hints
    (finding,) = findings(report(tuning_changes=(dataclasses.replace(TUNED, cures=(), has_own_hook=True),)))
    assert finding.hints[0].startswith("Restore the tensor in the hook")


def test_a_tuned_kernel_of_a_library_is_on_the_line_that_launches_it() -> None:
    place = dataclasses.replace(at(7), path=LIBRARY)
    (finding,) = findings(report(tuning_changes=(dataclasses.replace(TUNED, location=place),)))
    assert finding.span.line == 12
    assert [(related.span.path, related.span.line) for related in finding.related] == [(LIBRARY, 7)]
