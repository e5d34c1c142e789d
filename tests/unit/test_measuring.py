"""A benchmark's coordinator, with processes that are played: turns, failures, a lack of memory, an early end."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from fuselight.codec import encode
from fuselight.measure import steady
from fuselight.measure.measuring import FLOAT64, Measuring
from fuselight.measure.other import EndedError
from fuselight.protocol import MeasurePlan
from fuselight.report import (
    Accuracy,
    Clock,
    Culprit,
    Failure,
    Machine,
    Measured,
    MeasuredConfiguration,
    Profile,
    Timing,
)

TIMED = Timing(Clock.WALL, 100.0, 99.0, 101.0, 10, (100.0,))


def failure(kind: str = "exception", phase: str = "measure") -> Failure:
    return Failure(Culprit.USER, kind, f"{kind} in {phase}", "mend it", phase=phase)


@dataclass
class Played:
    """A process of one configuration; `fails` says at which order it ends, and how."""

    name: str
    log: list[str]
    fails: dict[str, Failure] = field(default_factory=dict)
    wrong: bool = False
    row: MeasuredConfiguration = field(init=False)
    ended: int = 0
    asked: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.row = MeasuredConfiguration(self.name)

    def order(self, what: str, seconds: float, /, **details: Any) -> dict[str, Any]:
        self.ask(what, **details)
        return self.answer(what, seconds)

    def ask(self, what: str, /, **details: Any) -> None:
        assert not self.ended
        self.log.append(f"{self.name} {what}?")
        self.asked.append((what, details))

    def answer(self, what: str, seconds: float, /) -> dict[str, Any]:
        self.log.append(f"{self.name} {what}")
        asked, details = self.asked.pop(0)
        assert what == asked, "answers come in the order of the questions"
        assert seconds >= 0
        if what in self.fails:
            raise EndedError(self.fails[what])
        if what == "reference":
            return {"varies": "", "float64": "float64.pt"}
        said: dict[str, Any] = {}
        if what == "first":
            said = {"fresh": False, "work": "inference", "device": "cpu"}
            if self.name == "eager":
                said["results"] = "eager.pt"
            self.row = replace(self.row, first_us=5e6)
        elif what == "warm":
            said = {"us": 1000.0}
            self.row = replace(self.row, second_us=1100.0)
        elif what == "round":
            self.row = replace(self.row, wall=TIMED)
        elif what in {"judge", "search"}:
            self.row = replace(self.row, accuracy=self.judged(what, details))
        elif what == "read":
            self.row = replace(self.row, profile=Profile("CUPTI", 1, 10.0, 9.0, 9.0, 9.0))
        if what == "first" or details.get("look"):
            said["machine"] = encode(Machine("a device", notes=(what,)))
        return {**said, "row": encode(self.row), "seconds": 0.5}

    def judged(self, what: str, details: dict[str, Any]) -> Accuracy:
        if what == "search":
            assert details == {"seconds": 300.0}
            return Accuracy(passed=False, first_operator="torch.relu")
        assert details == {"float64": "float64.pt", "eager": "eager.pt", "varies": ""}
        return Accuracy(passed=False, why="it differs") if self.wrong else Accuracy(passed=True)

    def end(self) -> None:
        self.ended += 1


@dataclass
class Processes:
    """All processes of one benchmark."""

    fails: dict[str, list[dict[str, Failure]]] = field(default_factory=dict)
    wrong: tuple[str, ...] = ()
    """Names of those whose results differ from eager's."""
    log: list[str] = field(default_factory=list)
    processes: list[Played] = field(default_factory=list)
    kept: list[Measured] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    started: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)
    """Names, and what had been ordered by then."""

    def start(self, name: str) -> Played:
        self.started.append((name, tuple(self.log)))
        waiting = self.fails.get(name, [])
        fails = waiting.pop(0) if waiting else {}
        self.processes.append(Played(name, self.log, fails, name in self.wrong))
        return self.processes[-1]

    def measure(self, *names: str, **plan: Any) -> Measured:
        made = Measuring(
            MeasurePlan(**plan), ("eager", *names), self.start, self.said.append, self.kept.append
        )
        return made.run()


def test_they_import_together_begin_alone_take_turns_and_read_together() -> None:
    played = Processes()
    measured = played.measure("default", rounds=3)
    assert alone(played.log) == [
        "float64 reference", "eager ready", "default ready",
        "eager build", "eager first", "eager warm", "default build", "default first", "default warm",
        "eager round", "default round", "default round", "eager round", "eager round", "default round",
        "eager weigh", "eager profile", "default weigh", "default profile",
        "eager read?", "default read?", "default judge?", "eager read", "default read", "default judge",
        "eager finish", "default finish",
    ]  # fmt: skip
    assert measured.finished
    assert measured.rounds == 3
    assert measured.machine.notes == ("read",)
    assert [row.name for row in measured.configurations] == ["eager", "default"]
    assert measured.configurations[1].accuracy == Accuracy(passed=True)
    assert measured.configurations[0].accuracy is None
    assert all(process.ended for process in played.processes)
    assert measured.counted_seconds == pytest.approx(0.5 * 21)


