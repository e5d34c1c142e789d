"""The row of a replay tells what happened in every process of a program, not in the first one alone."""

from __future__ import annotations

from benchmarks.replay import LATER_FAILURES, answer_of_all

FIRST = {"first": 22.0, "timed": 0, "warnings": [], "close": True, "us": 2482.0}


def test_a_process_that_starts_with_warm_caches_is_reported() -> None:
    slow = {
        "first": 30.0,
        "timed": 3,
        "warnings": ["compiling as the default does"],
        "close": False,
        "us": 5342.0,
    }
    answer = answer_of_all(FIRST, [slow, {"failure": "TypeError: no lock"}])
    assert answer == {
        "first": 22.0, "timed": 3, "warnings": ["compiling as the default does"], "close": False,
        "us": 3912.0, "each_us": [2482.0, 5342.0], LATER_FAILURES: ["TypeError: no lock"],
    }  # fmt: skip


def test_equal_processes_are_one_answer() -> None:
    assert answer_of_all(FIRST, [FIRST, FIRST]) == {**FIRST, "each_us": [2482.0] * 3}


def test_a_program_whose_first_process_failed_has_no_time() -> None:
    assert answer_of_all({"failure": "killed"}, [FIRST]) == {"failure": "killed"}
