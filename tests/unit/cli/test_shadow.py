"""What `fuselight run --accuracy` prints, and what processes leave for it."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pytest

from fuselight.shared.report import FirstNonFinite, Shadow, ShadowedCall
from fuselight.shared.shadow_files import ShadowPlan, asked_plan, read_shadows, write_shadow
from fuselight_server.base.terminal import Terminal
from fuselight_server.cli.formats.shadow import print_shadows
from tests.support.command import run_cli
from tests.support.compared_results import UNDECIDED, WRONG, compared_call
from tests.support.reports import at

RIGHT = tuple(ShadowedCall(compared_call(index), index + 1, 1e-6 * (index + 1)) for index in range(20))
WRONG_CALL = ShadowedCall(
    compared_call(30, replace(WRONG, first=(at(12),), first_operator="torch.flip")), 31, 1.9
)
SHADOW = Shadow(77, 1, (*RIGHT, WRONG_CALL), 400, {"of later calls, some": 379}, 18.0, 100.0)


def printed(*shadows: Shadow) -> list[str]:
    stream = io.StringIO()
    print_shadows(shadows, 0.2, Terminal(stream, width=400))
    return stream.getvalue().splitlines()


def test_the_call_that_parts_is_printed_with_its_step_its_line_and_the_growth() -> None:
    heading, parts, line, growth, why = printed(SHADOW)
    assert heading == (
        "accuracy of rank 1: 21 of 400 calls compared with eager mode: 1 differ by more than rounding (comparing took "
        "18% of the time since the first call; --accuracy-budget 20%)"
    )
    assert parts.startswith("  `Net` parts from eager mode at its call 31 at ")
    assert line.endswith(":12 (`torch.flip`)")
    assert growth.endswith(
        ": 1: 1e-06, 4: 4e-06, 7: 7e-06, 10: 1e-05, 12: 1.2e-05, 15: 1.5e-05, 18: 1.8e-05, 31: 1.9"
    )
    assert why == "  not compared: 379 calls: of later calls, some"


def test_a_right_process_is_one_line() -> None:
    (line,) = printed(Shadow(77, None, RIGHT, 20, {}, 1.0, 10.0))
    assert line.startswith("accuracy: 20 of 20 calls compared with eager mode: as eager (comparing took 10%")


def test_nothing_is_called_right_that_was_not_compared() -> None:
    undecided = ShadowedCall(compared_call(0, UNDECIDED), 1, None)
    heading, why = printed(Shadow(77, None, (undecided,), 1, {}, 1.0, 10.0))
    assert "0 of 1 call compared with eager mode: not compared" in heading
    assert why == f"  not compared: 1 call: {UNDECIDED.why}"


@pytest.mark.parametrize(
    ("first", "words"),
    [
        (
            FirstNonFinite("Net", 52, at(40), ("parameter weight",)),
            "got it with parameter weight: it comes from before",
        ),
        (
            FirstNonFinite("Net", 52, at(40), is_compiled_only=True),
            "compiled code alone, the same call in eager mode has none",
        ),
        (FirstNonFinite("Net", 52, at(40), eager=(at(12),), operator="torch.log"), ":12 (`torch.log`)"),
        (FirstNonFinite("Net", 52, at(40)), "first NaN or infinity: call 52 of `Net` at "),
    ],
)
def test_the_first_nan_is_printed_with_where_it_comes_from(first: FirstNonFinite, words: str) -> None:
    lines = printed(replace(SHADOW, first_non_finite=first))
    assert any("call 52 of `Net`" in line and words in line for line in lines), lines


def test_a_program_without_compiled_calls_is_said_to_have_none() -> None:
    assert printed() == ["accuracy: no process called anything that torch.compile compiled."]


def test_processes_are_asked_by_variables_and_answer_in_files_of_their_own(tmp_path: Path) -> None:
    plan = ShadowPlan(str(tmp_path), 0.35, ("/w", "/x"))
    assert asked_plan(plan.variables) == plan
    assert asked_plan({}) is None
    others = replace(SHADOW, process=78, rank=0)
    for shadow in (SHADOW, others):
        write_shadow(str(tmp_path), shadow)
    (tmp_path / "accuracy-9.json").write_text("{")
    assert read_shadows(str(tmp_path)) == (others, SHADOW)


@pytest.mark.parametrize("text", ["0", "101%", "much", "-5"])
def test_a_budget_is_a_percentage(text: str) -> None:
    done = run_cli("run", "--accuracy", f"--accuracy-budget={text}", "train.py")
    assert done.exit_code == 2
    assert "is not a percentage above 0 and up to 100" in done.stderr
