"""The phases of a cold compile: torch's events, and steps that never overlap."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fuselight.adapters.torch_api.dynamo.compile_events import (
    CompileEvents,
    CompilePhase,
    hear_compile_events,
)
from fuselight.measure.profile import compile_steps
from fuselight.measure.profile.compile_steps import CallSample, Watched, lacks, steps, watching_compiles
from fuselight.shared.report import Compile, CompileStep, Frame, Location, Outcome

pytestmark = pytest.mark.torch
HERE = str(Path(__file__).parent)
LENGTH = 1_000_000


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("log_event_start", ("self", "event_name", "time_ns", "metadata", "log_pt2_compile_event", "compile_id")),
        ("log_event_end", ("self", "event_name", "time_ns", "metadata", "start_time_ns")),
        ("get_event_data", ("self",)),
    ],
)  # fmt: skip
def test_torch_emits_its_phases_as_events(name: str, parameters: tuple[str, ...]) -> None:
    logger: Any = torch._dynamo.utils.ChromiumEventLogger
    texts = tuple(inspect.signature(getattr(logger, name)).parameters)
    assert texts[: len(parameters)] == parameters


def doubled(x: torch.Tensor) -> torch.Tensor:
    """What is compiled here."""
    y = x * 2
    torch._dynamo.graph_break()
    return y + 1


def _compiled() -> Callable[[torch.Tensor], torch.Tensor]:
    torch._dynamo.reset()
    return torch.compile(doubled, backend="eager")


def _hooks() -> tuple[object, object]:
    logger: Any = torch._dynamo.utils.ChromiumEventLogger
    return logger.log_event_start, logger.log_event_end


def _check(steps: Sequence[CompileStep]) -> None:
    """Each step lies within the step above it, and after its neighbor."""
    above: list[CompileStep] = []
    ends: dict[int, float] = {}
    before = 0
    for step in steps:
        assert step.us >= 0
        assert 0 <= step.depth <= before + 1
        del above[step.depth :]
        if above:
            holder = above[-1]
            assert step.start_us >= holder.start_us - 1e-6
            assert step.start_us + step.us <= holder.start_us + holder.us + 1e-6
        assert step.start_us >= ends.get(step.depth, 0.0) - 1e-6
        ends = {depth: end for depth, end in ends.items() if depth <= step.depth}
        ends[step.depth] = step.start_us + step.us
        above.append(step)
        before = step.depth if steps else 0


def test_a_compile_has_phases_at_the_users_lines() -> None:
    compiled, hooks = _compiled(), _hooks()
    with watching_compiles([HERE]) as watched:
        compiled(torch.ones(3))
    assert _hooks() == hooks
    assert lacks(watched) == ()
    compile_steps = steps(watched)
    _check(compile_steps)
    outermost = [step for step in compile_steps if step.name == "dynamo"]
    assert [step.compile_id for step in outermost] == ["0/0", "1/0"]
    first = doubled.__code__.co_firstlineno
    assert [(step.location.line, step.location.function) for step in outermost if step.location] == [
        (first, "doubled"), (first + 3, "doubled"),
    ]  # fmt: skip
    inner = {step.name for step in compile_steps if step.depth > 0}
    assert {"bytecode_tracing", "backend_compile", "build_guards"} <= inner
    assert all(step.location is not None for step in compile_steps if step.compile_id is not None)
    assert sum(step.us for step in compile_steps if step.depth == 0) <= _length(watched) / 1000


def _length(watched: Watched) -> int:
    return watched.events.end_ns - watched.events.start_ns


def test_the_recorders_facts_about_a_frame_come_first() -> None:
    ids = ("0/0", "1/0", "2/0")
    watched = _watched(
        [CompilePhase("dynamo", 20 * at, 20 * at + 10, 1, identity) for at, identity in enumerate(ids)], []
    )
    watched.events.places.update({"1/0": Location("resumed.py", 2), "2/0": Location("resumed.py", 3)})
    frame = Frame("f", Location("model.py", 7, 0, 9, 5, "f"))
    compiles = (Compile("0/0", 0, Outcome.COMPILED), Compile("2/0", 1, Outcome.COMPILED))
    compile_steps = steps(watched, compiles, (frame, replace(frame, resumes_at=8)))
    assert [step.location for step in compile_steps] == [
        frame.location, Location("resumed.py", 2), Location("model.py", 8, function="f"),
    ]  # fmt: skip


def test_a_compile_that_raises_leaves_nothing_open() -> None:
    def backend(*_: object) -> Any:
        raise ValueError("no")

    torch._dynamo.reset()
    hooks = _hooks()
    compiled = torch.compile(doubled, backend=backend)
    events: list[CompileEvents] = []

    def hear() -> None:
        with hear_compile_events() as heard:
            events.append(heard)
            compiled(torch.ones(3))

    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed):
        hear()
    assert _hooks() == hooks
    assert "backend_compile" in {phase.name for phase in events[0].phases}
    _check(steps(Watched(events[0], [])))


def test_compiles_of_another_thread_are_attributed_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compile_steps, "DARK", 2.0)  # no samples: how long the thread takes is not the point
    compiled = _compiled()
    thread = threading.Thread(target=compiled, args=(torch.ones(3),))
    with watching_compiles([HERE]) as watched:
        thread.start()
        thread.join()
    actual_steps = steps(watched)
    _check(actual_steps)
    assert actual_steps[0].name == "dynamo (another thread)"
    assert "bytecode_tracing" in {step.name for step in actual_steps}


def test_a_phase_without_events_has_samples() -> None:
    def busy() -> None:
        while len(watched.samples) < 3:
            pass

    with watching_compiles([HERE]) as watched:
        busy()
    compile_steps = steps(watched)
    _check(compile_steps)
    assert compile_steps
    assert all(step.sampled and step.depth == 0 for step in compile_steps)
    seen = [step for step in compile_steps if step.location is not None]
    assert {step.location.function.rpartition(".")[2] for step in seen if step.location and step.location.function} == {
        "busy"
    }  # fmt: skip
    assert not [thread for thread in threading.enumerate() if thread.name == "fuselight-samples"]


def test_imports_are_one_step_and_libraries_functions_another(tmp_path: Path) -> None:
    """An import step names the requested module, not the modules that it imports."""
    (tmp_path / "inner_of_samples.py").write_text(
        "import builtins\nwhile len(builtins.samples_here) < 2:\n    pass\n", encoding="utf-8"
    )
    (tmp_path / "outer_of_samples.py").write_text("import inner_of_samples\n", encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch, watching_compiles([HERE]) as watched:
        patch.syspath_prepend(str(tmp_path))
        patch.setattr("builtins.samples_here", watched.samples, raising=False)
        __import__("outer_of_samples")
    names = {sample.name for sample in watched.samples}
    assert "import outer_of_samples" in names
    assert not [name for name in names if "inner_of_samples" in name]


def test_a_torch_without_such_events_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(torch._dynamo.utils, "ChromiumEventLogger")
    with hear_compile_events() as events:
        pass
    (words,) = lacks(Watched(events, []))
    assert "no events of a compile" in words
    assert steps(Watched(events, [])) == ()


def test_parallel_work_of_several_threads_is_one_step() -> None:
    """Two C++ kernels that are compiled at once while the caller waits for both."""
    watched = _watched(
        [
            CompilePhase("wait", 100, 900, 1, "0/0"),
            CompilePhase("compile_file", 110, 700, 2), CompilePhase("compile_file", 120, 850, 3),
        ],
        [],
    )  # fmt: skip
    compile_steps = steps(watched)
    assert [(step.name, step.start_us, step.us, step.compile_id) for step in compile_steps] == [
        ("wait", 0.1, 0.8, "0/0"), ("compile_file (2 threads)", 0.11, 0.74, "0/0"),
    ]  # fmt: skip


def test_work_of_a_thread_is_below_the_callers_current_phase() -> None:
    watched = _watched(
        [
            CompilePhase("compile", 0, 1000, 1), CompilePhase("codegen", 100, 400, 1),
            CompilePhase("wait", 600, 900, 1), CompilePhase("g++", 300, 700, 2),
        ],
        [],
    )  # fmt: skip
    compile_steps = steps(watched)
    _check(compile_steps)
    assert [(step.name, step.depth, step.start_us, round(step.us, 6)) for step in compile_steps] == [
        ("compile", 0, 0.0, 1.0),
        ("codegen", 1, 0.1, 0.3), ("g++ (another thread)", 2, 0.3, 0.1),
        ("g++ (another thread)", 1, 0.4, 0.2),
        ("wait", 1, 0.6, 0.3), ("g++ (another thread)", 2, 0.6, 0.1),
    ]  # fmt: skip


def _watched(phases: list[CompilePhase], samples: list[CallSample]) -> Watched:
    return Watched(CompileEvents(0, 1, LENGTH, phases), samples)


times = st.integers(0, LENGTH)


@st.composite
def nested(draw: st.DrawFn, thread: int) -> list[CompilePhase]:
    """Phases of one thread: any two of them are nested or disjoint."""
    phases: list[CompilePhase] = []

    def fill(start: int, end: int, depth: int) -> None:
        cuts = sorted(draw(st.lists(st.integers(start, end), max_size=8)))
        for first, last in zip(cuts[::2], cuts[1::2], strict=False):
            phases.append(
                CompilePhase(
                    draw(st.sampled_from("abc")), first, last, thread, draw(st.sampled_from([None, "0/0"]))
                )
            )
            if depth < 3 and last > first:
                fill(first, last, depth + 1)

    fill(0, LENGTH, 0)
    return phases


samples = st.lists(st.builds(CallSample, times, st.sampled_from(["f", "g"])), max_size=30).map(
    lambda call_samples: sorted(call_samples, key=lambda sample: sample.ns)
)


@given(nested(1), nested(2), nested(3), samples, st.integers(1, 12))
def test_steps_never_overlap(
    mine: list[CompilePhase],
    second: list[CompilePhase],
    third: list[CompilePhase],
    seen: list[CallSample],
    most: int,
) -> None:
    watched = _watched([*mine, *second, *third], seen)
    whole = steps(watched)
    _check(whole)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compile_steps, "_MAX", most)
        folded = steps(watched)
    _check(folded)
    assert len(folded) <= 3 * most + 1
    if len(whole) <= most:
        assert folded == whole
    longest = max((step.us for step in whole), default=0.0)
    assert longest == max((step.us for step in folded if not step.name.endswith(" more")), default=0.0)
    outer = [sum(step.us for step in steps if step.depth == 0) for steps in (whole, folded)]
    assert outer[0] == pytest.approx(outer[1])


@given(nested(1), samples)
def test_the_calls_own_phases_are_all_reported(mine: list[CompilePhase], seen: list[CallSample]) -> None:
    compile_steps = [step for step in steps(_watched(mine, seen)) if not step.sampled]
    timings = sorted((step.start_us, step.us, step.name) for step in compile_steps)
    assert timings == sorted(
        (phase.start_ns / 1000, (phase.end_ns - phase.start_ns) / 1000, phase.name) for phase in mine
    )


@given(nested(1), samples)
def test_samples_fill_only_long_stretches_without_events(
    mine: list[CompilePhase], seen: list[CallSample]
) -> None:
    for step in steps(_watched(mine, seen)):
        if step.sampled:
            assert step.depth == 0
            assert not [
                phase for phase in mine
                if max(phase.start_ns, step.start_us * 1000) + 1e-6
                < min(phase.end_ns, (step.start_us + step.us) * 1000)
            ]  # fmt: skip


def test_the_shortest_of_too_many_phases_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fuselight.adapters.torch_api.dynamo.compile_events._MAX", 8)
    compiled = _compiled()
    with hear_compile_events() as events:
        compiled(torch.ones(3))
    (words,) = lacks(Watched(events, []))
    assert words.startswith(f"{events.given_up} short phases")
    assert len(events.phases) < 8
    assert "dynamo" in {phase.name for phase in events.phases}
    _check(steps(Watched(events, [])))
