"""A benchmark's coordinator, with fake processes: interleaved rounds, failures, a lack of memory, an early end."""

from __future__ import annotations

from typing import Any

import pytest

from fuselight.measure.coordinator import Measuring
from fuselight.measure.pool import FLOAT64
from fuselight.shared.measurement_plans import MeasurePlan
from fuselight.shared.report import Accuracy, Measured
from tests.support.fake_processes import TIMED, FakeProcess, FakeProcesses, failure, without_questions


def test_configurations_import_in_parallel_and_are_timed_in_interleaved_rounds() -> None:
    processes = FakeProcesses()
    measured = processes.measure("default", rounds=3)
    assert without_questions(processes.log) == [
        "float64 reference?", "eager ready?", "default ready?",
        "float64 reference", "eager ready", "default ready",
        "eager build", "eager first", "eager warm", "default build", "default first", "default warm",
        "eager round", "default round", "default round", "eager round", "eager round", "default round",
        "eager weigh", "eager profile", "default weigh", "default profile",
        "eager read?", "default compare?", "default read?", "eager read", "default compare", "default read",
        "eager finish", "default finish",
    ]  # fmt: skip
    assert measured.finished
    assert measured.rounds == 3
    assert measured.machine.notes == ("read",)
    assert [row.name for row in measured.configurations] == ["eager", "default"]
    assert measured.configurations[1].accuracy == Accuracy(passed=True)
    assert measured.configurations[0].accuracy is None
    assert all(process.ended for process in processes.processes)
    assert measured.counted_seconds == pytest.approx(0.5 * 21)


def test_isolated_kernels_are_timed_alone() -> None:
    processes = FakeProcesses()
    measured = processes.measure("default", rounds=3, isolated=True)
    log = without_questions(processes.log)
    assert log[log.index("default read") :] == [
        "default read", "default isolate", "eager read", "eager finish", "default finish"
    ]  # fmt: skip
    assert measured.machine.notes == ("read",), "read after the last timed call"
    assert [details["look"] for what, details in processes.orders_of("eager") if what == "read"] == [
        False,
        True,
    ]


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        ({}, ["comparing results and reading profiles"]),
        ({"accuracy": False}, ["reading profiles"]),
        ({"profile": False}, ["comparing results"]),
        ({"accuracy": False, "profile": False}, []),
    ],
)
def test_progress_names_only_actual_steps(plan: dict[str, Any], words: list[str]) -> None:
    processes = FakeProcesses()
    processes.measure("default", **plan)
    after = [text for text in processes.messages if "round" not in text and ":" not in text]
    assert [text for text in after if text != "the reference"] == words
    counted = [text for text in processes.messages if text.endswith("configurations done")]
    assert counted == [f"{step}: 1 of 2 configurations done" for step in words]
    assert "default: collecting what was compiled" in processes.messages


def test_a_call_that_finds_lines_is_made_while_no_other_process_works() -> None:
    processes = FakeProcesses(without_lines=("default", "max-autotune"))
    measured = processes.measure("default", "max-autotune")
    assert all(row.profile is not None for row in measured.configurations)
    log = processes.log[processes.log.index("eager read?") : processes.log.index("eager finish?")]
    assert log[-4:] == [
        "default read?", "default read", "max-autotune read?", "max-autotune read"
    ], "one after the other"  # fmt: skip
    assert [
        details.get("alone", True) for what, details in processes.orders_of("default") if what == "read"
    ] == [
        False,
        True,
    ]
    assert "default: reading the profile again, for lines" in processes.messages
    assert processes.log.count("eager read") == 1


def test_a_process_that_is_left_alone_reads_its_profile_once() -> None:
    processes = FakeProcesses({"default": [{"build": failure()}]}, without_lines=("eager",))
    processes.measure("default")
    assert processes.log.count("eager read") == 1


def test_the_others_start_once_the_reference_has_its_work() -> None:
    processes = FakeProcesses()
    loaded = []
    Measuring(
        MeasurePlan(), ("eager", "default"), processes.start, processes.messages.append, processes.kept.append,
        lambda: loaded.append(len(processes.started)),
    ).run()  # fmt: skip
    asked = ("float64 reference?",)
    assert processes.started == [(FLOAT64, ()), ("eager", asked), ("default", (*asked, "eager ready?"))]
    assert loaded == [1], "shared modules are loaded before the fork, and after the reference"


def test_partial_results_are_saved_as_unfinished() -> None:
    processes = FakeProcesses()
    processes.measure("default", "max-autotune")
    assert [len(benchmark.configurations) for benchmark in processes.kept][:6] == [1, 1, 2, 2, 3, 3]
    assert not any(benchmark.finished for benchmark in processes.kept)
    assert all(benchmark.order == ("eager", "default", "max-autotune") for benchmark in processes.kept)