def test_kernels_alone_are_timed_with_nothing_beside_them() -> None:
    played = Processes()
    played.measure("default", rounds=3, isolated=True)
    log = alone(played.log)
    assert log[log.index("default read") :] == [
        "default read", "default isolate", "default judge", "eager finish", "default finish"
    ]  # fmt: skip


def test_the_first_line_that_differs_is_looked_for_behind_all_else() -> None:
    played = Processes(wrong=("default",))
    measured = played.measure("default", "max-autotune", rounds=3)
    log = alone(played.log)
    assert log[log.index("eager finish") :] == [
        "eager finish", "default finish", "max-autotune finish", "default search"
    ]  # fmt: skip
    found = measured.configurations[1].accuracy
    assert found is not None
    assert found.first_operator == "torch.relu"


def test_without_bisection_no_line_is_looked_for() -> None:
    played = Processes(wrong=("default",))
    played.measure("default", bisect=False)
    assert "default search" not in played.log


def test_what_was_measured_stays_where_the_search_for_a_line_does_not_end() -> None:
    played = Processes({"default": [{"search": failure("timeout")}]}, wrong=("default",))
    default = played.measure("default").configurations[1]
    assert default.failure is None
    assert default.wall == TIMED
    assert default.accuracy == Accuracy(
        passed=False,
        why="it differs; the first line that differs is not known: timeout in measure",
    )
    assert all(process.ended for process in played.processes)


def alone(log: list[str]) -> list[str]:
    """The log, without questions that are answered before anything else is asked."""
    return [line for line, later in zip(log, [*log[1:], ""], strict=True) if line != f"{later}?"]


def test_the_others_start_once_the_reference_has_its_work() -> None:
    played = Processes()
    loaded = []
    Measuring(
        MeasurePlan(), ("eager", "default"), played.start, played.said.append, played.kept.append,
        lambda: loaded.append(len(played.started)),
    ).run()  # fmt: skip
    asked = ("float64 reference?",)
    assert played.started == [(FLOAT64, ()), ("eager", asked), ("default", asked)]
    assert loaded == [1], "what the others need is loaded before they are forked, and behind the reference"


def test_what_is_known_is_kept_as_unfinished_on_the_way() -> None:
    played = Processes()
    played.measure("default", "max-autotune")
    assert [len(one.configurations) for one in played.kept][:6] == [1, 1, 2, 2, 3, 3]
    assert not any(one.finished for one in played.kept)
    assert all(one.order == ("eager", "default", "max-autotune") for one in played.kept)


@pytest.mark.parametrize(
    "order", ["ready", "build", "first", "warm", "round", "judge", "weigh", "profile", "read", "finish"]
)
def test_one_that_fails_is_a_row_that_says_so_and_the_others_go_on(order: str) -> None:
    played = Processes({"default": [{order: failure()}]})
    measured = played.measure("default", "max-autotune")
    eager, default, autotuned = measured.configurations
    assert default.failure == failure()
    assert (default.wall is not None) is (order not in {"ready", "build", "first", "warm", "round"})
    assert eager.failure is None
    assert eager.wall == TIMED
    assert autotuned.failure is None
    assert autotuned.wall == TIMED
    assert played.log.count(f"default {order}") == 1
    assert all(process.ended for process in played.processes)


@pytest.mark.parametrize("phase", ["import", "build"])
def test_a_file_or_inputs_that_cannot_be_had_are_told_once(phase: str) -> None:
    played = Processes({FLOAT64: [{"reference": failure("import", phase)}]})
    measured = played.measure("default")
    assert played.log == ["float64 reference?", "float64 reference"]
    assert [(row.name, row.failure) for row in measured.configurations] == [
        ("eager", failure("import", phase))
    ]


def test_a_reference_that_fails_in_the_call_leaves_eager_to_compare_with() -> None:
    played = Processes({FLOAT64: [{"reference": failure()}], "default": [{"judge": failure()}]})
    measured = played.measure("default", accuracy=True)
    assert "eager first" in played.log
    assert measured.random is None


def test_without_accuracy_nothing_is_compared() -> None:
    played = Processes()
    played.measure("default", accuracy=False, profile=False)
    assert not {"float64 reference", "default judge", "default profile"} & set(played.log)


