"""One size that varies is one finding, whatever it compiles again; two inputs that vary are two."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fuselight.shared.report import (
    Compile,
    CureGoal,
    CureKind,
    CureTrial,
    Frame,
    GuardFailure,
    Outcome,
    Recompile,
    Report,
)
from fuselight_server.base.finding import Finding
from fuselight_server.explain.findings import findings, fold
from fuselight_server.explain.findings.common.counts import counts
from fuselight_server.explain.findings.priority import of_reports
from tests.support.recompilations import again, failed
from tests.support.reports import at, report

NAMES = ("step", "helper", "loss")
LINES = {"step": 20, "helper": 10, "loss": 40}
IN_STEP = (at(70, function="main"), at(22, function="step"))
IN_MAIN = (at(70, function="main"),)


def size(name: str, was: int, now: int, dimension: int = 0, line: int = 50) -> GuardFailure:
    return failed(f"{name}.size({dimension}) was {was}, now {now}", source=name, born=(at(line),))


def run(*changed: tuple[str, GuardFailure, bool], trials: tuple[CureTrial, ...] = ()) -> Report:
    """A program with functions that were compiled again: name, failed guard, and whether `step` calls it."""
    again_for: list[Recompile] = []
    for name, failure, is_inner in changed:
        read = replace(failure, born=(at(LINES[name] + 2, (4, 8), function=name),))
        again_for.append(
            again(
                read,
                function=name,
                location=at(LINES[name], function=name),
                compile_id=f"{NAMES.index(name)}/1",
                caller=IN_STEP if is_inner else IN_MAIN,
            )
        )
    return report(
        frames=tuple(Frame(name, at(LINES[name], function=name), parameters=("x",)) for name in NAMES),
        compiles=tuple(
            Compile(f"{number}/{entry}", number, Outcome.COMPILED) for entry in (0, 1) for number in range(3)
        ),
        recompiles=tuple(again_for),
        trials=trials,
    )


def shown(program: Report) -> list[Finding]:
    return fold(findings(program))


BATCH = run(
    ("step", size("x", 16, 7), False),
    ("helper", size("h", 16, 7), True),
    ("loss", size("logits", 16, 7), False),
)


def test_a_batch_that_varies_is_one_finding_on_the_first_function() -> None:
    (finding,) = shown(BATCH)
    assert finding.span.line == LINES["step"] + 2
    assert [other.span.line for other in finding.also_at] == [LINES["helper"] + 2, LINES["loss"] + 2]
    assert "`helper` and `loss` were compiled again for it too" in finding.cost
    assert "3 recompilations in all" in finding.cost


def test_the_findings_and_the_first_line_to_fix_count_as_the_summary_does() -> None:
    counted = [finding.recompilations for finding in findings(BATCH)]
    assert counts(BATCH).recompilations == sum(counted) == 3
    (first,) = of_reports([BATCH], shown(BATCH))
    assert first.gain.startswith("it causes 3 recompilations")


def test_its_cure_is_tried_once_for_the_whole_program() -> None:
    cures = [cure for finding in findings(BATCH) for cure in finding.cures]
    assert [cure.kind for cure in cures] == [CureKind.MARK, CureKind.DYNAMIC]
    assert {cure.goal for cure in cures} == {CureGoal.ALL_COMPILES}
    assert [part.subjects for part in cures[0].changes] == [("x.size(0)",), ("logits.size(0)",)]
    marked, dynamic = (CureTrial(cure, 6, after) for cure, after in zip(cures, (4, 3), strict=True))
    (finding,) = shown(replace(BATCH, trials=(marked, dynamic)))
    assert finding.hints == (
        (
            "Compile with torch.compile(..., dynamic=True) (tried: 6 → 3 compiles of the program). "
            "Kernels for dynamic sizes can be slower"
        ),
        (
            "Or mark the sizes as dynamic in calls of `step`: torch._dynamo.mark_dynamic(x, 0); in calls of `loss`: "
            "torch._dynamo.mark_dynamic(logits, 0) (tried: 6 → 4 compiles of the program). "
            "Kernels for dynamic sizes can be slower"
        ),
    )


@pytest.mark.parametrize(
    ("first", "second", "is_inner", "count"),
    [
        (size("x", 16, 7), size("h", 16, 7), True, 1),
        (size("x", 16, 8), size("flat", 128, 64), True, 1),  # a multiple, inside
        (size("x", 16, 7), size("flat", 128, 60), True, 2),
        (size("x", 16, 7), size("y", 16, 7), False, 1),
        (size("x", 16, 7), size("y", 9, 11), False, 2),
        (size("x", 4, 8), size("y", 2, 4), False, 2),  # two inputs that double
        (size("x", 16, 7), size("y", 16, 7, dimension=1), False, 2),
        (size("x", 16, 1), size("h", 16, 1), True, 1),
        (size("x", 16, 7), failed("n was 16, now 7", source="n"), True, 2),
    ],
)
def test_two_inputs_that_vary_are_two_findings(
    first: GuardFailure,
    second: GuardFailure,
    *,
    is_inner: bool,
    count: int,
) -> None:
    shown_findings = shown(run(("step", first, False), ("helper", second, is_inner)))
    assert len(shown_findings) == count


def test_a_function_that_something_else_compiles_again_has_a_finding_of_its_own() -> None:
    program = run(("step", size("x", 16, 7), False), ("helper", size("h", 16, 7), True))
    first, second = program.recompiles
    both = replace(
        second.entries[0], failures=(*second.entries[0].failures, failed("n was 2, now 3", source="n"))
    )
    assert len(shown(replace(program, recompiles=(first, replace(second, entries=(both,)))))) == 2


def test_counts_name_the_function_where_several_are_compiled() -> None:
    program = run(("step", size("x", 16, 7), False))
    (finding,) = findings(program)
    trials = tuple(CureTrial(cure, 2, 1) for cure in finding.cures)
    hints = shown(replace(program, trials=trials))[0].hints
    assert all("(tried: 2 → 1 compiles of `step`)" in hint for hint in hints)


@pytest.mark.parametrize("second", [size("y", 16, 7, dimension=1), size("x", 16, 7, dimension=1)])
def test_two_sizes_of_one_function_that_change_alike_are_two_causes(second: GuardFailure) -> None:
    """Each is shared with another function, in which the same dimension changed."""
    program = run(
        ("step", size("x", 16, 7), False),
        ("step", second, False),
        ("helper", size("h", 16, 7), False),
        ("loss", replace(second, source="logits"), False),
    )
    own, other = (
        [item.cause for item in findings(program) if name in item.title]
        for name in ("x.size(0)", f"{second.source}.size(1)")
    )
    assert len({*own, *other}) == len({*own}) + len({*other})
