"""Time limits of a benchmark: those of each configuration, and of the search for the first line that differs."""

from __future__ import annotations

from typing import Any

import pytest

from fuselight.measure.coordinator import Measuring
from fuselight.measure.pool import FLOAT64
from fuselight.shared.measurement_plans import MeasurePlan
from fuselight.shared.report import Accuracy, Measured
from tests.support.fake_processes import TIMED, FakeProcess, FakeProcesses, failure, without_questions


@pytest.fixture
def timed() -> FakeProcesses:
    """Processes that take the given times."""
    return FakeProcesses()


def test_without_a_limit_the_wait_for_answers_is_unbounded() -> None:
    processes = FakeProcesses()
    processes.measure("default", limit_seconds=0.0)
    assert {seconds for process in processes.processes for _, seconds in process.waited} == {0.0}


def test_each_configuration_has_its_own_time_limit(timed: FakeProcesses) -> None:
    """The time of the reference and of other configurations does not count."""
    timed.takes = {FLOAT64: {"reference": 500.0}, "eager": {"first": 300.0}, "default": {"first": 100.0}}
    timed.measure("default", limit_seconds=600.0)
    assert timed.waited("eager", "build") == 600.0
    assert timed.waited("eager", "warm") == 300.0
    assert timed.waited("default", "build") == 600.0
    assert timed.waited("default", "finish") == 500.0


def test_hanging_processes_share_one_time_limit(timed: FakeProcesses) -> None:
    hangs = {"read": 1e6}
    timed.takes = {"eager": hangs, "default": hangs, "max-autotune": {"compare": 50.0, "read": 100.0}}
    measured = timed.measure("default", "max-autotune", limit_seconds=600.0)
    assert timed.clock.now <= 602.0
    eager, default, autotuned = measured.configurations
    assert (eager.failure, default.failure) == (failure("timeout"), failure("timeout"))
    assert autotuned.failure is None
    assert autotuned.profile is not None
    assert timed.waited("max-autotune", "finish") == 600.0


def test_the_first_line_that_differs_is_searched_for_last() -> None:
    processes = FakeProcesses(wrong=("default",))
    measured = processes.measure("default", "max-autotune", rounds=3)
    log = without_questions(processes.log)
    assert log[log.index("eager finish") :] == [
        "eager finish", "default finish", "max-autotune finish", "default search"
    ]  # fmt: skip
    accuracy = measured.configurations[1].accuracy
    assert accuracy is not None
    assert accuracy.first_operator == "torch.relu"


def test_configurations_without_a_search_release_their_memory() -> None:
    processes = FakeProcesses(wrong=("default",))
    there: list[str] = []
    search = FakeProcess.accuracy_after

    def look(self: FakeProcess, what: str, details: dict[str, Any]) -> Accuracy:
        if what == "search":
            there.extend(process.name for process in processes.processes if not process.ended)
        return search(self, what, details)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(FakeProcess, "accuracy_after", look)
        processes.measure("default", "max-autotune")
    assert there == ["default"]


def test_a_search_result_is_saved_before_the_next_search() -> None:
    processes = FakeProcesses(wrong=("default", "max-autotune"))
    texts: list[list[str]] = []

    def keep(measured: Measured) -> None:
        rows = (configuration.accuracy for configuration in measured.configurations)
        texts.append([row.first_operator for row in rows if row is not None])

    names = ("eager", "default", "max-autotune")
    Measuring(MeasurePlan(), names, processes.start, processes.messages.append, keep).run()
    assert texts[-3:] == [["", ""], ["torch.relu", ""], ["torch.relu", "torch.relu"]]


def test_a_search_ends_by_its_own_limit(timed: FakeProcesses) -> None:
    """The setting limits the entire measurement: less time is left, or no limit is set."""
    timed.wrong = ("default",)
    timed.takes["default"] = {"first": 400.0}
    timed.measure("default", limit_seconds=600.0)
    assert timed.waited("default", "search") == 230.0
    for limit in (0.0, 1e4):
        unlimited = FakeProcesses(wrong=("default",))
        unlimited.measure("default", limit_seconds=limit)
        assert unlimited.waited("default", "search") == 330.0


def test_without_bisection_no_line_is_searched_for() -> None:
    processes = FakeProcesses(wrong=("default",))
    processes.measure("default", bisect=False)
    assert "default search" not in processes.log


def test_measurements_survive_a_search_that_does_not_end() -> None:
    processes = FakeProcesses({"default": [{"search": failure("timeout")}]}, wrong=("default",))
    default = processes.measure("default").configurations[1]
    assert default.failure is None
    assert default.wall == TIMED
    assert default.accuracy == Accuracy(
        passed=False,
        why="it differs; the first line that differs is not known: timeout in measure",
    )
    assert all(process.ended for process in processes.processes)