@pytest.mark.parametrize(
    "order", ["ready", "build", "first", "warm", "round", "compare", "weigh", "profile", "read", "finish"]
)
def test_a_failed_configuration_is_a_row_and_the_others_continue(order: str) -> None:
    processes = FakeProcesses({"default": [{order: failure()}]})
    measured = processes.measure("default", "max-autotune")
    eager, default, autotuned = measured.configurations
    assert default.failure == failure()
    assert (default.wall is not None) is (order not in {"ready", "build", "first", "warm", "round"})
    assert eager.failure is None
    assert eager.wall == TIMED
    assert autotuned.failure is None
    assert autotuned.wall == TIMED
    assert processes.log.count(f"default {order}") == 1
    assert all(process.ended for process in processes.processes)


@pytest.mark.parametrize("phase", ["import", "build"])
def test_a_missing_file_or_missing_inputs_are_reported_once(phase: str) -> None:
    processes = FakeProcesses({FLOAT64: [{"reference": failure("import", phase)}]})
    measured = processes.measure("default")
    assert processes.log == ["float64 reference?", "eager ready?", "default ready?", "float64 reference"]
    assert [(row.name, row.failure) for row in measured.configurations] == [
        ("eager", failure("import", phase))
    ]


def test_a_failed_reference_leaves_eager_for_the_comparison() -> None:
    processes = FakeProcesses({FLOAT64: [{"reference": failure()}], "default": [{"compare": failure()}]})
    measured = processes.measure("default", accuracy=True)
    assert "eager first" in processes.log
    assert measured.random is None


def test_without_accuracy_nothing_is_compared() -> None:
    processes = FakeProcesses()
    processes.measure("default", accuracy=False, profile=False)
    assert not {"float64 reference", "default compare", "default profile"} & set(processes.log)


def test_a_configuration_without_memory_is_measured_again_after_the_others() -> None:
    processes = FakeProcesses({"default": [{"first": failure("memory")}]})
    measured = processes.measure("default")
    eager, default = measured.configurations
    assert default.alone
    assert default.failure is None
    assert default.wall == TIMED
    assert not eager.alone
    assert processes.log.index("eager finish") < len(processes.log) - 1 - processes.log[::-1].index(
        "default first"
    )


def test_configurations_without_memory_in_parallel_are_measured_again() -> None:
    processes = FakeProcesses({name: [{"read": failure("memory")}] for name in ("eager", "default")})
    measured = processes.measure("default")
    assert [(row.alone, row.failure) for row in measured.configurations] == [(True, None)] * 2
    assert all(process.ended for process in processes.processes)


def test_a_configuration_without_memory_alone_is_not_retried() -> None:
    processes = FakeProcesses({"default": [{"first": failure("memory")}, {"first": failure("memory")}]})
    measured = processes.measure("default")
    assert processes.log.count("default first") == 2
    assert measured.configurations[1].failure == failure("memory")


def test_a_failed_eager_keeps_the_other_rows() -> None:
    processes = FakeProcesses({"eager": [{"first": failure()}]})
    measured = processes.measure("default", accuracy=False)
    assert measured.configurations[0].failure == failure()
    assert measured.configurations[1].wall == TIMED


def test_the_machine_is_that_of_the_first_that_starts() -> None:
    processes = FakeProcesses({"eager": [{"first": failure()}]})
    assert processes.measure("default", accuracy=False).machine.notes == ("read",)
    assert "default read" in processes.log


def test_another_looks_at_the_machine_where_the_first_has_failed_meanwhile() -> None:
    processes = FakeProcesses({"eager": [{"round": failure()}]})
    assert processes.measure("default").machine.notes == ("read",)


def test_a_cpu_has_no_cold_cache() -> None:
    assert not FakeProcesses().measure("default", cold_cache=True).cold_cache


def test_a_process_that_cannot_be_started_is_a_row() -> None:
    processes = FakeProcesses()

    def start(name: str) -> FakeProcess:
        if name == "default":
            raise OSError("no more processes")
        return FakeProcesses.start(processes, name)

    benchmark = Measuring(
        MeasurePlan(), ("eager", "default"), start, processes.messages.append, processes.kept.append
    )
    default = benchmark.run().configurations[1]
    assert default.failure is not None
    assert "no more processes" in default.failure.message
    assert default.failure.next_step


def test_an_early_end_ends_every_process() -> None:
    processes = FakeProcesses()

    class Stopped(BaseException):
        pass

    def keep(_: Measured) -> None:
        raise Stopped

    benchmark = Measuring(
        MeasurePlan(), ("eager", "default"), processes.start, processes.messages.append, keep
    )
    with pytest.raises(Stopped):
        benchmark.run()
    assert all(process.ended for process in processes.processes)
    assert [row.name for row in benchmark.measured().configurations] == ["eager"]
    assert not benchmark.measured().finished


@pytest.mark.parametrize(("unsteady", "rounds"), [(0, 3), (3, 6), (6, 9), (100, 9)])
def test_all_rounds_are_repeated_while_a_time_is_unsteady(unsteady: int, rounds: int) -> None:
    processes = FakeProcesses(unsteady={"default": unsteady})
    measured = processes.measure("default", rounds=3)
    assert measured.rounds == rounds
    for name in ("eager", "default"):
        assert len([what for what, _ in processes.orders_of(name) if what == "round"]) == rounds