def test_one_without_memory_beside_the_others_is_measured_again_when_they_are_gone() -> None:
    played = Processes({"default": [{"first": failure("memory")}]})
    measured = played.measure("default")
    eager, default = measured.configurations
    assert default.alone
    assert default.failure is None
    assert default.wall == TIMED
    assert not eager.alone
    assert played.log.index("eager finish") < len(played.log) - 1 - played.log[::-1].index("default first")


def test_one_without_memory_even_alone_is_not_tried_for_ever() -> None:
    played = Processes({"default": [{"first": failure("memory")}, {"first": failure("memory")}]})
    measured = played.measure("default")
    assert played.log.count("default first") == 2
    assert measured.configurations[1].failure == failure("memory")


def test_eager_that_fails_leaves_the_others_rows() -> None:
    played = Processes({"eager": [{"first": failure()}]})
    measured = played.measure("default", accuracy=False)
    assert measured.configurations[0].failure == failure()
    assert measured.configurations[1].wall == TIMED


def test_the_machine_is_that_of_the_first_that_starts() -> None:
    played = Processes({"eager": [{"first": failure()}]})
    assert played.measure("default", accuracy=False).machine.notes == ("read",)
    assert "default read" in played.log


def test_a_cold_cache_is_not_claimed_of_a_cpu() -> None:
    assert not Processes().measure("default", cold_cache=True).cold_cache


def test_a_process_that_cannot_be_started_is_a_row() -> None:
    played = Processes()

    def start(name: str) -> Played:
        if name == "default":
            raise OSError("no more processes")
        return Processes.start(played, name)

    benchmark = Measuring(MeasurePlan(), ("eager", "default"), start, played.said.append, played.kept.append)
    default = benchmark.run().configurations[1]
    assert default.failure is not None
    assert "no more processes" in default.failure.message
    assert default.failure.next_step


def test_compiles_are_no_part_of_the_warm_up() -> None:
    compiles = iter([0, 1, 1, 2, *[2] * 200])
    times = iter([5e6, 6e6, *[100.0] * 100])
    taken = steady.warm_up(lambda: next(times), seconds=1.0, compiled=lambda: next(compiles))
    assert set(taken) == {100.0}


def test_a_target_that_always_compiles_ends_its_warm_up() -> None:
    counts = iter(range(10_000))
    assert len(steady.warm_up(lambda: 1e6, seconds=2.0, compiled=lambda: next(counts))) == 3


def test_an_early_end_ends_every_process() -> None:
    played = Processes()

    class Stopped(BaseException):
        pass

    def keep(_: Measured) -> None:
        raise Stopped

    benchmark = Measuring(MeasurePlan(), ("eager", "default"), played.start, played.said.append, keep)
    with pytest.raises(Stopped):
        benchmark.run()
    assert all(process.ended for process in played.processes)
    assert [row.name for row in benchmark.measured().configurations] == ["eager"]
    assert not benchmark.measured().finished


def test_a_call_of_a_minute_gets_few_rounds_of_one_call() -> None:
    assert steady.rounds_of(60e6, seconds=2.0, rounds=10) == 3
    assert steady.calls_of_round(60e6, seconds=2.0, rounds=3) == 1
    assert steady.rounds_of(1.0, seconds=2.0, rounds=10) == 10
    assert steady.calls_of_round(1.0, seconds=2.0, rounds=10) == 1000


def test_turns_give_each_its_rounds_and_change_who_is_first() -> None:
    order = list(steady.turns(["a", "b", "c"], {"a": 3, "b": 3, "c": 1}))
    assert sorted(order) == ["a", "a", "a", "b", "b", "b", "c"]
    assert order == ["a", "b", "c", "b", "a", "a", "b"]
    assert list(steady.turns([], {})) == []


def test_warm_up_goes_on_until_the_time_is_steady() -> None:
    times = iter([900.0, 500.0, 300.0, *[100.0] * 50])
    taken = steady.warm_up(lambda: next(times), seconds=10.0)
    assert 10 <= len(taken) < 20
    assert steady.quartiles(taken[-steady.WINDOW :])[1] == 100.0


def test_warm_up_ends_by_time_when_nothing_gets_steady() -> None:
    times = iter(1e6 * number for number in range(1, 100))
    assert len(steady.warm_up(lambda: next(times), seconds=3.0)) == 3


def test_a_wide_spread_says_so() -> None:
    assert not steady.timing(Clock.WALL, [[100.0], [101.0], [102.0]], 3).unsteady  # type: ignore[union-attr]
    assert steady.timing(Clock.WALL, [[100.0], [150.0], [200.0]], 3).unsteady  # type: ignore[union-attr]
    assert steady.timing(Clock.WALL, [], 0) is None
